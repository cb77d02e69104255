//! The arguments of `iocast capture decisions`.

use std::path::PathBuf;

use clap::Args;

use super::block::{Buffer, Until};
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Decisions {
    /// Disk to trace, by path or name
    pub device: PathBuf,
    #[command(flatten)]
    pub until: Until,
    /// Beginning of the files' names [default: DEVICE-decisions]
    #[arg(short, long, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Overwrite the files if they exist
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub buffer: Buffer,
    /// How to print the summary
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
