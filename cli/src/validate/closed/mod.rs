//! `iocast validate closed`: a closed replay of a trace compared with the recorded run.

mod measure;
pub mod tables;

use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use drive_models::calibration::{FITS, FitError, FitEvidence, ReadsError, TraceReads, dependence};
use drive_models::{BuiltDrive, Profile, build_profile};
use replay::rotational::set_for;
use replay::sources::{AddressMap, Closed, MergedTraces, OneDevice, TimeWindow, VmTrace};
use replay::{Engine, Limits, Stage};
use schedulers::Registry;
use traces::input::is_reopenable;
use traces::origin::without_folders;
use traces::results::SCHEMA_VERSION;
use traces::results::closed::{ClosedValidation, Compared, OperationCompared, StreamCompared};
use traces::spec::Spec;
use traces::{Operation, Sectors, StreamId, TraceReader, formats};

use crate::arguments::ValidateClosed;
use crate::document::present;
use crate::error::UsageError;
use crate::progress::Progress;
use measure::{Measured, Recorded, Replayed};

/// The value of --drive that asks for a drive fitted to the trace itself.
const FIT: &str = "fit";

/// The depth for a fitted drive without a depth of its own: the size of the queue of a virtual disk or of SATA.
const DEPTH: u32 = 32;

/// The result of one pass over the trace.
struct Pass {
    recorded: Recorded,
    reads: TraceReads,
    end: Sectors,
}

pub fn run(arguments: &ValidateClosed) -> Result<()> {
    let report = arguments.report.planned()?;
    let scheduler: Spec = arguments.scheduler.parse().map_err(UsageError::from_display)?;
    schedulers::build(&scheduler).map_err(UsageError::from_display)?;
    let drive: Spec = arguments.drive.parse().map_err(UsageError::from_display)?;
    let named = if arguments.drive == FIT {
        None
    } else {
        Some(drive_models::build(&drive).map_err(UsageError::from_display)?)
    };
    let pass = pass(arguments)?;
    let name = || arguments.input.display().to_string();
    let has_flushes = pass.recorded.measured.operations[Operation::Flush as usize].requests() > 0;
    let (built, drive, depth) = match named {
        Some(built) => {
            let depth = built.queue_depth();
            (built, drive.without_folders().to_string(), depth)
        }
        None => fitted(arguments, pass.reads, pass.end, has_flushes).with_context(name)?,
    };
    let depth = arguments.depth.unwrap_or(depth);
    let trace = VmTrace {
        name: name(),
        path: arguments.input.clone(),
        reader: Box::new(open(arguments)?),
        map: AddressMap::Wrap { place: Sectors::ZERO },
    };
    let progress = Progress::new("replaying", bytes(arguments), 1);
    let workload = MergedTraces::new(vec![trace], TimeWindow::default(), built.drive.capacity())
        .with_progress(progress.counter(0));
    let scheduler = set_for(scheduler, &built, &Registry::builtin());
    let stage = Stage::new(schedulers::build(&scheduler)?.scheduler, Limits { depth, ..Limits::default() });
    let ended = Engine::new(Closed::new(workload), stage, built.drive, Replayed::default()).run()?;
    drop(progress);
    let incomplete = pass.recorded.incomplete;
    let (recorded, replayed) = (pass.recorded.measured, ended.observer.measured);
    let result = ClosedValidation {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        trace: without_folders(&name()).to_owned(),
        drive,
        scheduler: scheduler.to_string(),
        depth,
        incomplete,
        late: ended.source.late(),
        journal_commits: ended.source.journal_commits(),
        all: Compared::new(recorded.all.figures(), replayed.all.figures()),
        operations: operations(&recorded, &replayed),
        streams: streams(&recorded, &replayed, arguments.top),
    };
    present(&result, &tables::document(&result), arguments.output_format, &report, Vec::new())
}

/// The size of the trace; 0 if it is not one file.
fn bytes(arguments: &ValidateClosed) -> u64 {
    std::fs::metadata(&arguments.input).map_or(0, |metadata| metadata.len())
}

fn open(arguments: &ValidateClosed) -> Result<OneDevice> {
    Ok(OneDevice::new(&arguments.input, formats::open(&arguments.input, &arguments.reading.options())?))
}

