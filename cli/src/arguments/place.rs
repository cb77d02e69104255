//! The arguments of `iocast place`.

use std::path::PathBuf;

use clap::Args;
use report::Size;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Place {
    /// Plan: the VMs with their traces and limits, the LUNs, and VMs that must not share a LUN
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    /// Beginning of the file names of a picture of the interference between VMs (STEM.svg, STEM.png) [default: no
    /// picture]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Width and height of the picture in pixels
    #[arg(long, default_value = "900x700")]
    pub size: Size,
    /// Overwrite files that exist
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
