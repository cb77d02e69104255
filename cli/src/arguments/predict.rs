//! The arguments of `iocast predict`.

use std::path::PathBuf;

use clap::Args;
use traces::quantity::{parse_nanos, parse_sectors};
use traces::{Nanos, Sectors};

use super::Reading;
use super::pacing::MapArgument;
use crate::error::UsageError;
use crate::output_format::OutputFormat;
use crate::storage::Storage;

#[derive(Debug, Args)]
pub struct Predict {
    /// The machines alone, two or more: a capture or a profile (JSON) of each, with a name before it if the file's will not do; `@SIZE`
    /// behind a capture is its place on the device (web=web.parquet@64g)
    #[arg(value_name = "[NAME=]FILE[@PLACE]", required = true, num_args = 2..)]
    pub machines: Vec<String>,
    /// A capture of a further machine that ran alone on the same device, from which the twin learns what the device does; as often as
    /// there are such
    #[arg(long, value_name = "[NAME=]FILE[@PLACE]")]
    pub also: Vec<String>,
    /// Predictors with tunables (casale:found=own,hol), or `all`
    #[arg(long, default_value = "all")]
    pub predictors: String,
    /// What the device holds, by which the twin tells how far machines lie apart [default: up to the end of the last]
    #[arg(long, value_parser = parse_sectors, value_name = "SIZE", conflicts_with = "drive")]
    pub capacity: Option<Sectors>,
    #[command(flatten)]
    pub replayed_on: ReplayedOn,
    /// Consolidations whose truth is known, for the predictors that learn (residual): what `iocast validate consolidation`, or
    /// `predict --drive`, prints with `--output-format json`
    #[arg(long, value_name = "FILE")]
    pub learn_from: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    /// Leave out arrivals earlier than this after a capture's first (10s, 2min)
    #[arg(long, value_parser = parse_nanos, default_value = "0", value_name = "TIME")]
    pub start: Nanos,
    /// Leave out arrivals at this time after a capture's first, and later
    #[arg(long, value_parser = parse_nanos, value_name = "TIME")]
    pub end: Option<Nanos>,
    /// The beginning of the names of profiles to write, STEM-NAME.json for each machine [default: none are written]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long, requires = "output")]
    pub force: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

/// Where captures are replayed before they are measured.
#[derive(Debug, Args)]
pub struct ReplayedOn {
    /// Replay each capture alone on this drive, closed over its think times, and go by what is seen there in place of what was
    /// recorded (`iocast list drives`)
    #[arg(long)]
    pub drive: Option<String>,
    /// Who decides what waits in front of it [default: fifo]
    #[arg(long, requires = "drive", conflicts_with = "stack")]
    pub scheduler: Option<String>,
    /// Requests that the drive has at once [default: 1]
    #[arg(long, requires = "drive", conflicts_with = "stack", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Layers in front of it instead: a shipped stack, a TOML file, or a line, as in iocast compare
    #[arg(long, requires = "drive")]
    pub stack: Option<String>,
    /// Addresses that do not fit the drive: exact (an error), wrap, scale, remap (each machine's footprint is moved to its place)
    #[arg(long, requires = "drive", value_enum, default_value_t = MapArgument::Exact)]
    pub map: MapArgument,
}

impl ReplayedOn {
    /// The drive and what is in front of it, if one is named.
    ///
    /// # Errors
    /// What cannot be built.
    pub fn storage(&self) -> Result<Option<Storage>, UsageError> {
        let ReplayedOn { drive, scheduler, depth, stack, .. } = self;
        let Some(drive) = drive.clone() else { return Ok(None) };
        Storage::new(drive, scheduler.as_deref(), *depth, stack.as_deref()).map(Some)
    }
}

impl Predict {
    /// That the window is one.
    ///
    /// # Errors
    /// It ends before it begins.
    pub fn check(&self) -> Result<(), UsageError> {
        if self.end.is_some_and(|end| end <= self.start) {
            return Err(UsageError("--end must be later than --start".to_owned()));
        }
        Ok(())
    }
}
