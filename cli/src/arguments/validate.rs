//! The arguments of `iocast validate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::capture::LabFolders;
use super::reading::parse_percent;
use super::{FreePacing, OnlyReport, Reading};
use crate::output_format::OutputFormat;
use crate::validate::split::PARTS;

/// Differing decisions that are shown without `--misses`.
pub const MISSES: usize = 20;

#[derive(Debug, Args)]
pub struct Validate {
    #[command(subcommand)]
    pub what: ValidateWhat,
}

#[derive(Debug, Subcommand)]
pub enum ValidateWhat {
    /// Compare a closed replay of a trace with the recorded run
    ///
    /// A closed replay on the drive of the recording should reproduce throughput, times and queue lengths. `--drive
    /// fit` makes that drive from the times of half of the trace's requests (the empirical model of `iocast
    /// calibrate`).
    Closed(ValidateClosed),
    /// Compare forecasts of VMs that share a device with measurements, in a lab or in synthetic setups
    ///
    /// Each predictor sees the traces of the VMs alone. Its forecast is compared with the traces of the VMs together,
    /// of the same repetition: rates and mean response times (D2C) of every VM, after the warm-up. With --replayed,
    /// iocast draws VMs at random and replays them alone and together in synthetic setups. Predictors see only the
    /// traces that a recorder above the setup's scheduler would make.
    Consolidation(ValidateConsolidation),
    /// Compare captures replayed on another device with what the same VMs did there
    ///
    /// The labs have the same VMs, each alone, on different drives, disks or schedulers. The capture of each VM in each
    /// lab is replayed closed on the drive and under the scheduler of each other lab, and compared with its capture
    /// there: rates, response times, the queue and the requests at the disk.
    Cross(ValidateCross),
    /// Compare a scheduler's decisions with those in a capture, request by request
    ///
    /// The capture holds the events block_rq_insert, block_rq_issue and block_rq_complete of one device, as text of the
    /// kernel's tracing or as blktrace's I, D and C. iocast counts decisions among at least two waiting requests. After
    /// a decision that differs, the comparison continues from the capture's decision.
    Decisions(ValidateDecisions),
    /// Compare a drive model's times with those of a real drive
    ///
    /// The trace holds one request at a time with its issue and completion, such as DiskSim's validation traces. The
    /// drive model serves it twice: closed loop, which compares the distributions of service times, and at the recorded
    /// times, which compares request by request. The second run fits one rotation period and one phase to the trace
    /// itself.
    Drive(ValidateDrive),
    /// Compare real schedulers in guests with ours in simulation: rank and ratios, on the same drive
    ///
    /// VMs under QEMU run a lab's plan (`iocast capture lab`), each alone, under each scheduler of their kernel. One
    /// further run under the first scheduler is captured and replayed closed under ours, on the same drive. Its
    /// simulated figures are compared with the measured means and their 95 % intervals over repetitions. Two
    /// schedulers have a measured order if their intervals do not overlap.
    Guest(ValidateGuest),
    /// Check what every scheduler promises, on one of ours or of yours
    ///
    /// Random calls insert, merge, cancel, send and complete requests. Each request must be sent once and none be kept
    /// for ever, capacity be respected, waits lie in the future, and the same calls have the same answers. If a promise
    /// is broken, iocast prints the fewest calls that show it and ends with code 3. Otherwise it prints how the time of
    /// a decision grows with the number of waiting requests.
    Scheduler(ValidateScheduler),
}

