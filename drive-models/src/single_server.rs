//! A drive that serves one request at a time, in the order of submission.
//!
//! The order is fixed on submission, and so are all times. A request is therefore served when it is submitted, and only
//! its completion waits.

use std::collections::VecDeque;

use schedulers::AccessCost;
use traces::{Nanos, Request, RequestId, Sectors, Timestamp};

use crate::drive::{Completion, DriveModel, WriteCache};

/// The service of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The service time.
    pub time: Nanos,
    /// How far the head moves for it.
    pub seek: Sectors,
    /// Whether the drive's cache has it.
    pub hit: bool,
}

/// The service times of such a drive.
///
/// ```
/// use iocast_drives::single_server::{Service, ServiceModel};
/// use iocast_drives::{AccessCost, Completion, DriveModel, SingleServer};
/// use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};
///
/// /// Every request takes a millisecond.
/// struct Steady;
///
/// impl AccessCost for Steady {
///     fn position(&self) -> Lba {
///         Lba::ZERO
///     }
///     fn capacity(&self) -> Sectors {
///         Sectors::new(1000)
///     }
///     fn between(&self, _from: Lba, _to: Lba, _sectors: Sectors) -> Nanos {
///         Nanos::from_ms(1)
///     }
/// }
///
/// impl ServiceModel for Steady {
///     fn serve(&mut self, _started: Timestamp, _request: &Request) -> Service {
///         Service { time: Nanos::from_ms(1), seek: Sectors::ZERO, hit: false }
///     }
/// }
///
/// let mut drive = SingleServer::new(Steady);
/// let read = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(8), Sectors::new(8));
/// drive.submit(Timestamp::ZERO, RequestId(0), &read);
/// let end = drive.next_event().expect("a request is in service");
/// let mut completed: Vec<Completion> = Vec::new();
/// drive.advance(end, &mut completed);
/// assert_eq!((completed[0].id, completed[0].finished), (RequestId(0), Timestamp::ZERO + Nanos::from_ms(1)));
/// ```
pub trait ServiceModel: AccessCost + Send {
    /// Serves the next request from `started` on, in the state that the request before has left. Times never decrease.
    fn serve(&mut self, started: Timestamp, request: &Request) -> Service;

    /// What it does with written data. Unless a model says otherwise, a completed write is durable.
    fn write_cache(&self) -> WriteCache {
        WriteCache::Through
    }

    /// Whether it understands discards. Unless a model says otherwise, it does not.
    fn discards(&self) -> bool {
        false
    }
}

/// A service model with its queue, the request in service first.
#[derive(Debug)]
pub struct SingleServer<M> {
    model: M,
    pending: VecDeque<Completion>,
    free_at: Timestamp,
}

impl<M> SingleServer<M> {
    /// An idle drive.
    pub fn new(model: M) -> SingleServer<M> {
        SingleServer { model, pending: VecDeque::new(), free_at: Timestamp::ZERO }
    }
}

impl<M: ServiceModel> DriveModel for SingleServer<M> {
    fn capacity(&self) -> Sectors {
        self.model.capacity()
    }

    fn accepts(&self, _request: &Request) -> bool {
        true
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let started = now.max(self.free_at);
        let Service { time, seek, hit } = self.model.serve(started, request);
        self.free_at = started.saturating_add(time);
        self.pending.push_back(Completion { id, started, finished: self.free_at, seek, hit });
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.pending.front().map(|completion| completion.finished)
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        while let Some(completion) = self.pending.front().copied() {
            if completion.finished > now {
                break;
            }
            self.pending.pop_front();
            completions.push(completion);
        }
    }

    fn cost(&self) -> &dyn AccessCost {
        &self.model
    }

    fn write_cache(&self) -> WriteCache {
        self.model.write_cache()
    }

    fn discards(&self) -> bool {
        self.model.discards()
    }
}
