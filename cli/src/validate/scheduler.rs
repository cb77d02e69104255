//! `iocast validate scheduler`: what every scheduler promises, checked on a candidate under random calls.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use rayon::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use schedulers::conformance::{Promise, Step, Violation, check, decide, random_steps, shortened};
use schedulers::registry::Built;
use serde::{Deserialize, Serialize};
use traces::results::{Part, SCHEMA_VERSION};
use traces::spec::Spec;

use crate::arguments::ValidateScheduler;
use crate::compare;
use crate::document::{Block, Document, present};
use crate::error::{LimitsBroken, UsageError};
use crate::output::Table;
use crate::progress::Progress;

/// Numbers of waiting requests with which decisions are timed.
const WAITING: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Decisions that are timed with each.
const DECISIONS: u32 = 20_000;

/// The result.
#[derive(Serialize, Deserialize)]
pub struct Checked {
    schema_version: u32,
    scheduler: Part,
    first_seed: u64,
    sequences: u64,
    /// Calls of all sequences, without those that send what is left at the end; none if one of them broke a promise.
    calls: Option<u64>,
    broken: Option<Broken>,
    decisions: Vec<Timed>,
}

/// A promise that was not kept.
#[derive(Serialize, Deserialize)]
struct Broken {
    promise: String,
    what: String,
    /// The seed of the sequence that broke it.
    seed: u64,
    /// The calls that are needed to break it.
    calls: Vec<String>,
}

/// The time of a decision.
#[derive(Serialize, Deserialize)]
struct Timed {
    waiting_requests: u32,
    /// CPU time of a decision, with one completion and one arrival.
    cpu_ns: f64,
}

pub fn run(arguments: &ValidateScheduler) -> Result<()> {
    let report = arguments.report.planned()?;
    let spec: Spec = arguments.scheduler.parse().map_err(UsageError::from_display)?;
    let built = schedulers::build(&spec).map_err(UsageError::from_display)?;
    let scheduler = compare::part(&spec.without_folders().to_string(), built.entry.name, &built.settings);
    let make = || schedulers::build(&spec).unwrap_or_else(|error| panic!("it was built before: {error}"));
    // A panic of the scheduler is a finding, and needs no message of its own.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (calls, broken) = broken(arguments, &make);
    std::panic::set_hook(usual);
    let decisions = if broken.is_none() { timed(&make) } else { Vec::new() };
    let (first_seed, sequences) = (arguments.seed, arguments.sequences);
    let checked =
        Checked { schema_version: SCHEMA_VERSION, scheduler, first_seed, sequences, calls, broken, decisions };
    present(&checked, &document(&checked), arguments.output_format, &report, Vec::new())?;
    match checked.broken {
        Some(broken) => Err(LimitsBroken(format!("{spec} breaks the promise that it {}", broken.promise)).into()),
        None => Ok(()),
    }
}

/// The calls of all sequences, or the first sequence by seed that breaks a promise.
fn broken(arguments: &ValidateScheduler, make: &(dyn Fn() -> Built + Sync)) -> (Option<u64>, Option<Broken>) {
    let progress = Progress::jobs("checking", arguments.sequences);
    let counter = progress.counter(0);
    let seeds = arguments.seed..=arguments.seed.saturating_add(arguments.sequences - 1);
    let calls = AtomicU64::new(0);
    let found = seeds.into_par_iter().find_map_first(|seed| {
        let steps = random_steps(seed);
        let violation = check(&make, &steps).err();
        counter.fetch_add(1, Ordering::Relaxed);
        calls.fetch_add(steps.len() as u64, Ordering::Relaxed);
        violation.map(|violation| (seed, steps, violation))
    });
    drop(progress);
    let broken = found.map(|(seed, steps, violation)| {
        let (steps, Violation { promise, what }) = shortened(&make, &steps, violation);
        Broken { promise: promise.says().to_owned(), what, seed, calls: steps.iter().map(Step::to_string).collect() }
    });
    (broken.is_none().then(|| calls.into_inner()), broken)
}

/// The times of decisions.
fn timed(make: &dyn Fn() -> Built) -> Vec<Timed> {
    let cpu_ns = |waiting, decisions| {
        let mut scheduler = make().scheduler;
        let now = || {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
        };
        let begun = now();
        decide(&mut *scheduler, waiting, decisions);
        now() - begun
    };
    let time = |waiting_requests| {
        let cpu_ns = cpu_ns(waiting_requests, DECISIONS) - cpu_ns(waiting_requests, 0);
        Timed { waiting_requests, cpu_ns: (cpu_ns / f64::from(DECISIONS)).max(0.0) }
    };
    WAITING.into_iter().map(time).collect()
}

/// What was found, as a document.
pub fn document(checked: &Checked) -> Document {
    Document {
        title: format!("Promises of schedulers, checked on {}", checked.scheduler.name),
        blocks: blocks(checked),
        charts: Vec::new(),
        program: traces::program_version(),
    }
}

fn blocks(checked: &Checked) -> Vec<Block> {
    let Checked { scheduler, sequences, first_seed, .. } = checked;
    let last_seed = first_seed.saturating_add(sequences - 1);
    let name = &scheduler.name;
    let Some(broken) = &checked.broken else {
        let calls = checked.calls.unwrap_or_default();
        let kept = format!(
            "{name} keeps all {} promises in {sequences} random sequences of {calls} calls (seeds {first_seed} to \
             {last_seed}).",
            Promise::ALL.len()
        );
        let promises = Table {
            title: "What it promises".to_owned(),
            header: vec!["it".to_owned()],
            rows: Promise::ALL.iter().map(|promise| vec![promise.says().to_owned()]).collect(),
            text_columns: 1,
        };
        let row = |timed: &Timed| vec![timed.waiting_requests.to_string(), format!("{:.0}", timed.cpu_ns)];
        let times = Table {
            title: "CPU time of a decision with a completion and an arrival".to_owned(),
            header: vec!["waiting".to_owned(), "ns".to_owned()],
            rows: checked.decisions.iter().map(row).collect(),
            text_columns: 0,
        };
        return vec![Block::sentence(kept), Block::Table(promises), Block::Table(times)];
    };
    let Broken { promise, what, seed, .. } = broken;
    let said = format!("{name} breaks the promise that it {promise}: {what} (seed {seed}).");
    let row = |(number, call): (usize, &String)| vec![(number + 1).to_string(), call.clone()];
    let calls = Table {
        title: "The fewest calls found that show it; at their end everything that waits is to be sent".to_owned(),
        header: vec!["call".to_owned(), "what happens".to_owned()],
        rows: broken.calls.iter().enumerate().map(row).collect(),
        text_columns: 2,
    };
    vec![Block::sentence(said), Block::Table(calls)]
}
