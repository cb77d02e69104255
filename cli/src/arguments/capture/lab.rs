//! The arguments of `iocast capture lab`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::OnlyReport;
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Lab {
    /// Plan: the VMs, their workloads, the drive that they share, the groups that run together
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    #[command(flatten)]
    pub folders: LabFolders,
    #[command(flatten)]
    pub report: OnlyReport,
    /// How to print the results
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

/// The folders of a lab.
#[derive(Debug, Args)]
pub struct LabFolders {
    /// Folder of the results [default: the plan's name without its ending]
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Continue in an existing folder: prepared disks and complete runs are kept. Only the number of repetitions, and
    /// the schedulers after the first if schedulers are compared, may differ from before
    #[arg(long)]
    pub resume: bool,
    /// Folder that keeps the image that VMs boot [default: $XDG_CACHE_HOME/iocast, or ~/.cache/iocast]
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
}
