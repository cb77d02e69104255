//! The part of a trace that is replayed and its arrival times: windows, limits, several VMs, and the exact times of
//! each pacing.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::VecDeque;
use std::path::PathBuf;

use iocast_replay::ReplayError;
use iocast_replay::sources::{AddressMap, Asap, Closed, MergedTraces, Open, TimeWindow, VmTrace, extent};
use iocast_replay::{ActiveTime, Engine, Limits, Metrics, Observer, Source, Stage};
use traces::quantity::Fraction;
use traces::{
    Layer, Lba, Losses, Nanos, Observed, Operation, ReadError, Record, Request, RequestId, Sectors, Timestamp,
    TraceMeta, TraceReader,
};

/// Arrival (us), first sector and sectors; zero sectors mean a flush. Completed 1 us later.
struct Listed {
    records: VecDeque<(u64, u64, u64)>,
    meta: TraceMeta,
    losses: Losses,
    asked: u64,
}

impl TraceReader for Listed {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        self.asked += 1;
        Ok(self.records.pop_front().map(|(us, lba, sectors)| {
            let operation = if sectors == 0 { Operation::Flush } else { Operation::Read };
            let arrival = Timestamp::from_ns(us * 1000);
            let request = Request::new(arrival, operation, Lba::new(lba), Sectors::new(sectors));
            let completed = Some(arrival + Nanos::from_us(1));
            Record { request, observed: Observed { completed, ..Observed::default() } }
        }))
    }
    fn losses(&self) -> &Losses {
        &self.losses
    }
    fn position_bytes(&self) -> u64 {
        self.asked
    }
}

fn listed(records: &[(u64, u64, u64)]) -> Listed {
    let meta = TraceMeta::new("listed", Layer::GuestQueue, "none");
    Listed { records: records.iter().copied().collect(), meta, losses: Losses::default(), asked: 0 }
}

fn workload(traces: &[&[(u64, u64, u64)]], window: TimeWindow, capacity: u64) -> MergedTraces {
    let trace = |(index, records): (usize, &&[(u64, u64, u64)])| VmTrace {
        name: format!("vm{index}"),
        path: PathBuf::from(format!("listed{index}")),
        reader: Box::new(listed(records)),
        map: AddressMap::Shift { place: Sectors::ZERO },
    };
    MergedTraces::new(traces.iter().enumerate().map(trace).collect(), window, Sectors::new(capacity))
}

/// The arrival in us, VM and first sector of every emitted request.
fn emitted(mut workload: MergedTraces) -> Vec<(u64, u16, u64)> {
    let mut all = Vec::new();
    while let Some(record) = workload.take().unwrap() {
        let request = record.request;
        assert_eq!(record.observed.completed, Some(request.arrival + Nanos::from_us(1)), "all times move together");
        all.push((request.arrival.as_ns() / 1000, request.vm.0, request.lba.sector()));
    }
    all
}

fn window(from: u64, to: Option<u64>, limit: Option<u64>) -> TimeWindow {
    TimeWindow { from: Nanos::from_us(from), to: to.map(Nanos::from_us), limit }
}

const TRACE: &[(u64, u64, u64)] = &[(100, 0, 8), (110, 8, 8), (120, 16, 8), (130, 24, 8)];

#[test]
fn window_includes_its_beginning_excludes_its_end_and_starts_the_clock() {
    assert_eq!(emitted(workload(&[TRACE], window(0, None, None), 1000)).len(), 4);
    assert_eq!(emitted(workload(&[TRACE], window(10, Some(30), None), 1000)), [(0, 0, 8), (10, 0, 16)]);
    assert_eq!(emitted(workload(&[TRACE], window(5, Some(30), None), 1000)), [(5, 0, 8), (15, 0, 16)]);
    assert_eq!(emitted(workload(&[TRACE], window(31, None, None), 1000)), []);
}

#[test]
fn traces_start_together_and_merge_by_arrival_then_by_vm() {
    let other: &[(u64, u64, u64)] = &[(5000, 500, 8), (5010, 508, 8), (5011, 516, 8)];
    let all = emitted(workload(&[TRACE, other], window(0, None, None), 1000));
    let order = [(0, 0, 0), (0, 1, 500), (10, 0, 8), (10, 1, 508), (11, 1, 516), (20, 0, 16), (30, 0, 24)];
    assert_eq!(all, order);
    assert_eq!(emitted(workload(&[TRACE, other], window(0, None, Some(3)), 1000)), order[..3]);
}

