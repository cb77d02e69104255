//! How well simulated schedulers rank as the real ones do in a guest.

use serde::{Deserialize, Serialize};

/// What `iocast validate guest` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestValidation {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The guests' kernel.
    pub kernel: String,
    /// What ran their instructions: `kvm` or `tcg`.
    pub accelerator: String,
    /// The drive that was served and simulated, with its tunables.
    pub drive: String,
    /// The most requests that a guest's disk accepts at once.
    pub queue_depth: u32,
    /// The scheduler of the replayed capture, to which ratios refer.
    pub baseline: String,
    /// Runs under each scheduler.
    pub repetitions: u32,
    /// The length of the time in which each run was measured, in seconds.
    pub measured_seconds: u32,
    /// The folders of runs in which the served drive completed one request of a hundred, or more, over 1 ms late: the
    /// host was busy, and the figures contain that.
    pub late_runs: Vec<String>,
    /// Each VM alone.
    pub vms: Vec<GuestVm>,
}

/// One VM under each scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestVm {
    /// Its name.
    pub vm: String,
    /// The replays of its capture, one for each scheduler.
    pub simulations: Vec<GuestSimulation>,
    /// Throughput and response times.
    pub figures: Vec<GuestFigure>,
}

/// A replay of a capture under one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestSimulation {
    /// The kernel's name of the scheduler.
    pub scheduler: String,
    /// The layers that were simulated, as `iocast compare --stack` takes them.
    pub stack: String,
    /// The length of the time in which it was measured, in seconds. It is shorter than that of the runs if a stream
    /// had used up its requests.
    pub measured_seconds: f64,
}

/// A figure under each scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestFigure {
    /// `bytes_per_s`, `requests_per_s`, `read_response_mean_ns`, `read_response_p99_ns`, `write_response_mean_ns` or
    /// `write_response_p99_ns`.
    pub figure: String,
    /// Whether the scheduler with the largest value ranks first.
    pub more_is_better: bool,
    /// In the order asked for, the baseline first.
    pub schedulers: Vec<GuestScheduler>,
    /// The largest absolute error of a ratio.
    pub largest_ratio_error: Option<f64>,
    /// The order of the schedulers, measured and simulated.
    pub ranks: GuestRanks,
}

/// A figure under one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestScheduler {
    /// The kernel's name of the scheduler.
    pub scheduler: String,
    /// Measured in each repetition.
    pub measured: Vec<f64>,
    /// The mean over the repetitions.
    pub measured_mean: f64,
    /// Its 95 % confidence interval (Student's t), from two repetitions on.
    pub measured_ci95: Option<[f64; 2]>,
    /// Simulated; absent if the simulation has no such figure.
    pub simulated: Option<f64>,
    /// Measured over the baseline's measured figure: the mean of the ratios within each repetition.
    pub measured_ratio: Option<f64>,
    /// Its 95 % confidence interval (Student's t), from two repetitions on.
    pub measured_ratio_ci95: Option<[f64; 2]>,
    /// Simulated over the baseline's simulated figure.
    pub simulated_ratio: Option<f64>,
    /// Simulated over measured ratio, less 1; absent for the baseline.
    pub ratio_error: Option<f64>,
    /// The best and the worst rank that the intervals allow, from 1.
    pub measured_ranks: [usize; 2],
    /// The simulated rank, from 1.
    pub simulated_rank: Option<usize>,
}

/// The order of the schedulers in pairs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestRanks {
    /// Pairs whose measured intervals do not overlap.
    pub ordered: usize,
    /// Those of them that the simulation has in the same order.
    pub agreeing: usize,
    /// Those that it has in the other order or as equals, the better as measured first.
    pub reversed: Vec<[String; 2]>,
    /// Pairs whose measured intervals overlap, or that have none: their order is not known.
    pub tied: Vec<[String; 2]>,
}
