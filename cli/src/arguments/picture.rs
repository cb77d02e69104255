//! The picture of a result, for the subcommands that draw one.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use report::Size;

/// The options that name files to write, to which `--force` applies.
pub const OUTPUTS: &str = "outputs";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new(OUTPUTS).multiple(true))]
pub struct Picture {
    /// Beginning of the file names of a picture of the result (STEM.svg, STEM.png) [default: no picture]
    #[arg(long, short, value_name = "STEM", group = OUTPUTS)]
    pub output: Option<PathBuf>,
    /// Width and height of the picture in pixels
    #[arg(long, default_value = "900x700")]
    pub size: Size,
    /// Overwrite files that exist
    #[arg(long, requires = OUTPUTS)]
    pub force: bool,
}
