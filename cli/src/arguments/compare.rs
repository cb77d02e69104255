//! The arguments of `iocast compare`.

use std::path::PathBuf;

use clap::Args;

use super::picture::OUTPUTS;
use super::{Picture, Replaying, ReportFile, Stack, Workloads};
use crate::output_format::OutputFormat;

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
    pub replaying: Replaying,
    /// Print all figures and settings
    #[arg(long)]
    pub details: bool,
    /// Print the share of the requests that each rule of a scheduler sent; a rule that never ran is marked
    #[arg(long)]
    pub mechanisms: bool,
    #[command(flatten)]
    pub picture: Picture,
    #[command(flatten)]
    pub report: ReportFile,
    /// Keep what happened over time in the JSON result, so that `iocast report` can draw it
    #[arg(long)]
    pub history: bool,
    /// Show the figures so far while the replays run: a screen, or lines on standard error where there is no terminal
    #[arg(long)]
    pub watch: bool,
    /// Folder for the decision logs: one file per scheduler with each of its decisions
    #[arg(long, value_name = "FOLDER", group = OUTPUTS)]
    pub decision_log: Option<PathBuf>,
    /// Parquet file with a row per request and scheduler: its times, response time, VM, process, operation, address
    /// (docs/notebooks.md). `iocast report --table` makes tables of it
    #[arg(long, value_name = "FILE.parquet", group = OUTPUTS)]
    pub per_request: Option<PathBuf>,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
