//! Each way to a device moves the data that was asked for, and no other, and names what fails.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use iocast_replay::live::{Failure, Finished, LiveDevice, Ring, Target, ThreadPool};
use tempfile::TempDir;
use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

const SECTORS: u64 = 16_384;

/// A file whose every byte is 7, and its target.
fn target(folder: &TempDir) -> (PathBuf, Target) {
    let path = folder.path().join("disk");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.write_all_at(&vec![7; SECTORS as usize * 512], 0).unwrap();
    let (capacity, block) = (Sectors::new(SECTORS), Sectors::new(8));
    (path, Target { file: Arc::new(file), capacity, block, seed: 11, widened: Arc::default() })
}

fn backends(target: &Target) -> [(&'static str, Box<dyn LiveDevice>); 2] {
    let ring = Ring::new(target.clone(), 64).expect("these tests need io_uring");
    [("io_uring", Box::new(ring)), ("threads", Box::new(ThreadPool::new(target.clone()).unwrap()))]
}

fn request(operation: Operation, lba: u64, sectors: u64) -> Request {
    Request::new(Timestamp::ZERO, operation, Lba::new(lba), Sectors::new(sectors))
}

/// Runs all requests, and returns why each of those that failed did.
fn run(device: &mut dyn LiveDevice, requests: &[Request]) -> BTreeMap<u32, Failure> {
    let mut failures = BTreeMap::new();
    let (mut next, mut outstanding, mut finished) = (0, 0, Vec::new());
    while next < requests.len() || outstanding > 0 {
        while next < requests.len() && device.accepts(&requests[next]) {
            device.submit(RequestId(next as u32), &requests[next]);
            (next, outstanding) = (next + 1, outstanding + 1);
        }
        device.start().unwrap();
        device.wait(Nanos::from_ns(1_000_000_000)).unwrap();
        device.poll(&mut finished);
        for Finished { id, failure } in finished.drain(..) {
            outstanding -= 1;
            failures.extend(failure.map(|failure| (id.0, failure)));
        }
    }
    failures
}

#[test]
fn writes_change_their_sectors_and_no_others() {
    let mut contents = Vec::new();
    for number in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = target(&folder);
        let (name, mut device) = backends(&target).into_iter().nth(number).unwrap();
        let mut durable = request(Operation::Write, 4096, 16);
        durable.flags = Flags::FUA;
        let mut requests = vec![request(Operation::Write, 8, 8), durable, request(Operation::Flush, 0, 0)];
        // More than may be in flight at once, and one as long as may be.
        requests.extend((0..200).map(|number| request(Operation::Write, 8192 + number * 16, 8)));
        requests.push(request(Operation::Read, 0, SECTORS));
        assert_eq!(run(device.as_mut(), &requests), BTreeMap::new(), "{name}");
        let after = std::fs::read(path).unwrap();
        let written = |sector: u64| {
            requests
                .iter()
                .filter(|r| r.operation == Operation::Write)
                .any(|r| (r.lba.sector()..r.end().sector()).contains(&sector))
        };
        for (sector, bytes) in after.chunks(512).enumerate() {
            let untouched = bytes.iter().all(|byte| *byte == 7);
            assert_eq!(untouched, !written(sector as u64), "{name}: sector {sector}");
            assert!(!bytes.iter().all(|byte| *byte == 0), "{name}: sector {sector} is zero");
        }
        contents.push(after);
    }
    assert!(contents[0] == contents[1], "both backends write the same data");
}

#[test]
fn discards_free_the_blocks_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = target(&folder);
    for (name, mut device) in backends(&target) {
        target.file.write_all_at(&vec![7; SECTORS as usize * 512], 0).unwrap();
        target.file.sync_all().unwrap();
        let before = std::fs::metadata(&path).unwrap().blocks();
        assert_eq!(run(device.as_mut(), &[request(Operation::Discard, 1024, 2048)]), BTreeMap::new(), "{name}");
        assert_eq!(std::fs::metadata(&path).unwrap().blocks(), before - 2048, "{name}");
        let after = std::fs::read(&path).unwrap();
        assert!(after[1024 * 512..3072 * 512].iter().all(|byte| *byte == 0), "{name}");
    }
}

#[test]
fn failures_have_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut target) = target(&folder);
    // Open for reading alone: writes fail with EBADF.
    target.file = Arc::new(File::open(&path).unwrap());
    for (name, mut device) in backends(&target) {
        let requests = [request(Operation::Read, 0, 8), request(Operation::Write, 0, 8)];
        assert_eq!(run(device.as_mut(), &requests), [(1, Failure::Errno(9))].into(), "{name}");
    }
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
    // A device that has become shorter.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(12 * 512).unwrap();
    for (name, mut device) in backends(&target) {
        let requests =
            [request(Operation::Read, 0, 8), request(Operation::Read, 8, 8), request(Operation::Read, 16, 8)];
        let short = [(1, Failure::Short), (2, Failure::Short)].into();
        assert_eq!(run(device.as_mut(), &requests), short, "{name}");
    }
    assert_eq!(target.widened.load(Ordering::Relaxed), 0);
}

#[test]
fn requests_in_flight_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = target(&folder);
    let mut ring = Ring::new(target, 3).unwrap();
    let read = request(Operation::Read, 0, 8);
    for number in 0..4 {
        assert!(ring.accepts(&read), "{number}");
        ring.submit(RequestId(number), &read);
    }
    assert!(!ring.accepts(&read), "4 is the power of two above 3");
    // Dropped with requests that were never started.
}
