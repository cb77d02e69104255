//! The arguments of `iocast bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    pub what: BenchWhat,
}

#[derive(Debug, Subcommand)]
pub enum BenchWhat {
    /// Write a project with a scheduler of your own, a scenario over your traces, and a CI workflow
    ///
    /// The project is a Rust crate: a scheduler to change (src/lib.rs) and a benchmark of five lines. It has copies of
    /// the traces, a scenario with the figures that come out now, and a workflow for GitHub. `cargo test` checks what
    /// the scheduler promises, `cargo bench` that the figures come out.
    Init(BenchInit),
}

#[derive(Debug, Args)]
pub struct BenchInit {
    /// Folder of the project; it is created
    pub folder: PathBuf,
    /// Traces of the scenario, one per VM; `@SIZE` puts the VM's disk at that offset on the drive (web.parquet@64g)
    #[arg(long, required = true, num_args = 1.., value_name = "TRACE[@PLACE]")]
    pub traces: Vec<String>,
    /// Schedulers beside the new one, which gets a bound against the first
    #[arg(long, default_value = "mq-deadline", value_name = "SCHEDULERS")]
    pub schedulers: String,
    /// Drive with tunables (cheetah-15k4:cache=off)
    #[arg(long, default_value = "cheetah-15k4")]
    pub drive: String,
    /// When requests arrive: recorded, scaled=F, asap=N or closed, as in `iocast compare`
    #[arg(long, default_value = "closed")]
    pub pacing: String,
    /// Replay only the requests that arrive before this time after the first (30s)
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
    /// Use the packages of this checkout of iocast, and not the published ones
    #[arg(long, value_name = "CHECKOUT")]
    pub iocast: Option<PathBuf>,
    /// Overwrite the scenario and the traces where they exist; all other files of the project stay as they are
    #[arg(long)]
    pub force: bool,
}
