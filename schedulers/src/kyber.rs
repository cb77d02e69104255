//! The kyber scheduler of Linux 6.18, `block/kyber-iosched.c`, over one hardware queue. Requests wait
//! per CPU in four domains: reads, writes, discards and others. The domains take turns; one in its turn
//! sends a batch, for which it takes what waits on all CPUs in the order of the CPUs, and only when
//! that is used up, what has arrived since. Each domain has a number of tokens, one for each of its
//! requests in flight. Ten times a second the latencies of the requests that completed are looked at: if
//! too many were too long in the device, domains that meet their target get fewer tokens; one that does
//! not meet its target gets more.
//!
//! The timer fires a tick after the one it is due at, as those of the kernel do (`kernel/time/timer.c`,
//! `calc_index`); ticks begin at the clock's zero. It runs when the scheduler is next called.
//!
//! Leaves out: the search for merge candidates (the stage's, but only the last eight that wait on
//! the same CPU may be merged into); `async_depth`, which holds up the allocation of asynchronous
//! requests, so that those have not arrived here. When a domain loses tokens while more are in use than
//! are left, the kernel may give out again those whose number is low; here none is given out until
//! fewer are in use. The time in the device begins with [`Scheduler::issued`], the time in all with the
//! insertion.
//!
//! The kernel's function knows no room. A domain there is no room for is passed over as one that has no
//! tokens.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::id_list::IdList;
use crate::order::Order;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "kyber",
    summary: "reads, writes and discards in turn; limits their depths to meet latency targets (Linux)",
    origin: "Linux 6.18 block/kyber-iosched.c",
    tunables: &[
        Tunable::new("read_lat_nsec", Unit::Time, "2ms", "latency target of reads"),
        Tunable::new("write_lat_nsec", Unit::Time, "10ms", "latency target of writes"),
        Tunable::new("tick", Unit::Time, "4ms", "length of a tick, in which the timer is counted (1 s / CONFIG_HZ)")
            .within(1, 1_000_000_000),
    ],
    build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    // Depths, batches and the target of discards are constants of the kernel's.
    Box::new(Kyber {
        domains: [
            Domain::new(settings.nanos("read_lat_nsec"), 256, 16),
            Domain::new(settings.nanos("write_lat_nsec"), 128, 8),
            Domain::new(Nanos::from_s(5), 64, 1),
            // Has no target, and its latencies are not looked at.
            Domain::new(Nanos::ZERO, 16, 1),
        ],
        current: READ,
        batching: 0,
        known: Slots::default(),
        inserted: 0,
        timer: None,
        tick: settings.nanos("tick").as_ns(),
    })
}

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const OTHER: usize = 3;
const DOMAINS: usize = 4;

/// How long after the first completion since the last time the latencies are looked at.
const TIMER: Nanos = Nanos::from_ms(100);

/// Latencies are counted in quarters of the target; four of the buckets meet it, as many do not.
const QUARTERS: u64 = 4;
const BUCKETS: usize = 8;

/// A percentile is taken of so many latencies, or of fewer after this time.
const SAMPLES: u64 = 500;
const SAMPLING: Nanos = Nanos::from_s(1);

/// Only so many of those that wait on a CPU are looked at for a merge.
const MERGE_CANDIDATES: usize = 8;

/// In the middle, so that what comes back can go before what has not.
const FIRST_AGE: u64 = 1 << 63;

/// How many latencies fell in which quarter of the target; the last bucket has all that are longer.
#[derive(Clone, Copy, Debug, Default)]
struct Histogram([u64; BUCKETS]);

impl Histogram {
    fn add(&mut self, target: Nanos, latency: Nanos) {
        let quarter = (target.as_ns() / QUARTERS).max(1);
        let bucket = latency.as_ns().saturating_sub(1) / quarter;
        self.0[bucket.min(BUCKETS as u64 - 1) as usize] += 1;
    }

