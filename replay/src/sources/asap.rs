//! As fast as possible: the recorded times are ignored and a fixed number of requests is kept outstanding, in the
//! recorded order.

use traces::{Request, RequestId, Timestamp, VmId};

use crate::source::{Next, ReplayError, Source};
use crate::sources::MergedTraces;

/// The requests of the traces; the next one arrives as soon as fewer than `limit` are outstanding.
pub struct Asap {
    traces: MergedTraces,
    limit: u32,
    outstanding: u32,
    now: Timestamp,
}

impl Asap {
    /// Keeps `outstanding` requests outstanding.
    ///
    /// # Panics
    /// If `outstanding` is zero.
    pub fn new(traces: MergedTraces, outstanding: u32) -> Asap {
        assert!(outstanding > 0, "with nothing outstanding nothing is replayed");
        Asap { traces, limit: outstanding, outstanding: 0, now: Timestamp::ZERO }
    }

    /// The traces, with the counts of the records read.
    pub fn traces(&self) -> &MergedTraces {
        &self.traces
    }
}

impl Source for Asap {
    fn next(&mut self) -> Result<Next, ReplayError> {
        let exhausted = self.traces.peek()?.is_none();
        Ok(if exhausted {
            Next::Exhausted
        } else if self.outstanding == self.limit {
            Next::Blocked
        } else {
            Next::At(self.now)
        })
    }

    fn take(&mut self, now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        let mut request = self.traces.take()?.expect("the engine takes what was announced").request;
        self.outstanding += 1;
        request.arrival = now;
        Ok(request)
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.outstanding -= 1;
        self.now = now;
    }

    fn ended_vm(&mut self) -> Option<VmId> {
        self.traces.ended_vm()
    }
}
