//! The arguments of `iocast capture cleanup`.

use clap::Args;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Cleanup {
    /// How to print the result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
