//! The arguments of `iocast capture lab`.

use std::path::PathBuf;

use clap::Args;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Lab {
    /// The plan: machines, their workloads, the drive they share, who runs together
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    /// The folder of the results [default: the plan's name without its ending]
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Go on in a folder that exists: disks that are prepared and runs that are complete are kept. Only the number of
    /// repetitions may be another
    #[arg(long)]
    pub resume: bool,
    /// Where what guests boot is kept [default: $XDG_CACHE_HOME/iocast, or ~/.cache/iocast]
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
