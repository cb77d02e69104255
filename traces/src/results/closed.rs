//! How well a closed replay reproduces the run that its trace is a record of.

use serde::{Deserialize, Serialize};

use super::JournalCommits;
use super::statistics::SpanFigures;
use crate::request::{Operation, StreamId};
use crate::units::Nanos;

/// What `iocast validate closed` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClosedValidation {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The trace as it was named.
    pub trace: String,
    /// The drive as it was asked for, or what it was fitted to.
    pub drive: String,
    /// The scheduler, with the tunables that were given.
    pub scheduler: String,
    /// Requests at the drive at most.
    pub depth: u32,
    /// Requests of the trace without a completion time: they are replayed, and not part of the record's figures.
    pub incomplete: u64,
    /// Arrivals that came later than their think time, because their stream had drifted too far from the others.
    pub late: u64,
    /// The commits of journals, of which the replay may make more or fewer.
    #[serde(default)]
    pub journal_commits: JournalCommits,
    /// All requests.
    pub all: Compared,
    /// By operation, of those that occurred.
    pub operations: Vec<OperationCompared>,
    /// Of the streams with the most requests, most first.
    pub streams: Vec<StreamCompared>,
}

/// The same requests as recorded and as replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// As recorded.
    pub recorded: RunFigures,
    /// As replayed.
    pub replayed: RunFigures,
    /// Replayed over recorded, less 1.
    pub relative_error: RelativeErrors,
}

/// Those of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCompared {
    /// Which.
    pub operation: Operation,
    /// Its figures.
    #[serde(flatten)]
    pub compared: Compared,
}

/// Those of one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamCompared {
    /// Which.
    pub stream: StreamId,
    /// Its figures.
    #[serde(flatten)]
    pub compared: Compared,
}

/// One run of some requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// Requests completed.
    pub requests: u64,
    /// From the first of their arrivals to the last of their completions.
    pub span_ns: Nanos,
    /// Over the span.
    pub requests_per_s: f64,
    /// Over the span.
    pub bytes_per_s: f64,
    /// Arrival to completion (Q2C).
    pub response_time: SpanFigures,
    /// Issue to completion (D2C) of every arrival whose issue is known; merged ones have their request's.
    pub device_time: SpanFigures,
    /// Other requests, of anybody, that were outstanding when one arrived.
    pub queue_at_arrival: QueueFound,
}

/// The lengths of a queue that requests found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueFound {
    /// Mean; absent if nothing arrived.
    pub mean: Option<f64>,
    /// Median.
    pub p50: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile. 1,024 stands for that and more.
    pub p99: u64,
}

/// Replayed over recorded, less 1; absent where the recorded figure is zero or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelativeErrors {
    /// Of the span.
    pub span: Option<f64>,
    /// Of requests per second.
    pub requests_per_s: Option<f64>,
    /// Of bytes per second.
    pub bytes_per_s: Option<f64>,
    /// Of the mean response time.
    pub response_time_mean: Option<f64>,
    /// Of its median.
    pub response_time_p50: Option<f64>,
    /// Of its 95th percentile.
    pub response_time_p95: Option<f64>,
    /// Of its 99th percentile.
    pub response_time_p99: Option<f64>,
    /// Of the mean device time.
    pub device_time_mean: Option<f64>,
    /// Of its median.
    pub device_time_p50: Option<f64>,
    /// Of its 95th percentile.
    pub device_time_p95: Option<f64>,
    /// Of its 99th percentile.
    pub device_time_p99: Option<f64>,
    /// Of the mean queue at arrival.
    pub queue_at_arrival_mean: Option<f64>,
}

impl Compared {
    /// The two runs with their errors.
    pub fn new(recorded: RunFigures, replayed: RunFigures) -> Compared {
        let error = |of: fn(&RunFigures) -> Option<f64>| {
            let (recorded, replayed) = (of(&recorded)?, of(&replayed)?);
            (recorded != 0.0).then(|| replayed / recorded - 1.0)
        };
        let relative_error = RelativeErrors {
            span: error(|run| Some(run.span_ns.as_ns() as f64)),
            requests_per_s: error(|run| Some(run.requests_per_s)),
            bytes_per_s: error(|run| Some(run.bytes_per_s)),
            response_time_mean: error(|run| run.response_time.moments.mean_ns),
            response_time_p50: error(|run| percentile(&run.response_time, "p50")),
            response_time_p95: error(|run| percentile(&run.response_time, "p95")),
            response_time_p99: error(|run| percentile(&run.response_time, "p99")),
            device_time_mean: error(|run| run.device_time.moments.mean_ns),
            device_time_p50: error(|run| percentile(&run.device_time, "p50")),
            device_time_p95: error(|run| percentile(&run.device_time, "p95")),
            device_time_p99: error(|run| percentile(&run.device_time, "p99")),
            queue_at_arrival_mean: error(|run| run.queue_at_arrival.mean),
        };
        Compared { recorded, replayed, relative_error }
    }
}

/// A percentile in ns by its name.
fn percentile(spans: &SpanFigures, name: &str) -> Option<f64> {
    spans.percentiles_ns.get(name).map(|&ns| ns as f64)
}
