//! The kyber scheduler of Linux 6.18, `block/kyber-iosched.c`, over one hardware queue. Requests wait per CPU in four
//! domains: reads, writes, discards and *other* requests.
//!
//! The domains take turns. A domain whose turn it is sends a batch. It first takes over all requests that wait on the
//! CPUs, in CPU order. It takes over later arrivals only when these are used up.
//!
//! Kyber throttles a domain by its number of tokens: each request in flight holds one, and without a token none is sent.
//! The numbers begin at their maximum: 256 reads, 128 writes, 64 discards, 16 other requests. A timer adapts the first
//! three. A completion in one of these domains arms the timer, which then fires after 100 ms:
//!
//! 1. The device is *congested* if the 90th percentile of any domain's device times is above the domain's target.
//! 2. The 99th percentile of a domain's total times (from insertion to completion) sets its number of tokens. Times are counted in
//!    buckets of a quarter of the target; the first bucket has the number 0. If the percentile is in bucket b, the
//!    number is multiplied by (b + 1)/4, within 1 and its maximum. So the domain gets more tokens if the percentile misses the
//!    target, and fewer if it is at most three quarters of the target.
//! 3. The number may rise at any time. It falls only during congestion. A percentile that was taken without congestion is
//!    kept for the next congestion and used once.
//!
//! A percentile is taken of 500 samples, or of fewer when a second has passed since the timer first found too few.
//! Discards have a target of 5 s; the domain *other* has none.
//!
//! The timer fires one tick after its time, as the kernel's timers do (`kernel/time/timer.c`, `calc_index`). Ticks begin at the
//! clock's zero. The timer's work is done when the scheduler is next called.
//!
//! Left out are:
//!
//! - the search for merge candidates, which the stage does (only the last eight requests that wait on a CPU are
//!   candidates, and no two of them are joined);
//! - `async_depth`: it delays the allocation of asynchronous requests, before they arrive here;
//! - tokens by number: when the number falls below the tokens in use, the kernel may reuse a token with a low
//!   number at once. Here no token is given until fewer are in use than there are.
//!
//! Device time begins with [`Scheduler::issued`].
//!
//! The kernel does not know capacity. A domain for which there is no capacity is passed over like one without tokens.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::id_list::IdList;
use crate::order::Order;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

const WOKEN: usize = 0;
const BATCH: usize = 1;
const NEW_BATCH: usize = 2;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("woken", "the first of a domain since it had requests and no token for them"),
    RuleInfo::new("batch", "any other that goes on with the batch of the domain whose turn it is"),
    RuleInfo::new("new batch", "any other that begins a batch: of the next domain, or of the same again"),
];

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
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    // The depths, the lengths of batches and the target of discards are constants in the kernel.
    Box::new(Kyber {
        domains: [
            Domain::new(settings.nanos("read_lat_nsec"), 256, 16),
            Domain::new(settings.nanos("write_lat_nsec"), 128, 8),
            Domain::new(Nanos::from_s(5), 64, 1),
            // Has no target, and no latency of it is counted.
            Domain::new(Nanos::ZERO, 16, 1),
        ],
        current: READ,
        batching: 0,
        known: Slots::default(),
        inserted: 0,
        timer: None,
        tick: settings.nanos("tick").as_ns(),
        sent: [0; RULES.len()],
    })
}

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const OTHER: usize = 3;
const DOMAINS: usize = 4;

/// The time from the completion that arms the timer to its expiry, to which a tick is added.
const TIMER: Nanos = Nanos::from_ms(100);

/// Latencies are counted in quarters of the target: the first four buckets meet it, the last four miss it.
const QUARTERS: u64 = 4;
const BUCKETS: usize = 8;

/// The number of latencies that a percentile is taken of.
const SAMPLES: u64 = 500;

/// The time after which a percentile is taken of fewer latencies.
const SAMPLING: Nanos = Nanos::from_s(1);

/// The number of requests waiting on a CPU, the latest, that may be merged into.
const MERGE_CANDIDATES: usize = 8;

/// In the middle, so that requests that come back can be put before all others.
const FIRST_AGE: u64 = 1 << 63;

