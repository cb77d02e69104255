//! Arguments on the stack of layers that requests pass through.

use std::path::PathBuf;

use clap::Args;
use traces::Nanos;
use traces::quantity::parse_nanos;

use super::picture::OUTPUTS;

/// The stack of layers, and the series of each VM's share.
#[derive(Clone, Debug, Args)]
pub struct Stack {
    /// Send requests through a stack of layers: a built-in stack (`iocast list stacks`), a TOML file, or a line of the
    /// form `NAME=SCHEDULER@setting=value,…/…`. The line goes from the guests down to the drive, such as
    /// guest=cfq@depth=32/hypervisor=ba/lun=fifo@depth=32,write_depth=16. Repeatable: each stack is a column of the
    /// result
    #[arg(
        long = "stack",
        value_name = "STACK",
        conflicts_with_all = ["depth", "write_depth", "look_ahead", "merge", "max_request"]
    )]
    pub stacks: Vec<String>,
    /// Layer in which --schedulers are compared, and whose decisions, merges and waiting requests are reported
    /// [default: hypervisor, or the last layer if there is none]
    #[arg(id = "in", long = "in", value_name = "LAYER", requires = "stacks")]
    pub layer: Option<String>,
    /// Folder for a Parquet file per column of the result, with each VM's figures per interval
    #[arg(long, value_name = "FOLDER", group = OUTPUTS)]
    pub series: Option<PathBuf>,
    /// Length of an interval of --series, and of the intervals over which --stack computes fairness
    #[arg(long, value_parser = parse_interval, default_value = "1s", value_name = "TIME")]
    pub interval: Nanos,
}

impl Stack {
    /// Whether each VM's share is measured.
    pub fn watches_shares(&self) -> bool {
        !self.stacks.is_empty() || self.series.is_some()
    }
}

fn parse_interval(text: &str) -> Result<Nanos, String> {
    let length = parse_nanos(text).map_err(|error| error.to_string())?;
    // A shorter one makes millions of rows of any trace.
    if length < Nanos::from_ms(1) { Err("expected at least 1ms".to_owned()) } else { Ok(length) }
}
