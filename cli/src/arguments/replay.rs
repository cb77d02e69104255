//! The arguments of `iocast replay`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use report::Size;

use super::picture::OUTPUTS;
use super::{Picture, Replaying, ReportFile};
use crate::output_format::OutputFormat;
use crate::replay::engines::EngineArgument;
use crate::replay::throttle::KRule;

/// The depth of a replay on a device without `--depth`: the device's own queue is the limit.
pub const DEVICE_QUEUE_DEPTH: u32 = 1024;

/// The options that no other program can be asked to follow.
const OF_OURS_ALONE: [&str; 18] = [
    "throttle",
    "scheduler",
    "output",
    "picture",
    "report",
    "figures",
    "seed",
    "backend",
    "on_error",
    "details",
    "depth",
    "write_depth",
    "look_ahead",
    "merge",
    "max_request",
    "max_queue",
    "per_vm",
    "until",
];

#[derive(Debug, Args)]
#[command(group = ArgGroup::new(OUTPUTS).multiple(true))]
pub struct Replay {
    /// Traces, one per VM; `@SIZE` puts the VM's disk at that offset on the device (web.parquet@64g)
    #[arg(value_name = "TRACE[@PLACE]")]
    pub traces: Vec<String>,
    /// Trace of a VM with the VM's name (web=web.blktrace, mail=mail.parquet@64g); repeatable
    #[arg(long = "vm", value_name = "NAME=TRACE[@PLACE]")]
    pub vms: Vec<String>,
    /// Block device or file to replay on, or null: requests complete at once, which measures this host alone
    #[arg(id = "target", long = "device", value_name = "PATH")]
    pub target: PathBuf,
    /// Send writes, flushes and discards as well. They destroy the data of the device. Without this option they are
    /// left out
    #[arg(long)]
    pub allow_writes: bool,
    /// Seed of the data that writes carry
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How requests are sent: io_uring, or threads that wait for one request each; auto takes threads if the kernel
    /// forbids io_uring
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// What to do when a request fails. A device that disappears always ends the replay
    #[arg(long, value_enum, default_value_t = OnErrorArgument::GoOn)]
    pub on_error: OnErrorArgument,
    /// Scheduler in front of the device, with tunables (cats, deadline:fifo_batch=8); it decides if --depth is small
    #[arg(long, value_name = "SCHEDULER", default_value = "none")]
    pub scheduler: String,
    /// Modelled disk whose times the device is held to: a drive of the model linear. Completions are held until the disk
    /// would have completed them, and all times are in the disk's scale
    #[arg(long, value_name = "DRIVE")]
    pub throttle: Option<String>,
    /// How many times slower than the modelled disk the device runs: a number; dynamic, which begins at 1 and rises with
    /// each completion that comes too late; or find, which looks for a stable number in runs of its own first
    #[arg(long, value_name = "K", default_value = "8", requires = "throttle")]
    pub k: KRule,
    /// Programs that replay the same requests one after another: iocast, fio, btreplay; arguments for one follow after
    /// `=` (fio=--ioengine=psync); repeatable. The kernel's events say what each did. Needs root and a block device
    #[arg(long = "engine", value_name = "PROGRAM", conflicts_with_all = OF_OURS_ALONE)]
    pub engines: Vec<EngineArgument>,
    #[command(flatten)]
    pub replaying: Replaying,
    /// Print all figures and settings
    #[arg(long)]
    pub details: bool,
    /// File for a trace of the replay, .parquet or .csv [default: none]
    #[arg(long, short, value_name = "FILE", group = OUTPUTS)]
    pub output: Option<PathBuf>,
    /// Beginning of the file names of a picture of the result (STEM.svg, STEM.png) [default: no picture]
    #[arg(long, value_name = "STEM", group = OUTPUTS)]
    pub picture: Option<PathBuf>,
    /// Width and height of the picture in pixels
    #[arg(long, value_name = "SIZE", default_value = "900x700", requires = "picture")]
    pub picture_size: Size,
    #[command(flatten)]
    pub report: ReportFile,
    /// Overwrite files that exist
    #[arg(long, requires = OUTPUTS)]
    pub force: bool,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

impl Replay {
    /// The picture of the result.
    pub fn picture(&self) -> Picture {
        Picture { output: self.picture.clone(), size: self.picture_size, force: self.force }
    }
}

/// How requests are sent to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Threads,
}

/// What happens when a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnErrorArgument {
    GoOn,
    Stop,
}

impl From<OnErrorArgument> for replay::live::OnError {
    fn from(argument: OnErrorArgument) -> replay::live::OnError {
        match argument {
            OnErrorArgument::GoOn => replay::live::OnError::GoOn,
            OnErrorArgument::Stop => replay::live::OnError::Stop,
        }
    }
}
