//! Shared by the tests of guests: processes with a script, a drive with a service time of 1 ms, and a list of the
//! arrivals.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use iocast_workloads::guest::memory::MemorySettings;
use iocast_workloads::guest::{Files, OutOfSpace, Program, Step};
use iocast_workloads::{Guest, Guests, Until};
use replay::ReplayError;
use replay::stage::{Limits, Stage};
use replay::{Engine, Observer};
use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

/// When each step of a process was asked for, in microseconds.
pub type Times = Arc<Mutex<Vec<u64>>>;

/// A process that takes the steps it was given.
pub struct Script {
    steps: VecDeque<Step>,
    times: Times,
}

impl Program for Script {
    fn step(&mut self, now: Timestamp, _: &mut Files) -> Result<Step, OutOfSpace> {
        self.times.lock().unwrap().push(now.as_ns() / 1000);
        Ok(self.steps.pop_front().unwrap_or(Step::Exit))
    }
}

pub fn script(steps: &[Step]) -> (Box<dyn Program>, Times) {
    let times = Times::default();
    (Box::new(Script { steps: steps.iter().copied().collect(), times: times.clone() }), times)
}

pub fn asked(times: &Times) -> Vec<u64> {
    times.lock().unwrap().clone()
}

/// An arrival: time in microseconds, operation, first sector, length, and process.
pub type Arrival = (u64, Operation, u64, u64, u32);

#[derive(Default)]
pub struct Arrivals {
    pub arrivals: Vec<Arrival>,
    pub flags: Vec<Flags>,
}

impl Observer for Arrivals {
    fn arrived(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        let (lba, sectors) = (request.lba.sector(), request.sectors().count());
        self.arrivals.push((now.as_ns() / 1000, request.operation, lba, sectors, request.stream.0));
        self.flags.push(request.flags);
    }
}

pub fn guest(files: Files, memory: Option<MemorySettings>, programs: Vec<Box<dyn Program>>) -> Guest {
    Guest { name: "guest".to_owned(), place: Lba::ZERO, files, journal: None, memory, programs }
}

/// Runs guests on a drive that takes a millisecond for each request, eight at a time.
pub fn run(guests: Vec<Guest>, until: Until) -> Result<Arrivals, ReplayError> {
    let drive = drive_models::build(&"fixed".parse().unwrap()).unwrap().drive;
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let limits = Limits { depth: 8, merge: false, ..Limits::default() };
    Ok(Engine::new(Guests::new(guests, until), Stage::new(scheduler, limits), drive, Arrivals::default())
        .run()?
        .observer)
}

pub fn ms(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

pub fn sectors(count: u64) -> Sectors {
    Sectors::new(count)
}

/// Memory without copying time.
pub fn memory(pages: u32) -> MemorySettings {
    MemorySettings { pages, page_copy: Nanos::ZERO, ..MemorySettings::default() }
}
