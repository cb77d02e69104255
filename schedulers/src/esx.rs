//! The fair share of VMs in VMware ESX, as far as VMware has published it ("Advanced VMkernel Settings for Disk
//! Storage", vSphere blog, August 2012), with the batches that Casale, Kraft and Krishnamurthy 2011 saw it send
//! (section IV).
//!
//! - Shares: the VM that has had the fewest requests goes next. A VM that had none outstanding begins even.
//! - `Disk.SchedQuantum`: a VM goes on while its requests are sequential, up to this many. Sequential means within
//!   `Disk.SectorMaxDiff` of the end of the one before.
//! - `Disk.SchedNumReqOutstanding`: as soon as two VMs have requests, each has at most this many below.
//! - Reads and writes are sent in batches of one kind. A batch has at most `read_batch` reads or `write_batch` writes
//!   while the other kind waits. Writes begin only when no read is below; reads begin when the batch of writes has been
//!   sent. The paper sees bursts of either kind, writes of at most 16, a priority of reads, and writes that seldom find
//!   more than a few reads (section IV). How ESX does so is not published; these rules are ours.
//!
//! Left out: the settings by which ESX notices that VMs alternate (`SchedQControlVMSwitches`, `SchedQControlSeqReqs`),
//! so that the limit holds at once; unequal shares; and the latency control of later versions.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp, VmId};

use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::lba_queue::Classes;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;
use crate::vm_queue::{First, VmQueue};

const SEQUENTIAL: usize = 0;
const SHARE: usize = 1;
const RULES: &[RuleInfo] = &[
    RuleInfo::new(
        "sequential",
        "the VM that was served last goes on, since its next request is near and its quantum lasts",
    ),
    RuleInfo::new("fair share", "the oldest request of the VM that has had the fewest"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "esx",
    summary: "fair share of VMs with a quantum for sequential requests; reads and writes in batches of their own (ESX)",
    origin: "VMware 2012, advanced VMkernel settings; batches after Casale, Kraft, Krishnamurthy 2011, section IV",
    tunables: &[
        Tunable::new("quantum", Unit::Count, "8", "sequential requests of a VM in a row (Disk.SchedQuantum)")
            .within(1, 1 << 32),
        Tunable::new("near", Unit::Count, "2000", "sectors within which requests are sequential (Disk.SectorMaxDiff)"),
        Tunable::new(
            "outstanding",
            Unit::Count,
            "32",
            "requests of a VM below while two or more have any (Disk.SchedNumReqOutstanding)",
        )
        .within(1, 1 << 32),
        Tunable::new("read_batch", Unit::Count, "32", "reads in a batch while writes wait").within(1, 1 << 32),
        Tunable::new("write_batch", Unit::Count, "16", "writes in a batch while reads wait").within(1, 1 << 32),
    ],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Esx {
        quantum: settings.count("quantum"),
        near: Sectors::new(settings.count("near")),
        outstanding: settings.count("outstanding"),
        batch_most: [settings.count("read_batch"), settings.count("write_batch")],
        queue: VmQueue::default(),
        waiting: [0, 0],
        below: [0, 0],
        requests: Slots::default(),
        vms: Vec::new(),
        active: 0,
        batch: READS,
        batch_sent: 0,
        turn: None,
        share: 0,
        sent: [0; RULES.len()],
    })
}

/// Kinds of batches, as indices.
const READS: usize = 0;
const WRITES: usize = 1;

/// What is known of a request that waits or is below.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    vm: VmId,
    kind: usize,
    start: Lba,
    end: Lba,
    is_below: bool,
}

/// A VM's counts.
#[derive(Clone, Copy, Debug, Default)]
struct Vm {
    /// Requests that wait, and that are below.
    waiting: u64,
    below: u64,
    /// Requests that it has had. It is raised to the others' when the VM begins to have requests.
    had: u64,
}

/// The VM that was served last.
#[derive(Clone, Copy, Debug)]
struct Turn {
    vm: VmId,
    /// The end of its last request.
    end: Lba,
    /// Requests in a row.
    length: u64,
}

#[derive(Debug)]
struct Esx {
    quantum: u64,
    near: Sectors,
    outstanding: u64,
    batch_most: [u64; 2],
    queue: VmQueue,
    /// Requests that wait, and that are below, by kind.
    waiting: [u64; 2],
    below: [u64; 2],
    requests: Slots<Known>,
    vms: Vec<Vm>,
    /// VMs with requests that wait or are below.
    active: usize,
    /// The kind of the current batch, and how many it has sent.
    batch: usize,
    batch_sent: u64,
    turn: Option<Turn>,
    /// The most that a VM had had when it was served: what a VM begins with.
    share: u64,
    sent: [u64; RULES.len()],
}

