//! Guests that act alone between the events of the drive: everything happens as if the engine stepped at each of their
//! events.

use iocast_workloads::guest::journal::Journal;
use iocast_workloads::guest::memory::MemorySettings;
use iocast_workloads::guest::{Access, Event, FileId, Files, Step};
use iocast_workloads::{Guest, Guests, Until};
use proptest::prelude::*;
use replay::stage::{Limits, Stage};
use replay::{Engine, Next, Observer, ReplayError, Served, Source};
use traces::{Lba, Nanos, Request, RequestId, Timestamp, VmId};

use super::support::*;

/// A source that never acts alone.
struct Stepped<S>(S);

impl<S: Source> Source for Stepped<S> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        self.0.next()
    }
    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.0.advance(now)
    }
    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.0.take(now, id)
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.completed(now, id, request);
    }
    fn ended_vm(&mut self) -> Option<VmId> {
        self.0.ended_vm()
    }
}

/// What an observer sees, as text.
#[derive(Default)]
struct Log(Vec<String>);

impl Observer for Log {
    fn arrived(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.push(format!("{now} {id:?} arrived: {request:?}"));
    }
    fn dispatched(&mut self, now: Timestamp, id: RequestId, _: &Request) {
        self.0.push(format!("{now} {id:?} dispatched"));
    }
    fn issued(&mut self, now: Timestamp, id: RequestId, _: &Request) {
        self.0.push(format!("{now} {id:?} issued"));
    }
    fn served(&mut self, served: &Served) {
        self.0.push(format!("{served:?}"));
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, _: &Request) {
        self.0.push(format!("{now} {id:?} completed"));
    }
    fn vm_ended(&mut self, now: Timestamp, vm: VmId) {
        self.0.push(format!("{now} {vm:?} ended"));
    }
}

const FILES: u32 = 4;
const PAGES: u64 = 100;

/// Times are multiples of 50 us, so that many events come at one time, also with those of the drive.
fn step() -> impl Strategy<Value = Step> {
    let access =
        (0..FILES, 0..PAGES, 1_u64..6, any::<bool>(), 0_u8..8).prop_map(|(file, page, pages, write, direct)| {
            let (offset, length) = (sectors(page * 8), sectors(pages * 8));
            let new = if write { Access::write } else { Access::read };
            let access = new(FileId(file), offset, length);
            if direct == 0 { access.direct() } else { access }
        });
    let span = (1_u64..60).prop_map(|spans| Nanos::from_us(50 * spans));
    prop_oneof![
        6 => access.clone().prop_map(Step::Access),
        1 => access.prop_map(Step::Start),
        1 => Just(Step::AwaitAtMost(0)),
        4 => span.clone().prop_map(Step::Sleep),
        2 => span.prop_map(Step::Compute),
        1 => (0..FILES).prop_map(|file| Step::Sync(FileId(file))),
        1 => (0_u32..2).prop_map(|event| Step::Post(Event(event))),
    ]
}

/// Guests with the steps of their processes, with a journal or not.
type Scripts = Vec<(bool, Vec<Vec<Step>>)>;

fn guests(scripts: &Scripts) -> Vec<Guest> {
    let guest = |(number, (has_journal, scripts)): (usize, &(bool, Vec<Vec<Step>>))| {
        let mut files = Files::new(sectors(1 << 16));
        for _ in 0..FILES {
            files.create(0, sectors(PAGES * 8)).unwrap();
        }
        let journal = has_journal.then(|| Journal::new(&mut files).unwrap());
        let settings = MemorySettings {
            pages: 80,
            page_copy: Nanos::from_us(50),
            writeback_interval: Nanos::from_ms(20),
            dirty_expire: Nanos::from_ms(40),
            ..MemorySettings::default()
        };
        Guest {
            name: format!("guest {number}"),
            place: Lba::new(number as u64 * (1 << 16)),
            files,
            journal,
            memory: Some(settings),
            programs: scripts.iter().map(|steps| script(steps).0).collect(),
        }
    };
    scripts.iter().enumerate().map(guest).collect()
}

fn log(source: impl Source, scheduler: &str, drive: &str) -> Vec<String> {
    let drive = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
    let scheduler = schedulers::build(&scheduler.parse().unwrap()).unwrap().scheduler;
    let stage = Stage::new(scheduler, Limits { depth: 2, ..Limits::default() });
    Engine::new(source, stage, drive, Log::default()).run().unwrap().observer.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn guests_that_act_alone_do_the_same(
        scripts in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(prop::collection::vec(step(), 1..40), 1..6)),
            1..3,
        ),
        scheduler in prop::sample::select(vec!["fifo", "cfq", "anticipatory", "mq-deadline", "bfq", "kyber"]),
        drive in prop::sample::select(vec!["fixed:service=500us", "fixed:service=2ms", "cheetah-15k4", "iscsi-raid5-15", "sata-ssd"]),
    ) {
        let source = || Guests::new(guests(&scripts), Until { requests: Some(3000), time: Some(Timestamp::from_ns(2_000_000_000)) });
        prop_assert_eq!(log(source(), scheduler, drive), log(Stepped(source()), scheduler, drive));
    }
}
