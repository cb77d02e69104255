//! A trace that lies in memory: records that a program made instead of a file.

use std::collections::VecDeque;

use crate::error::ReadError;
use crate::record::Record;
use crate::trace::{Losses, TraceMeta, TraceReader};

/// A reader of records in memory.
///
/// ```
/// use iocast_traces::{InMemoryTrace, Layer, TraceMeta, TraceReader};
///
/// let mut reader = InMemoryTrace::new(TraceMeta::new("made", Layer::GuestQueue, "none"), Vec::new());
/// assert!(reader.next().unwrap().is_none());
/// ```
#[derive(Debug)]
pub struct InMemoryTrace {
    meta: TraceMeta,
    losses: Losses,
    records: VecDeque<Record>,
}

impl InMemoryTrace {
    /// A trace of `records`, in order of arrival.
    pub fn new(meta: TraceMeta, records: Vec<Record>) -> InMemoryTrace {
        InMemoryTrace { meta, losses: Losses::default(), records: records.into() }
    }
}

impl TraceReader for InMemoryTrace {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        Ok(self.records.pop_front())
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn position_bytes(&self) -> u64 {
        0
    }
}
