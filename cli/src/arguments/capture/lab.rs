//! The arguments of `iocast capture lab`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Lab {
    /// The plan
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
}
