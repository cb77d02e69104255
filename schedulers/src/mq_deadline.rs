//! The mq-deadline scheduler of Linux 6.18, `block/mq-deadline.c`: three priority classes. In each class, reads and
//! writes wait in an order by sector and in a fifo with an expiry time. Everything but a read is in the write
//! direction.
//!
//! Requests are sent in batches along the sector order of one direction. Between two batches reads go before writes,
//! but not more than `writes_starved` times. A batch starts at the head of the fifo if that has expired. All classes
//! share the batch, its direction and the count of starved writes, as in the kernel. The start of the last request is
//! kept per class and direction.
//!
//! A class waits while a higher class has requests waiting or in flight, with one exception: it goes first once its
//! next request has waited for `prio_aging_expire`. To find that request, the kernel may begin a new batch and then
//! send nothing. So does this scheduler.
//!
//! Expiries are counted in ticks, which begin at the clock's zero. The tick of a request's arrival counts as a whole
//! one, so the request may expire up to a tick early.
//!
//! Left out are:
//!
//! - the search for merge candidates, which the stage does;
//! - the write locks of zoned devices, and with them the order of zoned writes;
//! - `async_depth`, which limits how many requests other than synchronous reads exist: it delays their allocation,
//!   before they arrive here.
//!
//! The kernel does not know capacity. A direction for which there is no capacity counts as having no request waiting.
//! The other direction is served if there is capacity for it, and reads do not then starve writes. A class holds up the
//! lower classes even if there is no capacity for any of its requests. The dispatch queue holds only requests that came
//! back. Those of them for which there is capacity go before all other requests.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::directions::{READ, Starvation, WRITE, direction_of, has_capacity};
use crate::entry::{Entry, RuleInfo};
use crate::id_list::IdList;
use crate::order::Order;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

const AGED: usize = 0;
const BATCH: usize = 1;
const STARVED: usize = 2;
const EXPIRED: usize = 3;
const NEW_BATCH: usize = 4;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("prio aged", "one below real time that has waited for prio_aging_expire; another class has requests"),
    RuleInfo::new("batch", "the next in sector order of the batch that runs"),
    RuleInfo::new("starved", "the first of a batch of writes that enough batches of waiting reads have passed"),
    RuleInfo::new("expired", "the first of a batch for another reason: the oldest of its direction, which has expired"),
    RuleInfo::new("new batch", "the first of any other batch"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "mq-deadline",
    summary: "batches in sector order, reads before writes, with deadlines and priority classes (Linux)",
    origin: "Linux 6.18 block/mq-deadline.c",
    tunables: &[
        Tunable::new("read_expire", Unit::Time, "500ms", "age at which a waiting read starts a batch"),
        Tunable::new("write_expire", Unit::Time, "5s", "age at which a waiting write starts a batch"),
        Tunable::new("writes_starved", Unit::Count, "2", "number of read batches that may overtake waiting writes"),
        Tunable::new("fifo_batch", Unit::Count, "16", "most requests of a batch"),
        Tunable::new(
            "prio_aging_expire",
            Unit::Time,
            "10s",
            "age at which a request of a lower class overtakes higher classes",
        ),
        Tunable::new("front_merges", Unit::Switch, "on", "whether to merge in front of waiting requests"),
        Tunable::new("tick", Unit::Time, "4ms", "length of a tick, in which expiries are counted (1 s / CONFIG_HZ)")
            .within(1, 1_000_000_000),
    ],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    let tick = settings.nanos("tick").as_ns();
    // As when a tunable is written to: whole ticks, rounded up (`msecs_to_jiffies`).
    let expiry = |name| Nanos::from_ns(settings.nanos(name).as_ns().div_ceil(tick).saturating_mul(tick));
    Box::new(MqDeadline {
        tick,
        expire: [expiry("read_expire"), expiry("write_expire")],
        starvation: Starvation::new(settings.count("writes_starved")),
        fifo_batch: settings.count("fifo_batch"),
        prio_aging_expire: expiry("prio_aging_expire"),
        front_merges: settings.switch("front_merges"),
        classes: Default::default(),
        dispatch_queue: IdList::default(),
        known: Slots::default(),
        inserted: 0,
        last_direction: WRITE,
        batching: 0,
        sent: [0; RULES.len()],
    })
}

