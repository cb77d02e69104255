//! As fast as possible: the recorded times are dropped and a fixed number of requests is kept
//! outstanding, in the recorded order.

use traces::{Request, RequestId, Timestamp};

use crate::source::{Next, ReplayError, Source};
use crate::sources::MergedTraces;

/// A trace's requests, the next as soon as fewer than `outstanding` are.
pub struct Asap {
    workload: MergedTraces,
    limit: u32,
    outstanding: u32,
    now: Timestamp,
}

impl Asap {
    /// Keeps `outstanding` requests outstanding.
    ///
    /// # Panics
    /// If that is zero.
    pub fn new(workload: MergedTraces, outstanding: u32) -> Asap {
        assert!(outstanding > 0, "with nothing outstanding nothing is replayed");
        Asap { workload, limit: outstanding, outstanding: 0, now: Timestamp::ZERO }
    }

    /// The workload, to ask what was read of it.
    pub fn workload(&self) -> &MergedTraces {
        &self.workload
    }
}

impl Source for Asap {
    fn next(&mut self) -> Result<Next, ReplayError> {
        let exhausted = self.workload.peek()?.is_none();
        Ok(if exhausted {
            Next::Exhausted
        } else if self.outstanding == self.limit {
            Next::Blocked
        } else {
            Next::At(self.now)
        })
    }

    fn take(&mut self, now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        let mut request = self.workload.take()?.expect("the engine takes what was announced").request;
        self.outstanding += 1;
        request.arrival = now;
        Ok(request)
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.outstanding -= 1;
        self.now = now;
    }
}
