//! What can be watched during a replay. Observers change nothing.

use traces::{Request, RequestId, Sectors, Timestamp};

/// A request that the drive has served, with the times at which it passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Which.
    pub id: RequestId,
    /// As the drive saw it: grown by merges, or a part of what arrived.
    pub request: Request,
    /// When it left the scheduler. With a look-ahead this is before it was issued.
    pub dispatched: Timestamp,
    /// When it was sent to the drive (D).
    pub issued: Timestamp,
    /// When the drive began to serve it.
    pub started: Timestamp,
    /// When the drive was done (C).
    pub finished: Timestamp,
    /// How far the head moved for it.
    pub seek: Sectors,
    /// Whether it was served from the drive's cache.
    pub hit: bool,
}

/// Watches a replay. An *arrival* is what the source emits and what completes to it; a *request* is
/// what the scheduler orders and the drive serves: an arrival, several merged into one, or a part.
pub trait Observer {
    /// A request arrived (Q).
    fn arrived(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// A request was given to the scheduler (I).
    fn inserted(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// The arrival or waiting request `from` was merged into the waiting `into`, which is now
    /// `request`. `was_waiting` tells a waiting request from an arrival.
    fn merged(&mut self, _now: Timestamp, _into: RequestId, _from: RequestId, _request: &Request, _was_waiting: bool) {}
    /// A request left the scheduler.
    fn dispatched(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// A request was sent to the drive (D).
    fn issued(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
    /// The drive is done with a request (C).
    fn served(&mut self, _served: &Served) {}
    /// All of an arrival is done; its response time is `now` - `request.arrival` (Q2C).
    fn completed(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
}

impl Observer for () {}

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
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.0.completed(now, id, request);
        self.1.completed(now, id, request);
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
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if let Some(observer) = self {
            observer.completed(now, id, request);
        }
    }
}
