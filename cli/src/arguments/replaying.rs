//! How traces are replayed, on a drive or a device.

use clap::{Args, ValueEnum};
use replay::ActiveTime;
use replay::sources::Pacing;

use super::{MapArgument, Reading, Stage, Window};

/// How long VMs are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// Until the first VM has no more arrivals.
    First,
    /// Until the last VM has no more arrivals.
    Last,
}

impl Until {
    /// The time for which this number of `vms` is measured.
    pub fn active_time(self, vms: usize) -> ActiveTime {
        match self {
            Until::First => ActiveTime::of_all(vms),
            Until::Last => ActiveTime::of_any(),
        }
    }
}

#[derive(Debug, Args)]
pub struct Replaying {
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub window: Window,
    #[command(flatten)]
    pub stage: Stage,
    /// When requests arrive: recorded (at the trace's times), scaled=F (the trace's times multiplied by F; 0.5 is twice
    /// as fast), asap or asap=N (always N outstanding, 32 by default), closed (each stream waits for its completions
    /// and then for its recorded think times)
    #[arg(long, default_value = "recorded")]
    pub pacing: Pacing,
    /// How the trace's addresses are mapped to the drive or device: exact (an address beyond it is an error), wrap
    /// (modulo its capacity), scale (shrink all addresses and places in proportion if they do not fit), remap (put the
    /// VMs' footprints next to each other; distances within a VM stay)
    #[arg(long, value_enum, default_value_t = MapArgument::Exact)]
    pub map: MapArgument,
    /// Print the figures of each VM as well
    #[arg(long)]
    pub per_vm: bool,
    /// How long VMs are measured for --per-vm and for fairness: until the first VM has no more arrivals, so that all
    /// are active, or until the last has none
    #[arg(long, value_enum, default_value_t = Until::First)]
    pub until: Until,
}
