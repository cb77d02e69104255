//! The costs of a live replay: dispatch to a device without data, with the parts that `iocast replay` has.
//!
//! `cargo run --release -p iocast-bench --example live -- REQUESTS [SCHEDULER]`. It aims at two million requests per CPU
//! second, and at 64 MB for any number of requests. Reading a trace is not part of it.

use std::error::Error;

use iocast_bench::cost;
use replay::live::{DeviceDrive, LiveDevice, LiveEngine, MonotonicClock, NullDevice};
use replay::overload::Overload;
use replay::sources::{AddressMap, Asap, MergedTraces, TimeWindow, VmTrace};
use replay::{Limits, Metrics, Source, Stage};
use traces::{
    Layer, Lba, Losses, Nanos, Operation, ReadError, Record, Request, Sectors, Timestamp, TraceMeta, TraceReader,
};

/// The size of the device, 1 TiB.
const CAPACITY: Sectors = Sectors::new(1 << 31);

/// Reads of 4 KiB at scattered places.
struct Reads {
    meta: TraceMeta,
    losses: Losses,
    left: u64,
    arrival: Timestamp,
    page: u64,
}

impl TraceReader for Reads {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.arrival += Nanos::from_ns(1000);
        self.page = (self.page + 7_919_999) % (CAPACITY.count() / 8);
        let request = Request::new(self.arrival, Operation::Read, Lba::new(self.page * 8), Sectors::new(8));
        Ok(Some(Record::arrived(request)))
    }
    fn losses(&self) -> &Losses {
        &self.losses
    }
    fn position_bytes(&self) -> u64 {
        0
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let requests: u64 = arguments.next().ok_or("expected a number of requests")?.parse()?;
    let name = arguments.next().unwrap_or_else(|| "none".to_owned());
    let meta = TraceMeta::new("generated", Layer::GuestQueue, "none");
    let (losses, arrival) = (Losses::default(), Timestamp::ZERO);
    let reader = Box::new(Reads { meta, losses, left: requests, arrival, page: 0 });
    let map = AddressMap::Shift { place: Sectors::ZERO };
    let trace = VmTrace { name: "vm".to_owned(), path: "generated".into(), reader, map };
    let traces = MergedTraces::new(vec![trace], TimeWindow::default(), CAPACITY).with_recorded_responses();
    let source: Box<dyn Source> = Box::new(Asap::new(traces, 32));
    let stage = Stage::new(schedulers::build(&name.parse()?)?.scheduler, Limits { depth: 1024, ..Limits::default() });
    let device: Box<dyn LiveDevice> = Box::new(NullDevice::new(CAPACITY));
    let observers = (Metrics::new(), Overload::default());
    let before = cost::cpu_seconds().unwrap_or(0.0);
    let ended = LiveEngine::new(source, stage, DeviceDrive::new(device), observers, MonotonicClock::new()).run()?;
    let cpu = cost::cpu_seconds().unwrap_or(f64::NAN) - before;
    let resident = cost::resident_max_bytes().unwrap_or(0);
    println!(
        "{name}: {} requests to a device without data, {cpu:.2} CPU seconds, {:.2} million per CPU second, {:.1} MB \
         resident",
        ended.punctuality.error.count(),
        requests as f64 / cpu / 1e6,
        resident as f64 / 1e6
    );
    Ok(())
}
