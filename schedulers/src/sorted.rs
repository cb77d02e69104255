//! Shared part of the policies that keep waiting requests in order of their first sector and choose by the head's
//! position. Only their rules differ.

use traces::{Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::lba_queue::{Classes, LbaQueue};
use crate::scheduler::{Capacity, Dispatch, Scheduler};

/// Chooses the next of the waiting requests. Reads and writes are treated alike. `classes` names the kinds for which
/// there is capacity; a rule ignores the others.
pub(crate) trait Rule: Send {
    fn choose(&mut self, now: Timestamp, waiting: &LbaQueue, classes: Classes, cost: &dyn AccessCost) -> Dispatch;

    /// The counts of a rule that consists of several; see [`Scheduler::sent_by_rule`].
    fn sent_by_rule(&self) -> &[u64] {
        &[]
    }
}

/// A queue sorted by first sector, served by a rule.
#[derive(Debug, Default)]
pub(crate) struct Sorted<R> {
    queue: LbaQueue,
    rule: R,
}

impl<R> Sorted<R> {
    /// An empty queue under a rule that has settings.
    pub(crate) fn with(rule: R) -> Sorted<R> {
        Sorted { queue: LbaQueue::default(), rule }
    }
}

impl<R: Rule> Scheduler for Sorted<R> {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.queue.insert(id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let choice = self.rule.choose(now, &self.queue, Classes::with(capacity), cost);
        if let Dispatch::Send(id) = choice {
            self.queue.remove(id);
        }
        choice
    }

    fn remove(&mut self, id: RequestId) {
        self.queue.remove(id);
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        self.queue.grown(into, request);
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        self.rule.sent_by_rule()
    }
}
