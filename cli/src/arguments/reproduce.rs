//! The arguments of `iocast reproduce`.

use std::path::PathBuf;

use clap::Args;
use report::Size;

use super::stage::Switch;
use crate::error::UsageError;
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Reproduce {
    /// The paper, by the name that `iocast list papers` gives
    pub paper: String,
    /// How many seeds; with one there are no confidence intervals
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// The first of the seeds, which follow one another
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub first_seed: u64,
    /// What other choices would have given, which can take most of the time
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub alternatives: Switch,
    /// Measured machines for casale2011, beside the replayed ones: the folder that `iocast capture lab` left [default:
    /// traces/samples/lab-virtio, if it is there]
    #[arg(long, value_name = "FOLDER")]
    pub lab: Option<PathBuf>,
    /// The beginning of the names of the files to write: STEM.json, STEM.md, and STEM-figure1.svg, STEM-table2.png
    /// and so on [default: none are written]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Width and height of the pictures in pixels
    #[arg(long, value_name = "WxH", default_value = "900x600", requires = "output")]
    pub picture_size: Size,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

impl Reproduce {
    /// The seeds.
    ///
    /// # Errors
    /// They go beyond the largest there is.
    pub fn seeds(&self) -> Result<Vec<u64>, UsageError> {
        let last = self.first_seed.checked_add(self.seeds - 1);
        let last =
            last.ok_or_else(|| UsageError(format!("--first-seed: the last of {} is above {}", self.seeds, u64::MAX)))?;
        Ok((self.first_seed..=last).collect())
    }
}
