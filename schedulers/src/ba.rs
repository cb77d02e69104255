//! The burstiness-aware scheduler of Kim, Kang and Choi 2015, section 4. It sits above the device's scheduler and below
//! the VMs, and has three parts:
//!
//! - The `BurstinessDetector` holds a VM to be bursty if its demanded bandwidth is above `B_threshold`.
//! - The `CoarseGrainedDispatcher` gives bursty VMs the disk in turns of `S_quantum`, round robin by number, nearly
//!   alone.
//! - The `StarvationHandler` lets reads of the other VMs through meanwhile, with `M_reserved` for all of them together.
//!   Their writes wait, and a VM that is held back piles up demand until it is bursty.
//!
//! While no VM is bursty all requests go straight to the scheduler below, as without this one.
//!
//! The paper leaves some rules open. Here:
//!
//! - The demand of a VM is the bytes that wait here at the start of a `window` and those that arrive in it. It is
//!   judged as soon as it is above the threshold, and when the window ends.
//! - A VM's window begins anew with its turn. A bursty VM that is held back stays bursty, because its demand without
//!   that cannot be seen.
//! - For the same reason a VM's window stands still while it waits for a request during another VM's turn.
//! - A VM that has had requests held back for a window without a break becomes bursty, however few they are. Otherwise
//!   a VM whose processes have few requests outstanding could never pile up enough, and its writes would wait for ever.
//! - A turn ends early when its VM is no longer bursty, or has had no request outstanding for `turn_idle`.
//! - A VM in its turn has at most `depth` requests below, so that few are left when the turn ends; these are served.
//! - Reads that are let through are spaced by their length at `M_reserved`.
//!
//! The scheduler below (`below`; in the paper cfq of Linux 3.5) runs with its defaults. For it each VM is one process,
//! Blkback's for that VM, and a request arrives when it is let through. Left out: the cost of switching between those
//! processes.

use traces::spec::{Settings, Spec, Tunable, Unit};
use traces::{Nanos, Request, RequestId, StreamId, Timestamp, VmId};

use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::lba_queue::Classes;
use crate::registry;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;
use crate::vm_queue::VmQueue;

/// The schedulers that can be below.
const BELOW: &[&str] = &["cfq-3.5", "cfq", "anticipatory", "deadline", "fifo", "sstf", "look", "cscan"];

/// The shortest turn and window: shorter ones would wake the policy without end.
const MS: u64 = 1_000_000;

const PASS_THROUGH: usize = 0;
const RESERVED_READ: usize = 1;
const TURN: usize = 2;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("pass-through", "let through while no VM had a turn"),
    RuleInfo::new(
        "reserved read",
        "a read of a VM that is not bursty, let through in the turn of another at M_reserved",
    ),
    RuleInfo::new("bursty turn", "let through because it is the turn of its VM, which is bursty"),
];

/// The registry's row. The defaults are the paper's Table 1 where it has one.
pub const ENTRY: Entry = Entry {
    name: "ba",
    summary: "burstiness-aware: bursty VMs take turns of one second; other VMs' reads go at a reserved rate",
    origin: "Kim, Kang, Choi 2015, section 4",
    tunables: &[
        Tunable::new("B_threshold", Unit::Bytes, "4m", "demand in bytes/s above which a VM is bursty")
            .within(0, 1 << 40),
        Tunable::new("S_quantum", Unit::Time, "1s", "length of a bursty VM's turn").within(MS, 1 << 60),
        Tunable::new("M_reserved", Unit::Bytes, "4m", "rate in bytes/s reserved for reads of VMs that are not bursty")
            .within(1, 1 << 40),
        Tunable::new("window", Unit::Time, "1s", "time over which demand is measured").within(MS, 1 << 60),
        Tunable::new("turn_idle", Unit::Time, "8ms", "time that a VM without requests keeps its turn")
            .within(0, 1 << 60),
        Tunable::new("depth", Unit::Count, "32", "most requests in flight below of the VM whose turn it is")
            .within(1, 1 << 32),
        Tunable::new("below", Unit::Choice(BELOW), "cfq-3.5", "the device's scheduler"),
    ],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    let name = settings.word("below").to_owned();
    let below = registry::build(&Spec { name, given: Vec::new() }).expect("one of the registry's, with its defaults");
    Box::new(Ba {
        detector: BurstinessDetector::new(settings.bytes("B_threshold"), settings.nanos("window")),
        dispatcher: CoarseGrainedDispatcher {
            quantum: settings.nanos("S_quantum"),
            idle: settings.nanos("turn_idle"),
            turn: None,
            last: None,
        },
        starvation: StarvationHandler { reserved: settings.bytes("M_reserved"), next: Timestamp::ZERO },
        depth: settings.count("depth"),
        held: VmQueue::default(),
        below: below.scheduler,
        requests: Slots::default(),
        work: Vec::new(),
        now: Timestamp::ZERO,
        sent: [0; RULES.len()],
    })
}

