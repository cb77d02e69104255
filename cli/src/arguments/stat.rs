//! The arguments of `iocast stat`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use glob::Pattern;
use traces::Nanos;
use traces::quantity::parse_nanos;

use super::capture::{VmBy, parse_seconds};
use super::picture::OUTPUTS;
use super::{Reading, ReportFile, Window};
use crate::catalog::{DateFilter, parse_dates, parse_pattern};
use crate::output_format::OutputFormat;

/// Processes, cgroups and VMs that are shown without `--top`.
pub const TOP: usize = 10;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new(OUTPUTS).multiple(true))]
pub struct Stat {
    /// Trace: a file, the common beginning (stem) of a capture's file names, or `-` for standard input; with --live a
    /// disk, by path or name; with --catalog the folder of a catalogue
    pub input: PathBuf,
    /// Sum up the traces of a catalogue (`iocast convert --catalog`) by host, device and date. Of the requests only
    /// operations and lengths are read. --device takes a pattern: `*` stands for any text
    #[arg(long, conflicts_with = "live")]
    pub catalog: bool,
    /// Hosts of the catalogue, by a pattern
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern, requires = "catalog")]
    pub host: Option<Pattern>,
    /// Dates of the catalogue: a pattern (2026-11-*), or FROM..TO with both ends
    #[arg(long, value_name = "DATES", value_parser = parse_dates, requires = "catalog")]
    pub date: Option<DateFilter>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub window: Window,
    /// Parquet file to write: one row per interval with requests, bytes, times and queue lengths
    #[arg(long, value_name = "FILE", group = OUTPUTS)]
    pub series: Option<PathBuf>,
    #[command(flatten)]
    pub report: ReportFile,
    /// Keep what happened over time in the JSON result, so that `iocast report` can draw it
    #[arg(long)]
    pub history: bool,
    /// Overwrite files that exist
    #[arg(long, requires = OUTPUTS)]
    pub force: bool,
    /// Show what this host's disk does now, second by second, until q or Ctrl-C: a screen, or lines where there is no
    /// terminal. Times are D2C, from the issue to the completion
    #[arg(long)]
    pub live: bool,
    /// Unit that --live counts apart [default: process]: a device, or the control group or process that queued the
    /// request (for qemu and blkback under the VM's name)
    #[arg(long, value_enum, requires = "live")]
    pub vm_by: Option<VmBy>,
    /// End --live after this time; a bare number is seconds
    #[arg(short = 'w', long, value_parser = parse_seconds, value_name = "SECONDS", requires = "live")]
    pub seconds: Option<Nanos>,
    /// Length of an interval of --series
    #[arg(long, value_parser = parse_nanos, default_value = "1s", value_name = "TIME")]
    pub interval: Nanos,
    /// Number of processes, cgroups and VMs to print
    #[arg(long, default_value_t = TOP, value_name = "N", conflicts_with = "catalog")]
    pub top: usize,
    /// Compute the SHA-256 of the trace's files
    #[arg(long)]
    pub digest: bool,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
