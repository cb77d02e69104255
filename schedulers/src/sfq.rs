//! SFQ(D), start-time fair queueing with a depth, after Jin, Chase and Kaur 2004 ("Interposed proportional sharing for
//! a storage service utility", SIGMETRICS). VMs are the flows. `esx` is the fair share of VMware ESX 3.
//! Each request gets two tags on arrival. The start tag is the larger of the virtual time and its VM's last finish tag.
//! The finish tag is the start tag plus cost over weight. Requests are sent in order of start tags (ties: the older),
//! and at most `depth` at a time are below. The virtual time is the start tag of the last that was sent. While nothing
//! waits and nothing is below, it is the largest finish tag of the requests that were sent, so that the next VM starts
//! even.
//!
//! Let two VMs f and g always wait over any span. The service sent of each, in cost over weight, then differs by at
//! most c_f/w_f + c_g/w_g (c the largest cost of one request, Goyal, Vin and Cheng 1996). The completed service differs
//! by at most (D+1)·(c_f/w_f + c_g/w_g).
//!
//! The tags are of requests as they arrive; a request that grows by a merge keeps its start tag, and
//! the growth is charged to the VM's next. A cancelled request stays charged. Left out: the
//! variants that adjust tags to the requests below (MSF-, FSFQ(D)), depth that adapts (ESX's later
//! latency control), and shares of disks within a VM. Reads, or all others, are passed over if there is no
//! capacity for them.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Operation, Request, RequestId, Timestamp, VmId};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::lba_queue::Classes;
use crate::order::{Entry as Tagged, Order};
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;
use crate::vm_queue::{Below, PerVm};

/// The weights of the VMs, for every policy that shares by weight.
pub(crate) const WEIGHTS: Tunable = Tunable::new(
    "weights",
    Unit::Counts,
    "1",
    "weights of VM 0, 1, …, such as 1+2+4; the last holds for all further VMs",
)
.within(1, 10_000);

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "sfq",
    summary: "start-time fair queueing of VMs by weight, with a depth (SFQ(D))",
    origin: "Jin, Chase, Kaur 2004 (SFQ: Goyal, Vin, Cheng 1996)",
    tunables: &[
        WEIGHTS,
        Tunable::new("depth", Unit::Count, "32", "most requests in flight below, D").within(1, 1 << 32),
        Tunable::new("cost", Unit::Choice(&["sectors", "requests"]), "sectors", "unit of a VM's share"),
    ],
    rules: &[],
    build: &build,
};

/// A sector, or a request, in units of tags: division by a weight loses less than 1/65,536.
const ONE: u64 = 1 << 16;

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Sfq {
        weights: PerVm::new(settings.counts("weights")),
        depth: settings.count("depth"),
        counts_sectors: settings.word("cost") == "sectors",
        reads: Order::default(),
        writes: Order::default(),
        charged: Slots::default(),
        finish: Vec::new(),
        below: Below::default(),
        virtual_time: 0,
        finish_max: 0,
        next_age: 0,
    })
}

/// The charge for a waiting or sent request.
#[derive(Clone, Copy, Debug, Default)]
struct Charged {
    vm: VmId,
    is_read: bool,
    cost: u64,
    start: u64,
}

#[derive(Debug)]
struct Sfq {
    weights: PerVm,
    depth: u64,
    counts_sectors: bool,
    /// By start tag.
    reads: Order,
    /// All that are not reads, by start tag.
    writes: Order,
    charged: Slots<Charged>,
    /// The finish tag of each VM's last request.
    finish: Vec<u64>,
    below: Below,
    virtual_time: u64,
    finish_max: u64,
    next_age: u64,
}

impl Sfq {
    /// The cost of a request: its sectors, at least one, or 1.
    fn cost(&self, request: &Request) -> u64 {
        if self.counts_sectors { request.sectors().count().max(1) } else { 1 }
    }

    /// A cost in units of tags, for a VM.
    fn span(&self, vm: VmId, cost: u64) -> u64 {
        cost.saturating_mul(ONE) / self.weights.of(vm)
    }

    /// The last finish tag of a VM, to change.
    fn finish_of(&mut self, vm: VmId) -> &mut u64 {
        let index = usize::from(vm.0);
        if index >= self.finish.len() {
            self.finish.resize(index + 1, 0);
        }
        &mut self.finish[index]
    }

    fn order_of(&mut self, id: RequestId) -> &mut Order {
        if self.charged[id].is_read { &mut self.reads } else { &mut self.writes }
    }

    fn queue(&mut self, id: RequestId) {
        let (start, age) = (self.charged[id].start, self.next_age);
        self.next_age += 1;
        self.order_of(id).insert(id, start, age);
    }

    /// The smallest start tag for which there is capacity.
    fn first(&self, classes: Classes) -> Option<Tagged> {
        let read = if classes.reads { self.reads.first() } else { None };
        let write = if classes.writes { self.writes.first() } else { None };
        match (read, write) {
            (Some(read), Some(write)) => Some(read.min(write)),
            (read, write) => read.or(write),
        }
    }
}

impl Scheduler for Sfq {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        if self.waiting() == 0 && self.below.count() == 0 {
            self.virtual_time = self.virtual_time.max(self.finish_max);
        }
        let (vm, cost) = (request.vm, self.cost(request));
        let span = self.span(vm, cost);
        let virtual_time = self.virtual_time;
        let finish = self.finish_of(vm);
        let start = virtual_time.max(*finish);
        *finish = start.saturating_add(span);
        self.charged.set(id, Charged { vm, is_read: request.operation == Operation::Read, cost, start });
        self.below.inserted(id);
        self.queue(id);
    }

    fn dispatch(&mut self, _now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        if self.below.count() >= self.depth {
            return Dispatch::Idle;
        }
        let Some(first) = self.first(Classes::with(capacity)) else { return Dispatch::Idle };
        let id = first.id();
        self.order_of(id).remove(id);
        self.below.sent(id);
        self.virtual_time = self.virtual_time.max(first.key);
        let Charged { vm, cost, start, .. } = self.charged[id];
        self.finish_max = self.finish_max.max(start.saturating_add(self.span(vm, cost)));
        Dispatch::Send(id)
    }

    fn completed(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        self.below.left(id);
    }

    fn remove(&mut self, id: RequestId) {
        self.order_of(id).remove(id);
    }

    /// It keeps its tags, and so goes before later requests.
    fn requeue(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        self.below.left(id);
        self.queue(id);
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        let (cost, Charged { vm, cost: before, .. }) = (self.cost(request), self.charged[into]);
        let growth = self.span(vm, cost.saturating_sub(before));
        self.charged[into].cost = cost;
        let finish = self.finish_of(vm);
        *finish = finish.saturating_add(growth);
    }

    /// `from` was charged on its own account: of the joined request no more than the rest is.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        self.remove(from);
        if self.counts_sectors {
            self.charged[into].cost += self.charged[from].cost;
        }
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.reads.len() + self.writes.len()
    }
}