    fn samples(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The bucket that holds this percentile.
    fn percentile(&self, percent: u64) -> u64 {
        let mut rank = (self.samples() * percent).div_ceil(100);
        let mut bucket = 0;
        while bucket < BUCKETS - 1 && self.0[bucket] < rank {
            rank -= self.0[bucket];
            bucket += 1;
        }
        bucket as u64
    }
}

/// The requests of one kind.
#[derive(Clone, Debug)]
struct Domain {
    /// Waiting on the CPUs: by CPU, then by age.
    queued: Order,
    /// Taken from the CPUs, in the order in which they go.
    batch: IdList,
    batch_max: u32,
    depth: u32,
    depth_max: u32,
    /// Tokens in use.
    in_flight: u32,
    target: Nanos,
    in_device: Histogram,
    in_all: Histogram,
    /// When percentiles are taken of however few latencies.
    sampled_by: Option<Timestamp>,
    /// The bucket of the 99th percentile in all, until it has been acted upon.
    last_in_all: Option<u64>,
}

impl Domain {
    fn new(target: Nanos, depth_max: u32, batch_max: u32) -> Domain {
        Domain {
            queued: Order::default(),
            batch: IdList::default(),
            batch_max,
            depth: depth_max,
            depth_max,
            in_flight: 0,
            target,
            in_device: Histogram::default(),
            in_all: Histogram::default(),
            sampled_by: None,
            last_in_all: None,
        }
    }

    /// Takes over what waits on the CPUs once nothing is left of what was taken before.
    fn refill(&mut self) {
        if self.batch.is_empty() {
            while let Some(entry) = self.queued.first() {
                self.queued.remove(entry.id());
                self.batch.push_back(entry.id());
            }
        }
    }

    fn unlink(&mut self, id: RequestId) {
        if self.batch.contains(id) { self.batch.remove(id) } else { self.queued.remove(id) }
    }

    /// The next that goes, if there is a token for it.
    fn take(&mut self) -> Option<RequestId> {
        if self.in_flight >= self.depth {
            return None;
        }
        self.refill();
        let id = self.batch.first()?;
        self.batch.remove(id);
        self.in_flight += 1;
        Some(id)
    }

    /// The bucket of a percentile, once there are latencies enough or it is time; it uses them up.
    /// The time is one for both histograms, as in the kernel.
    fn bucket(histogram: &mut Histogram, by: &mut Option<Timestamp>, now: Timestamp, percent: u64) -> Option<u64> {
        let samples = histogram.samples();
        if samples == 0 {
            return None;
        }
        let due = *by.get_or_insert(now.saturating_add(SAMPLING)) <= now;
        if samples < SAMPLES && !due {
            return None;
        }
        *by = None;
        let bucket = histogram.percentile(percent);
        *histogram = Histogram::default();
        Some(bucket)
    }

    /// Whether a tenth of its requests were longer in the device than they should.
    fn is_slow(&mut self, now: Timestamp) -> bool {
        let bucket = Domain::bucket(&mut self.in_device, &mut self.sampled_by, now, 90);
        bucket.is_some_and(|bucket| bucket >= QUARTERS)
    }

    /// Gives it tokens in proportion to its latencies: fewer only if the device is congested. A
    /// percentile taken while it was not is kept for when it is, and then used once.
    fn adjust(&mut self, now: Timestamp, congested: bool) {
        let bucket = Domain::bucket(&mut self.in_all, &mut self.sampled_by, now, 99);
        let bucket = if congested { bucket.or(self.last_in_all.take()) } else { bucket };
        self.last_in_all = if congested { None } else { bucket.or(self.last_in_all) };
        if let Some(bucket) = bucket.filter(|&bucket| congested || bucket >= QUARTERS) {
            let scaled = u64::from(self.depth) * (bucket + 1) / QUARTERS;
            self.depth = scaled.clamp(1, u64::from(self.depth_max)) as u32;
        }
    }
}

/// What is known of a request until it completes.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    domain: usize,
    cpu: u16,
    inserted: Timestamp,
    issued: Timestamp,
}

#[derive(Clone, Debug)]
struct Kyber {
    domains: [Domain; DOMAINS],
    /// Whose turn it is.
    current: usize,
    /// Requests sent in this turn.
    batching: u32,
    known: Slots<Known>,
    inserted: u64,
    /// When the latencies are looked at next.
    timer: Option<Timestamp>,
    /// Nanoseconds.
    tick: u64,
}

impl Kyber {
    /// When the timer fires that is set now.
    fn timer_end(&self, now: Timestamp) -> Timestamp {
        let ticks = (now.as_ns() / self.tick).saturating_add(TIMER.as_ns() / self.tick + 1);
        Timestamp::from_ns(ticks.saturating_mul(self.tick))
    }

