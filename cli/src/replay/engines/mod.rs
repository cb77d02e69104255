//! `--engine`: the same requests, sent by iocast and by other programs one after another, and what the kernel saw of
//! each.
//!
//! The traces are written once in the format of each program, with all that `iocast replay` makes of them: the window,
//! the addresses on the device, reads alone unless writes are allowed. The kernel's events on the device say what came
//! of it, for iocast as for the others. So the device is a block device, and root is needed.

mod matching;
mod programs;
mod recording;
mod tables;

use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail, ensure};
use capture::block::{BlockDevice, completed_ios};
use replay::sources::Pacing;
use traces::origin::without_folders;
use traces::results::SCHEMA_VERSION;
use traces::results::engines::{EngineComparison, EngineFigures};
use traces::spec::did_you_mean;

use super::{Plan, Survey};
use crate::error::{Interrupted, UsageError};
use crate::needs;
use crate::output;
use crate::output_format::OutputFormat;
use crate::progress::Progress;
use matching::Matching;
use programs::{Input, PROGRAMS, Prepared, Program, ProgramEnd, Watched};
use recording::Recording;

/// An engine, and arguments that are added to its own.
#[derive(Clone, Debug)]
pub struct EngineArgument {
    program: &'static Program,
    more: String,
}

impl FromStr for EngineArgument {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<EngineArgument, UsageError> {
        let (name, more) = text.split_once('=').unwrap_or((text, ""));
        let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else {
            let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            let hint = did_you_mean(name, known.iter().copied());
            return Err(UsageError(format!("expected {}, and arguments for it after `=`{hint}", known.join(", "))));
        };
        Ok(EngineArgument { program, more: more.to_owned() })
    }
}

impl std::fmt::Display for EngineArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let EngineArgument { program: Program { name, .. }, more } = self;
        if more.is_empty() { f.write_str(name) } else { write!(f, "{name}={more}") }
    }
}

/// Refuses what no other program can be asked for, before anything is read.
///
/// # Errors
/// Another pacing than recorded or scaled, a target that is no block device, or programs that are not installed.
pub fn check(engines: &[EngineArgument], pacing: Pacing, target: &Path) -> Result<()> {
    let wanted =
        "--engine compares arrivals with the times that were asked for; --pacing recorded or scaled=F has some";
    ensure!(pacing.is_open(), UsageError(wanted.to_owned()));
    BlockDevice::find(target)?;
    needs::check(&engines.iter().filter_map(|engine| engine.program.run).collect::<Vec<_>>())
}

/// Runs all engines and prints what came of them.
pub(super) fn run(plan: &Plan, survey: &Survey, engines: &[EngineArgument]) -> Result<()> {
    let arguments = plan.arguments;
    let device = BlockDevice::find(&arguments.target)?;
    let prepared = Prepared::new(plan, survey)?;
    // All inputs are there before the first request is sent, so that no engine fails for its input after others have run.
    let jobs = (0..).zip(engines).map(|(number, engine)| Job::new(plan, &prepared, number, engine));
    let jobs = jobs.collect::<Result<Vec<Job>>>()?;
    let progress = Progress::jobs("replaying with each engine", jobs.len() as u64);
    let mut figures = Vec::new();
    for job in jobs {
        figures.push(job.run(plan, &device, &prepared)?);
        progress.counter(0).fetch_add(1, Ordering::Relaxed);
    }
    drop(progress);
    let comparison = EngineComparison {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        device: without_folders(&arguments.target.to_string_lossy()).to_owned(),
        asked_requests: survey.requests,
        left_out_requests: survey.left_out,
        asked_span_ns: prepared.span(),
        traces: plan.vms.iter().zip(prepared.read()).map(|(vm, read)| vm.provenance(read)).collect(),
        engines: figures,
    };
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&comparison)?,
        format => output::print(&tables::render(&comparison, format))?,
    }
    let failed = comparison.engines.iter().filter(|engine| engine.failure.is_some() || engine.missing_requests > 0);
    let failed: Vec<&str> = failed.map(|engine| engine.engine.as_str()).collect();
    if !failed.is_empty() {
        bail!("{} did not replay all requests", failed.join(", "));
    }
    Ok(())
}

/// An engine with its input.
struct Job {
    engine: EngineArgument,
    input: Input,
    command: String,
}

impl Job {
    fn new(plan: &Plan, prepared: &Prepared, number: usize, engine: &EngineArgument) -> Result<Job> {
        let input = prepared.written_for(engine.program, number)?;
        let command = engine.program.command(&input, plan.arguments, &engine.more)?;
        Ok(Job { engine: engine.clone(), input, command })
    }

    fn run(self, plan: &Plan, device: &BlockDevice, prepared: &Prepared) -> Result<EngineFigures> {
        let Job { engine, input, command } = self;
        let recording = Recording::begin(device, input.folder.join("seen.parquet"))?;
        let watched = Watched {
            ios: &|| completed_ios(device).ok(),
            quiet: prepared.quiet(),
            patience: prepared.patience(),
            stop: &plan.stop,
        };
        let end = programs::run(&command, &watched)?;
        let recorded = recording.end()?;
        ensure!(!plan.stop.load(Ordering::Relaxed), Interrupted);
        let matching = Matching::of(&input.asked, &recorded.path, &plan.stop)?;
        let never_ended = matches!(end, ProgramEnd::Quiet(_)) && matching.missing == 0;
        let failure = match end {
            ProgramEnd::Failed(why) => Some(why),
            ProgramEnd::Quiet(after) if matching.missing > 0 => {
                Some(format!("it was stopped after {:.0} s without I/O", after.as_secs_f64()))
            }
            ProgramEnd::Quiet(_) | ProgramEnd::Ended => None,
        };
        Ok(EngineFigures {
            engine: engine.to_string(),
            command,
            failure,
            never_ended,
            inexpressible_requests: input.left_out,
            lost_events: recorded.lost_events,
            arrived_requests: matching.arrived,
            missing_requests: matching.missing,
            other_requests: matching.others,
            span_ns: matching.span,
            issue_time_error: matching.punctuality.error.figures(),
            drift_ns: matching.punctuality.drift_ns(),
            drift_share: matching.punctuality.drift_share(),
            device_time: matching.device_time.figures(),
        })
    }
}
