//! What `iocast stat` stores of one trace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::history::History;
use super::{Moments, TraceProvenance};
use crate::units::Nanos;

/// Everything that is measured of a trace in one pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStatistics {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The trace: file, digest, format, layer, clock, losses and unmatched events.
    pub trace: TraceProvenance,
    /// The part of the trace that was measured; absent if all of it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<MeasuredWindow>,
    /// First arrival, ns since the zero of the trace's clock.
    pub first_arrival_ns: Option<u64>,
    /// From the first arrival or event to the last.
    pub span_ns: Nanos,
    /// Events by type and class; only of captures of the block layer's events.
    pub events: Option<BTreeMap<String, EventFigures>>,
    /// Arrivals by operation.
    pub arrivals: BTreeMap<String, RequestFigures>,
    /// Requests at the device by operation, after merging and splitting; empty where the trace does
    /// not tell when a request was issued.
    pub device_requests: BTreeMap<String, RequestFigures>,
    /// Merging and splitting.
    pub merges: MergeFigures,
    /// Times between the stages of a request (`q2c`, `d2c` …; [`STAGES`]), without those that the
    /// trace cannot tell.
    pub stages: BTreeMap<String, StageFigures>,
    /// Queues over time.
    pub queues: BTreeMap<String, QueueOverTime>,
    /// What a request finds in the queue when it comes (`at_issue`, `at_queue`).
    pub arrival_queues: BTreeMap<String, ArrivalQueueFigures>,
    /// Distances between consecutive requests (`at_queue`, `at_issue`).
    pub seeks: BTreeMap<String, SeekFigures>,
    /// By whom: `process`, `cgroup`, `vm`.
    pub groups: BTreeMap<String, GroupedFigures>,
    /// What happened over time, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
}

/// The part of a trace that was measured: the requests that arrived in it. Times count from the trace's first arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredWindow {
    /// Its beginning.
    pub start_ns: Nanos,
    /// Its end, which is not included; absent if it is that of the trace.
    pub end_ns: Option<Nanos>,
    /// The most requests.
    pub limit: Option<u64>,
}

/// Names of the stages with what each is.
pub const STAGES: [(&str, &str); 10] = [
    ("q2q", "between consecutive arrivals that carry data: in the device's order, and within the class"),
    ("q2g", "arrival to its own request"),
    ("q2m", "arrival to being merged into another's request"),
    ("g2i", "request allocated to given to the scheduler"),
    ("i2d", "given to the scheduler to issued, of arrivals with a request of their own"),
    ("m2d", "merged to issued"),
    ("d2c", "issued to completed, of every arrival"),
    ("q2c", "response time: arrival to completed"),
    ("d2d", "between consecutive requests issued to the device, in the same two ways"),
    ("device_time", "issued to completed, once per request at the device"),
];

/// One type of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFigures {
    /// Of reads with data.
    pub read: Tally,
    /// Of writes with data.
    pub write: Tally,
    /// Of discards.
    pub discard: Tally,
    /// Without length and with the direction of a read, e.g. the kernel's own flushes.
    pub empty_read: Tally,
    /// Without length and with the direction of a write, e.g. a write that only flushes.
    pub empty_write: Tally,
    /// Of passed-through commands.
    pub passthrough: Tally,
}

/// How many, and their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many.
    pub events: u64,
    /// Their lengths together.
    pub bytes: u64,
}

/// Requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestFigures {
    /// How many.
    pub requests: u64,
    /// Their lengths together.
    pub bytes: u64,
    /// Over the span.
    pub requests_per_s: f64,
    /// Over the span.
    pub bytes_per_s: f64,
    /// Mean length.
    pub mean_bytes: Option<f64>,
    /// How many there are of each length, as pairs of sectors and requests. Above 2,048 sectors
    /// lengths are rounded up to the next power of two.
    pub sizes: Vec<(u64, u64)>,
    /// Completed with an error.
    pub errors: u64,
}

/// Merging and splitting, from events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MergeFigures {
    /// Merged to the end of a request (M).
    pub back: u64,
    /// Merged to the front of a request (F).
    pub front: u64,
    /// Splits (X).
    pub splits: u64,
    /// Requeues (R).
    pub requeues: u64,
    /// Arrivals with data per request at the device with data.
    pub arrivals_per_device_request: Option<f64>,
}

