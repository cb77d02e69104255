//! Sums of the traces of a catalogue, as `iocast stat --catalog` prints them.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CatalogStatistics {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The folder as it was named ([`crate::origin::without_folders`]).
    pub catalog: String,
    /// In the order of host, device and date.
    pub partitions: Vec<PartitionSums>,
    /// Of all partitions.
    pub total: CatalogSums,
}

/// The traces of a host's device on one day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionSums {
    /// The host, if it is known.
    pub host: Option<String>,
    /// Its device, if it is known.
    pub device: Option<String>,
    /// The day in UTC as YYYY-MM-DD, if it is known.
    pub date: Option<String>,
    /// Their sums.
    #[serde(flatten)]
    pub sums: CatalogSums,
}

/// Sums of some traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CatalogSums {
    /// How many.
    pub traces: u64,
    /// All of them, flushes and discards included.
    pub requests: u64,
    /// Of them, reads.
    pub reads: u64,
    /// Length of the reads together.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Length of the writes together.
    pub write_bytes: u64,
    /// From the first to the last arrival of each trace, added up.
    pub span_ns: Nanos,
    /// Requests over that span; `None` without a span.
    pub requests_per_s: Option<f64>,
    /// Length of the files.
    pub file_bytes: u64,
}