    /// Looks at the latencies if it is time to.
    fn run_timer(&mut self, now: Timestamp) {
        let Some(due) = self.timer.filter(|&due| due <= now) else { return };
        self.timer = None;
        let judged = &mut self.domains[..OTHER];
        let mut congested = false;
        for domain in judged.iter_mut() {
            congested |= domain.is_slow(due);
        }
        for domain in judged {
            domain.adjust(due, congested);
        }
    }

    /// The next of the domain whose turn it is, if it has a token and there is room.
    fn of_current(&mut self, capacity: Capacity) -> Option<RequestId> {
        if self.current == READ && capacity.reads == 0 || self.current != READ && capacity.writes == 0 {
            return None;
        }
        let id = self.domains[self.current].take()?;
        self.batching += 1;
        Some(id)
    }
}

fn domain_of(request: &Request) -> usize {
    match request.operation {
        Operation::Read => READ,
        Operation::Write => WRITE,
        Operation::Discard => DISCARD,
        Operation::Flush => OTHER,
    }
}

impl Scheduler for Kyber {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.run_timer(now);
        let (domain, cpu) = (domain_of(request), request.cpu);
        self.known.set(id, Known { domain, cpu, inserted: now, issued: now });
        self.inserted += 1;
        self.domains[domain].queued.insert(id, u64::from(cpu), FIRST_AGE + self.inserted);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        self.run_timer(now);
        // The kernel does not ask when nothing waits, so that the turn does not pass on then.
        if self.waiting() == 0 {
            return Dispatch::Idle;
        }
        let mut id = None;
        if self.batching < self.domains[self.current].batch_max {
            id = self.of_current(capacity);
        }
        if id.is_none() {
            self.batching = 0;
            // The turn comes round to the same domain last.
            for _ in 0..DOMAINS {
                self.current = (self.current + 1) % DOMAINS;
                id = self.of_current(capacity);
                if id.is_some() {
                    break;
                }
            }
        }
        let Some(id) = id else { return Dispatch::Idle };
        self.known[id].issued = now;
        Dispatch::Send(id)
    }

    fn issued(&mut self, now: Timestamp, id: RequestId) {
        self.known[id].issued = now;
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.run_timer(now);
        let Known { domain, inserted, issued, .. } = self.known[id];
        let timer_end = self.timer_end(now);
        let is_judged = domain != OTHER;
        let domain = &mut self.domains[domain];
        domain.in_flight -= 1;
        if is_judged {
            domain.in_all.add(domain.target, now.saturating_since(inserted));
            domain.in_device.add(domain.target, now.saturating_since(issued));
            self.timer.get_or_insert(timer_end);
        }
    }

    fn remove(&mut self, id: RequestId) {
        self.domains[self.known[id].domain].unlink(id);
    }

    /// It was the next in the turn of its domain, or began one.
    fn follow(&mut self, now: Timestamp, id: RequestId) -> bool {
        self.run_timer(now);
        let of = self.known[id].domain;
        let domain = &mut self.domains[of];
        if self.current != of || self.batching >= domain.batch_max {
            self.batching = 0;
        }
        self.current = of;
        self.batching += 1;
        domain.refill();
        domain.unlink(id);
        domain.in_flight += 1;
        self.known[id].issued = now;
        true
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        Some(Box::new(self.clone()))
    }

    /// It gives back its token, and goes to the head of those that wait on its CPU.
    fn requeue(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.run_timer(now);
        let Known { domain, cpu, .. } = self.known[id];
        self.inserted += 1;
        let domain = &mut self.domains[domain];
        domain.in_flight -= 1;
        domain.queued.insert(id, u64::from(cpu), FIRST_AGE - self.inserted);
    }

    /// Only on its own CPU and in its own domain, as long as that has not been taken over, and only
    /// among the last eight.
    fn may_merge(&self, into: RequestId, request: &Request) -> bool {
        let Known { domain, cpu, .. } = self.known[into];
        let queued = &self.domains[domain];
        if domain != domain_of(request) || cpu != request.cpu || queued.batch.contains(into) {
            return false;
        }
        let mut behind = queued.queued.after(into);
        for _ in 1..MERGE_CANDIDATES {
            match behind {
                Some(entry) if entry.key == u64::from(cpu) => behind = queued.queued.after(entry.id()),
                _ => return true,
            }
        }
        behind.is_none_or(|entry| entry.key != u64::from(cpu))
    }

    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}

    fn waiting(&self) -> usize {
        self.domains.iter().map(|domain| domain.queued.len() + domain.batch.len()).sum()
    }
}
