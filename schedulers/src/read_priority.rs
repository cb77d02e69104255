//! Reads before everything else, both in the order of their arrival: the head of line of priority queueing (Cobham
//! 1954), as in a controller with a write buffer. With a limit on the writes that wait, writes are drained from that
//! number down to a lower one. A request is not interrupted once it is sent.
//!
//! A kind for which there is no capacity is passed over as if none of it waited. Without a limit, a steady load of
//! reads keeps writes waiting for ever.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Operation, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::id_list::IdList;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

const DRAIN: usize = 0;
const READ: usize = 1;
const WRITE: usize = 2;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("drain", "a write of a drain"),
    RuleInfo::new("read", "a read"),
    RuleInfo::new("write", "a write without a drain: no read waits for which there is capacity"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "read-priority",
    summary: "reads before writes, each in order of arrival; above a limit, writes are drained",
    origin: "Cobham 1954, Operations Research 2(1); write drain as in storage controllers",
    tunables: &[
        Tunable::new("drain_at", Unit::Count, "0", "number of waiting writes that starts a drain; 0: never"),
        Tunable::new("drain_to", Unit::Count, "0", "number of waiting writes that ends a drain"),
    ],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(ReadPriority {
        drain_at: usize::try_from(settings.count("drain_at")).unwrap_or(usize::MAX),
        drain_to: usize::try_from(settings.count("drain_to")).unwrap_or(usize::MAX),
        ..ReadPriority::default()
    })
}

/// The policy.
#[derive(Clone, Debug, Default)]
struct ReadPriority {
    drain_at: usize,
    drain_to: usize,
    draining: bool,
    reads: IdList,
    writes: IdList,
    is_read: Slots<bool>,
    sent: [u64; RULES.len()],
}

impl ReadPriority {
    fn queue(&mut self, id: RequestId) -> &mut IdList {
        if self.is_read[id] { &mut self.reads } else { &mut self.writes }
    }

    /// Whether writes go first with those that wait now.
    fn drains(&self) -> bool {
        let writes = self.writes.len();
        self.drain_at > 0 && (writes >= self.drain_at || (self.draining && writes > self.drain_to))
    }

    /// Takes a request out to be sent; whether this `drains`.
    fn send(&mut self, id: RequestId, drains: bool) {
        let rule = match (self.is_read[id], drains) {
            (true, _) => READ,
            (false, true) => DRAIN,
            (false, false) => WRITE,
        };
        self.sent[rule] += 1;
        self.queue(id).remove(id);
    }
}

impl Scheduler for ReadPriority {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.is_read.set(id, request.operation == Operation::Read);
        self.queue(id).push_back(id);
    }

    fn dispatch(&mut self, _now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        self.draining = self.drains();
        let read = self.reads.first().filter(|_| capacity.reads > 0);
        let write = self.writes.first().filter(|_| capacity.writes > 0);
        let Some(id) = (if self.draining { write.or(read) } else { read.or(write) }) else { return Dispatch::Idle };
        self.send(id, self.draining);
        Dispatch::Send(id)
    }

    fn remove(&mut self, id: RequestId) {
        self.queue(id).remove(id);
    }

    fn follow(&mut self, _now: Timestamp, id: RequestId) -> bool {
        self.send(id, self.drains());
        true
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        Some(Box::new(self.clone()))
    }

    fn requeue(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.is_read.set(id, request.operation == Operation::Read);
        self.queue(id).push_front(id);
    }

    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}

    fn waiting(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
