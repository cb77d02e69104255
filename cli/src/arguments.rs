//! The command line, as clap sees it.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use replay::sources::{Mapping, TimeWindow};
use traces::quantity::{Fraction, parse_bytes, parse_nanos, parse_sectors};
use traces::results::statistics::STAGES;
use traces::trace::{ArrivalPoint, TimeUnit, UnitOverrides};
use traces::{Layer, Nanos, Operation, Sectors};

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
            .mut_subcommand("compare", also("start", "from"))
            .mut_subcommand("compare", also("end", "to"))
            .mut_subcommand("convert", also("input_format", "from"))
            .mut_subcommand("stat", also("input_format", "from"))
            .mut_subcommand("stat", |command| command.after_help(stages()));
        Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay traces under several schedulers and print their figures side by side
    Compare(Compare),
    /// Read a trace in any format and write it in another: Parquet, CSV, or what replay programs read
    Convert(Convert),
    /// Measure a trace: times between stages, queues, seeks, sizes, by whom
    Stat(Stat),
    /// Hold schedulers against what the real ones did
    Validate(Validate),
    /// List schedulers, drives or trace formats with their tunables
    List(List),
}

/// Something on the command line that cannot be; the program ends with code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    pub fn from_display(error: impl std::fmt::Display) -> anyhow::Error {
        UsageError(error.to_string()).into()
    }
}

#[derive(Debug, Args)]
pub struct Compare {
    /// Traces, one per VM; `@SIZE` behind one is its place on the drive (web.parquet@64g)
    #[arg(value_name = "TRACE[@PLACE]", required_unless_present = "vms")]
    pub traces: Vec<String>,
    /// A VM by name and its trace (web=web.blktrace, mail=mail.parquet@64g)
    #[arg(long = "vm", value_name = "NAME=TRACE[@PLACE]")]
    pub vms: Vec<String>,
    /// Schedulers with tunables (fifo,deadline:fifo_batch=8,cats), or `all`
    #[arg(long, default_value = "fifo,sstf,cscan,deadline,cats")]
    pub schedulers: String,
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

/// How traces are read.
#[derive(Clone, Debug, Args)]
pub struct Reading {
    /// Which event is the arrival, in formats that hold several: queued (blktrace Q) or issued (D)
    #[arg(long, value_enum, default_value_t = At::Queued)]
    pub at: At,
    /// The traces' format, instead of recognising it (see `iocast list formats`)
    #[arg(long, value_name = "FORMAT")]
    pub input_format: Option<String>,
    /// Only the requests of this device (volume, disk, file), of a trace that holds several
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// The operation of every request, for a format that does not tell
    #[arg(long, value_enum, value_name = "OPERATION")]
    pub op: Option<Op>,
    /// The unit of times, instead of the format's own
    #[arg(long, value_parser = parse_time_unit, value_name = "s|ms|us|100ns|ns")]
    pub time_unit: Option<TimeUnit>,
    /// The unit of addresses, instead of the format's own: bytes, sectors (512 bytes) or a block's size (4k)
    #[arg(long, value_parser = parse_data_unit, value_name = "bytes|sectors|SIZE")]
    pub address_unit: Option<u32>,
    /// The unit of lengths, instead of the format's own
    #[arg(long, value_parser = parse_data_unit, value_name = "bytes|sectors|SIZE")]
    pub length_unit: Option<u32>,
    /// Where the traces were taken, instead of the format's usual layer
    #[arg(long, value_parser = parse_layer, value_name = "guest-queue|guest-issued|hypervisor|wire")]
    pub layer: Option<Layer>,
    /// Count and skip what is malformed or lost instead of failing at it
    #[arg(long)]
    pub lenient: bool,
}

impl Reading {
    pub fn options(&self) -> traces::trace::ReadOptions {
        traces::trace::ReadOptions {
            lenient: self.lenient,
            arrivals: match self.at {
                At::Queued => ArrivalPoint::Queued,
                At::Issued => ArrivalPoint::Issued,
            },
            layer: self.layer,
            format: self.input_format.clone(),
            device: self.device.clone(),
            operation: self.op.map(Op::operation),
            units: UnitOverrides {
                time: self.time_unit,
                address_bytes: self.address_unit,
                length_bytes: self.length_unit,
            },
        }
    }
}

/// Which part of a trace.
#[derive(Clone, Copy, Debug, Args)]
pub struct Window {
    /// Leave out arrivals earlier than this after a trace's first (10s, 2min)
    #[arg(long, value_parser = parse_nanos, default_value = "0", value_name = "TIME")]
    pub start: Nanos,
    /// Leave out arrivals at this time after a trace's first, and later
    #[arg(long, value_parser = parse_nanos, value_name = "TIME")]
    pub end: Option<Nanos>,
    /// At most so many requests, over all traces
    #[arg(long, value_name = "REQUESTS")]
    pub limit: Option<u64>,
}

impl Window {
    pub fn checked(self) -> Result<TimeWindow, UsageError> {
        if self.end.is_some_and(|end| end <= self.start) {
            return Err(UsageError("--end must be later than --start".to_owned()));
        }
        Ok(TimeWindow { from: self.start, to: self.end, limit: self.limit })
    }
}

/// What is around the scheduler.
#[derive(Clone, Copy, Debug, Args)]
pub struct Stage {
    /// Requests in flight at the drive
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: u32,
    /// How many of them may be writes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "DEPTH")]
    pub write_depth: Option<u32>,
    /// Whether the next request leaves the scheduler before the drive has room for it, as in Linux
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1), value_name = "0|1")]
    pub look_ahead: u8,
    /// Whether adjacent waiting requests are merged
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub merge: Switch,
    /// The longest request that is made by merging; longer arrivals are split
    #[arg(long, value_parser = parse_request_size, default_value = "1280k", value_name = "SIZE")]
    pub max_request: Sectors,
    /// Outstanding requests at most; further arrivals are held back
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..10_000_000))]
    pub max_queue: u32,
}

