//! The trait [`Source`]: it decides when each request arrives. [`crate::sources`] replays traces; the package `workloads`
//! generates requests.

use std::path::PathBuf;

use traces::{ReadError, Request, RequestId, Sectors, Timestamp};

/// What a source has to say about its next arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It comes at this time, or then the source goes on by itself and knows more.
    At(Timestamp),
    /// It waits for a completion.
    Blocked,
    /// There is none.
    Exhausted,
}

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A request lies beyond the drive.
    #[error(
        "{}: request {number} at {} touches sectors {} to {}, beyond the drive's {capacity}; \
         --map wrap|scale|remap brings addresses onto the drive, or choose a larger drive",
        trace.display(), request.arrival, request.lba, request.end()
    )]
    BeyondDrive {
        /// The trace.
        trace: PathBuf,
        /// The request's number in the trace, from 1.
        number: u64,
        /// The request, addressed as on the drive.
        request: Box<Request>,
        /// The drive's capacity.
        capacity: Sectors,
    },
    /// A request is longer than the whole drive.
    #[error("{}: request {number} of {sectors} sectors is longer than the drive's {capacity}; choose a larger drive", trace.display())]
    LongerThanDrive {
        /// The trace.
        trace: PathBuf,
        /// The request's number in the trace, from 1.
        number: u64,
        /// Its length.
        sectors: Sectors,
        /// The drive's capacity.
        capacity: Sectors,
    },
    /// A source that generates its requests cannot go on.
    #[error(transparent)]
    Generator(Box<dyn std::error::Error + Send + Sync>),
    /// A trace without completions cannot be replayed closed.
    #[error(
        "{}: none of its first {requests} requests has a completion time, so think times are not known and \
         --pacing closed cannot be used; use --pacing recorded, scaled=F or asap",
        trace.display()
    )]
    NoCompletions {
        /// The trace.
        trace: PathBuf,
        /// How many were looked at.
        requests: u64,
    },
}

/// A process of arrivals.
pub trait Source {
    /// When the next request arrives. Asked repeatedly without anything changing in between.
    ///
    /// # Errors
    /// What is wrong with a trace.
    fn next(&mut self) -> Result<Next, ReplayError>;

    /// Lets what the source does by itself happen, up to and including `now`. Told before arrivals are
    /// taken, and after completions.
    ///
    /// # Errors
    /// What went wrong in it.
    fn advance(&mut self, _now: Timestamp) -> Result<(), ReplayError> {
        Ok(())
    }

    /// The request whose arrival was announced by [`Next::At`], which has come; it will be known as
    /// `id` until it completes.
    ///
    /// # Errors
    /// A request that does not fit the drive.
    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError>;

    /// An arrival has completed.
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request);
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        (**self).next()
    }
    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        (**self).advance(now)
    }
    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        (**self).take(now, id)
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        (**self).completed(now, id, request);
    }
}
