//! Guests whose processes make the requests.

use clap::Args;
use traces::Sectors;
use traces::quantity::{parse_bytes, parse_sectors};

use super::stage::Switch;

/// Guests whose processes make the requests, in place of traces.
#[derive(Clone, Debug, Args)]
pub struct Workloads {
    /// In place of traces, what the processes of a guest do: a program with tunables (web=surge:direct=on@64g), a fio job
    /// file (mixed.fio), or several guests, shipped or a file (kim2015-dd, office.toml); see `iocast list workloads`. The
    /// drive's pace is theirs; those that run on need --end or --limit
    #[arg(
        long = "workload",
        value_name = "[NAME=]WORKLOAD[@PLACE]",
        conflicts_with_all = ["pacing", "map", "start", "Reading"]
    )]
    pub workloads: Vec<String>,
    /// Seed of everything random in the workloads
    #[arg(long, requires = "workloads", default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Size of the disk of each guest; those of a description have their own [default: equal parts of the drive]
    #[arg(long, requires = "workloads", value_parser = parse_sectors, value_name = "SIZE")]
    pub guest_capacity: Option<Sectors>,
    /// Page cache of each guest, 0 for none; those of a description have their own
    #[arg(long, requires = "workloads", value_parser = parse_bytes, default_value = "65m", value_name = "SIZE")]
    pub guest_cache: u64,
    /// Whether the file systems of the guests keep a journal (ext3, ext4)
    #[arg(long, requires = "workloads", value_enum, default_value_t = Switch::On, value_name = "on|off")]
    pub guest_journal: Switch,
}
