//! The table of requests: one row for each request that a scheduler was given in a replay, as Apache Parquet. `iocast
//! compare --per-request` writes it, and any tool that reads Parquet analyses it.
//!
//! | column | type | unit, meaning |
//! |---|---|---|
//! | `scheduler` | string | the column of the result: a scheduler or stack, as the result labels it |
//! | `drive` | string | the drive, as the result names it |
//! | `vm` | string | the VM's name |
//! | `process` | string, optional | the name of its stream (process or cgroup), if the trace has it |
//! | `stream` | unsigned 32 bit | the number of its stream |
//! | `number` | unsigned 64 bit | 0 for the first arrival of the replay, 1 for the next |
//! | `operation` | string | `read`, `write`, `flush`, `discard` |
//! | `lba_sectors` | unsigned 64 bit | first sector of 512 bytes on the drive; zero for a flush |
//! | `sectors` | unsigned 32 bit | length in sectors of 512 bytes |
//! | `is_sync` | boolean | whether a process waits for it: reads, and writes and flushes that are marked so |
//! | `flags` | unsigned 8 bit | as in captures: sum of 1 sync, 2 forced unit access, 4 pre-flush, 8 metadata, 16 read-ahead |
//! | `priority` | unsigned 8 bit | I/O priority as in Linux: class · 8 + level |
//! | `arrival_ns` | unsigned 64 bit | when it arrived (Q), ns on the clock of the replay, which begins at 0 |
//! | `dispatched_ns` | unsigned 64 bit, optional | when it left the scheduler |
//! | `issued_ns` | unsigned 64 bit, optional | when it was sent to the drive (D) |
//! | `started_ns` | unsigned 64 bit, optional | when the drive began to serve it |
//! | `completed_ns` | unsigned 64 bit | when it completed (C) |
//! | `response_ns` | unsigned 64 bit | `completed_ns` − `arrival_ns` |
//! | `device_ns` | unsigned 64 bit, optional | `completed_ns` − `issued_ns` |
//! | `seek_sectors` | unsigned 64 bit, optional | how far the head moved for it |
//! | `cache_hit` | boolean, optional | whether it was served from the drive's cache |
//! | `all_active` | boolean | whether all VMs still had arrivals when it completed; figures of VMs are over these rows |
//!
//! Rows stand by scheduler in the order of the result, and within one in the order of completion. A request that was
//! merged has the times of the request that it became a part of; of these, the first has the way of the head. A request
//! that was split has the earliest times of its parts, the sum of their ways, and is a hit if all parts are. The optional
//! times are absent where the drive had nothing to do (a flush without a volatile cache), and in stacks, whose layers
//! merge and split requests anew.
//!
//! The file's key [`VERSION_KEY`] is the [`VERSION`] of this schema. Row groups hold at most 65,536 rows; texts are
//! dictionaries, times and addresses are differences, pages are compressed with zstd. The same replay gives the same
//! bytes, on any number of threads.

mod columns;
mod file;

use std::collections::BTreeMap;

use crate::request::Request;
use crate::units::{Sectors, Timestamp};

pub use file::{RequestPart, RequestTable, WrittenPart};

/// The key of the schema's version in the file's metadata.
pub const VERSION_KEY: &str = "iocast.requests";
/// The version of the schema.
pub const VERSION: &str = "1";

/// The names of the columns, in their order.
pub fn column_names() -> impl Iterator<Item = &'static str> {
    columns::COLUMNS.iter().map(|(name, _)| *name)
}

/// The names in the rows of one replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestNames {
    /// The label of the scheduler or stack.
    pub scheduler: String,
    /// The drive's name.
    pub drive: String,
    /// The VMs in the order of their numbers.
    pub vms: Vec<VmNames>,
}

/// The names of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmNames {
    /// Its own.
    pub vm: String,
    /// Those of its streams, by number, as [`crate::TraceMeta::streams`] has them.
    pub processes: BTreeMap<u32, String>,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// How many arrived before it.
    pub number: u64,
    /// The request as it arrived.
    pub request: Request,
    /// How it was served; `None` if the drive had nothing to do, or if that is not known.
    pub service: Option<Service>,
    /// When it completed.
    pub completed: Timestamp,
    /// Whether all VMs still had arrivals then.
    pub all_active: bool,
}

/// How the drive served a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When the first part of it left the scheduler.
    pub dispatched: Timestamp,
    /// When the first part was sent to the drive.
    pub issued: Timestamp,
    /// When the drive began with the first part.
    pub started: Timestamp,
    /// How far the head moved for all parts.
    pub seek: Sectors,
    /// Whether all parts were served from the drive's cache.
    pub hit: bool,
}

impl Service {
    /// The service of a request of which this and `other` are parts.
    #[must_use]
    pub fn with(self, other: Service) -> Service {
        Service {
            dispatched: self.dispatched.min(other.dispatched),
            issued: self.issued.min(other.issued),
            started: self.started.min(other.started),
            seek: self.seek + other.seek,
            hit: self.hit && other.hit,
        }
    }
}