impl Esx {
    fn vm(&mut self, vm: VmId) -> &mut Vm {
        let index = usize::from(vm.0);
        if index >= self.vms.len() {
            self.vms.resize(index + 1, Vm::default());
        }
        &mut self.vms[index]
    }

    /// Counts a request that begins to wait.
    fn waits(&mut self, id: RequestId, request: &Request) {
        let kind = if request.operation == Operation::Read { READS } else { WRITES };
        let known = Known { vm: request.vm, kind, start: request.lba, end: request.end(), is_below: false };
        self.requests.set(id, known);
        self.waiting[kind] += 1;
        let share = self.share;
        let vm = self.vm(request.vm);
        let begins = vm.waiting + vm.below == 0;
        vm.waiting += 1;
        if begins {
            vm.had = vm.had.max(share);
            self.active += 1;
        }
    }

    /// Counts a request that waits no longer.
    fn waits_no_longer(&mut self, id: RequestId) {
        let Known { vm, kind, .. } = self.requests[id];
        self.queue.remove(id);
        self.waiting[kind] -= 1;
        self.vm(vm).waiting -= 1;
    }

    /// Counts a VM out that has no requests any more.
    fn may_be_idle(&mut self, vm: VmId) {
        let Vm { waiting, below, .. } = *self.vm(vm);
        self.active -= usize::from(waiting + below == 0);
    }

    /// Counts a request that was sent and is below no longer. False for one that another policy sent.
    fn is_back(&mut self, id: RequestId) -> bool {
        let Known { vm, kind, is_below, .. } = self.requests[id];
        if is_below {
            self.requests[id].is_below = false;
            self.below[kind] -= 1;
            self.vm(vm).below -= 1;
        }
        is_below
    }

    /// The kind that may go now, if any.
    fn kind(&self, capacity: Capacity) -> Option<usize> {
        let room = [capacity.reads > 0, capacity.writes > 0];
        let waits = |kind: usize| room[kind] && self.waiting[kind] > 0;
        let other = 1 - self.batch;
        if waits(self.batch) && (self.batch_sent < self.batch_most[self.batch] || !waits(other)) {
            return Some(self.batch);
        }
        let may_begin = other == READS || self.below[READS] == 0;
        (waits(other) && may_begin).then_some(other)
    }

    /// Whether a VM may have one more below.
    fn may_send(&self, vm: VmId) -> bool {
        self.active < 2 || self.vms[usize::from(vm.0)].below < self.outstanding
    }

    /// The next request of these classes and the rule that chooses it.
    fn choose(&self, classes: Classes) -> Option<(First, usize)> {
        let goes_on = |turn: &Turn| {
            let next = self.queue.first_of(turn.vm, classes)?;
            let is_near = self.requests[next.id].start.distance(turn.end) <= self.near;
            (is_near && turn.length < self.quantum && self.may_send(turn.vm)).then_some(next)
        };
        if let Some(next) = self.turn.as_ref().and_then(goes_on) {
            return Some((next, SEQUENTIAL));
        }
        let had = |first: &First| (self.vms[usize::from(first.vm.0)].had, first.age);
        let fewest = self.queue.firsts(classes).filter(|first| self.may_send(first.vm)).min_by_key(had)?;
        Some((fewest, SHARE))
    }
}

impl Scheduler for Esx {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.waits(id, request);
        self.queue.push_back(id, request);
    }

    fn dispatch(&mut self, _now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        let Some(kind) = self.kind(capacity) else { return Dispatch::Idle };
        let classes = Classes { reads: kind == READS, writes: kind == WRITES };
        let Some((First { vm, id, .. }, rule)) = self.choose(classes) else { return Dispatch::Idle };
        if kind != self.batch {
            (self.batch, self.batch_sent) = (kind, 0);
        }
        self.batch_sent += 1;
        self.waits_no_longer(id);
        self.requests[id].is_below = true;
        self.below[kind] += 1;
        let of_vm = self.vm(vm);
        of_vm.below += 1;
        let before = of_vm.had;
        of_vm.had += 1;
        self.share = self.share.max(before);
        let length = self.turn.filter(|_| rule == SEQUENTIAL).map_or(1, |turn| turn.length + 1);
        self.turn = Some(Turn { vm, end: self.requests[id].end, length });
        self.sent[rule] += 1;
        Dispatch::Send(id)
    }

    fn completed(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        if self.is_back(id) {
            self.may_be_idle(self.requests[id].vm);
        }
    }

    fn remove(&mut self, id: RequestId) {
        self.waits_no_longer(id);
        self.may_be_idle(self.requests[id].vm);
    }

    fn requeue(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        if self.is_back(id) {
            self.may_be_idle(request.vm);
        }
        self.waits(id, request);
        self.queue.push_front(id, request);
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        (self.requests[into].start, self.requests[into].end) = (request.lba, request.end());
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
