//! The arguments of `iocast diff`.

use std::path::PathBuf;

use clap::Args;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Diff {
    /// The earlier result: what `--output-format json` prints
    #[arg(value_name = "OLD.json")]
    pub old: PathBuf,
    /// The later result, of the same subcommand on the same traces
    #[arg(value_name = "NEW.json")]
    pub new: PathBuf,
    /// Most that a figure may change: 5% either way, +5% upwards, -5% downwards, or a TOML file of such lines by figure
    #[arg(long, value_name = "CHANGE|FILE.toml", allow_hyphen_values = true)]
    pub threshold: Option<String>,
    /// List all figures that differ, with extremes and variances
    #[arg(long)]
    pub details: bool,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
