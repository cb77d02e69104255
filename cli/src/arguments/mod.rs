//! The command line, as clap sees it.

mod bench;
mod calibrate;
pub mod capture;
mod compare;
mod convert;
mod diff;
mod doctor;
#[cfg(test)]
mod documented;
mod examples;
mod kernel_scheduler;
mod list;
mod pacing;
mod picture;
mod place;
mod predict;
mod reading;
mod replay;
mod replaying;
mod report;
mod reproduce;
mod serve;
mod shell;
mod stack;
mod stage;
mod stat;
mod sweep;
mod tune;
mod validate;
mod workloads;

use std::borrow::Cow;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use traces::printable::printable;
use traces::results::statistics::STAGES;

pub use bench::{Bench, BenchInit, BenchWhat};
pub use calibrate::{Calibrate, CalibratePredictor, CalibrateQpn, DriveCache};
pub use capture::{Capture, DigestsArgument, Engine, Iscsi, Lab, Scrub};
pub use compare::Compare;
pub use convert::{CatalogDate, Convert};
pub use diff::Diff;
pub use doctor::Doctor;
pub use kernel_scheduler::{BuildKernelScheduler, KernelScheduler};
pub use list::{List, ListWhat};
pub use pacing::{FreePacing, MapArgument};
pub use picture::Picture;
pub use place::Place;
pub use predict::{Predict, Solver, Solving};
pub use reading::{Reading, Window};
pub use replay::{Backend, DEVICE_QUEUE_DEPTH, Replay};
pub use replaying::{Replaying, Until};
pub use report::{OnlyReport, Report, ReportFile, Table};
pub use reproduce::Reproduce;
pub use serve::{Serve, ServeMap, ServeVmBy, Urgency};
pub use shell::{Completions, Man};
pub use stack::Stack;
pub use stage::{Stage, Switch};
pub use stat::{Stat, TOP};
pub use sweep::{Shard, Sweep, SweepEngine, TaskEngine};
pub use tune::Tune;
pub use validate::{
    MISSES, Validate, ValidateClosed, ValidateConsolidation, ValidateCross, ValidateDecisions, ValidateDrive,
    ValidateGuest, ValidateScheduler, ValidateWhat,
};
pub use workloads::Workloads;

/// Forecast block I/O: capture and measure traces, replay them under several schedulers, and predict VMs that share a
/// device.
#[derive(Debug, Parser)]
#[command(name = "iocast", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Show no progress and no notes on standard error, only warnings and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl Cli {
    /// Parses the command line. Adds the short names that differ between subcommands: `--from` is a time where a trace
    /// is replayed, and a format where a trace is converted or measured.
    pub fn parse_arguments() -> Cli {
        let mut command = Cli::command_line();
        let matches = command.try_get_matches_from_mut(std::env::args_os()).unwrap_or_else(|error| refuse(&error));
        if let Some(problem) = without_effect(&command, &matches) {
            refuse(&command.error(ErrorKind::MissingRequiredArgument, problem));
        }
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| refuse(&error))
    }

    /// The command line, complete with what depends on the subcommand.
    pub fn command_line() -> clap::Command {
        let also = |argument: &'static str, name: &'static str| {
            move |command: clap::Command| command.mut_arg(argument, |argument| argument.visible_alias(name))
        };
        let command = Cli::command()
            .mut_subcommand("calibrate", |command| command.mut_arg("device", of_calibrate))
            .mut_subcommand("compare", also("start", "from"))
            .mut_subcommand("compare", also("end", "to"))
            .mut_subcommand("convert", also("input_format", "from"))
            .mut_subcommand("predict", also("input_format", "from"))
            .mut_subcommand("replay", |command| command.mut_arg("device", of_replay).mut_arg("depth", deep))
            .mut_subcommand("replay", also("start", "from"))
            .mut_subcommand("replay", also("end", "to"))
            .mut_subcommand("reproduce", |command| command.override_usage(usage_of_reproduce()))
            .mut_subcommand("stat", also("input_format", "from"))
            .mut_subcommand("stat", |command| command.after_help(stages()));
        examples::explained(command)
    }
}

