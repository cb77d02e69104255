//! The arguments of `iocast place`.

use std::path::PathBuf;

use clap::Args;
use report::Size;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Place {
    /// The plan: machines with their captures and limits, LUNs, who must be apart
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    /// The beginning of file names for the picture of who disturbs whom (STEM.svg, STEM.png) [default: no picture]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Width and height of the picture
    #[arg(long, default_value = "900x700")]
    pub size: Size,
    /// Overwrite files that exist
    #[arg(long, requires = "output")]
    pub force: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
