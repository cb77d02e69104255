//! The command line, as clap sees it.

mod calibrate;
pub mod capture;
mod pacing;
mod place;
mod predict;
mod reading;
mod reproduce;
mod serve;
mod stack;
mod stage;
mod workloads;

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use traces::Nanos;
use traces::quantity::parse_nanos;
use traces::results::statistics::STAGES;

pub use calibrate::{Calibrate, DriveCache};
pub use capture::{Capture, DigestsArgument, Engine, Iscsi, Lab, Scrub};
pub use pacing::{FreePacing, MapArgument, Pacing};
pub use place::Place;
pub use predict::Predict;
pub use reading::{Reading, Window};
pub use reproduce::Reproduce;
pub use serve::{Serve, ServeMap, ServeVmBy, Urgency};
pub use stack::Stack;
pub use stage::{Stage, Switch};
pub use workloads::Workloads;

use crate::output_format::OutputFormat;
use crate::papers::papers;

/// Trace-driven replay and benchmarking for block I/O.
#[derive(Debug, Parser)]
#[command(name = "iocast", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The command line with the short names that make sense of one command only: `--from` is a
    /// time where a trace is replayed and a format where one is converted or measured.
    pub fn parse_arguments() -> Cli {
        let also = |argument: &'static str, name: &'static str| {
            move |command: clap::Command| command.mut_arg(argument, |argument| argument.visible_alias(name))
        };
        let command = Cli::command()
            .mut_subcommand("calibrate", |command| command.mut_arg("device", of_calibrate))
            .mut_subcommand("compare", also("start", "from"))
            .mut_subcommand("compare", also("end", "to"))
            .mut_subcommand("convert", also("input_format", "from"))
            .mut_subcommand("predict", also("input_format", "from"))
            .mut_subcommand("reproduce", |command| command.override_usage(usage_of_reproduce()))
            .mut_subcommand("stat", also("input_format", "from"))
            .mut_subcommand("stat", |command| command.after_help(stages()));
        Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure a device, a file or a trace and fit drive models to it: profiles, a picture, goodness of fit
    ///
    /// Reads random pages past the page cache (O_DIRECT) and never writes to the device. Half of the reads are fitted, the
    /// other half judges. linear: a + b·d/D as Geist et al. 2010 fit it. mechanical: period, tracks, skews, overhead and
    /// seeks by further reads at chosen places and times; needs a device. fixed: the mean. A device whose times do not
    /// depend on distance is told so, and gets no line.
    Calibrate(Calibrate),
    /// Record live I/O: a device, iSCSI on the wire, what a scheduler decides, virtual machines in a lab
    #[command(subcommand)]
    Capture(Capture),
    /// Replay traces, or run generated workloads, under several schedulers and print their figures side by side
    Compare(Compare),
    /// Read a trace in any format and write it in another: Parquet, CSV, or what replay programs read
    Convert(Convert),
    /// Find out which virtual machines to put on which LUN, within limits, and confirm it by replay
    ///
    /// Each machine's capture is replayed alone on each kind of LUN; a predictor forecasts machines together; best fit and local search find
    /// the assignment that keeps the limits and in which machines get least slower; the best is replayed. Says which limit binds and who
    /// disturbs whom.
    Place(Place),
    /// Say what virtual machines will get of a device that they share, from a capture of each alone
    ///
    /// Rates, mean response times (D2C: from issue to completion at the device), and the mix of reads and writes, by every
    /// predictor (`iocast list predictors`), baselines among them. A predictor that does not hold for these machines says why.
    Predict(Predict),
    /// Regenerate a paper's tables and figures and set its numbers beside ours
    ///
    /// Each seed makes its own replays; ours is the mean over the seeds with the 95 % confidence interval (Student's t).
    /// Groups of numbers have bars that their mean error is to stay below. What the paper leaves open was chosen once;
    /// the alternatives show what other choices would have given.
    Reproduce(Reproduce),
    /// Serve a modelled drive over NBD: data at full speed, replies at the model's times
    ///
    /// nbdkit does the talking. Serves until it is stopped (SIGINT, SIGTERM) and then completes its log and prints how
    /// late replies were.
    Serve(Serve),
    /// Measure a trace: times between stages, queues, seeks, sizes, by whom
    Stat(Stat),
    /// Hold schedulers against what the real ones did
    Validate(Validate),
    /// List schedulers, drives, trace formats, stacks, predictors or workloads with their tunables, or the papers that are
    /// regenerated
    List(List),
}