/// The demand of a VM.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    window_start: Timestamp,
    /// Bytes held back when the window began, and arrived since.
    demanded: u64,
    /// Bytes held back now.
    held: u64,
    /// Since when another VM's turn has held requests back without a break.
    held_since: Option<Timestamp>,
    /// Since when it has waited for a request during another VM's turn, whether held back or let through.
    waits_since: Option<Timestamp>,
    is_bursty: bool,
}

/// Which VMs are bursty.
#[derive(Debug)]
struct BurstinessDetector {
    /// Bytes in a window above which a VM is bursty.
    threshold: u64,
    window: Nanos,
    vms: Vec<Demand>,
}

impl BurstinessDetector {
    fn new(bytes_per_second: u64, window: Nanos) -> BurstinessDetector {
        let threshold = u128::from(bytes_per_second) * u128::from(window.as_ns()) / 1_000_000_000;
        BurstinessDetector { threshold: u64::try_from(threshold).unwrap_or(u64::MAX), window, vms: Vec::new() }
    }

    fn is_bursty(&self, vm: VmId) -> bool {
        self.vms.get(usize::from(vm.0)).is_some_and(|demand| demand.is_bursty)
    }

    /// A request arrives and is held back for now.
    fn demanded(&mut self, now: Timestamp, vm: VmId, bytes: u64) {
        let index = usize::from(vm.0);
        if index >= self.vms.len() {
            self.vms.resize(index + 1, Demand { window_start: now, ..Demand::default() });
        }
        let demand = &mut self.vms[index];
        demand.demanded += bytes;
        demand.held += bytes;
        demand.is_bursty |= demand.demanded > self.threshold;
    }

    fn let_through(&mut self, vm: VmId, bytes: u64) {
        self.vms[usize::from(vm.0)].held -= bytes;
    }

    /// Notes since when VMs wait during another VM's turn; a window has stood still meanwhile.
    fn note_waiting(&mut self, now: Timestamp, in_turn: Option<VmId>, work: &[Work]) {
        for (index, (demand, work)) in self.vms.iter_mut().zip(work).enumerate() {
            let is_others = in_turn.is_some_and(|vm| vm != VmId(index as u16));
            if !is_others || demand.held == 0 {
                demand.held_since = None;
            } else {
                demand.held_since.get_or_insert(now);
            }
            if is_others && work.unfinished > 0 {
                demand.waits_since.get_or_insert(now);
            } else if let Some(since) = demand.waits_since.take() {
                demand.window_start += now.saturating_since(since);
            }
        }
    }

    fn cancelled(&mut self, vm: VmId, bytes: u64) {
        let demand = &mut self.vms[usize::from(vm.0)];
        demand.demanded = demand.demanded.saturating_sub(bytes);
    }

    fn turn_begins(&mut self, now: Timestamp, vm: VmId) {
        let demand = &mut self.vms[usize::from(vm.0)];
        (demand.window_start, demand.demanded, demand.waits_since) = (now, demand.held, None);
    }

    /// Judges the windows that have ended.
    fn judge(&mut self, now: Timestamp, in_turn: Option<VmId>) {
        for (index, demand) in self.vms.iter_mut().enumerate() {
            demand.is_bursty |= demand.held_since.is_some_and(|since| now.saturating_since(since) >= self.window);
            let windows =
                demand.waits_since.unwrap_or(now).saturating_since(demand.window_start).as_ns() / self.window.as_ns();
            if windows == 0 {
                continue;
            }
            let is_held_back = demand.is_bursty && demand.held > 0 && in_turn != Some(VmId(index as u16));
            if !is_held_back {
                let last_window = if windows == 1 { demand.demanded } else { demand.held };
                demand.is_bursty = last_window > self.threshold;
            }
            demand.window_start += Nanos::from_ns(windows * self.window.as_ns());
            demand.demanded = demand.held;
        }
    }
}

/// The outstanding requests of a VM.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Requests that are here or below.
    unfinished: u64,
    /// Those of them that are below.
    below: u64,
    /// Since when there are none.
    quiet_since: Timestamp,
}

/// The turns of bursty VMs.
#[derive(Debug)]
struct CoarseGrainedDispatcher {
    quantum: Nanos,
    idle: Nanos,
    /// The VM whose turn it is, and until when.
    turn: Option<(VmId, Timestamp)>,
    /// The VM that had the last turn.
    last: Option<VmId>,
}

