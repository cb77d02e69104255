//! The arguments of `iocast compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use replay::ActiveTime;

use super::{MapArgument, Pacing, Picture, Reading, Stack, Stage, Window, Workloads};
use crate::output_format::OutputFormat;

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
pub struct Compare {
    /// Traces, one per VM; `@SIZE` puts the VM's disk at that offset on the drive (web.parquet@64g)
    #[arg(value_name = "TRACE[@PLACE]")]
    pub traces: Vec<String>,
    /// Trace of a VM with the VM's name (web=web.blktrace, mail=mail.parquet@64g); repeatable
    #[arg(long = "vm", value_name = "NAME=TRACE[@PLACE]")]
    pub vms: Vec<String>,
    /// Schedulers with tunables (fifo,deadline:fifo_batch=8,cats), or `all`
    /// [default: the papers' fifo,sstf,cscan,deadline,cats on a Cheetah; Linux's none,mq-deadline,kyber,bfq on other
    /// drives; with --stack the schedulers of the stack]
    #[arg(long)]
    pub schedulers: Option<String>,
    #[command(flatten)]
    pub stack: Stack,
    #[command(flatten)]
    pub generated: Workloads,
    /// Drive with tunables (cheetah-15k4:cache=off), or the path of a drive profile; repeatable: each drive gets its
    /// own columns of the result
    #[arg(long = "drive", value_name = "DRIVE", default_value = "cheetah-15k4")]
    pub drives: Vec<String>,
    /// Scheduler that the others are compared with, one of --schedulers [default: deadline or mq-deadline, if it is
    /// among them]
    #[arg(long)]
    pub baseline: Option<String>,
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
    /// How the trace's addresses are mapped to the drive: exact (an address beyond the drive is an error), wrap (modulo
    /// the drive capacity), scale (shrink all addresses and places in proportion if they do not fit), remap (put the
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
    /// Print all figures and settings
    #[arg(long)]
    pub details: bool,
    #[command(flatten)]
    pub picture: Picture,
    /// Folder for the decision logs: one file per scheduler with each of its decisions
    #[arg(long, value_name = "FOLDER")]
    pub decision_log: Option<PathBuf>,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
