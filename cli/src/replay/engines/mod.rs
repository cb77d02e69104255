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

use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use capture::block::BlockDevice;
use traces::results::SCHEMA_VERSION;
use traces::results::engines::{EngineComparison, EngineFigures};

use super::{Plan, Survey};
use crate::arguments::Pacing;
use crate::error::{Interrupted, UsageError};
use crate::needs;
use crate::output;
use crate::output_format::OutputFormat;
use matching::Matching;
use programs::{PROGRAMS, Prepared, Program};
use recording::Recording;

/// An engine, and arguments that are added to its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineArgument {
    name: &'static str,
    more: String,
}

impl FromStr for EngineArgument {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<EngineArgument, UsageError> {
        let (name, more) = text.split_once('=').unwrap_or((text, ""));
        let known = PROGRAMS.iter().map(|program| program.name);
        let row = known.clone().find(|known| *known == name).ok_or_else(|| {
            UsageError(format!("expected {}, and arguments for it after `=`", known.collect::<Vec<_>>().join(", ")))
        })?;
        Ok(EngineArgument { name: row, more: more.to_owned() })
    }
}

impl EngineArgument {
    fn program(&self) -> &'static Program {
        let found = PROGRAMS.iter().find(|program| program.name == self.name);
        found.expect("it was found among them when it was parsed")
    }
}

impl std::fmt::Display for EngineArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.more.is_empty() { f.write_str(self.name) } else { write!(f, "{}={}", self.name, self.more) }
    }
}

/// Refuses what no other program can be asked for, before the device is opened.
///
/// # Errors
/// Another pacing than recorded or scaled, or programs that are not installed.
pub fn check(engines: &[EngineArgument], pacing: Pacing) -> Result<()> {
    ensure!(
        matches!(pacing, Pacing::Recorded | Pacing::Scaled(_)),
        UsageError(
            "--engine compares arrivals with the times that were asked for; --pacing recorded or scaled=F has \
                    some"
                .to_owned()
        )
    );
    needs::check(&engines.iter().filter_map(|engine| engine.program().run).collect::<Vec<_>>())
}

/// Runs all engines and prints what came of them.
pub(super) fn run(plan: &Plan, survey: &Survey, engines: &[EngineArgument]) -> Result<()> {
    let arguments = plan.arguments;
    let device = BlockDevice::find(&arguments.target)?;
    let prepared = Prepared::new(plan, survey)?;
    let mut figures = Vec::new();
    for engine in engines {
        figures.push(run_one(plan, &device, &prepared, engine)?);
    }
    let comparison = EngineComparison {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        device: arguments.target.display().to_string(),
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

fn run_one(plan: &Plan, device: &BlockDevice, prepared: &Prepared, engine: &EngineArgument) -> Result<EngineFigures> {
    let program = engine.program();
    let input = prepared.written_for(program)?;
    let command = program.command(&input, plan.arguments, &engine.more)?;
    let recording = Recording::begin(device, prepared.folder().join(format!("{}.seen.parquet", program.name)))?;
    let failure = programs::run(&command, prepared.patience(), &plan.stop)?;
    let recorded = recording.end()?;
    ensure!(!plan.stop.load(std::sync::atomic::Ordering::Relaxed), Interrupted);
    let Matching { punctuality, arrived, missing, others, span, device_time } =
        Matching::of(&input.asked, &recorded.path, &plan.stop)?;
    Ok(EngineFigures {
        engine: engine.to_string(),
        command,
        failure,
        inexpressible_requests: input.left_out,
        lost_events: recorded.lost_events,
        arrived_requests: arrived,
        missing_requests: missing,
        other_requests: others,
        span_ns: span,
        issue_time_error: punctuality.error.figures(),
        drift_ns: punctuality.drift_ns(),
        drift_share: punctuality.drift_share(),
        device_time: device_time.figures(),
    })
}
