//! Shared by the tests of stacks: loads, drives, and an observer that logs every event.

use iocast_replay::stack::{Layer, LayerConfig};
use iocast_replay::{Ended, Engine, Limits, Observer, Served, Stack, Stage};
use traces::spec::Spec;
use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp, VmId};

use crate::listed::Listed;

/// A log of all events, without ids, which differ between hosts.
#[derive(Default)]
pub struct Log {
    /// Every event: time, letter as in blktrace, request.
    pub events: Vec<(Timestamp, char, Request)>,
    /// The time and the request of each completion, sorted by time.
    pub completed: Vec<(u64, String)>,
    /// How far the head moved, in sectors.
    pub seek: u64,
    /// Requests that the drive served.
    pub served: Vec<Served>,
}

impl Log {
    fn event(&mut self, now: Timestamp, letter: char, request: &Request) {
        self.events.push((now, letter, *request));
    }
}

impl Observer for Log {
    fn arrived(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.event(now, 'Q', request);
    }
    fn inserted(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.event(now, 'I', request);
    }
    fn merged(&mut self, now: Timestamp, _: RequestId, _: RequestId, request: &Request, was_waiting: bool) {
        self.event(now, if was_waiting { 'J' } else { 'M' }, request);
    }
    fn dispatched(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.event(now, 'S', request);
    }
    fn issued(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.event(now, 'D', request);
    }
    fn served(&mut self, served: &Served) {
        self.event(served.finished, 'C', &served.request);
        self.seek += served.seek.count();
        self.served.push(Served { id: RequestId(0), ..*served });
    }
    fn completed(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.event(now, 'F', request);
        self.completed.push((now.as_ns(), format!("{request:?}")));
        self.completed.sort_unstable();
    }
}

pub fn drives() -> [&'static str; 8] {
    [
        "cheetah-15k4",
        "linear:a=0,b=0,hit=0,capacity=2m",
        "fixed:service=0,flush=0,write_cache=volatile",
        "fixed:write_cache=volatile",
        "fixed:write_cache=volatile-fua",
        "raid:member=fixed,write_cache=64k,read_cache=1m,overhead=100us",
        "flash:capacity=32m,planes=1,page=4k,channels=2,dies=1,buffer=8k,interface=sata,depth=3,precondition=empty",
        "cheetah-15k5:queue_depth=4,queue_order=satf,age_limit=20ms",
    ]
}

pub fn schedulers() -> Vec<Spec> {
    schedulers::SCHEDULERS.iter().map(|entry| entry.name.parse().unwrap()).collect()
}

pub fn drive(spec: &str) -> Box<dyn drive_models::DriveModel> {
    drive_models::build(&spec.parse().unwrap()).unwrap().drive
}

pub fn layer(scheduler: &Spec, config: LayerConfig) -> Layer {
    let scheduler = scheduler.clone();
    Layer::new(Box::new(move || schedulers::build(&scheduler).unwrap().scheduler), config)
}

/// A layer that passes every request on at once, unchanged.
pub fn pass_through() -> LayerConfig {
    let limits = Limits {
        depth: u32::MAX,
        merge: false,
        max_sectors: Request::SECTORS_MAX,
        max_segments: u32::MAX,
        ..Limits::default()
    };
    LayerConfig { limits, ..LayerConfig::default() }
}

/// Runs the load on one stage over a drive.
pub fn alone(spec: &Spec, drive: &str, limits: Limits, load: &[Request]) -> Log {
    let stage = Stage::new(schedulers::build(spec).unwrap().scheduler, limits);
    Engine::new(Listed::new(load), stage, self::drive(drive), Log::default()).run().unwrap().observer
}

pub fn run_stack(layers: Vec<Layer>, drive: &str, load: &[Request]) -> Log {
    replay(layers, drive, load).observer
}

pub fn replay(layers: Vec<Layer>, drive: &str, load: &[Request]) -> Ended<Listed, Log, Stack> {
    Engine::on(Listed::new(load), Stack::new(layers, self::drive(drive)), Log::default()).run().unwrap()
}

/// For each of `vms`, `each` sequential reads of 4 KB in an own area, all at time zero.
pub fn requests_of(vms: u16, each: u64) -> Vec<Request> {
    let read = |vm: u16, n: u64| {
        let lba = u64::from(vm) * 1000 + n * 8;
        let mut request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(8));
        request.vm = VmId(vm);
        request
    };
    (0..each).flat_map(|n| (0..vms).map(move |vm| read(vm, n))).collect()
}

pub fn replay_in(stack: &iocast_replay::stack::StackSpec, drive: &str, load: &[Request]) -> Log {
    Engine::on(Listed::new(load), stack.build(self::drive(drive)), Log::default()).run().unwrap().observer
}