/// Spans of time: how many, moments, percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpanFigures {
    /// How many.
    pub count: u64,
    /// Mean, variance, least and largest, exact.
    #[serde(flatten)]
    pub moments: Moments,
    /// By name, ns, to three significant digits.
    pub percentiles_ns: BTreeMap<String, u64>,
}

/// A stage by class. The times between consecutive requests (`q2q`, `d2d`) are in the device's order: from the last
/// request of any class to one of this class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageFigures {
    /// Reads.
    pub read: SpanFigures,
    /// Writes.
    pub write: SpanFigures,
    /// Flushes; none of them are between consecutive requests.
    #[serde(default)]
    pub flush: SpanFigures,
    /// Discards.
    #[serde(default)]
    pub discard: SpanFigures,
    /// All operations.
    pub all: SpanFigures,
    /// Between consecutive requests only: from the last request of the same class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_class: Option<WithinClass<SpanFigures>>,
}

/// From the last request of the same class, whatever came between.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WithinClass<T> {
    /// From read to read.
    pub read: T,
    /// From write to write.
    pub write: T,
    /// From discard to discard.
    pub discard: T,
}

/// A queue's length over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueOverTime {
    /// Mean over the span.
    pub mean: f64,
    /// The most at any time.
    pub max: u64,
    /// Share of the span during which it was not empty.
    pub busy_share: f64,
    /// Time at each length that occurred, as pairs of length and ns. The last length stands for
    /// longer ones too if it is 1,024.
    pub time_at_length_ns: Vec<(u64, u64)>,
}

/// The reads and writes that a request finds when it comes, itself not counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrivalQueueFigures {
    /// What reads find.
    pub seen_by_reads: FoundFigures,
    /// What writes find.
    pub seen_by_writes: FoundFigures,
}

/// What requests of one operation find.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundFigures {
    /// How many came.
    pub count: u64,
    /// Mean number of reads found.
    pub reads_mean: Option<f64>,
    /// Mean number of writes found.
    pub writes_mean: Option<f64>,
    /// Mean number of both.
    pub total_mean: Option<f64>,
    /// Joint histogram: reads found, writes found, how often; pairs that never occurred are left
    /// out. 127 stands for 127 or more.
    pub joint: Vec<(u64, u64, u64)>,
}

/// Distances from the end of one request to the start of the next. By class they are in the device's order: from the
/// last request of any class to one of this class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeekFigures {
    /// To reads.
    pub read: DistanceFigures,
    /// To writes.
    pub write: DistanceFigures,
    /// To discards.
    #[serde(default)]
    pub discard: DistanceFigures,
    /// To all of these; flushes have no address.
    pub all: DistanceFigures,
    /// From the last request of the same class.
    #[serde(default)]
    pub within_class: WithinClass<DistanceFigures>,
}

/// Distances in sectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DistanceFigures {
    /// How many.
    pub count: u64,
    /// Mean of their size.
    pub mean_sectors: Option<f64>,
    /// Those that begin where the one before ended.
    pub sequential: u64,
    /// Forwards, over a gap.
    pub forward: u64,
    /// Backwards.
    pub backward: u64,
    /// How many have a size below each power of two that occurred, and at least half of it. These are pairs of the
    /// power and their number; sequential ones are not in it.
    pub below_power_of_two: Vec<(u64, u64)>,
}

/// One way to group requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupedFigures {
    /// The groups that were kept apart, the one with most requests first.
    pub groups: Vec<GroupFigures>,
    /// How many are kept apart at most: those that came first.
    pub kept_apart_max: u64,
    /// All that came later, together.
    pub rest: Option<GroupFigures>,
}

/// What one process, cgroup or VM asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupFigures {
    /// Process, cgroup or VM number.
    pub id: u64,
    /// Its name, if the trace has it.
    pub name: Option<String>,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes and discards.
    pub others: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Requests that begin where the group's last one ended.
    pub sequential: u64,
    /// Response time of reads.
    pub read_response: Moments,
    /// Response time of writes.
    pub write_response: Moments,
}
