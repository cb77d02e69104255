//! The arguments of `iocast predict`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use traces::Sectors;
use traces::quantity::parse_sectors;

use super::pacing::MapArgument;
use super::picture::OUTPUTS;
use super::reading::Span;
use super::{Reading, ReportFile};
use crate::error::UsageError;
use crate::output_format::OutputFormat;
use crate::storage::Storage;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new(OUTPUTS).multiple(true))]
pub struct Predict {
    /// The VMs, two or more: for each an isolated trace or an isolation profile (JSON). The VM is named after the file
    /// unless a name is given; `@SIZE` puts the VM's disk at that offset on the device (web=web.parquet@64g)
    #[arg(value_name = "[NAME=]FILE[@PLACE]", required_unless_present = "solve", num_args = 2..)]
    pub vms: Vec<String>,
    /// Isolated trace of a further VM on the same device, from which the twin learns more about the device; repeatable
    #[arg(long, value_name = "[NAME=]FILE[@PLACE]")]
    pub also: Vec<String>,
    /// Predictors with tunables (casale:found=own,hol), or `all`
    #[arg(long, default_value = "all")]
    pub predictors: String,
    /// Size of the device, from which the twin infers the distance between VMs [default: up to the end of the last VM]
    #[arg(long, value_parser = parse_sectors, value_name = "SIZE", conflicts_with = "drive")]
    pub capacity: Option<Sectors>,
    #[command(flatten)]
    pub replayed_on: ReplayedOn,
    /// Consolidations with known results, for the predictors that learn from them (residual): the output of
    /// `iocast validate consolidation` or `predict --drive` with `--output-format json`
    #[arg(long, value_name = "FILE")]
    pub learn_from: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub span: Span,
    /// Beginning of the names of the isolation profiles to write, STEM-NAME.json for each VM [default: no files]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub report: ReportFile,
    /// Overwrite files that exist
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub solving: Solving,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

/// A model to solve, instead of VMs to forecast.
#[derive(Debug, Args)]
#[command(next_help_heading = "Solving a net")]
pub struct Solving {
    /// Solve this queueing Petri net instead of forecasting VMs: a TOML file, or a .qpe file of QPME
    #[arg(
        long, value_name = "NET",
        conflicts_with_all = ["vms", "also", "predictors", "capacity", "drive", "learn_from", "start", "end", "output", "report", "figures"]
    )]
    pub solve: Option<PathBuf>,
    /// How to solve the net: exactly as a Markov chain, by simulation, or as a chain if that is possible
    #[arg(long, value_enum, default_value_t = Solver::Auto)]
    pub solver: Solver,
    /// Simulate until half of each 95 % interval is at most this share of its mean
    #[arg(long, value_name = "SHARE", default_value_t = 0.005, value_parser = parse_precision)]
    pub precision: f64,
    /// Most events to simulate, in each of four replications
    #[arg(
        long, value_name = "N", default_value_t = 100_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1 << 46)
    )]
    pub events: u64,
    /// Seed of the simulation
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Also draw the net: an SVG picture, or a file for Graphviz (.dot)
    #[arg(long, value_name = "FILE.svg|FILE.dot")]
    pub draw: Option<PathBuf>,
}

/// How a net is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Solver {
    Auto,
    Ctmc,
    Simulation,
}

fn parse_precision(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (1e-4..1.0).contains(share))
        .ok_or_else(|| "expected a share from 0.0001 to below 1, such as 0.005".to_owned())
}

/// The drive on which traces are replayed before they are measured.
#[derive(Debug, Args)]
pub struct ReplayedOn {
    /// Replay each trace alone and closed on this drive (`iocast list drives`), and forecast from the replays instead
    /// of the recorded times. The replay of all VMs together shows how good the forecasts are
    #[arg(long)]
    pub drive: Option<String>,
    /// Scheduler in front of the drive [default: fifo]
    #[arg(long, requires = "drive", conflicts_with = "stack")]
    pub scheduler: Option<String>,
    /// Most requests in flight at the drive [default: as many as its queue holds]
    #[arg(long, requires = "drive", conflicts_with = "stack", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Stack in front of the drive instead of a scheduler: a built-in stack, a TOML file or a line, as in `iocast
    /// compare`
    #[arg(long, requires = "drive")]
    pub stack: Option<String>,
    /// How the trace's addresses are mapped to the drive, as in `iocast compare`; with remap each VM's footprint moves
    /// to its place
    #[arg(long, requires = "drive", value_enum, default_value_t = MapArgument::Exact)]
    pub map: MapArgument,
}

impl ReplayedOn {
    /// The drive with the scheduling in front of it, if a drive is named.
    ///
    /// # Errors
    /// A drive, scheduler or stack that cannot be built.
    pub fn storage(&self) -> Result<Option<Storage>, UsageError> {
        let ReplayedOn { drive, scheduler, depth, stack, .. } = self;
        let Some(drive) = drive.clone() else { return Ok(None) };
        Storage::new(drive, scheduler.as_deref(), *depth, stack.as_deref()).map(Some)
    }
}
