//! What replay programs did with one trace on one device, by the kernel's events.

use serde::{Deserialize, Serialize};

use super::{SpanFigures, TraceProvenance};
use crate::units::Nanos;

/// The result of `iocast replay --engine`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineComparison {
    /// Version of this schema.
    pub schema_version: u32,
    /// The program that compared.
    pub program: String,
    /// The device.
    pub device: String,
    /// Requests that each engine was asked for.
    pub asked_requests: u64,
    /// Requests of the traces that were left out, since nothing but reads was allowed.
    pub left_out_requests: u64,
    /// From the first arrival that was asked for to the last.
    pub asked_span_ns: Nanos,
    /// The traces.
    pub traces: Vec<TraceProvenance>,
    /// The engines, in the order in which they ran.
    pub engines: Vec<EngineFigures>,
}

/// What one engine did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineFigures {
    /// The engine, with the arguments that were added to its own.
    pub engine: String,
    /// Its command line.
    pub command: String,
    /// Why it did not end as it should, in its own words.
    pub failure: Option<String>,
    /// It sent all requests, did not end by itself, and was stopped.
    #[serde(default)]
    pub never_ended: bool,
    /// Records that the format of its input cannot express.
    pub inexpressible_requests: u64,
    /// Events that the kernel's buffer lost. They make requests missing.
    pub lost_events: u64,
    /// Asked requests that arrived at the device.
    pub arrived_requests: u64,
    /// Asked requests that did not.
    pub missing_requests: u64,
    /// Arrivals that nobody asked for: parts of split requests, and accesses of other programs.
    pub other_requests: u64,
    /// From the first asked request that arrived to the last.
    pub span_ns: Nanos,
    /// How late asked requests arrived, if the one that is least late was on time.
    pub issue_time_error: SpanFigures,
    /// How much that grew from the first to the last, by a straight line through all errors.
    pub drift_ns: Option<f64>,
    /// The same as a share of the time between them.
    pub drift_share: Option<f64>,
    /// From issue to completion (D2C) of the asked requests.
    pub device_time: SpanFigures,
}
