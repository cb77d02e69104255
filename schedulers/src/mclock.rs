//! mClock after Gulati, Merchant and Varman 2010 (OSDI, "mClock: handling throughput variability for hypervisor IO
//! scheduling"). Each VM has a reservation r and a limit l in requests a second, and a weight w. Request n of a VM that
//! arrives at t is tagged
//!
//! - R(n) = max(R(n-1) + 1/r, t), when the reservation is due it; never without a reservation,
//! - L(n) = max(L(n-1) + 1/l, t), before when the limit forbids it; always allowed without a limit,
//! - P(n) = max(P(n-1) + 1/w, t), its turn by weight.
//!
//! *Tag adjustment.* When a request comes to a VM that has none waiting, the P tags of all that wait are moved alike so
//! that the smallest is t. The newcomer then competes from now on. *Scheduling.* The policy sends while fewer than
//! `depth` are below. The request with the smallest R tag goes if that tag is not in the future (constraint-based
//! phase). Otherwise, of those whose L tag is not in the future, the one with the smallest P tag goes (weight-based
//! phase). Then 1/r is taken off its VM's R tags, so that service by weight does not count against the reservation.
//! Ties go to the older request. If neither phase finds one, the policy waits until the first R or L tag: a limit holds
//! even when nothing else is below. A reservation above the limit wins.
//!
//! Ours: 1/w is in units of the largest weight given, so that the spacing is at least a second. The published 1/w
//! second falls below the time between a VM's requests once weights are larger than its requests a second. P tags that
//! are all t are no shares. Requests are one each, whatever their length, a merged one too. Left out: the cost of large
//! requests, batches of up to 8 nearby requests of a VM, credit for idle VMs (the paper's σ is 0), and dmClock. Tags
//! move by whole nanoseconds (R down, L up). Reads, or all others, are passed over if there is no capacity for them.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Request, RequestId, Timestamp, VmId};

use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::lba_queue::Classes;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::sfq::WEIGHTS;
use crate::slots::Slots;
use crate::vm_queue::{Below, First, PerVm, VmQueue};

const BY_RESERVATION: usize = 0;
const BY_WEIGHT: usize = 1;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("constraint-based", "the smallest R tag: a reservation is due a request"),
    RuleInfo::new("weight-based", "the smallest P tag of those that the limits allow: no reservation is due one"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "mclock",
    summary: "shares among VMs by reservation, limit and weight, by tagging requests with times",
    origin: "Gulati, Merchant, Varman 2010 (OSDI)",
    tunables: &[
        WEIGHTS,
        Tunable::new("reservations", Unit::Counts, "0", "least requests/s of each VM; 0: no reservation")
            .within(0, 1_000_000),
        Tunable::new("limits", Unit::Counts, "0", "most requests/s of each VM; 0: no limit").within(0, 1_000_000),
        Tunable::new("depth", Unit::Count, "32", "most requests in flight below").within(1, 1 << 32),
    ],
    rules: RULES,
    build: &build,
};

const SECOND: u64 = 1_000_000_000;

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Mclock {
        weights: PerVm::new(settings.counts("weights")),
        reservations: PerVm::new(settings.counts("reservations")),
        limits: PerVm::new(settings.counts("limits")),
        depth: settings.count("depth"),
        queue: VmQueue::default(),
        tags: Slots::default(),
        vms: Vec::new(),
        below: Below::default(),
        sent: [0; RULES.len()],
    })
}

/// A request's tags in nanoseconds, R and P as they were given: see [`Vm`] for their later shifts.
/// 128 bits hold the sums of any number of spacings.
#[derive(Clone, Copy, Debug, Default)]
struct Tags {
    reservation: i128,
    limit: i128,
    proportion: i128,
}

/// The state of a VM.
#[derive(Clone, Copy, Debug)]
struct Vm {
    /// Between two of its R tags, if it has a reservation.
    reservation_ns: Option<i128>,
    /// Between two of its L tags, if it has a limit.
    limit_ns: Option<i128>,
    /// Between two of its P tags.
    proportion_ns: i128,
    /// The tags of the last that arrived.
    last: Option<Tags>,
    /// How far its R tags have been moved back by service by weight.
    reservation_moved: i128,
    /// How far its P tags have been moved back by tag adjustment.
    proportion_moved: i128,
    waiting: usize,
}

impl Vm {
    /// The tags of a request that arrives now.
    fn tag(&mut self, now: i128) -> Tags {
        let after = |last: Option<i128>, spacing: i128, moved: i128| {
            last.map_or(now + moved, |last| (last + spacing).max(now + moved))
        };
        let last = self.last;
        let tags = Tags {
            reservation: after(
                last.map(|tags| tags.reservation),
                self.reservation_ns.unwrap_or(0),
                self.reservation_moved,
            ),
            limit: after(last.map(|tags| tags.limit), self.limit_ns.unwrap_or(0), 0),
            proportion: after(last.map(|tags| tags.proportion), self.proportion_ns, self.proportion_moved),
        };
        self.last = Some(tags);
        tags
    }

    /// When the reservation is due a request, if ever.
    fn due(&self, tags: Tags) -> Option<i128> {
        self.reservation_ns.map(|_| tags.reservation - self.reservation_moved)
    }

