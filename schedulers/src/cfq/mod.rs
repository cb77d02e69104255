//! Completely fair queueing, `block/cfq-iosched.c`, in two versions: `cfq` as of Linux 2.6.30 and `cfq-3.5` as of 3.5
//! with group scheduling. They share all rules that do not name a version.
//!
//! Every process has a queue of its sync requests; async requests share one queue per priority. The queues take turns.
//! The active queue has the device for a slice of time, which is longer the higher its I/O priority. It serves its
//! requests as a one-way elevator with short back seeks, the oldest first if that has expired. When it is empty, the
//! device idles a little if the process's next request is expected soon and nearby.
//!
//! - `select`: the queue to serve, and how many of its requests may be below at once.
//! - `slice`: the length of a slice, its remainder, and the time that it counts.
//! - `service`: the order of the queues, and the next request of a queue.
//! - `rules`: the rules that send a request, which are counted.
//! - `idle`: when to wait for a process or a group, and the guess whether the device queues.
//! - `arrive`: the effects of a new request; preemption.
//! - `cooperate`: processes that work in the same place take turns (2.6.30) or share a queue (3.5).
//! - `group` (3.5): a VM is a cgroup. Groups share the device's time by weight. Within a group, classes and kinds of
//!   load take turns so that all get a slice within `target_latency`.
//!
//! Times are in ns, not ticks. Where the kernel means one tick it is one of HZ = 1000: the least charge for a slice,
//! and the last tick of one. Rounding to ticks is left out.
//!
//! Requests do not carry some facts that the kernel knows:
//!
//! - the exit of a process: no process exits;
//! - nice levels: a request without priority is best effort 4;
//! - a change of a process's cgroup: its cgroup is its VM;
//! - a sync write's mark against idling: `noidle_writes` sets it for all;
//! - whether the drive is rotational: `rotational` sets it;
//! - the mark of 3.5 for preferred requests, which file systems set on metadata: both versions prefer metadata.
//!
//! Left out are:
//!
//! - the search for merge candidates, which the stage does;
//! - plugging: a single small request of an awaited process is sent at once;
//! - higher priorities for holders of file-system locks;
//! - barriers, hierarchies of groups, and statistics.
//!
//! The priority of a queue changes with its next request, and so does its turn; the kernel waits for the turn's end. Of
//! two cooperators within reach, one ahead of the head and one behind it, the nearer is taken. The kernel takes the one
//! that its tree meets first.
//!
//! The kernel does not know capacity. A chosen request for which there is no capacity holds up all behind it, as the
//! head of the kernel's dispatch queue does.

mod arrive;
mod cooperate;
mod group;
mod idle;
mod queue;
mod rules;
mod select;
mod service;
mod slice;
mod tunables;
mod waiting;

use traces::spec::Settings;
use traces::{Request, RequestId, Timestamp};

use self::group::{Group, Workload};
use self::idle::Queueing;
use self::queue::{ASYNC_QUEUES, LEVELS, Process, Queue};
use self::rules::{IDLED, NEW_SLICE, RULES};
use self::tunables::{Parameters, TUNABLES_2_6_30, TUNABLES_3_5, Version};
use self::waiting::Held;
use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::id_list::IdList;
use crate::order::Order;
use crate::processes::Processes;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

/// The registry's row of the version of Linux 2.6.30.
pub const ENTRY: Entry = Entry {
    name: "cfq",
    summary: "time slices for each process in turn; waits for a process's next request (Linux)",
    origin: "Linux 2.6.30 block/cfq-iosched.c",
    tunables: TUNABLES_2_6_30,
    rules: RULES,
    build: &|settings: &Settings| Box::new(Cfq::new(Parameters::of_2_6_30(settings))),
};

/// The registry's row of the version of Linux 3.5.
pub const ENTRY_3_5: Entry = Entry {
    name: "cfq-3.5",
    summary: "cfq with a group per VM; groups share the device by weight (Linux)",
    origin: "Linux 3.5 block/cfq-iosched.c with CONFIG_CFQ_GROUP_IOSCHED",
    tunables: TUNABLES_3_5,
    rules: RULES.split_at(IDLED).1,
    build: &|settings: &Settings| Box::new(Cfq::new(Parameters::of_3_5(settings))),
};

/// The policy.
#[derive(Debug)]
struct Cfq {
    set: Parameters,
    /// The time of the present call.
    now: Timestamp,
    processes: Processes,
    known: Vec<Process>,
    /// The async queues by priority, then those of processes.
    queues: Vec<Queue>,
    /// Queues that no process uses any more.
    free: Vec<usize>,
    /// 3.5: the group of async requests, then one per VM. 2.6.30: one for all.
    groups: Vec<Group>,
    /// The groups with busy queues, by vdisktime.
    group_order: Order,
    weight_busy: u64,
    vdisktime_min: u64,
    workload: Workload,
    /// The queues with requests in order of their next one's sector, by priority level.
    close_trees: [Order; LEVELS],

