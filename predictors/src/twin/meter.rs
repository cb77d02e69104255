//! What machines get of the twin.

use std::cell::Cell;

use replay::{Observer, Served};
use traces::statistics::Distribution;
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

/// A machine's requests that were done within the measured time, by operation.
pub(super) type Got = [Distribution; Operation::MOVING_DATA];

/// Watches the device's queue: from when a machine issues a request (D) to when it hears of its completion (C).
pub(super) struct Meter<'a> {
    /// When each request came to the device, by id.
    issued: Vec<Timestamp>,
    /// What a machine hears of a completion later.
    delay: Nanos,
    from: Timestamp,
    to: &'a Cell<Timestamp>,
    pub(super) machines: Vec<Got>,
}

impl<'a> Meter<'a> {
    /// Of requests that are done from `from` on, and before `to`.
    pub(super) fn new(machines: usize, delay: Nanos, from: Timestamp, to: &'a Cell<Timestamp>) -> Meter<'a> {
        Meter { issued: Vec::new(), delay, from, to, machines: vec![Got::default(); machines] }
    }
}

impl Observer for Meter<'_> {
    fn inserted(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        if id.index() >= self.issued.len() {
            self.issued.resize(id.index() + 1, Timestamp::ZERO);
        }
        self.issued[id.index()] = now;
    }

    fn served(&mut self, served: &Served) {
        if served.finished < self.from || served.finished >= self.to.get() {
            return;
        }
        let response = served.finished.saturating_since(self.issued[served.id.index()]) + self.delay;
        self.machines[usize::from(served.request.vm.0)][served.request.operation as usize].add(response);
    }
}
