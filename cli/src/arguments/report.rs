//! The arguments of `iocast report`, and of subcommands that write a report of their result.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::picture::OUTPUTS;

#[derive(Debug, Args)]
pub struct Report {
    /// Result as --output-format json prints it, of `compare`, `replay`, `predict`, `place`, `stat`, `validate`,
    /// `reproduce`, `capture lab` (lab.json) or `serve`; with --history, `compare` and `stat` give pictures over time
    #[arg(value_name = "RESULT.json")]
    pub result: PathBuf,
    /// The report, one HTML file
    #[arg(long, short, value_name = "FILE.html")]
    pub output: PathBuf,
    /// Folder for each chart of the report as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    pub figures: Option<PathBuf>,
    /// Overwrite what exists
    #[arg(long)]
    pub force: bool,
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
