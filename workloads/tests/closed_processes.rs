//! Processes of known rules, recorded on a fast drive. The closed replay of their traces on a drive of half the speed
//! must take the time that the processes themselves take on it.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::VecDeque;
use std::path::PathBuf;

use iocast_workloads::guest::{Access, FileId, Files, OutOfSpace, Program, Step};
use iocast_workloads::{Guest, Guests, Until};
use replay::sources::{AddressMap, Closed, MergedTraces, TimeWindow, VmTrace};
use replay::{Engine, Limits, Observer, Source, Stage};
use traces::{
    Flags, InMemoryTrace, Layer, Lba, Nanos, Observed, Operation, Record, Request, RequestId, Sectors, StreamId,
    Timestamp, TraceMeta,
};

struct Script(VecDeque<Step>);

impl Program for Script {
    fn step(&mut self, _: Timestamp, _: &mut Files) -> Result<Step, OutOfSpace> {
        Ok(self.0.pop_front().unwrap_or(Step::Exit))
    }
}

/// The records of a run, in the order of completion.
#[derive(Default)]
struct Recorder(Vec<Record>);

impl Observer for Recorder {
    fn completed(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        let observed = Observed { completed: Some(now), ..Observed::default() };
        self.0.push(Record { request: *request, observed });
    }
}

/// Runs a source on a drive that serves one request after another.
fn run(source: impl Source, service_us: u64) -> Vec<Record> {
    let drive = drive_models::build(&format!("fixed:service={service_us}us").parse().unwrap()).unwrap().drive;
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let limits = Limits { depth: 8, merge: false, ..Limits::default() };
    Engine::new(source, Stage::new(scheduler, limits), drive, Recorder::default()).run().unwrap().observer.0
}

/// A closed replay of `records`.
fn closed_over(records: Vec<Record>) -> Closed {
    let reader = InMemoryTrace::new(TraceMeta::new("recorded", Layer::GuestQueue, "none"), records);
    let trace = VmTrace {
        name: "vm".to_owned(),
        path: PathBuf::from("recorded"),
        reader: Box::new(reader),
        map: AddressMap::Shift { place: Sectors::ZERO },
    };
    Closed::new(MergedTraces::new(vec![trace], TimeWindow::default(), Sectors::new(1 << 20)))
}

fn last(records: &[Record]) -> f64 {
    records.iter().filter_map(|record| record.observed.completed).max().unwrap().as_ns() as f64
}

/// Replayed over true time on a drive half as fast, of processes that share a stream; writes are made asynchronous.
fn ratio(scripts: fn(FileId) -> Vec<Vec<Step>>, service_us: u64) -> f64 {
    let processes = || {
        let (files, disk) = Files::raw_device(Sectors::new(1 << 20));
        let program = |steps: Vec<Step>| Box::new(Script(steps.into())) as Box<dyn Program>;
        let programs = scripts(disk).into_iter().map(program).collect();
        let guest = Guest { name: "guest".to_owned(), place: Lba::ZERO, files, journal: None, memory: None, programs };
        Guests::new(vec![guest], Until::default())
    };
    let mut recorded = run(processes(), service_us);
    recorded.sort_by_key(|record| record.request.arrival);
    for record in &mut recorded {
        record.request.stream = StreamId(1);
        if record.request.operation == Operation::Write {
            record.request.flags = Flags::empty();
        }
    }
    let replayed = run(closed_over(recorded), service_us * 2);
    last(&replayed) / last(&run(processes(), service_us * 2))
}

fn us(us: u64) -> Step {
    Step::Sleep(Nanos::from_us(us))
}

fn read(disk: FileId, n: u64) -> Access {
    Access::read(disk, Sectors::new(n * 8 % 8000), Sectors::new(8))
}

fn repeated(count: u64, steps: impl Fn(u64) -> Vec<Step>) -> Vec<Step> {
    (0..count).flat_map(steps).collect()
}

#[track_caller]
fn within(ratio: f64, error: f64) {
    assert!((ratio - 1.0).abs() <= error, "{ratio} of the time");
}

#[test]
fn closed_replay_of_a_chain_takes_the_time_of_the_process() {
    within(ratio(|disk| vec![repeated(500, |n| vec![Step::Access(read(disk, n)), us(1 + n % 7 * 300)])], 1000), 0.0);
}

#[test]
fn closed_replay_of_a_depth_of_four_takes_the_time_of_the_process() {
    let steps = |disk| vec![repeated(500, |n| vec![Step::Start(read(disk, n)), Step::AwaitAtMost(3), us(n % 5 * 50)])];
    within(ratio(steps, 100), 0.01);
}

#[test]
fn closed_replay_of_batches_takes_the_time_of_the_process() {
    fn batch(disk: FileId, n: u64) -> Vec<Step> {
        let mut steps = repeated(12, |m| vec![Step::Start(read(disk, n * 12 + m)), us(23)]);
        steps.extend([Step::AwaitAtMost(0), us(900)]);
        steps
    }
    within(ratio(|disk| vec![repeated(100, |n| batch(disk, n))], 70), 0.01);
}

#[test]
fn reader_does_not_wait_for_the_flusher_of_its_stream() {
    let steps = |disk| {
        let reader = repeated(500, |n| vec![Step::Access(read(disk, n)), us(3000)]);
        let write = |n: u64| Access::write(disk, Sectors::new(n * 8), Sectors::new(8));
        let flusher = repeated(60, |n| {
            let mut steps = repeated(6, |m| vec![Step::Start(write(n * 6 + m))]);
            steps.push(us(33_700));
            steps
        });
        vec![reader, flusher]
    };
    // In one stream the flusher's timer cannot be distinguished from think time after the reader's reads.
    within(ratio(steps, 1000), 0.05);
}

#[test]
fn two_threads_of_one_stream_keep_separate_think_times() {
    // By the latest completion each would wait for the other: a fifth longer.
    let steps = |disk| vec![repeated(500, |n| vec![Step::Access(read(disk, n)), us(3000)]); 2];
    within(ratio(steps, 1000), 0.02);
}
