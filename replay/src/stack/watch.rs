//! The counts of a layer: the requests that pass it, by an observer between its stages and the observer of the replay.

use traces::statistics::Spans;
use traces::{Operation, Request, RequestId, Timestamp, VmId};

use crate::observer::{Observer, Served};

/// The counts of a layer. All of them are about requests as they leave the layer, after merging and splitting by it and
/// by the layers above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests sent on, without flushes.
    pub issued: u64,
    /// Requests among them that came from another VM than the one before (Kim et al. 2015, Fig. 7: context switches).
    pub switches: u64,
    /// Arrivals at the layer that were merged into a waiting request.
    pub merged: u64,
    /// Flushes sent on.
    pub flushes: u64,
    /// Time from sending a request on until the drive began to serve it or the first part of it.
    pub to_drive: Spans,
    /// Time from sending a request on until its completion came back.
    pub below: Spans,
    /// How far the head moved for the requests, in sectors: the same sum for every layer.
    pub seek_sectors: u128,
    /// Requests that were served from the drive's cache completely.
    pub hits: u64,
}

/// Counts the events of a layer and passes on those that the observer of the replay sees.
pub(super) struct Watch<'a, O> {
    pub(super) counts: &'a mut Counts,
    pub(super) last_vm: &'a mut Option<VmId>,
    /// Whether the observer sees the layer's decisions.
    pub(super) decides: bool,
    /// Whether the observer sees the requests that the layer sends down: it is the last one, above the drive.
    pub(super) last: bool,
    pub(super) observer: &'a mut O,
}

impl<O: Observer> Observer for Watch<'_, O> {
    fn inserted(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if self.decides {
            self.observer.inserted(now, id, request);
        }
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request, was_waiting: bool) {
        self.counts.merged += u64::from(!was_waiting);
        if self.decides {
            self.observer.merged(now, into, from, request, was_waiting);
        }
    }

    fn dispatched(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if self.decides {
            self.observer.dispatched(now, id, request);
        }
    }

    fn issued(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if request.operation == Operation::Flush {
            self.counts.flushes += 1;
        } else {
            self.counts.issued += 1;
            self.counts.switches += u64::from(self.last_vm.is_some_and(|vm| vm != request.vm));
            *self.last_vm = Some(request.vm);
        }
        if self.last {
            self.observer.issued(now, id, request);
        }
    }

    fn served(&mut self, served: &Served) {
        if served.request.operation != Operation::Flush {
            self.counts.to_drive.add(served.started.since(served.issued));
            self.counts.below.add(served.finished.since(served.issued));
            self.counts.seek_sectors += u128::from(served.seek.count());
            self.counts.hits += u64::from(served.hit);
        }
        if self.last {
            self.observer.served(served);
        }
    }
}