/// Measures the recorded run, and collects the requests to which a drive can be fitted.
fn pass(arguments: &ValidateClosed) -> Result<Pass> {
    if !is_reopenable(&arguments.input) {
        let error = "the trace is read twice, so it cannot come from standard input or a pipe; `iocast convert - \
                     trace.parquet` stores it first";
        return Err(UsageError(error.to_owned()).into());
    }
    let progress = Progress::new("reading", bytes(arguments), 1);
    let counter = progress.counter(0);
    let mut reader = open(arguments)?;
    let mut pass = Pass { recorded: Recorded::default(), reads: TraceReads::new(arguments.seed), end: Sectors::new(1) };
    while let Some(record) = reader.next()? {
        counter.store(reader.position_bytes(), Ordering::Relaxed);
        pass.recorded.record(&record);
        pass.reads.push(&record);
        pass.end = pass.end.max(Sectors::new(record.request.end().sector()));
    }
    drop(progress);
    for (reason, count) in &reader.losses().skipped {
        eprintln!("iocast: warning: skipped {count}: {reason}");
    }
    if pass.recorded.measured.all.requests() == 0 {
        bail!("{}: no request has a completion time, so there is no run to compare with", arguments.input.display());
    }
    Ok(pass)
}

/// The empirical drive fitted to half of the trace's requests, its description, and the most requests it had in flight.
fn fitted(
    arguments: &ValidateClosed,
    reads: TraceReads,
    end: Sectors,
    has_flushes: bool,
) -> Result<(BuiltDrive, String, u32)> {
    let reads = match reads.finish() {
        Err(error @ ReadsError::TooFew { .. }) => {
            bail!("{error}; or name the drive with --drive, for a check without a fit")
        }
        reads => reads?,
    };
    let origin = format!("half of the requests of {}, seed {}", arguments.input.display(), arguments.seed);
    let evidence = FitEvidence {
        reads: &reads,
        capacity: end,
        origin: &origin,
        depends_on_distance: dependence(&reads, arguments.seed).depends_on_distance,
        force_linear: false,
        heads: None,
        seed: arguments.seed,
    };
    let row = FITS.iter().find(|row| row.name == "empirical").context("the empirical model can no longer be fitted")?;
    let fitted = match (row.fit)(&evidence, None) {
        Ok(fitted) => fitted,
        Err(FitError::NotFitted(why)) => {
            bail!("no drive can be fitted to the trace ({why}); name a drive with --drive")
        }
        Err(FitError::Device(error)) => return Err(error.into()),
    };
    let depth = fitted.parameters.iter().find(|parameter| parameter.name == "depth");
    let depth = depth.map_or(DEPTH, |parameter| parameter.value as u32);
    let mut text = fitted.profile.render("by this replay");
    if has_flushes {
        // Flushes that took time had dirty data to write; with a write-through cache they would cost nothing.
        text = text.replace("write_cache = { value = \"through\"", "write_cache = { value = \"volatile\"");
    }
    let built = build_profile(Profile::parse(FIT, &text)?)?;
    Ok((built, format!("empirical, fitted to {origin}"), depth.max(1)))
}

fn operations(recorded: &Measured, replayed: &Measured) -> Vec<OperationCompared> {
    let compare = |operation: Operation| {
        let recorded = &recorded.operations[operation as usize];
        let compared = Compared::new(recorded.figures(), replayed.operations[operation as usize].figures());
        (recorded.requests() > 0).then_some(OperationCompared { operation, compared })
    };
    Operation::ALL.into_iter().filter_map(compare).collect()
}

/// The streams with the most requests.
fn streams(recorded: &Measured, replayed: &Measured, top: usize) -> Vec<StreamCompared> {
    let mut largest: Vec<(u64, StreamId)> =
        recorded.streams.iter().map(|(&stream, side)| (side.requests(), stream)).collect();
    largest.sort_by_key(|&(requests, stream)| (std::cmp::Reverse(requests), stream));
    let compare = |&(_, stream): &(u64, StreamId)| {
        let (recorded, replayed) = (recorded.streams.get(&stream)?, replayed.streams.get(&stream)?);
        Some(StreamCompared { stream, compared: Compared::new(recorded.figures(), replayed.figures()) })
    };
    largest.iter().take(top).filter_map(compare).collect()
}
