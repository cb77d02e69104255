//! The arguments of `iocast capture recover`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Recover {
    /// Trace to complete (Parquet)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
