//! `iocast validate decisions`: a scheduler's decisions compared with those in a capture.

use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use replay::{Decisions, RecordedRun};
use traces::Losses;
use traces::events::{EventReader, Watch};
use traces::formats;
use traces::results::decisions::{Agreement, Choice};
use traces::spec::Spec;

use crate::arguments::ValidateDecisions;
use crate::document::{Block, Document, present};
use crate::error::{LimitsBroken, UsageError};
use crate::output::Table;
use crate::progress::Progress;
use crate::units::ABSENT;
use crate::validate::{free, recorded_queue};

/// Number of records between two updates of the progress bar.
const RECORDS_PER_LOOK: u64 = 4096;

pub fn run(arguments: &ValidateDecisions) -> Result<()> {
    let report = arguments.report.planned()?;
    let spec: Spec = arguments.scheduler.parse().map_err(UsageError::from_display)?;
    let spec = recorded_queue::as_captured(&spec, &arguments.input)?;
    let scheduler = schedulers::build(&spec).map_err(UsageError::from_display)?.scheduler;
    let options = arguments.reading.options();
    let format = formats::recognise(&arguments.input, &options)?;
    let Some(open) = format.open_events else {
        bail!(
            "{}: a {} trace holds no events of the block layer; decisions need a capture of block_rq_insert, \
             block_rq_issue and block_rq_complete",
            arguments.input.display(),
            format.name
        );
    };
    let members = (format.members)(&arguments.input)?;
    let bytes = members.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum();
    let progress = Progress::new("deciding", bytes, 1);
    let counter = progress.counter(0);
    let mut reader = open(&arguments.input, &options)?;
    let name = spec.to_string();
    let look = |position| counter.store(position, Ordering::Relaxed);
    let path = || arguments.input.display().to_string();
    if arguments.free {
        let mut recorded = RecordedRun::default();
        watch(&mut *reader, &mut recorded, look)?;
        drop(progress);
        warn_of(reader.losses());
        let run = recorded.run(name, scheduler, arguments.pacing.into()).with_context(path)?;
        return present(&run, &free::document(&run), arguments.output_format, &report, Vec::new());
    }
    let mut decisions = Decisions::new(name, scheduler);
    watch(&mut *reader, &mut decisions, look)?;
    drop(progress);
    warn_of(reader.losses());
    let agreement = decisions.finish().with_context(path)?;
    present(&agreement, &document(&agreement, arguments.misses), arguments.output_format, &report, Vec::new())?;
    let (Some(least), Some(share)) = (arguments.min_agreement, agreement.agreement) else { return Ok(()) };
    let percent = 100.0 * share;
    ensure!(
        percent >= least,
        LimitsBroken(format!("{percent:.3} % of the decisions agree, fewer than --min-agreement {least} %"))
    );
    Ok(())
}

/// Warns of lost and skipped events: the scheduler never sees their requests among the waiting ones.
fn warn_of(losses: &Losses) {
    for (reason, count) in &losses.skipped {
        eprintln!("iocast: warning: skipped {count}: {reason}; the waiting requests are not always known");
    }
    if losses.lost_events > 0 {
        let lost = losses.lost_events;
        eprintln!("iocast: warning: the capture lost {lost} events; the waiting requests are not always known");
    }
}

/// Passes all events of a capture to a consumer, and updates the progress bar.
fn watch(reader: &mut dyn EventReader, watcher: &mut dyn Watch, look: impl Fn(u64)) -> Result<()> {
    let mut records = 0u64;
    while reader.next_watched(watcher)?.is_some() {
        records += 1;
        if records.is_multiple_of(RECORDS_PER_LOOK) {
            look(reader.position_bytes());
        }
    }
    Ok(())
}

/// The agreement as a document, with at most so many differing decisions.
pub fn document(agreement: &Agreement, misses_max: usize) -> Document {
    Document {
        title: format!("Decisions of {} beside those of a capture", agreement.scheduler),
        blocks: blocks(agreement, misses_max),
        charts: Vec::new(),
        program: traces::program_version(),
    }
}

fn blocks(agreement: &Agreement, misses_max: usize) -> Vec<Block> {
    let share = |share: Option<f64>| share.map_or(ABSENT.to_owned(), |share| format!("{:.3} %", share * 100.0));
    let header = ["scheduler", "decisions", "agreed", "agreement", "fifo's", "cscan's"];
    let figures = Table {
        title:
            "Decisions with at least two candidates; for comparison, how often the oldest (fifo) or the next sector \
                (cscan) would have been right"
                .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: vec![vec![
            agreement.scheduler.clone(),
            agreement.decisions.to_string(),
            agreement.agreed.to_string(),
            share(agreement.agreement),
            share(agreement.baseline_fifo),
            share(agreement.baseline_cscan),
        ]],
        text_columns: 1,
    };
    let answer = match agreement.agreement {
        Some(_) => format!(
            "{} agrees with {} of {} decisions ({}).",
            agreement.scheduler,
            agreement.agreed,
            agreement.decisions,
            share(agreement.agreement)
        ),
        None => "The capture has no decision between two or more requests.".to_owned(),
    };
    let mut blocks = vec![Block::Sentence(answer), Block::Table(figures)];
    if agreement.misses.is_empty() {
        return blocks;
    }
    let races = agreement.misses.iter().filter(|miss| miss.is_race).count();
    let note = format!(
        "Of {} differing decisions, {races} would agree with the requests of at most 500 µs earlier or later, or a tick \
         later. If few would, the scheduler or its tunables differ, or several CPUs dispatched at once; the comparison \
         does not hold for such a capture (docs/capture.md says how to take one).",
        agreement.misses.len()
    );
    blocks.push(Block::Sentence(note));
    if misses_max == 0 {
        return blocks;
    }
    let shown = agreement.misses.len().min(misses_max);
    let misses = Table {
        title: format!("Differing decisions ({shown} of {})", agreement.misses.len()),
        header: ["reason", "kernel", "model", "at, s"].map(str::to_owned).to_vec(),
        rows: agreement.misses[..shown]
            .iter()
            .map(|miss| {
                let ours = miss.ours.as_ref().map_or("waits".to_owned(), described);
                vec![
                    miss.reason.clone(),
                    described(&miss.kernel),
                    ours,
                    format!("{:.6}", miss.at_ns.as_ns() as f64 / 1e9),
                ]
            })
            .collect(),
        text_columns: 3,
    };
    blocks.push(Block::Table(misses));
    blocks
}

fn described(choice: &Choice) -> String {
    let Choice { operation, sector, sectors, process, .. } = choice;
    format!("{operation} {sector}+{} of {}", sectors.count(), process.0)
}