#[test]
fn no_record_beyond_the_limit_is_read() {
    // The second request does not fit the drive, but it is never read.
    let beyond: &[(u64, u64, u64)] = &[(0, 0, 8), (1, 5000, 8)];
    assert_eq!(emitted(workload(&[beyond], window(0, None, Some(1)), 1000)).len(), 1);
    assert_eq!(emitted(workload(&[&[(0, 5000, 8)]], window(0, None, Some(0)), 1000)).len(), 0);
}

#[test]
fn a_request_beyond_the_drive_is_named_by_its_number_in_the_trace() {
    let records: &[(u64, u64, u64)] = &[(0, 0, 8), (10, 8, 8), (20, 996, 8)];
    let mut workload = workload(&[records], window(10, None, None), 1000);
    let error = loop {
        match workload.take() {
            Ok(record) => assert!(record.is_some(), "the last request does not fit"),
            Err(error) => break error,
        }
    };
    let ReplayError::BeyondDrive { number, request, .. } = &error else { panic!("{error}") };
    assert_eq!((*number, request.lba.sector()), (3, 996));
    assert!(error.to_string().starts_with("listed0: request 3 at 0.000010000 s touches sectors 996 to 1004"));
    let long = super_long();
    assert!(long.to_string().contains("of 2000 sectors is longer than the drive's 1000"), "{long}");
}

fn super_long() -> ReplayError {
    workload(&[&[(0, 0, 2000)]], TimeWindow::default(), 1000).take().unwrap_err()
}

#[test]
fn extent_covers_the_replayed_requests_only() {
    let records = [(100, 900, 8), (110, 0, 0), (120, 50, 8), (130, 70, 4)];
    let all = extent(&mut listed(&records), TimeWindow::default()).unwrap();
    assert_eq!((all.records, all.lba_min.sector(), all.lba_end.sector()), (4, 50, 908));
    assert_eq!((all.first_arrival.as_ns(), all.last_arrival.as_ns()), (100_000, 130_000));
    let cut = extent(&mut listed(&records), window(10, Some(30), None)).unwrap();
    assert_eq!((cut.records, cut.lba_min.sector(), cut.lba_end.sector()), (2, 50, 58));
    let limited = extent(&mut listed(&records), window(0, None, Some(1))).unwrap();
    assert_eq!((limited.records, limited.lba_min.sector(), limited.lba_end.sector()), (1, 900, 908));
    let flushes = extent(&mut listed(&[(0, 0, 0)]), TimeWindow::default()).unwrap();
    assert_eq!((flushes.lba_min, flushes.lba_end), (Lba::ZERO, Lba::ZERO));
}

/// The recorded arrival, the replayed arrival and the completion, in us.
#[derive(Default)]
struct Times(Vec<(u64, u64, u64)>);

impl Observer for Times {
    fn arrived(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.0.push((request.arrival.as_ns() / 1000, now.as_ns() / 1000, 0));
    }
    fn completed(&mut self, now: Timestamp, _: RequestId, _: &Request) {
        self.0.iter_mut().find(|times| times.2 == 0).unwrap().2 = now.as_ns() / 1000;
    }
}

fn times(source: impl Source, service: &str, bound: usize) -> (Vec<(u64, u64, u64)>, bool) {
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let drive = drive_models::build(&format!("fixed:service={service}").parse().unwrap()).unwrap().drive;
    let limits = Limits { merge: false, ..Limits::default() };
    let engine = Engine::new(source, Stage::new(scheduler, limits), drive, Times::default());
    let ended = engine.max_outstanding(bound).run().unwrap();
    (ended.observer.0, ended.outcome.held_back)
}

#[test]
fn open_loop_keeps_or_scales_recorded_times() {
    let all = || workload(&[TRACE], TimeWindow::default(), 1000);
    assert_eq!(times(Open::recorded(all()), "4us", 99).0, [(0, 0, 4), (10, 10, 14), (20, 20, 24), (30, 30, 34)]);
    let scale = Fraction { numerator: 5, denominator: 10 };
    assert_eq!(times(Open::scaled(all(), scale), "4us", 99).0, [(0, 0, 4), (5, 5, 9), (10, 10, 14), (15, 15, 19)]);
}

#[test]
fn scaled_times_beyond_the_range_of_times_are_an_error() {
    let scale = Fraction { numerator: 1 << 49, denominator: 1 };
    let mut source = Open::scaled(workload(&[&TRACE[..2]], TimeWindow::default(), 1000), scale);
    source.next().unwrap();
    source.take(Timestamp::ZERO, RequestId(0)).unwrap();
    let error = source.next().unwrap_err();
    assert!(
        matches!(error, ReplayError::BeyondTime { arrival, .. } if arrival == Timestamp::from_ns(10_000)),
        "{error}"
    );
    assert!(error.to_string().contains("listed0") && error.to_string().contains("scaled=F"), "{error}");
}

