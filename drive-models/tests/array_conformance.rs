//! Rules that every array obeys under any load.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use iocast_drives::{Completion, DriveModel};
use proptest::prelude::*;
use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

/// Levels and members, degraded or not; small members, so that requests meet.
const LEVELS: &[&str] = &[
    "level=0,members=2",
    "level=0,members=5",
    "level=1,members=2",
    "level=1,members=3,failed=2",
    "level=5,members=3",
    "level=5,members=5,failed=3",
    "level=6,members=4",
    "level=6,members=7,failed=7",
    "level=10,members=4",
    "level=10,members=6,failed=1",
];

const CACHES: &[&str] = &[
    "overhead=100us",
    "read_cache=64k,track=4k,overhead=10us",
    "read_cache=128k,track=8k,prefetch=64k",
    "write_cache=32k,track=4k,destages=1",
    "write_cache=4k,track=8k,high_water=0,low_water=0",
    "read_cache=64k,write_cache=64k,track=8k,prefetch=32k,high_water=90,low_water=10,overhead=1ms",
];

const MEMBERS: &[&str] = &[
    "member=fixed,member.capacity=256k",
    "member=fixed,member.capacity=256k,member.service=0,scheduler=fifo",
    "member=fixed,member.capacity=256k,member.write_cache=volatile-fua,scheduler=cscan,depth=3",
    "member=linear,member.capacity=300k,member.segment_sectors=64,member.prefetch_sectors=8,scheduler=vr",
    "member=linear,member.capacity=300k,scheduler=deadline,depth=2",
    "member=raid,member.level=1,member.members=2,member.member=fixed,member.member.capacity=256k,scheduler=sstf",
];

fn build(level: &str, cache: &str, member: &str) -> Box<dyn DriveModel> {
    let spec = format!("raid:stripe_unit=8k,{level},{cache},{member}");
    iocast_drives::build(&spec.parse().unwrap()).unwrap().drive
}

/// Gap to the arrival before in µs, place and length as shares of the array, and operation.
type Asked = (u64, prop::sample::Index, u64, u8);

fn requests(drive: &dyn DriveModel, asked: &[Asked]) -> Vec<Request> {
    let capacity = drive.capacity().count();
    let mut time = Timestamp::ZERO;
    let request = |&(gap, place, sectors, what): &Asked| {
        time += Nanos::from_us(gap);
        let lba = place.index(capacity as usize) as u64;
        let operation = [Operation::Read, Operation::Read, Operation::Write, Operation::Write, Operation::Flush]
            [usize::from(what % 5)];
        let (lba, sectors) = match operation {
            Operation::Flush => (0, 0),
            _ => (lba, sectors.min(capacity - lba)),
        };
        let mut request = Request::new(time, operation, Lba::new(lba), Sectors::new(sectors));
        if operation == Operation::Write && what > 200 {
            request.flags = Flags::FUA;
        }
        request
    };
    asked.iter().map(request).collect()
}

/// Replays with at most `depth` outstanding; ids are reused.
fn replay(drive: &mut dyn DriveModel, requests: &[Request], depth: usize) -> Vec<Completion> {
    let (mut all, mut completions, mut waiting) = (Vec::new(), Vec::new(), requests.iter());
    let mut free: Vec<u32> = (0..depth as u32).collect();
    let mut submitted = vec![None; depth];
    let mut now = Timestamp::ZERO;
    let mut next = waiting.next();
    loop {
        while let Some(request) = next.filter(|request| request.arrival <= now && !free.is_empty()) {
            let id = free.pop().unwrap();
            assert!(drive.accepts(request));
            drive.submit(now, RequestId(id), request);
            submitted[id as usize] = Some(now);
            next = waiting.next();
        }
        let arrival = next.filter(|_| !free.is_empty()).map(|request| request.arrival);
        let outstanding = free.len() < depth;
        let event = drive.next_event();
        assert!(!outstanding || event.is_some(), "something is outstanding and nothing will happen");
        let Some(time) = [arrival, event.filter(|_| outstanding)].into_iter().flatten().min() else { return all };
        assert!(time >= now, "time goes back");
        now = time;
        drive.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let at = submitted[completion.id.index()].take().expect("completes once, and only what was submitted");
            assert!(at <= completion.started && completion.started <= completion.finished, "{completion:?}");
            assert_eq!(completion.finished, now, "said late");
            free.push(completion.id.0);
            all.push(completion);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn each_request_completes_once_and_runs_repeat(
        level in prop::sample::select(LEVELS), cache in prop::sample::select(CACHES),
        member in prop::sample::select(MEMBERS),
        asked in prop::collection::vec((0u64..3000, any::<prop::sample::Index>(), 0u64..100, any::<u8>()), 1..80),
        depth in 1usize..20,
    ) {
        let mut drive = build(level, cache, member);
        let requests = requests(&*drive, &asked);
        let done = replay(&mut *drive, &requests, depth);
        prop_assert_eq!(done.len(), requests.len());
        prop_assert_eq!(&done, &replay(&mut *build(level, cache, member), &requests, depth));
        // Remaining destages and read-ahead come to an end, too.
        let mut last = Timestamp::ZERO;
        while let Some(next) = drive.next_event() {
            prop_assert!(next >= last);
            last = next;
            drive.advance(next, &mut Vec::new());
        }
    }

    #[test]
    fn completions_do_not_depend_on_how_often_the_drive_is_advanced(
        level in prop::sample::select(LEVELS), cache in prop::sample::select(CACHES),
        member in prop::sample::select(MEMBERS),
        asked in prop::collection::vec((0u64..3000, any::<prop::sample::Index>(), 0u64..100, any::<u8>()), 1..40),
    ) {
        let (mut often, mut once) = (build(level, cache, member), build(level, cache, member));
        let (mut seen, mut done) = (Vec::new(), Vec::new());
        for (id, request) in requests(&*often, &asked).iter().enumerate() {
            while let Some(next) = often.next_event().filter(|&next| next <= request.arrival) {
                often.advance(next, &mut seen);
            }
            often.submit(request.arrival, RequestId(id as u32), request);
            once.submit(request.arrival, RequestId(id as u32), request);
        }
        while let Some(next) = often.next_event() {
            often.advance(next, &mut seen);
        }
        once.advance(Timestamp::MAX, &mut done);
        prop_assert_eq!(seen, done);
    }
}