/// The number of latencies in each quarter of the target; the last bucket has all that are longer.
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
    /// Taken over from the CPUs, in the order in which they are sent.
    batch: IdList,
    batch_max: u32,
    depth: u32,
    depth_max: u32,
    /// Tokens in use.
    in_flight: u32,
    /// Since the last that was sent, a request has waited for a token.
    throttled: bool,
    target: Nanos,
    device_time: Histogram,
    total_time: Histogram,
    /// When a percentile is taken of any number of latencies.
    sampled_by: Option<Timestamp>,
    /// The bucket of the 99th percentile of total times, until it has set the depth.
    last_total_bucket: Option<u64>,
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
            throttled: false,
            target,
            device_time: Histogram::default(),
            total_time: Histogram::default(),
            sampled_by: None,
            last_total_bucket: None,
        }
    }

    /// Takes over the requests that wait on the CPUs, once all that were taken over before have been sent.
    fn refill(&mut self) {
        if self.batch.is_empty() {
            while let Some(entry) = self.queued.first() {
                self.queued.remove(entry.id());
                self.batch.push_back(entry.id());
            }
        }
    }

    fn waiting(&self) -> usize {
        self.queued.len() + self.batch.len()
    }

    fn unlink(&mut self, id: RequestId) {
        if self.batch.contains(id) { self.batch.remove(id) } else { self.queued.remove(id) }
    }

    /// The next request to send, if there is a token for it.
    fn take(&mut self) -> Option<RequestId> {
        if self.in_flight >= self.depth {
            self.throttled |= self.waiting() > 0;
            return None;
        }
        self.refill();
        let id = self.batch.first()?;
        self.batch.remove(id);
        self.in_flight += 1;
        Some(id)
    }

    /// The bucket of a percentile, once there are enough latencies or it is time, and empties the histogram. Both
    /// histograms share the time, as in the kernel.
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

    /// Whether the 90th percentile of its device times is above its target.
    fn is_slow(&mut self, now: Timestamp) -> bool {
        let bucket = Domain::bucket(&mut self.device_time, &mut self.sampled_by, now, 90);
        bucket.is_some_and(|bucket| bucket >= QUARTERS)
    }

    /// Sets the depth by the 99th percentile of total times; it falls only during congestion. A percentile that was
    /// taken without congestion is kept for the next congestion and used once.
    fn adjust(&mut self, now: Timestamp, congested: bool) {
        let bucket = Domain::bucket(&mut self.total_time, &mut self.sampled_by, now, 99);
        let bucket = if congested { bucket.or(self.last_total_bucket.take()) } else { bucket };
        self.last_total_bucket = if congested { None } else { bucket.or(self.last_total_bucket) };
        if let Some(bucket) = bucket.filter(|&bucket| congested || bucket >= QUARTERS) {
            let scaled = u64::from(self.depth) * (bucket + 1) / QUARTERS;
            self.depth = scaled.clamp(1, u64::from(self.depth_max)) as u32;
        }
    }
}

/// A request's domain, CPU and times, kept until it completes.
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
    /// The domain whose turn it is.
    current: usize,
    /// Requests sent in this turn.
    batching: u32,
    known: Slots<Known>,
    inserted: u64,
    /// When the timer fires; `None` if it is not armed.
    timer: Option<Timestamp>,
    /// The length of a tick in nanoseconds.
    tick: u64,
    sent: [u64; RULES.len()],
}

impl Kyber {
    /// When a timer fires that is armed now.
    fn timer_end(&self, now: Timestamp) -> Timestamp {
        let ticks = (now.as_ns() / self.tick).saturating_add(TIMER.as_ns() / self.tick + 1);
        Timestamp::from_ns(ticks.saturating_mul(self.tick))
    }

    /// Adapts the depths if the timer has expired.
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

    /// The next request of the domain whose turn it is, if there are a token and capacity for it.
    fn of_current(&mut self, capacity: Capacity) -> Option<RequestId> {
        if self.current == READ && capacity.reads == 0 || self.current != READ && capacity.writes == 0 {
            return None;
        }
        let id = self.domains[self.current].take()?;
        self.goes(self.current);
        Some(id)
    }

    /// A request of this domain goes, whose turn it is: counts it for its rule and in the batch.
    fn goes(&mut self, domain: usize) {
        let in_batch = if self.batching > 0 { BATCH } else { NEW_BATCH };
        let was_throttled = std::mem::take(&mut self.domains[domain].throttled);
        self.sent[if was_throttled { WOKEN } else { in_batch }] += 1;
        self.batching += 1;
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
        // The kernel does not call the scheduler when nothing waits: the turn then stays with its domain.
        if self.waiting() == 0 {
            return Dispatch::Idle;
        }
        let mut id = None;
        if self.batching < self.domains[self.current].batch_max {
            id = self.of_current(capacity);
        }
        if id.is_none() {
            self.batching = 0;
            // The same domain comes last.
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
            domain.total_time.add(domain.target, now.saturating_since(inserted));
            domain.device_time.add(domain.target, now.saturating_since(issued));
            self.timer.get_or_insert(timer_end);
        }
    }

    fn remove(&mut self, id: RequestId) {
        self.domains[self.known[id].domain].unlink(id);
    }

    /// The request was the next in the turn of its domain, or began a turn.
    fn follow(&mut self, now: Timestamp, id: RequestId) -> bool {
        self.run_timer(now);
        let of = self.known[id].domain;
        if self.current != of || self.batching >= self.domains[of].batch_max {
            self.batching = 0;
        }
        self.current = of;
        self.goes(of);
        let domain = &mut self.domains[of];
        domain.refill();
        domain.unlink(id);
        domain.in_flight += 1;
        self.known[id].issued = now;
        true
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        Some(Box::new(self.clone()))
    }

    /// The request gives back its token and goes to the head of those that wait on its CPU.
    fn requeue(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.run_timer(now);
        let Known { domain, cpu, .. } = self.known[id];
        self.inserted += 1;
        let domain = &mut self.domains[domain];
        domain.in_flight -= 1;
        domain.queued.insert(id, u64::from(cpu), FIRST_AGE - self.inserted);
    }

    /// Only with requests of the same CPU and domain that have not been taken over, and of these only the last eight.
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

    /// The kernel's has no neighbours to offer (`next_request`, `former_request`).
    fn joins(&self) -> bool {
        false
    }

    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}

    fn waiting(&self) -> usize {
        self.domains.iter().map(Domain::waiting).sum()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
