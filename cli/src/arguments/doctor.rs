//! The arguments of `iocast doctor`.

use clap::Args;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Doctor {
    /// Show the needs of this subcommand only (--for capture lab)
    #[arg(long = "for", value_name = "SUBCOMMAND", num_args = 1..=2)]
    pub subcommand: Vec<String>,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
