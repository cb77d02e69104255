//! The layers that requests go through.

use std::path::PathBuf;

use clap::Args;
use traces::Nanos;
use traces::quantity::parse_nanos;

/// The layers that requests go through, and who gets how much.
#[derive(Clone, Debug, Args)]
pub struct Stack {
    /// Send requests through layers: a shipped stack (`iocast list stacks`), a TOML file, or a line
    /// `NAME=SCHEDULER@setting=value,…/…` from the guests down (guest=cfq@depth=32/hypervisor=ba/lun=fifo@depth=32,write_depth=16);
    /// given several times, a column each
    #[arg(
        long = "stack",
        value_name = "STACK",
        conflicts_with_all = ["depth", "write_depth", "look_ahead", "merge", "max_request"]
    )]
    pub stacks: Vec<String>,
    /// The layer that --schedulers take the place of, and whose decisions, merges and waiting requests are shown
    /// [default: hypervisor, or the last]
    #[arg(id = "in", long = "in", value_name = "LAYER", requires = "stacks")]
    pub layer: Option<String>,
    /// A folder for a Parquet file per column: what each VM was served in each interval
    #[arg(long, value_name = "FOLDER")]
    pub series: Option<PathBuf>,
    /// The length of an interval of --series, and of the fairness of a --stack
    #[arg(long, value_parser = parse_interval, default_value = "1s", value_name = "TIME")]
    pub interval: Nanos,
}

impl Stack {
    /// Whether somebody wants to know who was served how much.
    pub fn watches_shares(&self) -> bool {
        !self.stacks.is_empty() || self.series.is_some()
    }
}

fn parse_interval(text: &str) -> Result<Nanos, String> {
    let length = parse_nanos(text).map_err(|error| error.to_string())?;
    // A shorter one makes millions of rows of any trace.
    if length < Nanos::from_ms(1) { Err("expected at least 1ms".to_owned()) } else { Ok(length) }
}
