//! The arguments of `iocast place`.

use std::path::PathBuf;

use clap::Args;

use super::{Picture, ReportFile};
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Place {
    /// Plan: the VMs with their traces and limits, the LUNs, and VMs that must not share a LUN
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    #[command(flatten)]
    pub picture: Picture,
    #[command(flatten)]
    pub report: ReportFile,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