/// Ends the program with help or an error of the command line, in colour where standard error is a terminal. An error
/// that quotes an argument with characters that a terminal obeys or hides is printed with escapes and without colour.
fn refuse(error: &clap::Error) -> ! {
    // The text with colours cannot be asked: they are such characters themselves.
    let is_unsafe = |argument: std::ffi::OsString| matches!(printable(&argument.to_string_lossy()), Cow::Owned(_));
    if error.use_stderr() && std::env::args_os().any(is_unsafe) {
        eprintln!("{}", error.to_string().trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Options of subcommands that have an effect only with one of others. Their defaults count as not given, which the
/// parser's own requirements do not see.
const ONLY_WITH: &[(&[&str], &[&str], &[&str])] = &[
    (&["compare"], &["seed", "guest-capacity", "guest-cache", "guest-journal"], &["workload"]),
    (&["compare"], &["interval"], &["series", "stack"]),
    (&["compare"], &["until"], &["per-vm", "series", "stack"]),
    (&["predict"], &["solver", "precision", "events", "seed", "draw"], &["solve"]),
    (&["predict"], &["force"], &["output", "draw", "report", "figures"]),
    (&["replay"], &["until"], &["per-vm"]),
    (&["compare", "place"], &["size"], &["output"]),
    (&["stat"], &["interval"], &["series"]),
];

/// Names an option on the command line that has no effect there.
fn without_effect(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let (name, matches) = matches.subcommand()?;
    let subcommand = command.find_subcommand(name)?;
    let is_given = |option: &&str| {
        let argument = subcommand.get_arguments().find(|argument| argument.get_long() == Some(*option));
        argument.is_some_and(|of| matches.value_source(of.get_id().as_str()) == Some(ValueSource::CommandLine))
    };
    ONLY_WITH.iter().filter(|(of, ..)| of.contains(&name)).find_map(|(_, options, others)| {
        let given = options.iter().find(|option| is_given(option))?;
        let others = (!others.iter().any(is_given)).then(|| others.join(" or --"))?;
        Some(format!("--{given} has no effect without --{others}"))
    })
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record live I/O: a block device, iSCSI on the wire, a scheduler's decisions, or VMs in a lab
    #[command(subcommand)]
    Capture(Capture),
    /// Convert a trace of any format to Parquet, CSV or the format of a replay program
    Convert(Convert),
    /// Measure a trace: times between stages, queue lengths, seek distances, sizes, and shares of processes and VMs
    Stat(Stat),
    /// Replay traces or run simulated guests under several schedulers, and compare the results
    Compare(Compare),
    /// Show what changed between two results of compare, replay, predict, stat or reproduce
    ///
    /// Every figure of the earlier result stands beside that of the later one. The results must be of the same
    /// subcommand and of the same traces, by their checksums; those of compare and replay may stand beside each other.
    /// Options and drives that differ are listed. Exit code 3: a figure changed by more than --threshold.
    ///
    /// A file for --threshold has a `default` and any number of tables `[[figures]]`, each with a `figure` and a
    /// `threshold`. A figure is named by the end of its key in the result, as the tables show it. A star stands for any
    /// text. The last that fits holds.
    Diff(Diff),
    /// Make a benchmark of a scheduler of your own
    Bench(Bench),
    /// Replay traces on a real device or file, and report how faithful the replay was
    ///
    /// Requests go past the page cache (O_DIRECT, io_uring). Nothing but reads is sent without --allow-writes. A device
    /// that is mounted, held, in use for swap or partitioned is refused. The result has the figures of `iocast
    /// compare`, how late requests were sent, and the recorded response times beside the new ones. A scheduler of
    /// iocast may stand in front of the device (--scheduler cats --depth 1). SIGINT ends the replay with the results so
    /// far.
    Replay(Replay),
    /// Forecast the throughput and response times of VMs that share a device, from a trace of each alone
    ///
    /// The forecast states rates, mean response times (D2C: from issue to completion at the device) and the mix of
    /// reads and writes. Every predictor makes one (`iocast list predictors`), simple baselines included. A predictor
    /// whose assumptions these VMs violate says so instead. With --solve it solves a queueing Petri net instead.
    Predict(Predict),
    /// Find an assignment of VMs to LUNs that keeps given limits, and confirm it by replay
    ///
    /// First, iocast replays the trace of each VM alone on each kind of LUN. Groups of VMs that share a LUN are then
    /// replayed on its drive, or simulated by the twin where no LUN has a drive, or forecast by the plan's predictor.
    /// Best fit and local search look for the assignment that keeps all limits and slows the VMs down least. Finally,
    /// iocast replays that assignment. The result names the tightest limit and shows how much the VMs slow each other
    /// down. Exit code 3: limits are broken.
    Place(Place),
    /// Replay many traces under many schedulers on many drives, as a plan says: on all cores, in shards, or on Spark
    ///
    /// The plan expands to tasks, each a replay of `iocast compare`: one scheduler, one drive, one trace or two VMs that
    /// share the drive. Each task gets a row of results with its figures, histograms, checksums and settings. A task that
    /// fails by its input gets a row with an error, and the sweep goes on. A sweep that was killed goes on where it was.
    /// The results are the same bytes for any number of threads and shards, and on Spark.
    Sweep(Sweep),
    /// Find the tunables of a scheduler that suit traces best, on a modelled drive, and prove them on other traces
    ///
    /// Say what should get better (--for p99_read), and how much worse something else may get (--limit throughput=-2%).
    /// Both count from the scheduler as given. iocast draws candidates, which differ in their tunables. It replays all of
    /// them on short windows of the traces, the best third of them on windows three times as long, and so on. The last
    /// candidates run on whole traces. The best is then replayed beside the scheduler as given on traces that no
    /// candidate has seen. The result has the tunables to set, and what they gain there with an interval. It says whether
    /// the limits hold, and what each tunable matters.
    ///
    /// Each round is a sweep in a folder below --out. A run that was killed goes on where it was when the command is
    /// repeated. The result is the same bytes for any number of threads, and on Spark. docs/scale.md says more.
    /// Exit code 3: limits are broken on the held-out traces.
    Tune(Tune),
    /// Serve a modelled drive over NBD, vhost-user or ublk: data at full speed, replies at the model's times
    ///
    /// iocast serves until it is stopped (SIGINT, SIGTERM); it then completes its log and prints how late replies were.
    Serve(Serve),
    /// Measure a device, a file or a trace, and fit drive models to it
    ///
    /// iocast reads random pages past the page cache (O_DIRECT) and never writes to the device. It fits the models to
    /// half of the reads and judges them on the other half. It writes a profile of each model and a picture, and prints
    /// the goodness of fit. The model linear is a + b·d/D, as Geist et al. 2010 fit it. The model mechanical finds the
    /// rotation period, tracks, skews, overhead and seek times by further reads at chosen places and times, so it needs
    /// a device. The model fixed is the mean. If a device's times do not depend on distance, iocast says so and fits no
    /// line.
    Calibrate(Calibrate),
    /// Check replays, forecasts, schedulers and drive models against measurements
    Validate(Validate),
    /// Regenerate the tables and figures of a paper, and compare its numbers with the new ones
    ///
    /// Each seed makes its own replays. A new number is the mean over the seeds, with its 95 % confidence interval
    /// (Student's t). Each group of numbers has a bound for its mean error. Where the paper leaves a choice open,
    /// iocast made one; the alternatives show the results of other choices.
    Reproduce(Reproduce),
    /// Make one HTML file of a result, to look at and to pass on, or tables of single requests
    ///
    /// The file stands alone: it asks no network for anything, can be read without scripts and printed. It opens with
    /// the answer, then come the comparison, distributions, what happened over time, and where the figures come from.
    ///
    /// With --table, --by or --sql it makes a table of what `compare --per-request` wrote, or of a capture in our Parquet
    /// format. The columns are in docs/notebooks.md.
    Report(Report),
    /// Compile a scheduler of Linux from its own source, for `--schedulers kernel:mq.so`
    #[command(subcommand)]
    KernelScheduler(KernelScheduler),
    /// List the schedulers, drives, formats, stacks, predictors, workloads or papers that iocast knows
    List(List),
    /// Show what subcommands need of this host: programs, permissions, kernel, devices, memory and space
    ///
    /// Each need has a row: whether it is there, which subcommands fail without it, which are better with it, and the
    /// remedy. The exit code is 0 whatever is missing. With --for it is 1 if something is missing that every run of that
    /// subcommand needs; needs of some runs only are shown with their condition.
    Doctor(Doctor),
    /// Print the completions of a shell
    Completions(Completions),
    /// Print a manual page, or write all of them to a folder
    Man(Man),
    /// Run tasks of a sweep that come over a pipe: Arrow streams of tasks in, of results out
    ///
    /// Each row on standard input is a task of `iocast sweep` (tasks.parquet in its folder has them), and each row on
    /// standard output is its result. The worker ends with its input, or when nobody reads the results. It keeps nothing
    /// between tasks.
    Worker,
}

/// `--device` of the subcommand that measures a device.
fn of_calibrate(argument: clap::Arg) -> clap::Arg {
    argument
        .value_name("PATH")
        .help("Block device or file to measure; with a TRACE: use only the requests of the device of this name")
}

/// The device of a trace, where `--device` is the device to replay on.
fn of_replay(argument: clap::Arg) -> clap::Arg {
    argument.long("trace-device")
}

/// The depth on a real device, which has a queue of its own.
fn deep(argument: clap::Arg) -> clap::Arg {
    let help = format!("Most requests in flight at the device [default: {DEVICE_QUEUE_DEPTH}]");
    argument.help(help.clone()).long_help(help)
}

/// The usage with the names of the papers, which clap prints if the paper is missing.
fn usage_of_reproduce() -> String {
    let names: Vec<&str> = papers::PAPERS.iter().map(|paper| paper.name).collect();
    format!("iocast reproduce [OPTIONS] <{}>", names.join("|"))
}

/// Explains the rows of the table of times that `iocast stat` prints.
fn stages() -> String {
    let rows = STAGES.iter().map(|(name, meaning)| {
        let name = if *name == "device_time" { "DEV".to_owned() } else { name.to_uppercase() };
        format!("  {name:8}{meaning}\n")
    });
    let rest = "The letters are those of blktrace: Q queued (arrival), G request allocated, M merged, I inserted\n\
                into the scheduler, D issued to the device, C completed. Rows that the trace does not record\n\
                are left out.";
    format!("Times between stages:\n{}{rest}", rows.collect::<String>())
}