#[test]
fn response_time_includes_the_time_held_back() {
    let (held, flag) = times(Open::recorded(workload(&[TRACE], TimeWindow::default(), 1000)), "15us", 1);
    assert_eq!(held, [(0, 0, 15), (10, 15, 30), (20, 30, 45), (30, 45, 60)]);
    assert!(flag);
    let (_, flag) = times(Open::recorded(workload(&[&TRACE[..2]], TimeWindow::default(), 1000)), "15us", 1);
    assert!(flag, "the second was taken late, although the bound allowed it by then");
    let (_, flag) = times(Open::recorded(workload(&[TRACE], TimeWindow::default(), 1000)), "10us", 1);
    assert!(!flag, "each is done when the next arrives");
}

#[test]
fn asap_keeps_the_number_of_outstanding_requests() {
    let asap = |outstanding| Asap::new(workload(&[TRACE], TimeWindow::default(), 1000), outstanding);
    assert_eq!(times(asap(1), "4us", 99).0, [(0, 0, 4), (4, 4, 8), (8, 8, 12), (12, 12, 16)]);
    assert_eq!(times(asap(2), "4us", 99).0, [(0, 0, 4), (0, 0, 8), (4, 4, 12), (8, 8, 16)]);
    let drive = drive_models::build(&"fixed".parse().unwrap()).unwrap().drive;
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let stage = Stage::new(scheduler, Limits::default());
    let metrics = Engine::new(asap(3), stage, drive, Metrics::new()).run().unwrap().observer;
    assert_eq!(metrics.outstanding.max(), 3);
}

/// Requests of each VM, the span of its figures in us, and the time of its last completion in us.
fn per_vm(source: impl Source, active: ActiveTime) -> Vec<(u64, u64, u64)> {
    let drive = drive_models::build(&"fixed:service=1us".parse().unwrap()).unwrap().drive;
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let stage = Stage::new(scheduler, Limits::default());
    let metrics = Engine::new(source, stage, drive, Metrics::per_vm(active)).run().unwrap().observer;
    let part = traces::results::Part { name: String::new(), model: String::new(), settings: Default::default() };
    let run = metrics.run(part, traces::results::Status::Comparable, &["short".to_owned(), "long".to_owned()]);
    assert_eq!(run.all.requests, 110, "the figures of the run are of all requests");
    run.vms.iter().map(|vm| (vm.all.requests, vm.span_ns.as_ns() / 1000, vm.end_ns.as_ns() / 1000)).collect()
}

#[test]
fn figures_of_vms_end_with_the_first_vm_that_has_no_more_arrivals() {
    // Every 10 us a read each: the short VM ends at 90 us, the long one at 990 us. The second of two reads at the same
    // time completes after 2 us.
    let reads = |count: u64| (0..count).map(|n| (n * 10, n * 8, 8)).collect::<Vec<_>>();
    let (short, long) = (reads(10), reads(100));
    let merged = || workload(&[&short, &long], TimeWindow::default(), 10_000);
    // The reads at 90 us are outstanding when the short VM ends.
    let first = [(9, 90, 91), (9, 90, 991)];
    let last = [(10, 991, 91), (100, 991, 991)];
    assert_eq!(per_vm(Open::recorded(merged()), ActiveTime::of_all(2)), first);
    assert_eq!(per_vm(Open::recorded(merged()), ActiveTime::of_any()), last);
}

#[test]
fn a_closed_replay_ends_a_vm_with_its_last_arrival_and_not_when_it_was_read() {
    let reads = |count: u64| (0..count).map(|n| (n * 10, n * 8, 8)).collect::<Vec<_>>();
    let (short, long) = (reads(10), reads(100));
    let merged = || workload(&[&short, &long], TimeWindow::default(), 10_000);
    // Every read of the long VM waits behind one of the short VM while both run: 2 us in place of 1.
    let closed = per_vm(Closed::new(merged()), ActiveTime::of_all(2));
    let [(short_requests, span, _), (long_requests, _, end)] = closed[..] else { panic!("two VMs") };
    assert_eq!((short_requests, long_requests, span), (9, 9, 90));
    assert!(end > 990, "the long VM goes on: {end}");
}

#[test]
fn a_limit_ends_all_vms_at_once() {
    let reads = |count: u64| (0..count).map(|n| (n * 10, n * 8, 8)).collect::<Vec<_>>();
    let (short, long) = (reads(60), reads(100));
    let limited = workload(&[&short, &long], window(0, None, Some(110)), 10_000);
    assert_eq!(per_vm(Open::recorded(limited), ActiveTime::of_all(2)), [(55, 542, 541), (55, 542, 542)]);
}
