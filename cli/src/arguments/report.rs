//! The arguments of `iocast report`, and of subcommands that write a report of their result.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::picture::OUTPUTS;

#[derive(Debug, Args)]
pub struct Report {
    /// Result as --output-format json prints it, of `compare`, `replay`, `predict`, `place`, `stat`, `validate`,
    /// `reproduce`, `capture lab` (lab.json, or its folder) or `serve`; with --history, `compare` and `stat` give pictures
    /// over time. The folder of a complete `sweep`. For a table: files of `compare --per-request`, or captures in our Parquet
    /// format
    #[arg(value_name = "RESULT.json|FOLDER|FILE.parquet", required = true)]
    pub inputs: Vec<PathBuf>,
    /// The report, one HTML file; the table, as .parquet, .csv or .md by its ending [default of a table: it is printed]
    #[arg(long, short, value_name = "FILE", required_unless_present = TABLE)]
    pub output: Option<PathBuf>,
    /// Folder for each chart of the report as SVG and PNG
    #[arg(long, value_name = "FOLDER", conflicts_with = TABLE)]
    pub figures: Option<PathBuf>,
    /// Figure by which the report of a sweep ranks candidates, such as p99_read, mean_write, throughput [default:
    /// p99_read]
    #[arg(long = "for", value_name = "FIGURE", conflicts_with = TABLE)]
    pub figure: Option<String>,
    #[command(flatten)]
    pub table: Table,
    /// Overwrite what exists
    #[arg(long)]
    pub force: bool,
}

/// The group of options that ask for a table.
const TABLE: &str = "what_table";

/// A table of requests, which the program iocast-tables makes.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new(TABLE))]
pub struct Table {
    /// A table of requests: responses, schedulers, vms, processes (response times of each), waits (in the scheduler, at
    /// the device), per-second, slowest
    #[arg(long, value_name = "NAME", group = TABLE)]
    pub table: Option<String>,
    /// Groups of requests by these columns, with number, mean, --quantile, IOPS and throughput of each
    #[arg(long, value_name = "COLUMN,…", group = TABLE)]
    pub by: Option<String>,
    /// The answer to a query, with `requests` as the table: "select vm, max(response_ns) from requests group by vm"
    #[arg(long, value_name = "QUERY", group = TABLE)]
    pub sql: Option<String>,
    /// Quantiles of the response time for --by: the least value that this share of the requests does not exceed
    /// [default: 0.5,0.99]
    #[arg(long, value_name = "SHARE,…", requires = "by", conflicts_with_all = ["table", "sql"])]
    pub quantile: Option<String>,
}

/// The report of a result.
#[derive(Debug, Args)]
pub struct ReportFile {
    /// Write a report of the result to look at and to pass on: one HTML file
    #[arg(long, value_name = "FILE.html", group = OUTPUTS)]
    pub report: Option<PathBuf>,
    /// Folder for each chart of the report as SVG and PNG
    #[arg(long, value_name = "FOLDER", group = OUTPUTS)]
    pub figures: Option<PathBuf>,
}

/// The report of a result, for subcommands that write no other file.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new(OUTPUTS).multiple(true))]
pub struct OnlyReport {
    #[command(flatten)]
    pub file: ReportFile,
    /// Overwrite files that exist
    #[arg(long, requires = OUTPUTS)]
    pub force: bool,
}
