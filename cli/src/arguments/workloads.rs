//! Arguments on simulated guests, whose processes generate the requests.

use clap::Args;
use traces::Sectors;
use traces::quantity::{parse_bytes, parse_sectors};

use super::stage::Switch;

/// Simulated guests, whose processes generate the requests in place of traces.
#[derive(Clone, Debug, Args)]
pub struct Workloads {
    /// Simulate a guest instead of replaying a trace. WORKLOAD is a program with tunables (web=surge:direct=on@64g), a
    /// fio job file (mixed.fio), or a description of several guests, built in or a file (kim2015-dd, office.toml).
    /// Repeatable; see `iocast list workloads`. The processes wait for the drive. A workload that never ends needs
    /// --end or --limit
    #[arg(
        long = "workload",
        value_name = "[NAME=]WORKLOAD[@PLACE]",
        conflicts_with_all = ["pacing", "map", "start", "Reading"]
    )]
    pub workloads: Vec<String>,
    /// Seed of all random choices of the workloads
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Size of each guest's disk; guests of a description have sizes of their own [default: equal parts of the drive]
    #[arg(long, value_parser = parse_sectors, value_name = "SIZE")]
    pub guest_capacity: Option<Sectors>,
    /// Page cache of each guest, 0 for none; guests of a description have sizes of their own
    #[arg(long, value_parser = parse_bytes, default_value = workloads::plan::CACHE, value_name = "SIZE")]
    pub guest_cache: u64,
    /// Whether the guests' file systems keep a journal (ext3, ext4)
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "on|off")]
    pub guest_journal: Switch,
}
