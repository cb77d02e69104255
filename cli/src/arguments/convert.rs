//! The arguments of `iocast convert`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{Reading, Window};
use crate::catalog::parse_date;
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Convert {
    /// Trace to read; `-` is standard input
    pub input: PathBuf,
    /// File to write; `-` is standard output (text formats). With --catalog, further traces to read
    #[arg(required_unless_present = "catalog")]
    pub output: Vec<PathBuf>,
    /// Folder of a catalogue, into which each trace goes as DIR/host=H/device=D/date=YYYY-MM-DD/NAME.parquet, one file
    /// for each device and day (UTC). polars, Spark and DuckDB read it as it is (docs/scale.md)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "lossy", "replay_device", "align"])]
    pub catalog: Option<PathBuf>,
    /// Host of the catalogue for traces that name none
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), requires = "catalog")]
    pub host: Option<String>,
    /// Device of the catalogue for traces that name none
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), requires = "catalog")]
    pub device_name: Option<String>,
    /// Date of the catalogue for traces without a time of day: YYYY-MM-DD, or unknown
    #[arg(long, value_name = "DATE", value_parser = parse_day, requires = "catalog", conflicts_with = "anonymise")]
    pub date: Option<CatalogDate>,
    /// Format of the output, instead of the one that its file extension names (see `iocast list formats`)
    /// [default: parquet if there is no extension]
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<String>,
    /// Leave out and count requests that the output format cannot express, instead of failing
    #[arg(long)]
    pub lossy: bool,
    /// Device or file on which the output is to be replayed (fio-iolog, btreplay, blkreplay): fio's log names it, and
    /// the printed command line of the replay program too
    #[arg(long, value_name = "DEVICE")]
    pub replay_device: Option<String>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub window: Window,
    /// Convert the times to the clock of another trace of the same run, such as a guest's times to the clock of the
    /// wire. iocast matches requests by address, length and operation, and prints the clocks' offset, drift and
    /// residuals
    #[arg(long, value_name = "REFERENCE")]
    pub align: Option<PathBuf>,
    /// Form of the result that --align prints
    #[arg(long, value_enum, default_value_t = OutputFormat::Table, requires = "align")]
    pub output_format: OutputFormat,
    /// Name of the trace's VM
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// Replace the names of processes, cgroups, VMs and hosts by pseudonyms derived from the secret key in this file (16
    /// bytes at least), `-` for standard input; times begin at zero. The same key gives the same pseudonyms
    #[arg(long, value_name = "KEYFILE")]
    pub anonymise: Option<PathBuf>,
    /// Shift and permute regions of the address space as well
    #[arg(long, requires = "anonymise")]
    pub anonymise_lba: bool,
    /// Note about the origin of the trace, stored in its metadata (host=lab-3, kernel=6.1); repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub provenance: Vec<String>,
    /// Overwrite the output if it exists
    #[arg(long)]
    pub force: bool,
}

/// The date of a trace that has no time of day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogDate {
    /// YYYY-MM-DD.
    Known(String),
    Unknown,
}

fn parse_day(text: &str) -> Result<CatalogDate, String> {
    match text {
        "unknown" => Ok(CatalogDate::Unknown),
        text => parse_date(text).map(|date| CatalogDate::Known(date.to_string())),
    }
}
