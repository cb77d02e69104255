//! Conservation laws, for every scheduler, drive, limit and load: each arrival completes exactly once and not before it
//! arrived, every sector is served, the limits are kept, and Little's law holds to the nanosecond.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod listed;
mod loads;
mod requests;

use std::collections::BTreeMap;

use drive_models::DriveModel;
use iocast_replay::{ActiveTime, Engine, Limits, Metrics, Observer, Served, Stage};
use listed::Listed;
use loads::{arriving, limits};
use proptest::prelude::*;
use requests::request;
use traces::spec::Spec;
use traces::{Flags, Operation, Request, RequestId, Timestamp};

/// Checks all events that an observer sees.
#[derive(Default)]
struct Auditor {
    limits: Limits,
    outstanding: BTreeMap<RequestId, Request>,
    at_drive: BTreeMap<RequestId, Request>,
    in_scheduler: BTreeMap<RequestId, Request>,
    arrived: [u64; 4],
    completed: [u64; 4],
    sectors_arrived: [u64; 4],
    sectors_served: [u64; 4],
    flushes_served: u64,
    merged: u64,
    parts: u64,
    response_ns: u128,
    now: Timestamp,
}

impl Auditor {
    fn time(&mut self, now: Timestamp) {
        assert!(now >= self.now, "time does not decrease");
        self.now = now;
    }
}

impl Observer for Auditor {
    fn arrived(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.time(now);
        assert!(self.outstanding.insert(id, *request).is_none(), "ids are unique among outstanding requests");
        self.arrived[request.operation as usize] += 1;
        self.sectors_arrived[request.operation as usize] += request.sectors().count();
    }

    fn inserted(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.time(now);
        let may_be_long = request.operation == Operation::Discard;
        assert!(may_be_long || request.sectors() <= self.limits.max_sectors, "what is too long is split");
        assert!(self.in_scheduler.insert(id, *request).is_none());
        self.parts += u64::from(!self.outstanding.contains_key(&id));
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, from: RequestId, grown: &Request, was_waiting: bool) {
        self.time(now);
        assert!(self.limits.merge && grown.sectors() <= self.limits.max_sectors);
        if was_waiting {
            self.in_scheduler.remove(&from).expect("only waiting requests are joined");
        } else {
            self.merged += 1;
        }
        let before = self.in_scheduler.insert(into, *grown).expect("merged into a waiting request");
        assert!(before.operation == grown.operation && before.vm == grown.vm && before.priority == grown.priority);
        assert!(grown.lba <= before.lba && grown.end() >= before.end());
    }

    fn dispatched(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.time(now);
        assert_eq!(self.in_scheduler.remove(&id), Some(*request), "what leaves the scheduler was in it");
    }

    fn issued(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.time(now);
        assert!(self.at_drive.insert(id, *request).is_none());
        let writes = self.at_drive.values().filter(|request| request.operation != Operation::Read).count();
        assert!(self.at_drive.len() <= self.limits.depth as usize && writes <= self.limits.write_depth as usize);
    }

    fn served(&mut self, served: &Served) {
        self.time(served.finished);
        assert_eq!(self.at_drive.remove(&served.id), Some(served.request));
        assert!(served.dispatched <= served.issued && served.issued <= served.started);
        assert!(served.started <= served.finished);
        self.sectors_served[served.request.operation as usize] += served.request.sectors().count();
        self.flushes_served += u64::from(served.request.operation == Operation::Flush);
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.time(now);
        assert_eq!(self.outstanding.remove(&id), Some(*request), "an arrival completes once, as it arrived");
        self.completed[request.operation as usize] += 1;
        self.response_ns += u128::from(now.since(request.arrival).as_ns());
    }
}