#[derive(Debug, Args)]
pub struct ValidateScheduler {
    /// Scheduler with tunables (mq-deadline:fifo_batch=1, plugin:./libmine.so)
    pub scheduler: String,
    /// Number of random sequences of calls, each of up to 250
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub sequences: u64,
    /// Seed of the first sequence; the others have the seeds that follow
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub report: OnlyReport,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateClosed {
    /// Trace with completion times
    pub input: PathBuf,
    /// Drive with tunables, path of a drive profile, or `fit` for a drive that is fitted to half of the trace's
    /// requests. Addresses beyond its end are taken modulo its capacity
    #[arg(long, default_value = "fit")]
    pub drive: String,
    /// Scheduler with tunables
    #[arg(long, default_value = "none")]
    pub scheduler: String,
    /// Most requests in flight at the drive [default: for a fitted drive the most in the trace, otherwise as many as the
    /// drive's queue holds, as in `iocast compare`]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    #[command(flatten)]
    pub reading: Reading,
    /// Seed of the choice of the half to which the drive is fitted
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of streams to print
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub top: usize,
    #[command(flatten)]
    pub report: OnlyReport,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateCross {
    /// Folders of results that `iocast capture lab` wrote
    #[arg(value_name = "LAB", num_args = 2.., required_unless_present = "synthetic", conflicts_with = "synthetic")]
    pub labs: Vec<PathBuf>,
    /// Use simulated guests instead of labs: VMs drawn at random, alone on each of six devices
    #[arg(long)]
    pub synthetic: bool,
    /// Seed of the random VMs
    #[arg(long, default_value_t = 1, requires = "synthetic")]
    pub seed: u64,
    /// Number of random VMs
    #[arg(long, default_value_t = 10, requires = "synthetic", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub vms: u16,
    /// File that splits workloads and drives (the labs' folders) into train, validation and test
    #[arg(long, value_name = "FILE.toml", requires = "part")]
    pub split: Option<PathBuf>,
    /// The part of the split to run
    #[arg(long, requires = "split", value_parser = PARTS)]
    pub part: Option<String>,
    #[command(flatten)]
    pub report: OnlyReport,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateConsolidation {
    /// Folder of results that `iocast capture lab` wrote
    #[arg(value_name = "FOLDER", required_unless_present = "replayed", conflicts_with = "replayed")]
    pub lab: Option<PathBuf>,
    /// Use synthetic setups instead of a lab: VMs drawn at random, replayed alone and together
    #[arg(long)]
    pub replayed: bool,
    /// File that splits workloads and drives (the lab's folder) into train, validation and test
    #[arg(long, value_name = "FILE.toml", requires = "part", conflicts_with = "replayed")]
    pub split: Option<PathBuf>,
    /// The part of the split whose groups are forecast; VMs of the other parts alone still tell about the device
    #[arg(long, requires = "split", value_parser = PARTS)]
    pub part: Option<String>,
    /// Seed of the random VMs
    #[arg(long, default_value_t = 1, requires = "replayed")]
    pub seed: u64,
    /// Number of VMs per synthetic setup; all pairs and five triples of them run together
    #[arg(long, default_value_t = 6, requires = "replayed", value_parser = clap::value_parser!(u16).range(2..=256))]
    pub vms: u16,
    /// Predictors with tunables (casale:found=own,hol), or `all`. The twin learns the device from the traces of all VMs
    /// alone; `twin:device=own` learns it only from the VMs of a group
    #[arg(long, default_value = "all")]
    pub predictors: String,
    #[command(flatten)]
    pub report: OnlyReport,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateDrive {
    /// Drive with tunables (cheetah-15k5): a profile, a model or the path of a profile
    pub drive: String,
    /// Trace: a file, or `-` for standard input
    pub input: PathBuf,
    /// CSV file to write, with the measured and the modelled time of every request
    #[arg(long, value_name = "FILE")]
    pub requests: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub report: OnlyReport,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateDecisions {
    /// Capture: a file, the common beginning (stem) of its file names, or `-` for standard input
    pub input: PathBuf,
    /// Scheduler with tunables (mq-deadline, kyber:read_lat_nsec=1ms) [default for its tunables: those of
    /// STEM.queue.json, which `iocast capture decisions` records]
    #[arg(long)]
    pub scheduler: String,
    /// Let the scheduler run freely on the same arrivals and service times, and compare throughput and response times.
    /// Without this option, iocast corrects the scheduler at each decision that differs
    #[arg(long)]
    pub free: bool,
    /// When requests arrive with --free: closed (each waits as long after the completions of its process as in the
    /// capture) or recorded (at the times of the capture)
    #[arg(long, value_enum, default_value_t = FreePacing::Closed, requires = "free")]
    pub pacing: FreePacing,
    /// End with code 3 if a smaller share of the decisions agrees
    #[arg(long, value_parser = parse_percent, value_name = "PERCENT", conflicts_with = "free")]
    pub min_agreement: Option<f64>,
    #[command(flatten)]
    pub reading: Reading,
    /// Number of differing decisions to print in the table (JSON holds all)
    #[arg(long, default_value_t = MISSES, value_name = "N")]
    pub misses: usize,
    #[command(flatten)]
    pub report: OnlyReport,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateGuest {
    /// Lab plan with two or more repetitions, whose runs are made; or the folder of runs that were made before
    #[arg(value_name = "PLAN.toml|FOLDER")]
    pub input: PathBuf,
    /// Schedulers of the guests' kernel. The first is that of the replayed capture, to which ratios refer [default:
    /// none,mq-deadline,bfq,kyber; of a folder, those that it has]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub schedulers: Option<Vec<String>>,
    /// How long the workload of the captured run lasts. A process that is faster in simulation needs more requests
    /// than it sent in the other runs [default: twice the plan's seconds]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub capture_seconds: Option<u32>,
    #[command(flatten)]
    pub folders: LabFolders,
    #[command(flatten)]
    pub report: OnlyReport,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
