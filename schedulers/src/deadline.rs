//! The deadline scheduler of Linux 2.6.30, `block/deadline-iosched.c`. Reads and writes each wait in an order by sector
//! and in a fifo with an expiry time. Requests are sent in batches along the sector order. The head of the fifo starts
//! the next batch once it has expired. Everything but a read is in the write direction.
//!
//! As in the kernel, a request that arrives at the same sector as a waiting one of its direction moves that one to the
//! dispatch queue. The kernel's tree cannot hold both.
//!
//! Left out are ticks (times are compared to the nanosecond), the search for merge candidates, which the stage does,
//! and barriers.
//!
//! The kernel does not know capacity. A direction for which there is no capacity counts as having no request waiting.
//! The other direction is served if there is capacity for it, and reads do not then starve writes. A batch that ends in
//! this way is not resumed, because a dispatch in the other direction forgets it. The requests of the dispatch queue
//! for which there is capacity go before all others.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::directions::{READ, Starvation, WRITE, direction_of, has_capacity};
use crate::entry::{Entry, RuleInfo};
use crate::id_list::IdList;
use crate::order::Order;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

const ALIAS: usize = 0;
const BATCH: usize = 1;
const STARVED: usize = 2;
const EXPIRED: usize = 3;
const NEW_BATCH: usize = 4;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("alias", "a request whose place in the sector order another one took at the same sector"),
    RuleInfo::new("batch", "the next in sector order of the batch that runs"),
    RuleInfo::new("starved", "the first of a batch of writes that enough batches of waiting reads have passed"),
    RuleInfo::new("expired", "the first of a batch for another reason: the oldest of its direction, which has expired"),
    RuleInfo::new("new batch", "the first of any other batch"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "deadline",
    summary: "batches in sector order, reads before writes, with deadlines (Linux)",
    origin: "Linux 2.6.30 block/deadline-iosched.c",
    tunables: &[
        Tunable::new("read_expire", Unit::Time, "500ms", "age at which a waiting read starts a batch"),
        Tunable::new("write_expire", Unit::Time, "5s", "age at which a waiting write starts a batch"),
        Tunable::new("writes_starved", Unit::Count, "2", "number of read batches that may overtake waiting writes"),
        Tunable::new("fifo_batch", Unit::Count, "16", "most requests of a batch"),
        Tunable::new("front_merges", Unit::Switch, "on", "whether to merge in front of waiting requests"),
    ],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Deadline {
        expire: [settings.nanos("read_expire"), settings.nanos("write_expire")],
        starvation: Starvation::new(settings.count("writes_starved")),
        fifo_batch: settings.count("fifo_batch"),
        front_merges: settings.switch("front_merges"),
        queues: Default::default(),
        dispatch_queue: IdList::default(),
        waiting: Slots::default(),
        inserted: 0,
        batching: 0,
        sent: [0; RULES.len()],
    })
}

/// The requests of one direction.
#[derive(Debug, Default)]
struct Queue {
    sorted: Order,
    fifo: IdList,
    /// The next in sector order after the last that was moved, while this is its direction.
    next: Option<RequestId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    direction: usize,
    expires: Timestamp,
    /// The rule that has chosen it, once one has.
    rule: usize,
}

#[derive(Debug)]
struct Deadline {
    expire: [Nanos; 2],
    starvation: Starvation,
    fifo_batch: u64,
    front_merges: bool,
    queues: [Queue; 2],
    /// The requests that have been chosen and not yet sent.
    dispatch_queue: IdList,
    waiting: Slots<Waiting>,
    inserted: u64,
    /// Requests moved in the current batch.
    batching: u64,
    sent: [u64; RULES.len()],
}

impl Deadline {
    /// Sorts a request in; one that waits at the same sector gives way to the dispatch queue.
    fn add_sorted(&mut self, id: RequestId, request: &Request) {
        let direction = self.waiting[id].direction;
        let sector = request.lba.sector();
        if let Some(alias) = self.queues[direction].sorted.at_or_after(sector).filter(|entry| entry.key == sector) {
            self.move_request(alias.id(), ALIAS);
            self.dispatch_queue.push_back(alias.id());
        }
        self.queues[direction].sorted.insert(id, sector, self.inserted);
        self.inserted += 1;
    }

    /// Takes a request out of its direction's queues; if it was to be next, its successor is.
    fn remove_request(&mut self, id: RequestId) {
        let queue = &mut self.queues[self.waiting[id].direction];
        if queue.next == Some(id) {
            queue.next = queue.sorted.after(id).map(|entry| entry.id());
        }
        queue.sorted.remove(id);
        queue.fifo.remove(id);
    }

