//! How a replay on a real device kept its times, and what failed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SpanFigures;
use crate::units::Nanos;

/// How a replay on a device ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All arrivals have completed.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// A request failed, and the replay was to stop then.
    Failed,
    /// The device has disappeared.
    DeviceGone,
}

/// The figures that only a replay on a device has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveFigures {
    /// The device or file.
    pub target: String,
    /// How requests were sent: `io_uring`, `threads` or `null`.
    pub backend: String,
    /// Why it was not `io_uring`.
    pub backend_reason: Option<String>,
    /// Whether requests went past the page cache.
    pub direct: bool,
    /// How the replay ended.
    pub ending: Ending,
    /// Arrivals that the traces ask for.
    pub asked_requests: u64,
    /// Arrivals that had not completed at the end.
    pub unfinished_requests: u64,
    /// Requests of the traces that were left out, since nothing but reads was allowed.
    pub left_out_requests: u64,
    /// Device requests that were widened to whole blocks of the device.
    pub widened_requests: u64,
    /// Failed device requests by the error's name; `short` if less than the whole request was transferred.
    pub failed_requests: BTreeMap<String, u64>,
    /// How punctual arrivals were; absent if they were to come as soon as possible.
    pub punctuality: Option<PunctualityFigures>,
    /// Whether the replay is faithful; absent if arrivals were to come as soon as possible.
    pub faithful: Option<bool>,
    /// Why it is not faithful.
    pub not_faithful_because: Vec<String>,
    /// The response times (Q2C) that the traces record.
    pub recorded: RecordedTimes,
    /// The throttle, if the device stands for a modelled disk. All times are then in the modelled disk's scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleFigures>,
}

/// How a throttle held a device to the times of a modelled disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThrottleFigures {
    /// The modelled disk, with its tunables as they were given.
    pub drive: String,
    /// `fixed`, `dynamic` or `found`.
    pub rule: String,
    /// How many times slower than the modelled disk the device ran, at the end.
    pub k: f64,
    /// Changes of k.
    pub k_changes: u64,
    /// Completions of the device.
    pub completions: u64,
    /// Those that came after the modelled disk's: k was too small for them.
    pub late_completions: u64,
    /// The longest time that one came after the modelled disk's, in its scale.
    pub late_max_ns: Nanos,
    /// The most completions that were held at once.
    pub held_max: u64,
    /// Service times of the whole replay.
    pub all: ThrottledService,
    /// Service times since k changed for the last time.
    pub since_k_is_stable: ThrottledService,
    /// The runs that looked for k.
    pub searches: Vec<ThrottleSearch>,
}

/// Service times that a throttle achieved, beside those of the modelled disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThrottledService {
    /// Requests.
    pub requests: u64,
    /// The mean of the modelled disk.
    pub modelled_mean_ns: Option<f64>,
    /// The mean that was achieved.
    pub achieved_mean_ns: Option<f64>,
}

/// A run that looked for k.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThrottleSearch {
    /// The k that it found to be stable.
    pub k: f64,
    /// Completions of the device.
    pub completions: u64,
    /// Those that came after the modelled disk's.
    pub late_completions: u64,
}

/// The issue-time errors of a replay: from the time at which an arrival was asked for to the time at which it had been
/// handed on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PunctualityFigures {
    /// The errors.
    pub issue_time_error: SpanFigures,
    /// How much the error grew from the first arrival to the last, by a straight line through all errors.
    pub drift_ns: Option<f64>,
    /// The same as a share of the time between them.
    pub drift_share: Option<f64>,
    /// The error above which an arrival counts as late.
    pub late_above_ns: Nanos,
    /// Late arrivals while the bound on outstanding arrivals was reached.
    pub late_by_device: u64,
    /// Other late arrivals.
    pub late_by_host: u64,
    /// Arrivals whose time came while the bound on outstanding arrivals was reached.
    pub held_back: u64,
}

/// Recorded response times by class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedTimes {
    /// Of reads.
    pub read: SpanFigures,
    /// Of writes.
    pub write: SpanFigures,
    /// Of flushes and discards.
    pub other: SpanFigures,
}
