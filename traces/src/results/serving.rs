//! How a served drive kept its times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Part, SpanFigures};
use crate::units::Nanos;

/// What `iocast serve` prints when it ends and, without the parts that do not change, while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The drive.
    pub drive: Part,
    /// What orders the requests that wait for the drive.
    pub scheduler: Part,
    /// Every option that has an effect on the times, by name.
    pub options: BTreeMap<String, String>,
    /// How long it has served.
    pub span_ns: Nanos,
    /// From the drive's own time for a request to the moment its reply was ready.
    pub lateness: SpanFigures,
    /// From arrival to the drive's own time for it.
    pub response_time: SpanFigures,
    /// Requests by VM.
    pub vms: Vec<ServedVm>,
    /// Requests whose data could not be read or written.
    pub failed: u64,
    /// Requests in the log, if one is written.
    pub logged: Option<u64>,
    /// Why the log is not complete, if it is not.
    pub log_error: Option<String>,
    /// Why what was written may not survive a crash of the machine, if it was not made durable at the end.
    pub image_error: Option<String>,
}

/// A line of `iocast serve --statistics`: the figures from the beginning to its time. Differences of two lines are the
/// figures of the time between them, percentiles apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServingSample {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The wall-clock time, in nanoseconds since 1970.
    pub time_unix_ns: i64,
    /// As in [`Serving`].
    pub span_ns: Nanos,
    /// As in [`Serving`].
    pub lateness: SpanFigures,
    /// As in [`Serving`].
    pub response_time: SpanFigures,
    /// As in [`Serving`].
    pub vms: Vec<ServedVm>,
    /// As in [`Serving`].
    pub failed: u64,
}

impl ServingSample {
    /// The figures so far, at a wall-clock time.
    pub fn new(serving: &Serving, time_unix_ns: i64) -> ServingSample {
        ServingSample {
            schema_version: serving.schema_version,
            time_unix_ns,
            span_ns: serving.span_ns,
            lateness: serving.lateness.clone(),
            response_time: serving.response_time.clone(),
            vms: serving.vms.clone(),
            failed: serving.failed,
        }
    }
}

/// What one VM asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedVm {
    /// Its name.
    pub vm: String,
    /// Reads.
    pub reads: u64,
    /// Writes, zeros included.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}
