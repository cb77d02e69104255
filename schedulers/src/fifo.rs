//! First in, first out: the order of Linux 2.6's noop and of blk-mq's none. The stage merges. Leaves out nothing.
//!
//! A head for which there is no capacity holds up the requests behind it: in a fifo no request overtakes another. A
//! request that comes back unserved goes to the head, as the kernel puts it at the head of its dispatch queue.

use traces::spec::Settings;
use traces::{Operation, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::id_list::IdList;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "fifo",
    summary: "first in, first out, with merging (Linux noop)",
    origin: "Linux 2.6 block/noop-iosched.c",
    tunables: &[],
    rules: &[],
    build: &build,
};

fn build(_settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Fifo::default())
}

/// The policy.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    queue: IdList,
    is_read: Slots<bool>,
}

impl Scheduler for Fifo {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.is_read.set(id, request.operation == Operation::Read);
        self.queue.push_back(id);
    }

    fn dispatch(&mut self, _now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        let Some(id) = self.queue.first() else { return Dispatch::Idle };
        let free = if self.is_read[id] { capacity.reads } else { capacity.writes };
        if free == 0 {
            return Dispatch::Idle;
        }
        self.queue.remove(id);
        Dispatch::Send(id)
    }

    fn remove(&mut self, id: RequestId) {
        self.queue.remove(id);
    }

    fn follow(&mut self, _now: Timestamp, id: RequestId) -> bool {
        self.queue.remove(id);
        true
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        Some(Box::new(self.clone()))
    }

    fn requeue(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.is_read.set(id, request.operation == Operation::Read);
        self.queue.push_front(id);
    }

    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
