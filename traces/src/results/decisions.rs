//! How well a scheduler agrees with the decisions that a capture holds.

use serde::{Deserialize, Serialize};

use crate::request::{Operation, Priority, StreamId};
use crate::units::{Lba, Nanos, Sectors, Timestamp};

/// What `iocast validate decisions` prints. A decision is counted if at least two requests waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The scheduler that was asked, with the tunables that were given.
    pub scheduler: String,
    /// Decisions counted.
    pub decisions: u64,
    /// Those in which the scheduler chose as the capture says.
    pub agreed: u64,
    /// Their share, from 0 to 1; absent without decisions, as are the next two.
    pub agreement: Option<f64>,
    /// The share in which the oldest request was chosen.
    pub baseline_fifo: Option<f64>,
    /// The share in which the next one upwards from the end of the last was chosen, or the first of
    /// all if there was none.
    pub baseline_cscan: Option<f64>,
    /// Every decision that differed, in the order of time.
    pub misses: Vec<Miss>,
}

/// A decision that differed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// When the chosen request was issued, nanoseconds since the first event.
    pub at_ns: Timestamp,
    /// What the capture says.
    pub kernel: Choice,
    /// What the scheduler chose; absent if it would have waited.
    pub ours: Option<Choice>,
    /// The difference of the two choices, and what would explain it.
    pub reason: String,
    /// Whether the scheduler makes the kernel's choice with the requests of at most 500 us earlier or later, or a tick
    /// later: then the order of events, rather than the scheduler, may differ.
    #[serde(default)]
    pub is_race: bool,
}

/// A request that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// What it asks for.
    pub operation: Operation,
    /// First sector.
    pub sector: Lba,
    /// Its length.
    pub sectors: Sectors,
    /// The process that inserted it.
    pub process: StreamId,
    /// Its I/O priority, class << 3 | level.
    pub priority: Priority,
    /// How long it had waited when the capture's choice was issued.
    pub waited_ns: Nanos,
}
