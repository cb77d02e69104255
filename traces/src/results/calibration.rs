//! What a drive was found to be like, and how well each model describes it.

use serde::{Deserialize, Serialize};

use super::drive::Distance;
use crate::units::Sectors;

/// What `iocast calibrate` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The program's version.
    pub version: String,
    /// What was measured: a device, a file, a trace or a drive model.
    pub source: String,
    /// What the operating system says of the device: its cache, whether it rotates.
    pub device: Vec<String>,
    /// Capacity in sectors.
    pub capacity_sectors: Sectors,
    /// Requests that were looked at.
    pub requests: u64,
    /// Reads that could be used; one half is fitted, the other judges.
    pub reads: u64,
    /// Seed of everything that was drawn.
    pub seed: u64,
    /// The generator that was seeded.
    pub generator: String,
    /// Whether times depend on distance.
    pub dependence: Dependence,
    /// Every model that was tried.
    pub fits: Vec<FitResult>,
    /// Files that were written.
    pub files: Vec<String>,
    /// What to keep in mind.
    pub notes: Vec<String>,
}

/// Whether times depend on distance: what the fitted half's line explains of the other half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dependence {
    /// Share of the variance of the held-out times that the line explains: the squared correlation, with its
    /// sign.
    pub explained_share: f64,
    /// Lower end of the interval that holds 99 % of the shares of randomly permuted times.
    pub by_chance_low: f64,
    /// Upper end.
    pub by_chance_high: f64,
    /// Permutations drawn.
    pub permutations: u32,
    /// The verdict: above the interval, at least 5 %, and growing with distance.
    pub depends_on_distance: bool,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitResult {
    /// Its name.
    pub model: String,
    /// How it is fitted, in one line.
    pub summary: String,
    /// Why it was not fitted, if it was not.
    pub not_fitted: Option<String>,
    /// What was found.
    pub parameters: Vec<Parameter>,
    /// How well it does on the held-out half.
    pub goodness: Option<Goodness>,
    /// What it cannot tell.
    pub notes: Vec<String>,
}

/// A number that was found, with its unit at the end of the name (`_ns`, `_ps`, `_turns`, `_sectors`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Name and unit.
    pub name: String,
    /// The value.
    pub value: f64,
    /// What it is.
    pub meaning: String,
}

impl Parameter {
    /// One of them.
    pub fn new(name: &str, value: f64, meaning: &str) -> Parameter {
        Parameter { name: name.to_owned(), value, meaning: meaning.to_owned() }
    }
}

/// How well a model does on reads that it was not fitted on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goodness {
    /// How many reads.
    pub reads: u64,
    /// Share of the variance of single times that the expected time explains.
    pub r_squared: f64,
    /// Mean absolute difference between a time and the expected one.
    pub mean_abs_error_ns: f64,
    /// Between the distributions of measured times and of those that the model draws.
    #[serde(flatten)]
    pub distribution: Distance,
}

/// What `iocast calibrate qpn` prints: response times at several thread counts, and the predictors they give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QpnCalibration {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The program and its version.
    pub program: String,
    /// The captures, one row for each pair of thread counts.
    pub points: Vec<ThreadPoint>,
    /// Mean service times of reads and of writes alone, ns.
    pub service_ns: [f64; 2],
    /// The predictors with their tunables, as `iocast predict --predictors` takes them.
    pub predictors: Vec<String>,
    /// Files that were written.
    pub files: Vec<String>,
    /// What to keep in mind.
    pub notes: Vec<String>,
}

/// Response times at thread counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadPoint {
    /// The captures, without folders.
    pub captures: Vec<String>,
    /// Reading and writing threads.
    pub threads: [u64; 2],
    /// Mean response times (D2C) of reads and of writes, ns; absent without such threads.
    pub responses_ns: [Option<f64>; 2],
    /// Standard deviations of the response times of single requests, ns.
    pub deviations_ns: [Option<f64>; 2],
    /// Relative errors of `qpn` for reads and writes; of both together only.
    pub published_errors: Option<[f64; 2]>,
    /// The same of `qpn-refined`, calibrated without this point. Absent if it cannot be calibrated without it.
    pub refined_errors: Option<[f64; 2]>,
}