    /// Before when the limit forbids a request.
    fn allowed(&self, tags: Tags) -> i128 {
        if self.limit_ns.is_some() { tags.limit } else { 0 }
    }

    fn turn(&self, tags: Tags) -> i128 {
        tags.proportion - self.proportion_moved
    }
}

#[derive(Debug)]
struct Mclock {
    weights: PerVm,
    reservations: PerVm,
    limits: PerVm,
    depth: u64,
    queue: VmQueue,
    tags: Slots<Tags>,
    vms: Vec<Vm>,
    below: Below,
    sent: [u64; RULES.len()],
}

impl Mclock {
    /// Makes the state of each VM up to this one.
    fn provide(&mut self, vm: VmId) {
        for number in self.vms.len()..=usize::from(vm.0) {
            let vm = VmId(number as u16);
            let rate = |values: &PerVm| Some(values.of(vm)).filter(|&rate| rate > 0);
            self.vms.push(Vm {
                reservation_ns: rate(&self.reservations).map(|rate| i128::from(SECOND / rate)),
                limit_ns: rate(&self.limits).map(|rate| i128::from(SECOND.div_ceil(rate))),
                proportion_ns: i128::from(SECOND * self.weights.max() / self.weights.of(vm)),
                last: None,
                reservation_moved: 0,
                proportion_moved: 0,
                waiting: 0,
            });
        }
    }

    fn vm(&self, first: First) -> &Vm {
        &self.vms[usize::from(first.vm.0)]
    }

    fn vm_of(&mut self, id: RequestId) -> &mut Vm {
        let vm = self.queue.vm(id);
        &mut self.vms[usize::from(vm.0)]
    }

    /// A request comes to a VM that has none waiting: the smallest P tag of all that wait becomes now.
    fn adjust_tags(&mut self, now: i128) {
        let everything = Classes { reads: true, writes: true };
        let turn = |first: First| self.vm(first).turn(self.tags[first.id]);
        let Some(ahead) = self.queue.firsts(everything).map(turn).min().map(|smallest| smallest - now) else { return };
        for vm in self.vms.iter_mut().filter(|vm| vm.waiting > 0) {
            vm.proportion_moved += ahead;
        }
    }

    /// The one with the smallest R tag that is not in the future.
    fn by_reservation(&self, now: i128, classes: Classes) -> Option<First> {
        let due = |first: First| Some((self.vm(first).due(self.tags[first.id])?, first.age, first));
        let due_now = self.queue.firsts(classes).filter_map(due).filter(|&(due, ..)| due <= now);
        due_now.min_by_key(|&(due, age, _)| (due, age)).map(|(.., first)| first)
    }

    /// The one with the smallest P tag of those that their limits allow.
    fn by_weight(&self, now: i128, classes: Classes) -> Option<First> {
        let allowed = |first: &First| self.vm(*first).allowed(self.tags[first.id]) <= now;
        let turn = |first: &First| (self.vm(*first).turn(self.tags[first.id]), first.age);
        self.queue.firsts(classes).filter(allowed).min_by_key(turn)
    }

    /// When the first that waits may go, by its reservation or its limit.
    fn next_chance(&self, classes: Classes) -> Option<i128> {
        let chance = |first: First| {
            let (vm, tags) = (self.vm(first), self.tags[first.id]);
            let allowed = vm.allowed(tags);
            vm.due(tags).map_or(allowed, |due| due.min(allowed))
        };
        self.queue.firsts(classes).map(chance).min()
    }

    fn send(&mut self, id: RequestId, rule: usize) -> Dispatch {
        self.sent[rule] += 1;
        self.vm_of(id).waiting -= 1;
        self.queue.remove(id);
        self.below.sent(id);
        Dispatch::Send(id)
    }
}

fn ns(time: Timestamp) -> i128 {
    i128::from(time.as_ns())
}

impl Scheduler for Mclock {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.provide(request.vm);
        let index = usize::from(request.vm.0);
        if self.vms[index].waiting == 0 {
            self.adjust_tags(ns(now));
        }
        let tags = self.vms[index].tag(ns(now));
        self.tags.set(id, tags);
        self.vms[index].waiting += 1;
        self.below.inserted(id);
        self.queue.push_back(id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        if self.below.count() >= self.depth {
            return Dispatch::Idle;
        }
        let classes = Classes::with(capacity);
        if let Some(first) = self.by_reservation(ns(now), classes) {
            return self.send(first.id, BY_RESERVATION);
        }
        if let Some(first) = self.by_weight(ns(now), classes) {
            let vm = self.vm_of(first.id);
            vm.reservation_moved += vm.reservation_ns.unwrap_or(0);
            return self.send(first.id, BY_WEIGHT);
        }
        match self.next_chance(classes) {
            Some(chance) => {
                let chance = u64::try_from(chance).unwrap_or(u64::MAX);
                Dispatch::WaitUntil(Timestamp::ZERO.saturating_add(Nanos::from_ns(chance)))
            }
            None => Dispatch::Idle,
        }
    }

    fn completed(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        self.below.left(id);
    }

    fn remove(&mut self, id: RequestId) {
        self.vm_of(id).waiting -= 1;
        self.queue.remove(id);
    }

    /// It keeps its tags and goes before its VM's others.
    fn requeue(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.below.left(id);
        self.vms[usize::from(request.vm.0)].waiting += 1;
        self.queue.push_front(id, request);
    }

    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
