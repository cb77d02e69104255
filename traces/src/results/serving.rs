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