impl CoarseGrainedDispatcher {
    /// When the turn of this VM ends because it sends no request.
    fn idle_until(&self, work: Work) -> Option<Timestamp> {
        (work.unfinished == 0).then(|| work.quiet_since.saturating_add(self.idle))
    }

    /// Ends a turn that is over and begins the next, if a bursty VM has work.
    fn take_turns(&mut self, now: Timestamp, detector: &mut BurstinessDetector, work: &[Work]) {
        if let Some((vm, until)) = self.turn
            && detector.is_bursty(vm)
            && now < until
            && self.idle_until(work[usize::from(vm.0)]).is_none_or(|end| now < end)
        {
            return;
        }
        let wants = |&vm: &usize| work[vm].unfinished > 0 && detector.is_bursty(VmId(vm as u16));
        let behind_last = self.last.map_or(0, |vm| usize::from(vm.0) + 1).min(work.len());
        let next = (behind_last..work.len()).chain(0..behind_last).find(wants).map(|vm| VmId(vm as u16));
        self.turn = next.map(|vm| (vm, now.saturating_add(self.quantum)));
        if let Some(vm) = next {
            self.last = next;
            detector.turn_begins(now, vm);
        }
    }
}

/// The bandwidth for reads of VMs that are not bursty.
#[derive(Debug)]
struct StarvationHandler {
    /// Bytes a second.
    reserved: u64,
    /// When the next may go.
    next: Timestamp,
}

impl StarvationHandler {
    fn charge(&mut self, now: Timestamp, bytes: u64) {
        let span = u128::from(bytes) * 1_000_000_000 / u128::from(self.reserved);
        self.next = self.next.max(now).saturating_add(Nanos::from_ns(u64::try_from(span).unwrap_or(u64::MAX)));
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    /// Held back here.
    Held,
    /// Waiting in the scheduler below.
    Below,
    /// Sent by it.
    Sent,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    place: Place,
    vm: VmId,
    bytes: u64,
    /// The rule that has let it through, once one has.
    rule: usize,
}

/// The policy.
struct Ba {
    detector: BurstinessDetector,
    dispatcher: CoarseGrainedDispatcher,
    starvation: StarvationHandler,
    depth: u64,
    held: VmQueue,
    below: Box<dyn Scheduler>,
    requests: Slots<(Known, Option<Request>)>,
    work: Vec<Work>,
    /// The time of the last call that had one.
    now: Timestamp,
    sent: [u64; RULES.len()],
}

const ALL: Classes = Classes { reads: true, writes: true };

/// A request as the process that serves its VM hands it on.
fn as_blkback(request: &Request) -> Request {
    let mut request = *request;
    request.stream = StreamId(u32::from(request.vm.0));
    request
}

impl Ba {
    fn work(&mut self, vm: VmId) -> &mut Work {
        &mut self.work[usize::from(vm.0)]
    }

    /// Hands a request that is held back to the scheduler below, by a rule.
    fn let_through(&mut self, now: Timestamp, id: RequestId, rule: usize) {
        let (known, request) = &mut self.requests[id];
        (known.place, known.rule) = (Place::Below, rule);
        let (Known { vm, bytes, .. }, request) = (*known, request.expect("what is held back is known"));
        self.held.remove(id);
        self.detector.let_through(vm, bytes);
        self.work(vm).below += 1;
        self.below.insert(now, id, &as_blkback(&request));
    }

    /// The oldest read of a VM that is not bursty.
    fn starving(&self) -> Option<RequestId> {
        let firsts = self.held.firsts(Classes::READS).filter(|first| !self.detector.is_bursty(first.vm));
        firsts.min_by_key(|first| first.age).map(|first| first.id)
    }

    /// Lets through the requests that may be sent now.
    fn open(&mut self, now: Timestamp) {
        let Some((vm, _)) = self.dispatcher.turn else {
            while let Some(oldest) = self.held.firsts(ALL).min_by_key(|first| first.age) {
                self.let_through(now, oldest.id, PASS_THROUGH);
            }
            return;
        };
        while self.starvation.next <= now
            && let Some(id) = self.starving()
        {
            self.starvation.charge(now, self.requests[id].0.bytes);
            self.let_through(now, id, RESERVED_READ);
        }
        while self.work(vm).below < self.depth
            && let Some(first) = self.held.first_of(vm, ALL)
        {
            self.let_through(now, first.id, TURN);
        }
    }