impl Stage {
    pub fn limits(self) -> replay::Limits {
        replay::Limits {
            depth: self.depth,
            write_depth: self.write_depth.unwrap_or(u32::MAX),
            look_ahead: self.look_ahead == 1,
            merge: self.merge == Switch::On,
            max_sectors: self.max_request,
            ..replay::Limits::default()
        }
    }
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
pub struct ValidateDrive {
    /// The drive: a profile, a model or the path of a profile, with tunables (cheetah-15k5)
    pub drive: String,
    /// The trace: a file, `-` for standard input
    pub input: PathBuf,
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

/// When requests arrive again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FreePacing {
    Closed,
    Recorded,
}

impl From<FreePacing> for replay::Pacing {
    fn from(pacing: FreePacing) -> replay::Pacing {
        match pacing {
            FreePacing::Closed => replay::Pacing::Closed,
            FreePacing::Recorded => replay::Pacing::Recorded,
        }
    }
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    Table,
    Json,
    Markdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum At {
    Queued,
    Issued,
}

/// An operation that a trace may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Op {
    Read,
    Write,
}

impl Op {
    fn operation(self) -> Operation {
        match self {
            Op::Read => Operation::Read,
            Op::Write => Operation::Write,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

impl std::fmt::Display for MapArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value().expect("no variant is skipped");
        f.write_str(value.get_name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MapArgument {
    Exact,
    Wrap,
    Scale,
    Remap,
}

impl MapArgument {
    pub fn mapping(self) -> Mapping {
        match self {
            MapArgument::Exact => Mapping::Exact,
            MapArgument::Wrap => Mapping::Wrap,
            MapArgument::Scale => Mapping::Scale,
            MapArgument::Remap => Mapping::Remap,
        }
    }
}

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    Recorded,
    Scaled(Fraction),
    Asap(u32),
    Closed,
}

/// Outstanding requests of `--pacing asap` if no number is given.
const ASAP_OUTSTANDING: u32 = 32;

impl FromStr for Pacing {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Pacing, UsageError> {
        let unknown = || UsageError("expected recorded, scaled=F, asap, asap=N or closed".to_owned());
        match text.split_once('=') {
            None if text == "recorded" => Ok(Pacing::Recorded),
            None if text == "closed" => Ok(Pacing::Closed),
            None if text == "asap" => Ok(Pacing::Asap(ASAP_OUTSTANDING)),
            Some(("asap", n)) => n.parse().ok().filter(|&n| n > 0).map(Pacing::Asap).ok_or_else(unknown),
            Some(("scaled", factor)) => {
                factor.parse().map(Pacing::Scaled).map_err(|error| UsageError(format!("{error}")))
            }
            _ => Err(unknown()),
        }
    }
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

fn parse_layer(text: &str) -> Result<Layer, String> {
    Layer::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Layer::ALL.iter().map(|layer| layer.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn parse_time_unit(text: &str) -> Result<TimeUnit, String> {
    TimeUnit::ALL.into_iter().find(|unit| unit.name() == text).ok_or_else(|| {
        let names: Vec<&str> = TimeUnit::ALL.iter().map(|unit| unit.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// The bytes of a unit of addresses or lengths.
fn parse_data_unit(text: &str) -> Result<u32, String> {
    let bytes = match text {
        "bytes" => Some(1),
        "sectors" => Some(512),
        size => parse_bytes(size).ok().filter(|bytes| bytes.is_power_of_two() && *bytes >= 512),
    };
    bytes
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| "expected bytes, sectors, or the size of a block: a power of two from 512".to_owned())
}

fn parse_request_size(text: &str) -> Result<Sectors, String> {
    let sectors = parse_sectors(text).map_err(|error| error.to_string())?;
    if sectors == Sectors::ZERO || sectors > traces::Request::SECTORS_MAX {
        return Err("expected 512 bytes to 2 TiB".to_owned());
    }
    Ok(sectors)
}
