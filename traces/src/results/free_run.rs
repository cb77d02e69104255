//! What a scheduler makes of a capture's arrivals when nobody corrects it.

use serde::{Deserialize, Serialize};

use super::statistics::SpanFigures;
use crate::request::{Operation, StreamId};
use crate::units::Nanos;

/// What `iocast validate decisions --free` prints. A response time here begins with the insertion into
/// the scheduler and ends with the completion (I2C).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FreeRun {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The scheduler that ran, with the tunables that were given.
    pub scheduler: String,
    /// Requests of the capture that were inserted, issued and completed: those that are compared.
    pub requests: u64,
    /// Requests that were inserted but had not completed when the capture ended. They are left out.
    pub unfinished: u64,
    /// The most requests that the capture has in flight: the limit that the scheduler had.
    pub depth: u32,
    /// Bytes over the span.
    pub throughput: Throughput,
    /// All requests.
    pub all: Responses,
    /// By process, ascending.
    pub processes: Vec<ProcessResponses>,
    /// By I/O priority class, ascending.
    pub classes: Vec<ClassResponses>,
    /// By operation: reads, writes, discards.
    pub operations: Vec<OperationResponses>,
}

/// Throughput from the first insertion to the last completion.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The capture's span.
    pub kernel_span_ns: Nanos,
    /// Ours.
    pub ours_span_ns: Nanos,
    /// The capture's throughput.
    pub kernel_bytes_per_s: f64,
    /// Ours.
    pub ours_bytes_per_s: f64,
    /// Ours over the capture's; absent if that is zero.
    pub ratio: Option<f64>,
}

/// Response times of the same requests in the capture and in our run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Responses {
    /// In the capture.
    pub kernel: SpanFigures,
    /// In ours.
    pub ours: SpanFigures,
    /// Ours over the capture's of the mean; absent if that is zero, as are the next two.
    pub mean_ratio: Option<f64>,
    /// Of the median.
    pub p50_ratio: Option<f64>,
    /// Of the 99th percentile.
    pub p99_ratio: Option<f64>,
}

/// Those of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessResponses {
    /// The process that inserted them.
    pub process: StreamId,
    /// Its response times.
    #[serde(flatten)]
    pub responses: Responses,
}

/// Those of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassResponses {
    /// The I/O priority class: 0 none, 1 real time, 2 best effort, 3 idle.
    pub class: u8,
    /// Its response times.
    #[serde(flatten)]
    pub responses: Responses,
}

/// Those of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationResponses {
    /// What was asked for.
    pub operation: Operation,
    /// Its response times.
    #[serde(flatten)]
    pub responses: Responses,
}