    fn advance(&mut self, now: Timestamp) {
        self.now = now;
        self.detector.judge(now, self.dispatcher.turn.map(|(vm, _)| vm));
        self.dispatcher.take_turns(now, &mut self.detector, &self.work);
        self.open(now);
        self.detector.note_waiting(now, self.dispatcher.turn.map(|(vm, _)| vm), &self.work);
    }

    /// When a request that is held back may be let through without an arrival or a completion.
    fn next_opening(&self) -> Option<Timestamp> {
        let (vm, until) = self.dispatcher.turn.filter(|_| self.held.len() > 0)?;
        let idle_until = self.dispatcher.idle_until(self.work[usize::from(vm.0)]);
        let starving = self.starving().map(|_| self.starvation.next);
        [idle_until, starving].into_iter().flatten().chain([until]).min()
    }

    /// A waiting request has become longer; where it waits.
    fn grow(&mut self, now: Timestamp, into: RequestId, request: &Request) -> Place {
        let (known, stored) = &mut self.requests[into];
        let growth = request.sectors().bytes().saturating_sub(known.bytes);
        known.bytes += growth;
        *stored = Some(*request);
        let Known { place, vm, .. } = *known;
        self.detector.demanded(now, vm, growth);
        if place == Place::Below {
            self.detector.let_through(vm, growth);
        }
        place
    }

    /// Forgets a request.
    fn forget(&mut self, now: Timestamp, id: RequestId) {
        let Known { place, vm, .. } = std::mem::take(&mut self.requests[id].0);
        let work = self.work(vm);
        work.below -= u64::from(matches!(place, Place::Below | Place::Sent));
        work.unfinished -= 1;
        if work.unfinished == 0 {
            work.quiet_since = now;
        }
    }
}

impl Scheduler for Ba {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let (vm, bytes) = (request.vm, request.sectors().bytes());
        if usize::from(vm.0) >= self.work.len() {
            self.work.resize(usize::from(vm.0) + 1, Work::default());
        }
        self.requests.set(id, (Known { place: Place::Held, vm, bytes, rule: PASS_THROUGH }, Some(*request)));
        self.work(vm).unfinished += 1;
        self.held.push_back(id, request);
        self.detector.judge(now, self.dispatcher.turn.map(|(vm, _)| vm));
        self.detector.demanded(now, vm, bytes);
        self.advance(now);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        self.advance(now);
        let choice = self.below.dispatch(now, capacity, cost);
        let below_waits = match choice {
            Dispatch::Send(id) => {
                let known = &mut self.requests[id].0;
                known.place = Place::Sent;
                self.sent[known.rule] += 1;
                return choice;
            }
            Dispatch::WaitUntil(time) => Some(time),
            Dispatch::Idle => None,
        };
        let wake = [below_waits, self.next_opening()].into_iter().flatten().min();
        wake.map_or(Dispatch::Idle, Dispatch::WaitUntil)
    }

    fn issued(&mut self, now: Timestamp, id: RequestId) {
        self.below.issued(now, id);
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.below.completed(now, id, &as_blkback(request));
        if self.requests[id].0.place == Place::Sent {
            self.forget(now, id);
        }
    }

    fn remove(&mut self, id: RequestId) {
        let Known { place, vm, bytes, .. } = self.requests[id].0;
        if place == Place::Held {
            self.held.remove(id);
            self.detector.let_through(vm, bytes);
        } else {
            self.below.remove(id);
        }
        self.detector.cancelled(vm, bytes);
        self.forget(self.now, id);
    }

    /// It goes back to where it was sent from.
    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if self.requests[id].0.place != Place::Sent {
            self.insert(now, id, request);
            return;
        }
        self.requests[id].0.place = Place::Below;
        self.below.requeue(now, id, &as_blkback(request));
    }

    fn may_merge(&self, into: RequestId, request: &Request) -> bool {
        self.requests[into].0.place == Place::Held || self.below.may_merge(into, &as_blkback(request))
    }

    fn front_merges(&self) -> bool {
        self.below.front_merges()
    }

    fn joins(&self) -> bool {
        self.below.joins()
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        if self.grow(now, into, request) == Place::Below {
            self.below.merged(now, into, &as_blkback(request));
        }
    }

    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        if [into, from].iter().any(|&id| self.requests[id].0.place == Place::Held) {
            self.remove(from);
            self.merged(now, into, request);
            return;
        }
        let Known { vm, bytes, .. } = self.requests[from].0;
        self.detector.cancelled(vm, bytes);
        self.forget(now, from);
        self.grow(now, into, request);
        self.below.merged_requests(now, into, from, &as_blkback(request));
    }

    fn waiting(&self) -> usize {
        self.held.len() + self.below.waiting()
    }

    /// Of this policy; the scheduler below has rules of its own.
    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