    held: Slots<Held>,
    /// Requests that wait in queues.
    queued: usize,
    /// Requests that have been chosen and not yet sent.
    dispatch_queue: IdList,
    /// Counts up to tell equal keys apart: the first in stays first.
    turns: u64,

    active: Option<usize>,
    /// The process whose request was the first of the active queue's slice.
    active_process: Option<usize>,
    /// Until when the device idles for the active queue.
    idle_until: Option<Timestamp>,
    /// The device has idled for the active queue's next request, and not in vain so far.
    has_idled: bool,
    /// The rule of the first request of the active queue's slice, unless that has expired.
    slice_rule: usize,
    /// The queue that has last preempted another and has not become active yet.
    preempting: Option<usize>,
    /// Busy queues; of the real-time class; sync.
    busy: u64,
    busy_real_time: u64,
    busy_sync: u64,
    /// Requests sent to the device, and those that left an async (0) or a sync queue (1).
    in_driver: u64,
    in_flight: [u64; 2],
    queueing: Queueing,
    /// The end of the request sent last: where the head is taken to be.
    last_position: u64,
    /// When a sync request last completed after its expiry (3.5).
    last_delayed_sync: Option<Timestamp>,
    sent: [u64; RULES.len()],
}

impl Cfq {
    fn new(set: Parameters) -> Cfq {
        let priorities = (0..ASYNC_QUEUES).map(queue::priority_of_async_queue);
        let queues = priorities.map(|priority| Queue::new(false, priority, 0)).collect();
        let queueing = Queueing::at_start(set.version);
        let groups = vec![Group::new(set.weight_of_group(0))];
        Cfq {
            set,
            now: Timestamp::ZERO,
            processes: Processes::default(),
            known: Vec::new(),
            queues,
            free: Vec::new(),
            groups,
            group_order: Order::default(),
            weight_busy: 0,
            vdisktime_min: 0,
            workload: Workload::default(),
            close_trees: Default::default(),
            held: Slots::default(),
            queued: 0,
            dispatch_queue: IdList::default(),
            turns: 0,
            active: None,
            active_process: None,
            idle_until: None,
            has_idled: false,
            slice_rule: NEW_SLICE,
            preempting: None,
            busy: 0,
            busy_real_time: 0,
            busy_sync: 0,
            in_driver: 0,
            in_flight: [0, 0],
            queueing,
            last_position: 0,
            last_delayed_sync: None,
            sent: [0; RULES.len()],
        }
    }

    /// Whether the rules of 3.5 apply.
    fn is_3_5(&self) -> bool {
        self.set.version == Version::Linux3_5
    }

    /// A decided request goes to the device (`cfq_activate_request`).
    fn activate(&mut self, id: RequestId) -> Dispatch {
        self.in_driver += 1;
        let Held { end, rule, .. } = self.held[id];
        self.last_position = end;
        self.sent[rule] += 1;
        Dispatch::Send(id)
    }
}

impl Scheduler for Cfq {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.set_time(now);
        self.arrive(id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        self.set_time(now);
        if self.idle_until.is_some_and(|until| until <= now) {
            self.idled_in_vain();
        }
        if let Some(id) = self.dispatch_queue.first() {
            if !capacity.admits(self.held[id].operation) {
                return Dispatch::Idle;
            }
            self.dispatch_queue.remove(id);
            return self.activate(id);
        }
        if self.queued == 0 || capacity == (Capacity { reads: 0, writes: 0 }) {
            return Dispatch::Idle;
        }
        let Some(queue) = self.select_queue().filter(|&queue| self.may_dispatch(queue)) else {
            return self.idle_until.map_or(Dispatch::Idle, Dispatch::WaitUntil);
        };
        let expired = self.expired(queue);
        let Some(id) = expired.or(self.queues[queue].next) else { return Dispatch::Idle };
        if !capacity.admits(self.held[id].operation) {
            return Dispatch::Idle;
        }
        self.held[id].rule = self.rule_of_next(queue, expired.is_some());
        self.send_from(queue, id);
        self.activate(id)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.set_time(now);
        self.in_driver_completed(id);
    }

    fn remove(&mut self, id: RequestId) {
        let queue = self.held[id].queue;
        if self.dispatch_queue.contains(id) {
            self.dispatch_queue.remove(id);
            self.left_flight(queue);
        } else {
            self.take_out(id);
            self.retire_if_empty(queue);
        }
        self.let_go(queue);
    }

    /// The kernel puts a request that comes back at the head of the dispatch queue.
    fn requeue(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.set_time(now);
        self.in_driver -= 1;
        self.dispatch_queue.push_front(id);
    }

    /// Only into a request of the queue that this one would be in.
    fn may_merge(&self, into: RequestId, request: &Request) -> bool {
        !self.dispatch_queue.contains(into) && self.queue_known(request) == Some(self.held[into].queue)
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.set_time(now);
        self.grown(into, request);
    }

    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        self.set_time(now);
        self.joined(into, from);
        self.remove(from);
        self.grown(into, request);
    }

    fn waiting(&self) -> usize {
        self.queued + self.dispatch_queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        if self.is_3_5() { &self.sent[IDLED..] } else { &self.sent }
    }
}
