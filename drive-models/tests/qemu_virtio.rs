//! The shipped empirical profile agrees with its source, to the byte: it is fitted on the samples of that disk.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use iocast_drives::empirical::{EmpiricalFit, Heading};
use iocast_drives::{PROFILES, Profile, WriteCache};
use traces::formats;
use traces::trace::ReadOptions;
use traces::{Flags, Request, Sectors, Timestamp};

/// The requests at the device: records of the same times that lie one behind the other were merged. A write that a
/// flush belongs to completes with that, so it adds nothing.
fn device_requests(path: &Path) -> Vec<(Timestamp, Timestamp, Request)> {
    let mut reader = formats::open(path, &ReadOptions::default()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let times = (record.observed.issued, record.observed.completed);
        if let (Some(issued), Some(completed)) = times
            && !record.request.flags.intersects(Flags::FUA | Flags::PREFLUSH)
        {
            records.push((issued, completed, record.request));
        }
    }
    records.sort_by_key(|(issued, completed, request)| (*issued, *completed, request.lba));
    let mut requests: Vec<(Timestamp, Timestamp, Request)> = Vec::new();
    for (issued, completed, request) in records {
        match requests.last_mut() {
            Some((i, c, whole))
                if (*i, *c, whole.operation, whole.end()) == (issued, completed, request.operation, request.lba) =>
            {
                whole.set_sectors(whole.sectors() + request.sectors());
            }
            _ => requests.push((issued, completed, request)),
        }
    }
    requests
}

#[test]
fn the_shipped_profile_is_fitted_on_the_samples() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/samples/fast-disk");
    let (mut fit, mut end) = (EmpiricalFit::new(), 0);
    for name in ["file.parquet", "mail.parquet", "web.parquet"] {
        let mut at_drive: BinaryHeap<Reverse<Timestamp>> = BinaryHeap::new();
        for (issued, completed, request) in device_requests(&samples.join(name)) {
            end = request.end().sector().max(end);
            while at_drive.peek().is_some_and(|Reverse(done)| *done <= issued) {
                at_drive.pop();
            }
            fit.observe(&request, issued, completed, at_drive.len() as u32).unwrap();
            at_drive.push(Reverse(completed));
        }
    }
    let text = fit.finish().unwrap().profile(&Heading {
        summary: "the virtual disk of the samples in fast-disk: virtio-blk under QEMU without hardware virtualisation",
        validation: "fitted to the shipped samples fast-disk/file, mail and web, of which it is a summary",
        source: "fitted on the samples fast-disk/file, mail and web: requests at the device without FUA or flush; the \
                 capacity, which they do not tell, is the power of two that holds them",
        capacity: Sectors::new(end.next_power_of_two()),
        write_cache: WriteCache::Volatile { fua: false },
        discards: true,
    });
    Profile::parse("qemu-virtio", &text).unwrap();
    let (_, shipped) = PROFILES.iter().find(|(name, _)| *name == "qemu-virtio").unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("qemu-virtio.toml");
    std::fs::write(&path, &text).unwrap();
    assert!(
        *shipped == text,
        "profiles/qemu-virtio.toml is not what the samples say, which is now in {}",
        path.display()
    );
}
