//! What was observed about a request, kept apart from the request itself.

use crate::request::Request;
use crate::units::{Nanos, Timestamp};

/// The times at which a request passed the block layer, where the trace has them. blktrace letters:
/// queued (Q) is [`Request::arrival`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Given to the scheduler (I).
    pub inserted: Option<Timestamp>,
    /// Sent to the device (D); of a request that was requeued, the last time.
    pub issued: Option<Timestamp>,
    /// Completed (C); of a split request, its last part.
    pub completed: Option<Timestamp>,
    /// The error number it completed with, 0 for success.
    pub error: i32,
}

impl Observed {
    /// Device time, D2C.
    pub fn device_time(&self) -> Option<Nanos> {
        self.completed?.checked_since(self.issued?)
    }
}

/// One request of a trace with what was observed about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The request as it arrived.
    pub request: Request,
    /// What happened to it when the trace was taken.
    pub observed: Observed,
}

impl Record {
    /// A record of which only the arrival is known.
    pub fn arrived(request: Request) -> Record {
        Record { request, observed: Observed::default() }
    }

    /// Response time, Q2C.
    pub fn response_time(&self) -> Option<Nanos> {
        self.observed.completed?.checked_since(self.request.arrival)
    }
}
