//! The arguments of `iocast report`, and of subcommands that write a report of their result.

use std::path::PathBuf;

use clap::Args;

use super::picture::OUTPUTS;

#[derive(Debug, Args)]
pub struct Report {
    /// Result of `compare` or `replay` as --output-format json prints it; with --history it has pictures over time
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
    /// Keep what happened over time in the JSON result, so that `iocast report` can draw it
    #[arg(long)]
    pub history: bool,
}