/// Real time, best effort (and none), idle: the order in which they go.
const CLASSES: usize = 3;
const BEST_EFFORT: usize = 1;

/// The requests of one class and direction.
#[derive(Clone, Debug, Default)]
struct Queue {
    sorted: Order,
    fifo: IdList,
    /// The first sector of the one that was sent last.
    latest_sector: u64,
}

#[derive(Clone, Debug, Default)]
struct Class {
    queues: [Queue; 2],
    /// Waiting or in flight.
    outstanding: u64,
}

/// The facts of a request, kept until it completes.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    class: usize,
    direction: usize,
    sector: u64,
    /// The tick in which it arrived, or the eldest that was merged into it.
    arrived: Timestamp,
    /// The rule that has chosen it, once one has.
    rule: usize,
}

#[derive(Clone, Debug)]
struct MqDeadline {
    /// Nanoseconds.
    tick: u64,
    expire: [Nanos; 2],
    starvation: Starvation,
    fifo_batch: u64,
    prio_aging_expire: Nanos,
    front_merges: bool,
    classes: [Class; CLASSES],
    /// The requests that have come back.
    dispatch_queue: IdList,
    known: Slots<Known>,
    inserted: u64,
    last_direction: usize,
    /// Requests sent in the current batch.
    batching: u64,
    sent: [u64; RULES.len()],
}

/// The answer of one class to a dispatch.
enum Offer {
    Send(RequestId),
    /// Its next request is old enough from this time on.
    NotBefore(Timestamp),
    Nothing,
}

impl MqDeadline {
    fn queue(&mut self, id: RequestId) -> &mut Queue {
        let Known { class, direction, .. } = self.known[id];
        &mut self.classes[class].queues[direction]
    }

    /// The tick in which a time lies.
    fn tick_of(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_ns(now.as_ns() / self.tick * self.tick)
    }

    /// Sorts a waiting request in, behind those at the same sector.
    fn add_sorted(&mut self, id: RequestId) {
        let (sector, age) = (self.known[id].sector, self.inserted);
        self.queue(id).sorted.insert(id, sector, age);
        self.inserted += 1;
    }

    /// Takes a request out of its queue.
    fn unlink(&mut self, id: RequestId) {
        if self.dispatch_queue.contains(id) {
            self.dispatch_queue.remove(id);
        } else {
            let queue = self.queue(id);
            queue.sorted.remove(id);
            queue.fifo.remove(id);
        }
    }

    /// Takes a request out to be sent: the order goes on from where it begins.
    fn send(&mut self, id: RequestId) {
        self.sent[self.known[id].rule] += 1;
        self.unlink(id);
        let sector = self.known[id].sector;
        self.queue(id).latest_sector = sector;
    }

    /// The first request of the dispatch queue for which there is capacity.
    fn came_back(&self, capacity: Capacity) -> Option<RequestId> {
        let listed = std::iter::successors(self.dispatch_queue.first(), |&id| self.dispatch_queue.after(id));
        listed.into_iter().find(|&id| has_capacity(capacity, self.known[id].direction))
    }

    /// The next in the sector order of a class.
    fn next_in_order(&self, class: usize, direction: usize) -> Option<RequestId> {
        let queue = &self.classes[class].queues[direction];
        queue.sorted.at_or_after(queue.latest_sector).map(|entry| entry.id())
    }

    /// The next of the batch, if it may go on.
    fn batched(&self, class: usize, capacity: Capacity) -> Option<RequestId> {
        if self.batching >= self.fifo_batch || !has_capacity(capacity, self.last_direction) {
            return None;
        }
        self.next_in_order(class, self.last_direction)
    }