#[derive(Debug, Args)]
pub struct Compare {
    /// Traces, one per VM; `@SIZE` behind one is its place on the drive (web.parquet@64g)
    #[arg(value_name = "TRACE[@PLACE]", required_unless_present_any = ["vms", "workloads"])]
    pub traces: Vec<String>,
    /// A VM by name and its trace (web=web.blktrace, mail=mail.parquet@64g)
    #[arg(long = "vm", value_name = "NAME=TRACE[@PLACE]")]
    pub vms: Vec<String>,
    /// Schedulers with tunables (fifo,deadline:fifo_batch=8,cats), or `all`
    /// [default: fifo,sstf,cscan,deadline,cats; with --stack those of the stack]
    #[arg(long)]
    pub schedulers: Option<String>,
    #[command(flatten)]
    pub stack: Stack,
    #[command(flatten)]
    pub generated: Workloads,
    /// Drive with tunables (cheetah-15k4:cache=off), or the path of a profile
    #[arg(long, default_value = "cheetah-15k4")]
    pub drive: String,
    /// The scheduler that the others are set against, one of --schedulers [default: deadline, if it is]
    #[arg(long)]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub window: Window,
    #[command(flatten)]
    pub stage: Stage,
    /// When requests arrive: recorded, scaled=F (0.5 is twice as fast), asap or asap=N (N outstanding),
    /// closed (each stream keeps its recorded think times)
    #[arg(long, default_value = "recorded")]
    pub pacing: Pacing,
    /// How addresses come onto the drive: exact (beyond it is an error), wrap (modulo the capacity),
    /// scale (shrink in proportion if needed, places too), remap (pack each VM's footprint, distances kept)
    #[arg(long, value_enum, default_value_t = MapArgument::Exact)]
    pub map: MapArgument,
    /// Figures of each VM as well
    #[arg(long)]
    pub per_vm: bool,
    /// A folder for a file per scheduler with each of its decisions
    #[arg(long, value_name = "FOLDER")]
    pub decision_log: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct Convert {
    /// The trace, `-` for standard input
    pub input: PathBuf,
    /// The file to write, `-` for standard output (text formats)
    pub output: PathBuf,
    /// Its format, instead of that of its ending (see `iocast list formats`) [default: parquet without an ending]
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<String>,
    /// Leave out and count requests that the format cannot express, instead of failing at them
    #[arg(long)]
    pub lossy: bool,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub window: Window,
    /// Put the times onto the clock of this trace, another record of the same run (a guest's and the wire's): requests are
    /// matched by address, length and operation; prints offset, drift and residuals
    #[arg(long, value_name = "REFERENCE")]
    pub align: Option<PathBuf>,
    /// How to print what --align found
    #[arg(long, value_enum, default_value_t = OutputFormat::Table, requires = "align")]
    pub output_format: OutputFormat,
    /// Name the trace's VM
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// Replace process, cgroup, VM and host names by ones made from this secret
    #[arg(long, value_name = "KEY")]
    pub anonymise: Option<String>,
    /// Shift and permute regions of the address space as well
    #[arg(long, requires = "anonymise")]
    pub anonymise_lba: bool,
    /// Record where the trace comes from (repeatable: host=lab-3, kernel=6.1)
    #[arg(long, value_name = "KEY=VALUE")]
    pub provenance: Vec<String>,
    /// Overwrite the output if it exists
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Stat {
    /// The trace: a file, the stem of a capture, `-` for standard input
    pub input: PathBuf,
    #[command(flatten)]
    pub reading: Reading,
    /// A Parquet file to write with a row per interval: requests, bytes, times, queues
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// The length of an interval of --series
    #[arg(long, value_parser = parse_nanos, default_value = "1s", value_name = "TIME")]
    pub interval: Nanos,
    /// How many processes, cgroups and VMs to print
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub top: usize,
    /// Compute the SHA-256 of the trace's files
    #[arg(long)]
    pub digest: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct Validate {
    #[command(subcommand)]
    pub what: ValidateWhat,
}

#[derive(Debug, Subcommand)]
pub enum ValidateWhat {
    /// Replay a trace closed and compare with the run that it is a record of
    ///
    /// On the drive it was recorded on, a closed replay should come out as recorded: throughput, times, queues. `--drive
    /// fit` makes that drive of the times of half of the trace's requests (the empirical model of `iocast calibrate`).
    Closed(ValidateClosed),
    /// Compare forecasts of machines together with what they got in a lab, or in machine rooms
    ///
    /// Each predictor sees the captures of the machines alone, and is held against their captures together, of the same
    /// repetition: rates and mean response times (D2C) of every machine, after the warm-up. With --replayed the machines are drawn
    /// at random and replayed alone and together in rooms of which predictors see nothing but the captures at their doors.
    Consolidation(ValidateConsolidation),
    /// Compare a scheduler's choices with those that a capture holds, request by request
    ///
    /// The capture holds the events block_rq_insert, block_rq_issue and block_rq_complete of one device, as text of the
    /// kernel's tracing or as blktrace's I, D and C. Counted are decisions among at least two waiting requests; after
    /// one that differs the comparison goes on from the capture's choice.
    Decisions(ValidateDecisions),
    /// Compare a drive model with the times that a real drive took
    ///
    /// The trace holds one request at a time with its issue and completion, such as DiskSim's validation traces. The
    /// drive serves it closed loop, which compares the distributions of service times, and on the measured time line,
    /// which compares request by request; there one turn and one phase are fitted on the trace itself.
    Drive(ValidateDrive),
}

#[derive(Debug, Args)]
pub struct ValidateClosed {
    /// The trace, with completion times
    pub input: PathBuf,
    /// The drive with tunables, the path of a profile, or `fit`: fitted to half of the trace's requests. Addresses
    /// beyond its end are taken modulo its capacity
    #[arg(long, default_value = "fit")]
    pub drive: String,
    /// The scheduler with tunables
    #[arg(long, default_value = "none")]
    pub scheduler: String,
    /// Requests in flight at the drive [default: the most the trace has there, for a drive that is fitted; otherwise 32]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    #[command(flatten)]
    pub reading: Reading,
    /// Seed of the half that is fitted
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many streams to show
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub top: usize,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateConsolidation {
    /// The folder that `iocast capture lab` left
    #[arg(value_name = "FOLDER", required_unless_present = "replayed", conflicts_with = "replayed")]
    pub lab: Option<PathBuf>,
    /// Machines drawn at random, replayed alone and together in machine rooms that predictors know nothing of, in place of a lab's
    #[arg(long)]
    pub replayed: bool,
    /// Seed of the machines that are drawn
    #[arg(long, default_value_t = 1, requires = "replayed")]
    pub seed: u64,
    /// Machines of each room, of which all pairs and five triples run together
    #[arg(long, default_value_t = 6, requires = "replayed", value_parser = clap::value_parser!(u16).range(2..=256))]
    pub machines: u16,
    /// Predictors with tunables (casale:found=own,hol), or `all`; the twin learns the device from every machine's capture alone,
    /// `twin:device=own` from those of a group's own machines
    #[arg(long, default_value = "all")]
    pub predictors: String,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateDrive {
    /// The drive: a profile, a model or the path of a profile, with tunables (cheetah-15k5)
    pub drive: String,
    /// The trace: a file, `-` for standard input
    pub input: PathBuf,
    /// Write the measured and the modelled time of every request to this CSV file
    #[arg(long, value_name = "FILE")]
    pub requests: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct ValidateDecisions {
    /// The capture: a file, the stem of a capture, `-` for standard input
    pub input: PathBuf,
    /// The scheduler with tunables (mq-deadline, kyber:read_lat_nsec=1ms)
    #[arg(long)]
    pub scheduler: String,
    /// Let the scheduler run on the same arrivals and service times instead of correcting it at each
    /// decision, and compare throughput and response times
    #[arg(long)]
    pub free: bool,
    /// With --free, when requests arrive: closed (as long after the completions of their process as they
    /// were inserted in the capture) or recorded (when they were)
    #[arg(long, value_enum, default_value_t = FreePacing::Closed, requires = "free")]
    pub pacing: FreePacing,
    #[command(flatten)]
    pub reading: Reading,
    /// How many of the misses to print as a table (JSON holds all)
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub misses: usize,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Debug, Args)]
pub struct List {
    /// What to list
    #[arg(value_enum)]
    pub what: ListWhat,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListWhat {
    Schedulers,
    Drives,
    Formats,
    Stacks,
    Predictors,
    Papers,
    Workloads,
}

/// `--device` where a device is measured.
fn of_calibrate(argument: clap::Arg) -> clap::Arg {
    argument
        .value_name("PATH")
        .help("The block device or file to measure; with a TRACE, only the requests of its device of this name")
}

/// With the papers' names, so that whoever leaves the paper out reads them.
fn usage_of_reproduce() -> String {
    let names: Vec<&str> = papers().map(|paper| paper.name).collect();
    format!("iocast reproduce [OPTIONS] <{}>", names.join("|"))
}

/// What the rows of `iocast stat`'s table of times are.
fn stages() -> String {
    let rows = STAGES.iter().map(|(name, what)| {
        let name = if *name == "device_time" { "DEV".to_owned() } else { name.to_uppercase() };
        format!("  {name:8}{what}\n")
    });
    let rest = "Letters are blktrace's: Q queued (arrival), G request allocated, M merged, I given to the\n\
                scheduler, D issued to the device, C completed. What a trace does not tell is left out.";
    format!("Times between stages:\n{}{rest}", rows.collect::<String>())
}
