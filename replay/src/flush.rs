//! The flush machine of a stage: one flush of the drive's cache serves all requests that were waiting for a flush when
//! it began. Later requests wait for the next flush. After Linux `block/blk-flush.c`, simplified: a pending flush
//! starts when the running one ends, not earlier.

use traces::RequestId;

#[derive(Debug, Default)]
pub(crate) struct FlushMachine {
    /// Requests that the flush in flight serves.
    running: Vec<RequestId>,
    /// Requests that the next flush will serve.
    pending: Vec<RequestId>,
    in_flight: bool,
}

impl FlushMachine {
    /// Makes `id` wait for a flush that begins from now on.
    pub(crate) fn join(&mut self, id: RequestId) {
        self.pending.push(id);
    }

    /// If a flush is to be sent to the drive now: makes it serve all pending requests and returns the first of them.
    pub(crate) fn start(&mut self) -> Option<RequestId> {
        let first = self.pending.first().copied().filter(|_| !self.in_flight)?;
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
