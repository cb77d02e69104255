//! The observer of a replay: it receives the events of the replay and does not change it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use traces::{Request, RequestId, Sectors, Timestamp, VmId};

/// A request that the drive has served, with the times of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its id.
    pub id: RequestId,
    /// The request as the drive saw it: grown by merges, or a part of an arrival.
    pub request: Request,
    /// When it left the scheduler. With a look-ahead this is before it was issued.
    pub dispatched: Timestamp,
    /// When it was sent to the drive (D).
    pub issued: Timestamp,
    /// When the drive began to serve it.
    pub started: Timestamp,
    /// When the drive completed it (C).
    pub finished: Timestamp,
    /// How far the head moved for it.
    pub seek: Sectors,
    /// Whether it was served from the drive's cache.
    pub hit: bool,
}

/// Receives the events of a replay. An *arrival* is an I/O that the source emits and that completes to it. A *request*
/// is ordered by the scheduler and served by the drive: one arrival, several merged arrivals, or a part of an arrival.
///
/// ```
/// use iocast_replay::{Observer, Served};
///
/// /// The longest way of the head.
/// #[derive(Default)]
/// struct LongestSeek(u64);
///
/// impl Observer for LongestSeek {
///     fn served(&mut self, served: &Served) {
///         self.0 = self.0.max(served.seek.count());
///     }
/// }
/// ```
pub trait Observer {
    /// A request arrived (Q).
    fn arrived(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// A request was given to the scheduler (I).
    fn inserted(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// `from` was merged into the waiting request `into`, which is now `request`. `was_waiting`: whether `from` was a
    /// waiting request; otherwise it is an arrival.
    fn merged(&mut self, _now: Timestamp, _into: RequestId, _from: RequestId, _request: &Request, _was_waiting: bool) {}
    /// A request left the scheduler.
    fn dispatched(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// A request was sent to the drive (D).
    fn issued(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// The drive has completed a request (C).
    fn served(&mut self, _served: &Served) {}
    /// The request that was just served was this arrival, a part of it, or a step of its flush sequence, perhaps together
    /// with other arrivals. The first of them has the way of the head. Not called in stacks, whose layers merge and split
    /// requests anew.
    fn served_arrival(&mut self, _id: RequestId, _served: &Served) {}
    /// The device could not serve a request and gave this error number; [`Observer::served`] follows.
    fn failed(&mut self, _now: Timestamp, _id: RequestId, _errno: i32) {}
    /// All parts of an arrival have completed; its response time is `now` - `request.arrival` (Q2C).
    fn completed(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// A VM has come to the end of its trace ([`Source::ended_vm`](crate::Source::ended_vm)).
    fn vm_ended(&mut self, _now: Timestamp, _vm: VmId) {}
}

impl Observer for () {}

/// Counts completed arrivals, for a progress bar.
#[derive(Clone, Debug, Default)]
pub struct Completed(pub Arc<AtomicU64>);

impl Observer for Completed {
    fn completed(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Two observers, called in order.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn arrived(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.arrived(now, id, request);
        self.1.arrived(now, id, request);
    }
    fn inserted(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.inserted(now, id, request);
        self.1.inserted(now, id, request);
    }
    fn merged(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request, was_waiting: bool) {
        self.0.merged(now, into, from, request, was_waiting);
        self.1.merged(now, into, from, request, was_waiting);
    }
    fn dispatched(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.dispatched(now, id, request);
        self.1.dispatched(now, id, request);
    }
    fn issued(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.issued(now, id, request);
        self.1.issued(now, id, request);
    }
    fn served(&mut self, served: &Served) {
        self.0.served(served);
        self.1.served(served);
    }
    fn served_arrival(&mut self, id: RequestId, served: &Served) {
        self.0.served_arrival(id, served);
        self.1.served_arrival(id, served);
    }
    fn failed(&mut self, now: Timestamp, id: RequestId, errno: i32) {
        self.0.failed(now, id, errno);
        self.1.failed(now, id, errno);
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.completed(now, id, request);
        self.1.completed(now, id, request);
    }
    fn vm_ended(&mut self, now: Timestamp, vm: VmId) {
        self.0.vm_ended(now, vm);
        self.1.vm_ended(now, vm);
    }
}

/// An observer that may be absent.
impl<O: Observer> Observer for Option<O> {
    fn arrived(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if let Some(observer) = self {
            observer.arrived(now, id, request);
        }
    }
    fn inserted(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if let Some(observer) = self {
            observer.inserted(now, id, request);
        }
    }
    fn merged(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request, was_waiting: bool) {
        if let Some(observer) = self {
            observer.merged(now, into, from, request, was_waiting);
        }
    }
    fn dispatched(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if let Some(observer) = self {
            observer.dispatched(now, id, request);
        }
    }
    fn issued(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if let Some(observer) = self {
            observer.issued(now, id, request);
        }
    }
    fn served(&mut self, served: &Served) {
        if let Some(observer) = self {
            observer.served(served);
        }
    }
    fn served_arrival(&mut self, id: RequestId, served: &Served) {
        if let Some(observer) = self {
            observer.served_arrival(id, served);
        }
    }
    fn failed(&mut self, now: Timestamp, id: RequestId, errno: i32) {
        if let Some(observer) = self {
            observer.failed(now, id, errno);
        }
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if let Some(observer) = self {
            observer.completed(now, id, request);
        }
    }
    fn vm_ended(&mut self, now: Timestamp, vm: VmId) {
        if let Some(observer) = self {
            observer.vm_ended(now, vm);
        }
    }
}
