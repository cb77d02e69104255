//! The arguments of `iocast calibrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use report::Size;
use traces::quantity::parse_bytes;
use traces::{SECTOR_BYTES, Sectors};

use super::Reading;
use super::reading::Span;
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Calibrate {
    #[command(subcommand)]
    pub predictor: Option<CalibratePredictor>,
    /// Trace with completion times, instead of a device. The models are fitted to reads during which the device served
    /// nothing else; the empirical model is fitted to all requests
    #[arg(value_name = "TRACE")]
    pub input: Option<PathBuf>,
    /// Drive model to measure on a simulated clock, instead of a device (cheetah-15k5)
    #[arg(long, value_name = "DRIVE")]
    pub drive: Option<String>,
    #[command(flatten)]
    pub reading: Reading,
    /// Number of random page reads; with a TRACE, the most reads to use
    #[arg(
        long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(200..=10_000_000)
    )]
    pub reads: u64,
    /// Models to fit: linear, mechanical, fixed, empirical and flash, separated by commas; or all
    #[arg(long, value_name = "MODELS", default_value = "all")]
    pub models: String,
    /// Seed of the places to read, of the two halves and of the permutations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The drive's own cache: keep it as it is, or switch it off during the measurement (SCSI and SATA disks, as root)
    #[arg(long, value_enum, default_value_t = DriveCache::Keep)]
    pub drive_cache: DriveCache,
    /// Number of heads of the drive, instead of inferring it from the skews
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub heads: Option<u32>,
    /// Drive capacity, if the trace does not reach the end of the drive
    #[arg(long, value_name = "SIZE", value_parser = parse_capacity)]
    pub capacity: Option<Sectors>,
    /// Fit the linear model even if times do not depend on distance
    #[arg(long)]
    pub force_linear: bool,
    /// Beginning of the names of the files to write: STEM-MODEL.toml, STEM.svg, STEM.png
    /// [default: named after the device or trace, in the current folder]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long)]
    pub force: bool,
    /// Width and height of the picture in pixels
    #[arg(long, value_name = "WxH", default_value = "900x600")]
    pub picture_size: Size,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

/// A predictor that is calibrated, instead of drive models.
#[derive(Debug, Subcommand)]
pub enum CalibratePredictor {
    /// Calibrate the predictors qpn and qpn-refined with captures of a storage at several thread counts
    ///
    /// Threads issue a request as soon as the one before is complete. The captures are of reading threads alone, of
    /// writing threads alone, and of both together, as Noorshams et al. 2014 measure them. Only response times (D2C) are
    /// used. The result shows how closely both models describe the mixes, and the predictors with their tunables for
    /// `iocast predict --predictors`.
    Qpn(CalibrateQpn),
}

#[derive(Debug, Args)]
pub struct CalibrateQpn {
    /// Captures or isolation profiles (JSON), each with its numbers of reading and writing threads
    /// (10/0=reads.parquet). Without them, iocast takes the mean number of requests at the device
    #[arg(value_name = "[READERS/WRITERS=]FILE", required = true)]
    pub captures: Vec<String>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub span: Span,
    /// Beginning of the names of the files to write: STEM-qpn.txt and STEM-qpn-refined.txt hold the predictors with
    /// their tunables [default: no files]
    #[arg(long, short, value_name = "STEM")]
    pub output: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Form of the printed result
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
        .ok_or_else(|| "expected at least one sector, 512 bytes".to_owned())
}
