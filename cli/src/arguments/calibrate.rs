//! The arguments of `iocast calibrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use report::Size;
use traces::quantity::parse_bytes;
use traces::{SECTOR_BYTES, Sectors};

use super::Reading;
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Calibrate {
    /// A trace with completion times, in place of a device: its reads that had the device to themselves are fitted (by
    /// the empirical model all requests)
    #[arg(value_name = "TRACE")]
    pub input: Option<PathBuf>,
    /// A drive model to be measured on a simulated clock, in place of a device (cheetah-15k5)
    #[arg(long, value_name = "DRIVE")]
    pub drive: Option<String>,
    #[command(flatten)]
    pub reading: Reading,
    /// How many random page reads, or reads of a trace at most
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(200..=10_000_000))]
    pub reads: u64,
    /// The models to fit, of linear, mechanical, fixed, empirical, flash; or all
    #[arg(long, value_name = "MODELS", default_value = "all")]
    pub models: String,
    /// Seed of the places that are read, of the two halves and of the permutations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The drive's own cache: keep it as it is, or switch it off until the end (SCSI and SATA disks, as root)
    #[arg(long, value_enum, default_value_t = DriveCache::Keep)]
    pub drive_cache: DriveCache,
    /// Heads of the drive, instead of what the skews tell
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub heads: Option<u32>,
    /// The drive's capacity, where a trace does not reach its end
    #[arg(long, value_name = "SIZE", value_parser = parse_capacity)]
    pub capacity: Option<Sectors>,
    /// Fit a line even if times do not depend on distance
    #[arg(long)]
    pub force_linear: bool,
    /// The beginning of the names of the files that are written: STEM-MODEL.toml, STEM.svg, STEM.png [default: after
    /// what is calibrated, in this folder]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long)]
    pub force: bool,
    /// Width and height of the picture in pixels
    #[arg(long, value_name = "WxH", default_value = "900x600")]
    pub picture_size: Size,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriveCache {
    Keep,
    Off,
}

fn parse_capacity(text: &str) -> Result<Sectors, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    Some(Sectors::new(bytes / SECTOR_BYTES))
        .filter(|capacity| capacity.count() > 0)
        .ok_or_else(|| "expected at least a sector, 512 bytes".to_owned())
}
