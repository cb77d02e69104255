//! The arguments of `iocast capture`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Capture {
    /// Run virtual machines alone and together after a plan, and record what they do
    Lab(Lab),
}

#[derive(Debug, Args)]
pub struct Lab {
    /// The plan
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
}