    /// Whether a request of a class waits in this direction, where there is capacity for it.
    fn waits(&self, class: usize, direction: usize, capacity: Capacity) -> bool {
        !self.classes[class].queues[direction].fifo.is_empty() && has_capacity(capacity, direction)
    }

    /// The oldest request of a class in this direction if it has expired.
    fn expired(&self, now: Timestamp, class: usize, direction: usize) -> Option<RequestId> {
        let oldest = self.classes[class].queues[direction].fifo.first()?;
        (now >= self.known[oldest].arrived.saturating_add(self.expire[direction])).then_some(oldest)
    }

    /// The first request of a new batch in this direction, where something waits, and whether it goes because it has
    /// expired.
    fn first_of_batch(&self, now: Timestamp, class: usize, direction: usize) -> Option<(RequestId, bool)> {
        if let Some(expired) = self.expired(now, class, direction) {
            return Some((expired, true));
        }
        let oldest = self.classes[class].queues[direction].fifo.first();
        self.next_in_order(class, direction).or(oldest).map(|id| (id, false))
    }

    /// The next request of one class; with an `age`, if it has waited for that. A new batch begins even if not.
    fn offer(&mut self, now: Timestamp, class: usize, capacity: Capacity, age: Option<Nanos>) -> Offer {
        let (id, rule) = if let Some(next) = self.batched(class, capacity) {
            (next, BATCH)
        } else {
            let [reads, writes] = [READ, WRITE].map(|of| self.waits(class, of, capacity));
            let Some(direction) = self.starvation.choose(reads, writes) else { return Offer::Nothing };
            let Some((first, has_expired)) = self.first_of_batch(now, class, direction) else { return Offer::Nothing };
            self.last_direction = direction;
            self.batching = 0;
            (first, rule_of_batch(direction, reads, has_expired))
        };
        let old_enough = self.known[id].arrived.saturating_add(age.unwrap_or(Nanos::ZERO));
        if old_enough > now {
            return Offer::NotBefore(old_enough);
        }
        self.batching += 1;
        self.known[id].rule = if age.is_some() { AGED } else { rule };
        self.send(id);
        Offer::Send(id)
    }

    /// Whether more than one class has requests.
    fn classes_compete(&self) -> bool {
        self.classes.iter().filter(|class| class.outstanding > 0).count() > 1
    }

    /// The request of a class below the first that has waited for too long behind another class; if there is none, the
    /// time at which the first one will have.
    fn aged(&mut self, now: Timestamp, capacity: Capacity) -> Offer {
        if !self.classes_compete() {
            return Offer::Nothing;
        }
        let mut earliest: Option<Timestamp> = None;
        for class in BEST_EFFORT..CLASSES {
            match self.offer(now, class, capacity, Some(self.prio_aging_expire)) {
                Offer::Send(id) => return Offer::Send(id),
                Offer::NotBefore(time) => earliest = Some(earliest.map_or(time, |earliest| earliest.min(time))),
                Offer::Nothing => {}
            }
        }
        earliest.map_or(Offer::Nothing, Offer::NotBefore)
    }
}

/// The rule by which a batch begins, while reads wait or do not.
fn rule_of_batch(direction: usize, reads_wait: bool, has_expired: bool) -> usize {
    match direction {
        WRITE if reads_wait => STARVED,
        _ if has_expired => EXPIRED,
        _ => NEW_BATCH,
    }
}

fn class_of(request: &Request) -> usize {
    match request.priority.class() {
        1 => 0,
        3 => 2,
        _ => BEST_EFFORT,
    }
}

