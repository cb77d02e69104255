//! The simulated drive against the replay engine: the same arrivals get the same times, however late the caller polls.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_serve::simulated_drive::{FinishedRequest, SimulatedDrive};
use proptest::prelude::*;
use replay::ReplayError;
use replay::{Engine, Limits, Next, Observer, Served, Source, Stage};
use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

/// A source of requests at fixed times.
struct Fixed(std::collections::VecDeque<Request>);

impl Source for Fixed {
    fn next(&mut self) -> Result<Next, ReplayError> {
        Ok(self.0.front().map_or(Next::Exhausted, |request| Next::At(request.arrival)))
    }
    fn take(&mut self, _now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        Ok(self.0.pop_front().unwrap())
    }
    fn completed(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
}

/// Arrival, issue, start and completion of each request, sorted by arrival.
type Times = Vec<(Timestamp, Timestamp, Timestamp, Timestamp)>;

#[derive(Default)]
struct Watch(Times);

impl Observer for Watch {
    fn served(&mut self, served: &Served) {
        self.0.push((served.request.arrival, served.issued, served.started, served.finished));
    }
}

fn built(drive: &str, scheduler: &str) -> (Box<dyn drive_models::DriveModel>, Box<dyn schedulers::Scheduler>) {
    let drive = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
    (drive, schedulers::build(&scheduler.parse().unwrap()).unwrap().scheduler)
}

fn replayed(drive: &str, scheduler: &str, depth: u32, requests: &[Request]) -> Times {
    let (drive, scheduler) = built(drive, scheduler);
    let limits = Limits { depth, merge: false, max_sectors: Request::SECTORS_MAX, ..Limits::default() };
    let source = Fixed(requests.iter().copied().collect());
    let ended = Engine::new(source, Stage::new(scheduler, limits), drive, Watch::default()).run().unwrap();
    let mut times = ended.observer.0;
    times.sort_unstable();
    times
}

/// The same through a [`SimulatedDrive`] whose caller polls `late` nanoseconds after each event; the delays repeat in
/// turn.
fn polled_late(drive: &str, scheduler: &str, depth: u32, requests: &[Request], late: &[u64]) -> Times {
    let (drive, scheduler) = built(drive, scheduler);
    let mut simulated = SimulatedDrive::new(drive, scheduler, depth);
    let (mut done, mut times): (Vec<FinishedRequest>, Times) = (Vec::new(), Vec::new());
    let mut late = late.iter().copied().cycle();
    let mut now = Timestamp::ZERO;
    let mut poll = |simulated: &mut SimulatedDrive, until: Timestamp, times: &mut Times| {
        while let Some(next) = simulated.next_event() {
            let at = next.saturating_add(Nanos::from_ns(late.next().unwrap())).max(now);
            if at >= until {
                break;
            }
            simulated.run(at, &mut done);
            for FinishedRequest { request, issued, completion } in done.drain(..) {
                assert!(completion.finished <= at, "completed before its time");
                times.push((request.arrival, issued, completion.started, completion.finished));
                simulated.release(completion.id);
            }
        }
        now = until;
    };
    for request in requests {
        poll(&mut simulated, request.arrival, &mut times);
        let (_, arrived) = simulated.arrive(request.arrival, *request);
        assert_eq!(arrived, *request);
    }
    poll(&mut simulated, Timestamp::MAX, &mut times);
    times.sort_unstable();
    times
}

fn requests(given: &[(u64, u64, u32, bool, u8)], capacity: u64) -> Vec<Request> {
    let mut now = Timestamp::ZERO;
    let request = |&(gap, place, sectors, write, vm): &(u64, u64, u32, bool, u8)| {
        now += Nanos::from_ns(gap + 1);
        let sectors = u64::from(sectors);
        let lba = place % (capacity - sectors);
        let operation = if write { Operation::Write } else { Operation::Read };
        let mut request = Request::new(now, operation, Lba::new(lba), Sectors::new(sectors));
        (request.vm, request.stream) = (VmId(vm.into()), StreamId(vm.into()));
        request.flags = if vm == 0 { Flags::SYNC } else { Flags::empty() };
        request
    };
    given.iter().map(request).collect()
}

const DRIVES: [&str; 6] = [
    "cheetah-15k4",
    "cheetah-15k4-mechanical",
    "cheetah-15k4-mechanical:queue_depth=8",
    "sata-ssd",
    "iscsi-raid5-15",
    "qemu-virtio",
];
const SCHEDULERS: [&str; 8] = ["fifo", "sstf", "satf", "deadline", "cscan", "cfq", "anticipatory", "mq-deadline"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn times_are_those_of_a_replay_however_late_the_caller_polls(
        given in prop::collection::vec((0u64..8_000_000, any::<u64>(), 1u32..256, any::<bool>(), 0u8..3), 1..60),
        depth in prop::sample::select(vec![1, 2, 4, u32::MAX]),
        late in prop::collection::vec(0u64..3_000_000, 1..5),
        drive in prop::sample::select(DRIVES.to_vec()),
        scheduler in prop::sample::select(SCHEDULERS.to_vec()),
    ) {
        let requests = requests(&given, 1 << 24);
        let expected = replayed(drive, scheduler, depth, &requests);
        prop_assert_eq!(expected.len(), requests.len());
        prop_assert_eq!(polled_late(drive, scheduler, depth, &requests, &late), expected);
    }
}

#[test]
fn simultaneous_arrivals_get_increasing_timestamps() {
    let (drive, scheduler) = built("fixed", "fifo");
    let mut simulated = SimulatedDrive::new(drive, scheduler, 1);
    let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
    let now = Timestamp::from_ns(100);
    let arrivals: Vec<u64> = (0..3).map(|_| simulated.arrive(now, request).1.arrival.as_ns()).collect();
    assert_eq!(arrivals, [100, 101, 102]);
    assert_eq!(simulated.stamp(Timestamp::from_ns(50), request).arrival.as_ns(), 103);
}