fn drives() -> Vec<Box<dyn DriveModel>> {
    [
        "cheetah-15k4",
        "cheetah-15k4:cache=off",
        "linear:a=0,b=0,hit=0,capacity=2m",
        "fixed",
        "fixed:service=0,flush=0,write_cache=volatile",
        "fixed:write_cache=volatile",
        "fixed:write_cache=volatile-fua",
        "raid:level=6,members=6,failed=2,member=cheetah-15k4,stripe_unit=4k",
        "raid:member=fixed,member.write_cache=volatile,read_cache=1m,prefetch=256k",
        "raid:member=fixed,write_cache=64k,read_cache=1m,overhead=100us",
        "flash:capacity=32m,planes=1,page=8k,channels=1,dies=2,buffer=32k,suspensions=1",
        "flash:capacity=32m,planes=1,page=4k,channels=2,dies=1,buffer=8k,interface=sata,depth=3,precondition=empty",
        "qemu-virtio:depth=4",
        "cheetah-15k5:queue_depth=4,queue_order=satf,age_limit=20ms",
        "fixed:write_cache=volatile,queue_depth=3,queue_order=look",
        "throttle:k=0.5,dynamic=on,lower_at=3,timer=1ms,overhead=10us,virtual.cv=0.5,virtual.cache=64m",
    ]
    .iter()
    .map(|spec| drive_models::build(&spec.parse().unwrap()).unwrap().drive)
    .collect()
}

fn schedulers() -> Vec<Spec> {
    let mut specs: Vec<Spec> = schedulers::SCHEDULERS.iter().map(|entry| entry.name.parse().unwrap()).collect();
    for extra in [
        "deadline:read_expire=2ms,write_expire=5ms,fifo_batch=2",
        "cats:busdriver_reading=after-completion",
        "cats:busdriver_reading=before-table,read_delay=20ms",
        "gsw:busdriver_delay=1ms",
    ] {
        specs.push(extra.parse().unwrap());
    }
    specs
}

/// Names the scheduler of a failed check.
struct Audited<'a>(&'a Spec);

impl Drop for Audited<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the scheduler is {}", self.0);
        }
    }
}

fn audit(spec: &Spec, drive: Box<dyn DriveModel>, limits: Limits, requests: &[Request]) {
    let _audited = Audited(spec);
    let scheduler = schedulers::build(spec).unwrap().scheduler;
    let volatile = drive.write_cache() != drive_models::WriteCache::Through;
    let discards = drive.discards();
    let source = Listed::new(requests);
    let auditor = Auditor { limits, ..Auditor::default() };
    let engine =
        Engine::new(source, Stage::new(scheduler, limits), drive, (auditor, Metrics::per_vm(ActiveTime::of_any())));
    let (auditor, metrics) = engine.run().unwrap().observer;
    assert!(auditor.outstanding.is_empty() && auditor.at_drive.is_empty() && auditor.in_scheduler.is_empty());
    assert_eq!(auditor.completed, auditor.arrived);
    let mut served = auditor.sectors_arrived;
    if !discards {
        served[Operation::Discard as usize] = 0;
    }
    assert_eq!(auditor.sectors_served, served, "{} loses or repeats sectors", spec.name);
    let any_flush = requests.iter().any(|r| {
        r.operation == Operation::Flush || (r.operation == Operation::Write && r.flags.contains(Flags::PREFLUSH))
    });
    assert_eq!(volatile && any_flush, volatile && auditor.flushes_served > 0 && any_flush);
    assert!(volatile || auditor.flushes_served == 0);
    // Little: the time integral of the number outstanding is the sum of the response times.
    let area = metrics.outstanding.mean(metrics.span()) * metrics.span().as_ns() as f64;
    assert!((area - auditor.response_ns as f64).abs() <= 1.0 + area * 1e-9, "{area} {}", auditor.response_ns);
    assert_eq!(metrics.merged, auditor.merged);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_request_is_served_once_within_the_limits(
        load in prop::collection::vec(request(), 1..60), limits in limits(),
    ) {
        let requests = arriving(&load);
        for spec in schedulers() {
            for drive in drives() {
                audit(&spec, drive, limits, &requests);
            }
        }
    }
}
