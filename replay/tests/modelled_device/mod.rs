//! A device with the times of a drive model on a clock that stands still while the replay computes; sources for it, and
//! observers that write down every event.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drive_models::{Completion, DriveModel, WriteCache};
use iocast_replay::live::{Clock, Failure, Finished, LiveDevice};
use iocast_replay::sources::{AddressMap, Asap, Closed, MergedTraces, Open, TimeWindow, VmTrace};
use iocast_replay::{Limits, Metrics, Observer, Served, Source, Stage};
use traces::trace::Layer;
use traces::{InMemoryTrace, Lba, Nanos, Operation, Record, Request, RequestId, Sectors, Timestamp, TraceMeta};

/// A clock that the device moves.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_ns(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn start(&mut self) {}
    fn now(&self) -> Timestamp {
        Timestamp::from_ns(self.0.load(Ordering::Relaxed))
    }
}

/// A device with the times of a drive model. `script` may delay, fail or stop; it gets the number of the request.
pub struct ModelledDevice<F> {
    drive: Box<dyn DriveModel>,
    pub clock: ManualClock,
    completions: Vec<Completion>,
    submitted: Vec<RequestId>,
    pub is_gone: bool,
    script: F,
}

impl<F: FnMut(usize) -> Option<Failure> + Send> ModelledDevice<F> {
    pub fn new(drive: &str, clock: &ManualClock, script: F) -> ModelledDevice<F> {
        let drive = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
        ModelledDevice {
            drive,
            clock: clock.clone(),
            completions: Vec::new(),
            submitted: Vec::new(),
            is_gone: false,
            script,
        }
    }
}

impl<F: FnMut(usize) -> Option<Failure> + Send> LiveDevice for ModelledDevice<F> {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }
    fn write_cache(&self) -> WriteCache {
        self.drive.write_cache()
    }
    fn discards(&self) -> bool {
        self.drive.discards()
    }
    fn accepts(&self, request: &Request) -> bool {
        self.drive.accepts(request)
    }
    fn submit(&mut self, id: RequestId, request: &Request) {
        self.submitted.push(id);
        self.drive.submit(self.clock.now(), id, request);
    }
    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn poll(&mut self, finished: &mut Vec<Finished>) {
        self.drive.advance(self.clock.now(), &mut self.completions);
        for Completion { id, .. } in self.completions.drain(..) {
            let number = self.submitted.iter().rposition(|submitted| *submitted == id).unwrap();
            finished.push(Finished { id, failure: (self.script)(number) });
        }
    }
    fn is_gone(&mut self) -> bool {
        self.is_gone
    }
    fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
        let until = self.clock.now() + timeout;
        self.clock.set(self.drive.next_event().map_or(until, |event| event.min(until)));
        Ok(())
    }
}

fn traces(records: &[Record], capacity: Sectors) -> MergedTraces {
    let meta = TraceMeta::new("list", Layer::GuestQueue, "none");
    let reader = Box::new(InMemoryTrace::new(meta, records.to_vec()));
    let trace =
        VmTrace { name: "vm".to_owned(), path: "list".into(), reader, map: AddressMap::Shift { place: Sectors::ZERO } };
    MergedTraces::new(vec![trace], TimeWindow::default(), capacity)
}

pub fn paced(pacing: usize, records: &[Record], capacity: Sectors) -> Box<dyn Source> {
    let traces = traces(records, capacity);
    match pacing {
        0 => Box::new(Open::recorded(traces)),
        1 => Box::new(Open::scaled(traces, "0.3".parse().unwrap())),
        2 => Box::new(Asap::new(traces, 5)),
        _ => Box::new(Closed::new(traces)),
    }
}

/// Every event as a line.
#[derive(Default)]
pub struct Events(Vec<String>);

impl Observer for Events {
    fn arrived(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.push(format!("{now} Q {id:?} {request:?}"));
    }
    fn issued(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.push(format!("{now} D {id:?} {} {}", request.lba, request.sectors()));
    }
    fn served(&mut self, served: &Served) {
        self.0.push(format!("{} C {:?}", served.finished, served.id));
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, _: &Request) {
        self.0.push(format!("{now} F {id:?}"));
    }
}

pub type Observers = (Metrics, Events);

pub fn observers() -> Observers {
    (Metrics::new(), Events::default())
}

/// All that was observed, as text.
pub fn text((metrics, events): Observers) -> (String, Vec<String>) {
    (format!("{metrics:?}"), events.0)
}

pub fn stage(scheduler: &str, depth: u32) -> Stage<Box<dyn schedulers::Scheduler>> {
    let scheduler = schedulers::build(&scheduler.parse().unwrap()).unwrap().scheduler;
    Stage::new(scheduler, Limits { depth, ..Limits::default() })
}

/// Every `gap_ns` a read of 4 KiB.
pub fn reads(count: u64, gap_ns: u64) -> Vec<Record> {
    let at = |number: u64| {
        let (arrival, lba) = (Timestamp::from_ns(number * gap_ns), Lba::new(number * 4096 % 99_991));
        Record::arrived(Request::new(arrival, Operation::Read, lba, Sectors::new(8)))
    };
    (0..count).map(at).collect()
}