impl Scheduler for MqDeadline {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let (class, direction, sector) = (class_of(request), direction_of(request), request.lba.sector());
        self.known.set(id, Known { class, direction, sector, arrived: self.tick_of(now), rule: NEW_BATCH });
        self.classes[class].outstanding += 1;
        self.add_sorted(id);
        self.queue(id).fifo.push_back(id);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        if let Some(id) = self.came_back(capacity) {
            self.send(id);
            return Dispatch::Send(id);
        }
        let earliest = match self.aged(now, capacity) {
            Offer::Send(id) => return Dispatch::Send(id),
            Offer::NotBefore(time) => Some(time),
            Offer::Nothing => None,
        };
        for class in 0..CLASSES {
            if let Offer::Send(id) = self.offer(now, class, capacity, None) {
                return Dispatch::Send(id);
            }
            if self.classes[class].outstanding > 0 {
                break;
            }
        }
        earliest.map_or(Dispatch::Idle, Dispatch::WaitUntil)
    }

    fn completed(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        self.classes[self.known[id].class].outstanding -= 1;
    }

    /// The kernel does not run the queue when the last request of a higher class completes, although a lower class may
    /// wait for that.
    fn calls_for_dispatch(&self) -> bool {
        false
    }

    fn remove(&mut self, id: RequestId) {
        self.unlink(id);
        self.classes[self.known[id].class].outstanding -= 1;
    }

    /// It was the next of the batch, or began one; a read that began one passed the writes that wait.
    fn follow(&mut self, now: Timestamp, id: RequestId) -> bool {
        let Known { class, direction, .. } = self.known[id];
        if !self.dispatch_queue.contains(id) {
            let goes_on = direction == self.last_direction && self.batched(class, Capacity::UNLIMITED) == Some(id);
            let mut rule = BATCH;
            if !goes_on {
                let [reads, writes] = [READ, WRITE].map(|of| self.waits(class, of, Capacity::UNLIMITED));
                rule = rule_of_batch(direction, reads, self.expired(now, class, direction) == Some(id));
                self.starvation.begins(direction, writes);
                self.last_direction = direction;
                self.batching = 0;
            }
            let old_enough = self.known[id].arrived.saturating_add(self.prio_aging_expire);
            let is_aged = class >= BEST_EFFORT && self.classes_compete() && old_enough <= now;
            self.known[id].rule = if is_aged { AGED } else { rule };
            self.batching += 1;
        }
        self.send(id);
        true
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        Some(Box::new(self.clone()))
    }

    /// The kernel puts a request that comes back at the head of the dispatch queue.
    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let arrived = self.tick_of(now);
        let known = &mut self.known[id];
        known.arrived = arrived;
        known.sector = request.lba.sector();
        self.dispatch_queue.push_front(id);
    }

    /// Nothing is merged into a request that has come back.
    fn may_merge(&self, into: RequestId, _request: &Request) -> bool {
        !self.dispatch_queue.contains(into)
    }

    fn front_merges(&self) -> bool {
        self.front_merges
    }

    /// A front merge sorts the request anew.
    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        let sector = request.lba.sector();
        if self.known[into].sector == sector {
            return;
        }
        self.known[into].sector = sector;
        if !self.dispatch_queue.contains(into) {
            self.queue(into).sorted.remove(into);
            self.add_sorted(into);
        }
    }

    /// If `from` expires before `into`, `into` takes its expiry time and its place in the fifo.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        let (known, older) = (self.known[into], self.known[from]);
        let both_listed = !self.dispatch_queue.contains(into) && !self.dispatch_queue.contains(from);
        let same_fifo = (known.class, known.direction) == (older.class, older.direction);
        if both_listed && same_fifo && older.arrived < known.arrived {
            let fifo = &mut self.queue(from).fifo;
            fifo.remove(into);
            fifo.insert_before(from, into);
            self.known[into].arrived = older.arrived;
        }
        self.remove(from);
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        let queues = self.classes.iter().flat_map(|class| &class.queues);
        queues.map(|queue| queue.fifo.len()).sum::<usize>() + self.dispatch_queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
