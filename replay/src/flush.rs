//! The flush machine: one flush of the drive's cache serves everybody who waited for one when it
//! began; who comes later waits for the next (Linux `block/blk-flush.c`, in simplified form: a
//! pending flush starts when the running one ends, not earlier).

use traces::RequestId;

#[derive(Debug, Default)]
pub(crate) struct FlushMachine {
    /// Served by the flush that the drive is executing.
    running: Vec<RequestId>,
    /// Served by the next.
    pending: Vec<RequestId>,
    in_flight: bool,
}

impl FlushMachine {
    /// `id` needs a flush that begins from now on.
    pub(crate) fn join(&mut self, id: RequestId) {
        self.pending.push(id);
    }

    /// If a flush is to be sent to the drive now: takes those pending on board and names the first.
    pub(crate) fn start(&mut self) -> Option<RequestId> {
        let first = self.pending.first().copied().filter(|_| !self.in_flight)?;
        std::mem::swap(&mut self.running, &mut self.pending);
        self.in_flight = true;
        Some(first)
    }

    /// The drive's flush is done: appends whom it served, in the order in which they joined.
    pub(crate) fn finished(&mut self, served: &mut Vec<RequestId>) {
        self.in_flight = false;
        served.append(&mut self.running);
    }
}
