//! A proportional-share token bucket limiter, as hypervisors put in front of a shared device (Turner 1986's leaky
//! bucket as a meter; RFC 2697's single rate). Each VM has a bucket that gains `rate` times its weight of bytes a
//! second. The bucket holds at most `burst` times the weight and starts full.
//!
//! A request is sent once the bucket holds its length, or is full if the request is longer than that. The length is
//! then taken out of the bucket, so that a long request leaves a debt. Over a span T a VM sends at most weight·(burst +
//! rate·T) bytes. If a request is longer than the burst, one request is added.
//!
//! Of several VMs with enough tokens, the VM with the oldest waiting request is served. Within a VM, requests are sent
//! in the order of arrival. If no VM has enough tokens, the policy waits until the first one does. Tokens that a VM
//! does not use are not lent to others. A request without length takes no tokens.
//!
//! Reads and all other operations are two kinds: if there is no capacity for the requests of one kind, they are passed
//! over. Left out: lending, and separate buckets for reads and writes or for numbers of requests.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Request, RequestId, Timestamp, VmId};

use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::lba_queue::Classes;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::sfq::WEIGHTS;
use crate::slots::Slots;
use crate::vm_queue::{First, PerVm, VmQueue};

const AT_ONCE: usize = 0;
const THROTTLED: usize = 1;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("tokens", "one of a VM that has not waited for tokens since it last sent one"),
    RuleInfo::new("throttled", "one of a VM that has waited for tokens since it last sent one"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "token-bucket",
    summary: "limits each VM to a rate and a burst in proportion to its weight; oldest request first",
    origin: "Turner 1986 (leaky bucket as a meter), IETF RFC 2697 (one rate), by weight",
    tunables: &[
        WEIGHTS,
        Tunable::new("rate", Unit::Bytes, "32m", "rate of a VM of weight 1, in bytes/s").within(1, 1 << 50),
        Tunable::new("burst", Unit::Bytes, "4m", "burst of a VM of weight 1, in bytes").within(1, 1 << 50),
    ],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(TokenBucket {
        weights: PerVm::new(settings.counts("weights")),
        rate: settings.bytes("rate"),
        burst: settings.bytes("burst"),
        queue: VmQueue::default(),
        bytes: Slots::default(),
        buckets: Vec::new(),
        sent: [0; RULES.len()],
    })
}

/// Tokens are kept in bytes times nanoseconds per second, which makes every sum exact.
const PER_BYTE: i128 = 1_000_000_000;

/// One VM's bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bytes a second, and so tokens a nanosecond.
    rate: i128,
    full: i128,
    /// The tokens that it held at `at`; negative after a request longer than the bucket.
    tokens: i128,
    at: Timestamp,
    /// Its VM has waited for tokens since it last sent a request.
    throttled: bool,
}

impl Bucket {
    fn at(&self, now: Timestamp) -> i128 {
        self.full.min(self.tokens + self.rate * i128::from(now.saturating_since(self.at).as_ns()))
    }

    /// When it will have held enough for a request of this many bytes.
    fn ready(&self, bytes: u64) -> Timestamp {
        let lacks = (i128::from(bytes) * PER_BYTE).min(self.full) - self.tokens;
        let wait = (lacks.max(0) + self.rate - 1) / self.rate;
        self.at.saturating_add(Nanos::from_ns(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    fn take(&mut self, now: Timestamp, bytes: u64) {
        self.tokens = self.at(now) - i128::from(bytes) * PER_BYTE;
        self.at = now;
    }
}

#[derive(Debug)]
struct TokenBucket {
    weights: PerVm,
    rate: u64,
    burst: u64,
    queue: VmQueue,
    bytes: Slots<u64>,
    buckets: Vec<Bucket>,
    sent: [u64; RULES.len()],
}

impl TokenBucket {
    /// Makes the buckets up to this VM's, full.
    fn provide(&mut self, vm: VmId) {
        for number in self.buckets.len()..=usize::from(vm.0) {
            let weight = i128::from(self.weights.of(VmId(number as u16)));
            let full = i128::from(self.burst) * weight * PER_BYTE;
            let rate = i128::from(self.rate) * weight;
            self.buckets.push(Bucket { rate, full, tokens: full, at: Timestamp::ZERO, throttled: false });
        }
    }
}

impl Scheduler for TokenBucket {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.provide(request.vm);
        self.bytes.set(id, request.sectors().bytes());
        self.queue.push_back(id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        let TokenBucket { queue, bytes, buckets, .. } = self;
        let ready = |first: First| {
            let bucket = &mut buckets[usize::from(first.vm.0)];
            let ready = bucket.ready(bytes[first.id]).max(now);
            bucket.throttled |= ready > now;
            (ready, first.age, first.vm, first.id)
        };
        let firsts = queue.firsts(Classes::with(capacity)).map(ready);
        match firsts.min_by_key(|&(ready, age, ..)| (ready, age)) {
            None => Dispatch::Idle,
            Some((ready, ..)) if ready > now => Dispatch::WaitUntil(ready),
            Some((_, _, vm, id)) => {
                let bucket = &mut self.buckets[usize::from(vm.0)];
                bucket.take(now, self.bytes[id]);
                self.sent[if std::mem::take(&mut bucket.throttled) { THROTTLED } else { AT_ONCE }] += 1;
                self.queue.remove(id);
                Dispatch::Send(id)
            }
        }
    }

    fn remove(&mut self, id: RequestId) {
        self.queue.remove(id);
    }

    /// It goes before all that wait, and was not served, so that its tokens are given back.
    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.provide(request.vm);
        let bucket = &mut self.buckets[usize::from(request.vm.0)];
        bucket.tokens = bucket.full.min(bucket.at(now) + i128::from(request.sectors().bytes()) * PER_BYTE);
        bucket.at = now;
        self.bytes.set(id, request.sectors().bytes());
        self.queue.push_front(id, request);
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        self.bytes[into] = request.sectors().bytes();
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
