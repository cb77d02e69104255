//! What `iocast predict` measures of a VM that has the device to itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TraceProvenance;
use crate::units::Nanos;

/// A VM alone on the device. A profile that was written by hand may leave out values that a predictor does not need.
/// For Casale's formulas the name is enough, and of reads and writes their rate, mean response and arrival queues.
///
/// Response here is Casale's: from being issued to the device to its completion (D2C), of requests as the device sees
/// them. Where a trace does not tell when a request was issued, from its arrival.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IsolationProfile {
    /// [`super::SCHEMA_VERSION`].
    #[serde(default)]
    pub schema_version: u32,
    /// Program and version; empty if it was written by hand.
    #[serde(default)]
    pub program: String,
    /// The VM's name.
    pub vm: String,
    /// The trace it was measured of.
    #[serde(default)]
    pub trace: Option<TraceProvenance>,
    /// From the first issue to the last completion.
    #[serde(default)]
    pub span_ns: Nanos,
    /// Share of the span during which the device had a request of it.
    #[serde(default)]
    pub busy_share: Option<f64>,
    /// Reads.
    #[serde(default)]
    pub reads: IsolatedOperation,
    /// Writes.
    #[serde(default)]
    pub writes: IsolatedOperation,
    /// Processes (or what the trace calls a stream) that read or write, the busiest first; at most 64.
    #[serde(default)]
    pub streams: Vec<StreamProfile>,
    /// Where on the device it reads and writes.
    #[serde(default)]
    pub footprint: Footprint,
}

/// Reads or writes of a VM alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IsolatedOperation {
    /// How many completed.
    #[serde(default)]
    pub requests: u64,
    /// Throughput, requests per second.
    #[serde(default)]
    pub iops: f64,
    /// Mean length.
    #[serde(default)]
    pub mean_bytes: Option<f64>,
    /// Mean response time; absent without requests.
    #[serde(default)]
    pub response_ns: Option<f64>,
    /// Its variance over all requests.
    #[serde(default)]
    pub response_variance_ns2: Option<f64>,
    /// Its percentiles by name, to three significant digits.
    #[serde(default)]
    pub response_percentiles_ns: BTreeMap<String, u64>,
    /// Mean time that the device gave to one: from the later of its issue and the completion before to its own
    /// completion. It is the service time of a device that serves one request after another, and shorter of others.
    #[serde(default)]
    pub service_ns: Option<f64>,
    /// The mean square of that time.
    #[serde(default)]
    pub service_square_ns2: Option<f64>,
    /// Arrival-queue length: reads and writes in flight at the device when one is issued, itself not counted.
    #[serde(default)]
    pub found_total: Option<f64>,
    /// The reads among them.
    #[serde(default)]
    pub found_reads: Option<f64>,
    /// The writes among them.
    #[serde(default)]
    pub found_writes: Option<f64>,
    /// How often so many were found: reads, writes, times. 127 stands for more.
    #[serde(default)]
    pub found_joint: Vec<(u64, u64, u64)>,
    /// Runs of requests of one kind, issued at most a millisecond after one another.
    #[serde(default)]
    pub batches: Option<BatchFigures>,
    /// Index of dispersion of the number issued in a window: variance by mean. 1 for a Poisson process.
    #[serde(default)]
    pub dispersion: Vec<Dispersion>,
    /// Autocorrelation of response times at lags 1, 2, … 10, in the order of completion; empty where they do not vary.
    #[serde(default)]
    pub response_autocorrelation: Vec<f64>,
}

/// Batches of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchFigures {
    /// How many.
    pub count: u64,
    /// Mean number of requests in one.
    pub mean: f64,
    /// Mean square of that number.
    pub mean_square: f64,
    /// The longest.
    pub max: u64,
}

/// Dispersion over windows of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dispersion {
    /// Length of a window.
    pub window_ns: Nanos,
    /// Variance of the number in a window by its mean.
    pub index: f64,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamProfile {
    /// Its number.
    pub stream: u32,
    /// Its name, if the trace has it.
    pub name: Option<String>,
    /// Reads that arrived.
    pub reads: u64,
    /// Writes that arrived.
    pub writes: u64,
    /// How often it sent a request while none of its requests was outstanding.
    pub thinks: u64,
    /// The mean time for which it then had had no request outstanding.
    pub think_ns: Option<f64>,
}

/// Places of the device that were read or written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Footprint {
    /// Sectors of a piece; a power of two, so large that there are at most 256 runs.
    pub piece_sectors: u64,
    /// Runs of touched pieces: the first, and how many.
    pub runs: Vec<(u64, u64)>,
}
