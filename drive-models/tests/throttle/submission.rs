//! Requests put through a drive.

use iocast_drives::throttle::Throttle;
use iocast_drives::{Completion, DriveModel, build, build_throttle};
use proptest::prelude::*;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

/// Sectors of all drives here: small, so that requests meet in caches.
pub const SECTORS: u64 = 100_000;
/// The same in bytes.
pub const CAPACITY: u64 = SECTORS * 512;

pub type Boxed = Box<dyn DriveModel>;

pub fn drive(spec: &str) -> Boxed {
    build(&spec.parse().unwrap()).unwrap().drive
}

pub fn throttle(spec: &str) -> Throttle<Boxed> {
    build_throttle(&spec.parse().unwrap()).unwrap().unwrap()
}

pub fn request(operation: Operation, at: u64, lba: u64, sectors: u64) -> Request {
    Request::new(Timestamp::from_ns(at), operation, Lba::new(lba), Sectors::new(sectors))
}

pub fn read(at: u64, lba: u64) -> Request {
    request(Operation::Read, at, lba, 8)
}

/// Lets everything happen up to `until`, one event after another, and checks that each is announced.
fn step(drive: &mut dyn DriveModel, until: Timestamp, done: &mut Vec<Completion>) {
    while let Some(next) = drive.next_event().filter(|&next| next <= until) {
        let before = done.len();
        drive.advance(next, done);
        assert!(done[before..].iter().all(|completion| completion.finished == next), "said late");
    }
}

/// Submits each request at its arrival, whether or not others are outstanding. Returns the completions in their order.
pub fn open(drive: &mut dyn DriveModel, requests: &[Request]) -> Vec<Completion> {
    let mut done = Vec::new();
    for (id, request) in requests.iter().enumerate() {
        step(drive, request.arrival, &mut done);
        drive.submit(request.arrival, RequestId(id as u32), request);
    }
    step(drive, Timestamp::MAX, &mut done);
    done
}

/// Submits each request `pause` after the one before has completed.
pub fn one_by_one(drive: &mut dyn DriveModel, requests: &[Request], pause: Nanos) -> Vec<Completion> {
    let (mut done, mut now) = (Vec::new(), Timestamp::ZERO);
    for request in requests {
        drive.submit(now, RequestId(0), request);
        step(drive, Timestamp::MAX, &mut done);
        now = done.last().unwrap().finished + pause;
    }
    done
}

/// By the order of submission.
pub fn by_id(mut completions: Vec<Completion>) -> Vec<Completion> {
    completions.sort_by_key(|completion| completion.id);
    completions
}

/// Reads and writes at random times; every other one near its predecessor, so that the cache has some.
pub fn load() -> impl Strategy<Value = Vec<Request>> {
    let one = (0u64..20_000_000, any::<bool>(), 0u64..SECTORS - 64, 1u64..64, 0u8..5);
    prop::collection::vec(one, 1..60).prop_map(|asked| {
        let (mut at, mut lba) = (0, 0);
        let mut place = |(gap, near, far, sectors, what)| {
            at += gap;
            lba = if near { (lba + 8) % (SECTORS - 64) } else { far };
            request(if what == 0 { Operation::Write } else { Operation::Read }, at, lba, sectors)
        };
        asked.into_iter().map(&mut place).collect()
    })
}
