//! How well a drive model agrees with the times that a real drive took.

use serde::{Deserialize, Serialize};

use crate::trace::ThinkTime;
use crate::units::Nanos;

/// What `iocast validate drive` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveValidation {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The drive with the tunables that were given.
    pub drive: String,
    /// Which pause the trace's think times were taken for, in a format that has any.
    pub think_time: Option<ThinkTime>,
    /// Requests of the trace, all of which are judged.
    pub requests: u64,
    /// Mean of the measured service times.
    pub measured_mean_ns: Nanos,
    /// Mean of the model's, closed loop.
    pub model_mean_ns: Nanos,
    /// Closed loop: the model's own completions and the measured think times.
    #[serde(flatten)]
    pub closed_loop: Distance,
    /// Between two runs of the model that differ only in a uniform start phase, mean of 20; absent
    /// for a drive without a phase.
    pub floor: Option<Distance>,
    /// On the measured time line; absent for a drive without a phase.
    pub per_request: Option<PerRequest>,
    /// Measured times drawn at random, without any drive: mean of 20 draws.
    pub empirical: Empirical,
}

/// The distance between the distributions of measured and modelled service times: the root mean
/// square of the horizontal distance between the two curves (Ruemmler and Wilkes 1994, the
/// demerit figure; DiskSim 4.0's `rms`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// In ns.
    pub rms_ns: f64,
    /// As a share of the measured mean.
    pub relative_rms: f64,
}

/// Errors of the single requests on the measured time line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerRequest {
    /// Mean absolute difference of modelled and measured service time.
    pub mean_abs_error_ns: f64,
    /// Share of the requests within 250 µs.
    pub within_250us: f64,
    /// Share within 250 µs or 5 % of the measured mean, whichever is larger.
    pub within_250us_or_5pct: f64,
    /// Share within 1 ms.
    pub within_1ms: f64,
    /// Share that is off by more than half a turn.
    pub missed_rotations: f64,
    /// One turn, fitted on this trace.
    pub period_ns: f64,
    /// How far into a turn the platter is at the trace's beginning, fitted on this trace.
    pub offset_ns: f64,
}

/// The baseline without mechanics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Empirical {
    /// Between the distributions.
    #[serde(flatten)]
    pub distance: Distance,
    /// Mean absolute difference request by request.
    pub mean_abs_error_ns: f64,
    /// Share of the requests within 250 µs.
    pub within_250us: f64,
    /// Share within 250 µs or 5 % of the measured mean.
    pub within_250us_or_5pct: f64,
    /// Share within 1 ms.
    pub within_1ms: f64,
}
