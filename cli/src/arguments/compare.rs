//! The arguments of `iocast compare`.

use std::path::PathBuf;

use clap::Args;

use super::{MapArgument, Pacing, Reading, Stack, Stage, Window, Workloads};
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Compare {
    /// Traces, one per VM; `@SIZE` puts the VM's disk at that offset on the drive (web.parquet@64g)
    #[arg(value_name = "TRACE[@PLACE]", required_unless_present_any = ["vms", "workloads"])]
    pub traces: Vec<String>,
    /// Trace of a VM with the VM's name (web=web.blktrace, mail=mail.parquet@64g); repeatable
    #[arg(long = "vm", value_name = "NAME=TRACE[@PLACE]")]
    pub vms: Vec<String>,
    /// Schedulers with tunables (fifo,deadline:fifo_batch=8,cats), or `all`
    /// [default: fifo,sstf,cscan,deadline,cats; with --stack the schedulers of the stack]
    #[arg(long)]
    pub schedulers: Option<String>,
    #[command(flatten)]
    pub stack: Stack,
    #[command(flatten)]
    pub generated: Workloads,
    /// Drive with tunables (cheetah-15k4:cache=off), or the path of a drive profile
    #[arg(long, default_value = "cheetah-15k4")]
    pub drive: String,
    /// Scheduler that the others are compared with, one of --schedulers [default: deadline, if it is among them]
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
    /// Folder for the decision logs: one file per scheduler with each of its decisions
    #[arg(long, value_name = "FOLDER")]
    pub decision_log: Option<PathBuf>,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
