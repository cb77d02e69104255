//! The picture of a result, for the subcommands that draw one.

use std::path::PathBuf;

use clap::Args;
use report::Size;

#[derive(Debug, Args)]
pub struct Picture {
    /// Beginning of the file names of a picture of the result (STEM.svg, STEM.png) [default: no picture]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Width and height of the picture in pixels
    #[arg(long, default_value = "900x700")]
    pub size: Size,
    /// Overwrite files that exist
    #[arg(long, requires = "output")]
    pub force: bool,
}
