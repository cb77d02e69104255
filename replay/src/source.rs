//! The trait [`Source`]: it decides when each request arrives. [`crate::sources`] replays traces; the package
//! `workloads` generates requests.

use std::path::PathBuf;

use traces::{ReadError, Request, RequestId, Sectors, Timestamp, VmId};

/// An arrival: its id, and the request as it arrived.
pub type Arrival = (RequestId, Request);

/// The next event of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next arrival comes at this time, or the source acts by itself then and must be asked again.
    At(Timestamp),
    /// The next arrival waits for a completion.
    Blocked,
    /// No arrival is left. What is outstanding still completes.
    Exhausted,
    /// The replay ends now, whatever is outstanding.
    Stopped,
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
    /// A scheduler did what no scheduler may do.
    #[error("the scheduler is at fault: {0}")]
    Scheduler(String),
    /// Every remaining request waits for something that will not happen.
    #[error(
        "after {now} {outstanding} requests are outstanding and nothing will happen: the scheduler keeps them for ever"
    )]
    Stuck {
        /// Arrivals, and parts of arrivals, that have not completed.
        outstanding: usize,
        /// The last time at which something happened.
        now: Timestamp,
    },
    /// A request is longer than the whole drive.
    #[error(
        "{}: request {number} of {sectors} sectors is longer than the drive's {capacity}; choose a larger drive",
        trace.display()
    )]
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
    /// A scaled arrival lies beyond the range of times.
    #[error(
        "{}: its arrival at {arrival} would be more than {} after the first with scaled times; choose a smaller F for \
         --pacing scaled=F",
        trace.display(),
        Timestamp::TRACE_MAX_TEXT
    )]
    BeyondTime {
        /// The trace.
        trace: PathBuf,
        /// The recorded time since the first arrival.
        arrival: Timestamp,
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
        /// The number of requests that were read.
        requests: u64,
    },
}

/// Decides when each request arrives.
///
/// ```
/// use iocast_replay::metrics::Class;
/// use iocast_replay::{Engine, Limits, Metrics, Next, ReplayError, Source, Stage};
/// use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};
///
/// /// So many reads, one each time the one before completes.
/// struct OneByOne {
///     left: u64,
///     next: Option<Timestamp>,
/// }
///
/// impl Source for OneByOne {
///     fn next(&mut self) -> Result<Next, ReplayError> {
///         Ok(match self.next {
///             Some(time) => Next::At(time),
///             None if self.left > 0 => Next::Blocked,
///             None => Next::Exhausted,
///         })
///     }
///     fn take(&mut self, now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
///         (self.left, self.next) = (self.left - 1, None);
///         Ok(Request::new(now, Operation::Read, Lba::new(self.left * 80), Sectors::new(8)))
///     }
///     fn completed(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
///         self.next = (self.left > 0).then_some(now);
///     }
/// }
///
/// let scheduler = schedulers::build(&"fifo".parse()?)?.scheduler;
/// let drive = drive_models::build(&"fixed".parse()?)?.drive;
/// let source = OneByOne { left: 10, next: Some(Timestamp::ZERO) };
/// let ended = Engine::new(source, Stage::new(scheduler, Limits::default()), drive, Metrics::new()).run()?;
/// assert_eq!(ended.observer.total(Class::Read).response.count(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Source {
    /// When the next request arrives. The engine may ask repeatedly without any change in between.
    ///
    /// # Errors
    /// The error of a trace.
    fn next(&mut self) -> Result<Next, ReplayError>;

    /// Advances the source's own events up to and including `now`. Called before arrivals are taken, and after
    /// completions.
    ///
    /// # Errors
    /// The error of the generator.
    fn advance(&mut self, _now: Timestamp) -> Result<(), ReplayError> {
        Ok(())
    }

    /// Whether it has events of its own of which no arrival may come, so that [`Source::run_ahead`] is worth a call. It
    /// never changes.
    fn acts_alone(&self) -> bool {
        false
    }

    /// Advances the source's own events before `until`, one time after another, up to the first time with an arrival or
    /// the end of a VM. That time is the result; the arrivals of that time can then be taken. The engine calls this when
    /// a step before `until` changes nothing else.
    ///
    /// # Errors
    /// Those of [`Source::next`] and [`Source::advance`].
    fn run_ahead(&mut self, _until: Timestamp) -> Result<Option<Timestamp>, ReplayError> {
        Ok(None)
    }

    /// Takes the request whose arrival [`Next::At`] announced and is due now. Its id is `id` until it completes.
    ///
    /// # Errors
    /// A request that does not fit the drive.
    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError>;

    /// An arrival has completed.
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request);

    /// A VM that sends nothing more, or has used up its trace ([`Closed::used_up`](crate::sources::Closed::used_up)): from
    /// then on its rates are not what it would do. Each VM is given once. The engine asks after the arrivals of each time.
    fn ended_vm(&mut self) -> Option<VmId> {
        None
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        (**self).next()
    }
    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        (**self).advance(now)
    }
    fn acts_alone(&self) -> bool {
        (**self).acts_alone()
    }
    fn run_ahead(&mut self, until: Timestamp) -> Result<Option<Timestamp>, ReplayError> {
        (**self).run_ahead(until)
    }
    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        (**self).take(now, id)
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        (**self).completed(now, id, request);
    }
    fn ended_vm(&mut self) -> Option<VmId> {
        (**self).ended_vm()
    }
}