    /// The same by a rule, and the batch goes on from there.
    fn move_request(&mut self, id: RequestId, rule: usize) {
        self.waiting[id].rule = rule;
        let direction = self.waiting[id].direction;
        self.queues[1 - direction].next = None;
        self.queues[direction].next = Some(id);
        self.remove_request(id);
    }

    /// The first request of the dispatch queue for which there is capacity.
    fn take_decided(&mut self, capacity: Capacity) -> Option<RequestId> {
        let mut decided = self.dispatch_queue.first();
        while let Some(id) = decided {
            if has_capacity(capacity, self.waiting[id].direction) {
                self.dispatch_queue.remove(id);
                return Some(id);
            }
            decided = self.dispatch_queue.after(id);
        }
        None
    }

    /// The next of the batch, if it may go on.
    fn batched(&self, capacity: Capacity) -> Option<RequestId> {
        let next = |direction: usize| self.queues[direction].next.filter(|_| has_capacity(capacity, direction));
        next(WRITE).or(next(READ)).filter(|_| self.batching < self.fifo_batch)
    }

    /// The first request of a new batch and the rule that chooses it.
    fn start_batch(&mut self, now: Timestamp, capacity: Capacity) -> Option<(RequestId, usize)> {
        let waits = |direction: usize| !self.queues[direction].fifo.is_empty() && has_capacity(capacity, direction);
        let (reads, writes) = (waits(READ), waits(WRITE));
        let direction = self.starvation.choose(reads, writes)?;
        let queue = &self.queues[direction];
        let oldest = queue.fifo.first()?;
        let expired = now > self.waiting[oldest].expires;
        self.batching = 0;
        let rule = match direction {
            WRITE if reads => STARVED,
            _ if expired => EXPIRED,
            _ => NEW_BATCH,
        };
        Some((queue.next.filter(|_| !expired).unwrap_or(oldest), rule))
    }

    fn send(&mut self, id: RequestId) -> Dispatch {
        self.sent[self.waiting[id].rule] += 1;
        Dispatch::Send(id)
    }
}

impl Scheduler for Deadline {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let direction = direction_of(request);
        self.waiting
            .set(id, Waiting { direction, expires: now.saturating_add(self.expire[direction]), rule: NEW_BATCH });
        self.add_sorted(id, request);
        self.queues[direction].fifo.push_back(id);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        if let Some(id) = self.take_decided(capacity) {
            return self.send(id);
        }
        let batched = self.batched(capacity).map(|id| (id, BATCH));
        let Some((id, rule)) = batched.or_else(|| self.start_batch(now, capacity)) else { return Dispatch::Idle };
        self.batching += 1;
        self.move_request(id, rule);
        self.send(id)
    }

    fn remove(&mut self, id: RequestId) {
        if self.dispatch_queue.contains(id) {
            self.dispatch_queue.remove(id);
        } else {
            self.remove_request(id);
        }
    }

    /// The kernel puts a request that comes back at the head of the dispatch queue.
    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let rule = self.waiting[id].rule;
        self.waiting.set(id, Waiting { direction: direction_of(request), expires: now, rule });
        self.dispatch_queue.push_front(id);
    }

    /// Nothing is merged into a request that is in the dispatch queue.
    fn may_merge(&self, into: RequestId, _request: &Request) -> bool {
        !self.dispatch_queue.contains(into)
    }

    fn front_merges(&self) -> bool {
        self.front_merges
    }

    /// A front merge sorts the request anew; it stays next if it was.
    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        if self.dispatch_queue.contains(into) {
            return;
        }
        let sorted = &mut self.queues[self.waiting[into].direction].sorted;
        if sorted.entry(into).key != request.lba.sector() {
            sorted.remove(into);
            self.add_sorted(into, request);
        }
    }

    /// If `from` expires before `into`, `into` takes its expiry time and its place in the fifo.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        let (Waiting { direction, expires: into_expires, .. }, Waiting { expires, .. }) =
            (self.waiting[into], self.waiting[from]);
        let fifo = &mut self.queues[direction].fifo;
        if fifo.contains(into) && fifo.contains(from) && expires < into_expires {
            fifo.remove(into);
            fifo.insert_before(from, into);
            self.waiting[into].expires = expires;
        }
        self.remove(from);
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.queues[READ].fifo.len() + self.queues[WRITE].fifo.len() + self.dispatch_queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
