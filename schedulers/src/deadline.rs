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
use crate::entry::Entry;
use crate::id_list::IdList;
use crate::order::Order;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

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
    build,
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
}

impl Deadline {
    /// Sorts a request in; one that waits at the same sector gives way to the dispatch queue.
    fn add_sorted(&mut self, id: RequestId, request: &Request) {
        let direction = self.waiting[id].direction;
        let sector = request.lba.sector();
        if let Some(alias) = self.queues[direction].sorted.at_or_after(sector).filter(|entry| entry.key == sector) {
            self.move_request(alias.id());
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

    /// The same, and the batch goes on from there.
    fn move_request(&mut self, id: RequestId) {
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

    /// The direction of a new batch.
    fn choose_direction(&mut self, capacity: Capacity) -> Option<usize> {
        let waits = |direction: usize| !self.queues[direction].fifo.is_empty() && has_capacity(capacity, direction);
        let (reads, writes) = (waits(READ), waits(WRITE));
        self.starvation.choose(reads, writes)
    }

    /// The first request of a new batch in this direction, where something waits.
    fn start_batch(&mut self, now: Timestamp, direction: usize) -> Option<RequestId> {
        let queue = &self.queues[direction];
        let oldest = queue.fifo.first()?;
        let expired = now > self.waiting[oldest].expires;
        self.batching = 0;
        queue.next.filter(|_| !expired).or(Some(oldest))
    }
}

impl Scheduler for Deadline {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let direction = direction_of(request);
        self.waiting.set(id, Waiting { direction, expires: now.saturating_add(self.expire[direction]) });
        self.add_sorted(id, request);
        self.queues[direction].fifo.push_back(id);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        if let Some(id) = self.take_decided(capacity) {
            return Dispatch::Send(id);
        }
        let request = self.batched(capacity).or_else(|| {
            let direction = self.choose_direction(capacity)?;
            self.start_batch(now, direction)
        });
        let Some(id) = request else { return Dispatch::Idle };
        self.batching += 1;
        self.move_request(id);
        Dispatch::Send(id)
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
        self.waiting.set(id, Waiting { direction: direction_of(request), expires: now });
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
        let (Waiting { direction, expires: into_expires }, Waiting { expires, .. }) =
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
}
