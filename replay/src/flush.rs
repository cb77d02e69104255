//! The flush machine of a stage: one flush of the drive's cache serves all requests that were waiting for a flush when
//! it began. Later requests wait for the next flush. After `block/blk-flush.c` of Linux 6.1, with its conditions C1 to
//! C3; its time comes in ticks there.
//!
//! - C1: one flush at a time.
//! - C2: no flush begins while data of a request that is flushed before or after are being written. Requests that were
//!   flushed together so share the flush after them, too. A process that syncs thus waits for the journal's commit.
//! - C3: C2 does not hold once a request has waited for [`PENDING_MAX`].
//!
//! Simplified: a pending flush starts when the running one ends, not earlier.

use traces::{Nanos, RequestId, Timestamp};

/// The longest time that data keep a flush waiting (`FLUSH_PENDING_TIMEOUT`).
const PENDING_MAX: Nanos = Nanos::from_s(5);

#[derive(Debug, Default)]
pub(crate) struct FlushMachine {
    /// Requests that the flush in flight serves.
    running: Vec<RequestId>,
    /// Requests that the next flush will serve.
    pending: Vec<RequestId>,
    /// When the first of them came.
    pending_since: Timestamp,
    in_flight: bool,
    /// The number of requests with a flush whose data are being written.
    writing: u32,
}

impl FlushMachine {
    /// Makes `id` wait for a flush that begins from now on.
    pub(crate) fn join(&mut self, now: Timestamp, id: RequestId) {
        if self.pending.is_empty() {
            self.pending_since = now;
        }
        self.pending.push(id);
    }

    /// The data of a request with a flush are written from now on.
    pub(crate) fn data_issued(&mut self) {
        self.writing += 1;
    }

    /// The data of a request with a flush have been written.
    pub(crate) fn data_completed(&mut self) {
        self.writing -= 1;
    }

    /// If a flush is to be sent to the drive now: makes it serve all pending requests and returns the first of them.
    pub(crate) fn start(&mut self, now: Timestamp) -> Option<RequestId> {
        let waits = self.writing > 0 && now.saturating_since(self.pending_since) < PENDING_MAX;
        let first = self.pending.first().copied().filter(|_| !self.in_flight && !waits)?;
        std::mem::swap(&mut self.running, &mut self.pending);
        self.in_flight = true;
        Some(first)
    }

    /// The flush has completed: appends the requests that it served, in the order in which they joined.
    pub(crate) fn finished(&mut self, served: &mut Vec<RequestId>) {
        self.in_flight = false;
        served.append(&mut self.running);
    }
}
