//! The arguments of `iocast stat`.

use std::path::PathBuf;

use clap::Args;
use traces::Nanos;
use traces::quantity::parse_nanos;

use super::{Reading, Window};
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Stat {
    /// Trace: a file, the common beginning (stem) of a capture's file names, or `-` for standard input
    pub input: PathBuf,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub window: Window,
    /// Parquet file to write: one row per interval with requests, bytes, times and queue lengths
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Overwrite the file of --series if it exists
    #[arg(long, requires = "series")]
    pub force: bool,
    /// Length of an interval of --series
    #[arg(long, value_parser = parse_nanos, default_value = "1s", value_name = "TIME")]
    pub interval: Nanos,
    /// Number of processes, cgroups and VMs to print
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub top: usize,
    /// Compute the SHA-256 of the trace's files
    #[arg(long)]
    pub digest: bool,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
