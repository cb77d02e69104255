//! The arguments of `iocast reproduce`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use report::Size;

use super::ReportFile;
use super::picture::OUTPUTS;
use super::stage::Switch;
use crate::error::UsageError;
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new(OUTPUTS).multiple(true))]
pub struct Reproduce {
    /// Paper, by its name in `iocast list papers`
    pub paper: String,
    /// Number of seeds; a single seed gives no confidence intervals
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// First seed; the others are the numbers that follow it
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub first_seed: u64,
    /// Also compute the results of other choices where the paper leaves one open; this can take most of the time
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub alternatives: Switch,
    /// Folder of results that `iocast capture lab` wrote: measured VMs beside the replayed ones, for casale2011
    /// [default: traces/samples/lab-virtio, if it exists]
    #[arg(long, value_name = "FOLDER")]
    pub lab: Option<PathBuf>,
    /// File or block device to read as the virtual disk of geist2010, whose columns of the VM are then measured as well;
    /// several disks share the runs, of which each takes 20 to 50 minutes
    #[arg(long = "virtual-disk", value_name = "PATH")]
    pub virtual_disks: Vec<PathBuf>,
    /// Beginning of the names of the files to write: STEM.json, STEM.md, STEM-figure1.svg, STEM-table2.png and so on
    /// [default: no files]
    #[arg(long, short, value_name = "STEM", group = OUTPUTS)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub report: ReportFile,
    /// Overwrite files that exist
    #[arg(long, requires = OUTPUTS)]
    pub force: bool,
    /// Width and height of the pictures in pixels
    #[arg(long, value_name = "WxH", default_value = "900x600", requires = "output")]
    pub picture_size: Size,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

impl Reproduce {
    /// All seeds.
    ///
    /// # Errors
    /// A seed beyond the largest 64-bit number.
    pub fn seeds(&self) -> Result<Vec<u64>, UsageError> {
        let last = self.first_seed.checked_add(self.seeds - 1);
        let last = last.ok_or_else(|| {
            UsageError(format!("--first-seed: the last of {} seeds is above {}", self.seeds, u64::MAX))
        })?;
        Ok((self.first_seed..=last).collect())
    }
}
