//! Budget fair queueing (BFQ) as in Linux 6.18, `block/bfq-iosched.c` and `block/bfq-wf2q.c`; Valente
//! and Avanzini, "Evolution of the BFQ Storage-I/O Scheduler", MST 2015. A queue per process for its
//! sync requests, and per I/O priority for async ones, is served until it has used up a budget of
//! sectors or its time; B-WF2Q+ gives queues (and cgroups, here VMs) service in proportion to their
//! weights. The device is kept idle for an empty queue where that raises throughput or keeps a
//! guarantee, other queues' requests are injected meanwhile, queues that begin after a rest are
//! raised, and those that work together are merged.
//!
//! What the kernel sees and a request does not tell is a tunable: `rotational`, the length of a jiffy
//! (`tick`), whether VMs are cgroups. Jiffies begin at the clock's zero; as the kernel's ticks lie at
//! multiples of a jiffy of its own clock, a replay against a capture keeps that clock, or puts its zero
//! at a whole second of it. A process is a (VM, stream); it never ends. Priority none is best effort 4,
//! whatever the process's nice value.
//!
//! Left out: several actuators; the limits of tags (`limit_depth`: the stage's); merging of queues on
//! the occasion of a merge of requests (only on arrival); debug statistics; changes of tunables and
//! cgroups while running; the longer wait of an empty queue that allows one injection, which the
//! kernel by a mistake of units makes 8 million jiffies long. Of two queues close to a request the
//! nearer is merged with; the kernel's choice depends on the shape of its tree.
//!
//! The kernel knows no room: a request that there is none for holds up the others.

mod arrive;
mod budget;
mod burst;
mod clock;
mod coop;
mod idle;
mod inject;
mod next;
mod processes;
mod queue;
mod raise;
mod rate;
mod requests;
mod select;
mod service;
mod shares;
mod tree;
mod tunables;

use traces::spec::Settings;
use traces::{Nanos, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::id_list::IdList;
use crate::processes::Processes;
use crate::registry::Entry;
use crate::scheduler::{Capacity, Dispatch, Scheduler};

use budget::{DEFAULT_MAX_BUDGET, Reason};
use clock::{Clock, LONG_AGO};
use inject::Injection;
use queue::{Process, Queue};
use rate::PeakRate;
use requests::{Place, Requests, Waiting};
use service::{Entity, NONE, Service};
use tunables::Tunables;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "bfq",
    summary: "budget fair queueing: weights of processes and VMs, low latency, idling (Linux)",
    origin: "Linux 6.18 block/bfq-iosched.c, bfq-wf2q.c; Valente and Avanzini, MST 2015",
    tunables: tunables::TUNABLES,
    build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Bfq::new(settings))
}

/// Async queues: classes by levels.
const ASYNC_QUEUES: usize = 24;

/// What a group keeps about its queues.
#[derive(Clone, Debug)]
struct GroupQueues {
    asynchronous: [u32; ASYNC_QUEUES],
    last_created: u32,
    /// Sectors of the next requests of the queues that may be merged, ascending.
    positions: Vec<(u64, u32)>,
}

/// The policy. Indices are of `queues`, `processes` and so on; [`NONE`] is none.
#[derive(Clone, Debug)]
struct Bfq {
    tunables: Tunables,
    clock: Clock,
    service: Service,
    queues: Vec<Queue>,
    free_queues: Vec<u32>,
    orphans: Vec<u32>,
    processes: Vec<Process>,
    process_numbers: Processes,
    vm_groups: Vec<u32>,
    group_queues: Vec<GroupQueues>,
    requests: Requests,
    /// What came back unserved and goes first.
    dispatch_list: IdList,

    in_service: u32,
    in_service_last_position: u64,
    /// How many queues of each class are busy, and how many raised ones.
    busy_queues: [u32; 3],
    raised_busy: u32,
    /// Requests in queues, and sent.
    waiting_in_queues: u32,
    in_driver: u32,
    most_in_driver: u32,
    /// Whether the device holds several requests at once, once that is known.
    queueing: Option<bool>,
    queueing_samples: u32,
    /// It is flash and queues, or may.
    flash_with_queueing: bool,

    peak_rate: PeakRate,
    budgets_assigned: i64,
    current_max_budget: i64,
    default_timeout_ms: i64,
    /// In ns.
    last_budget_start: i64,
    last_idling_start: i64,
    idle_until: Option<i64>,
    injection: Injection,
    last_completed: u32,
    /// The last completion left the device idle and nothing to wait for (`bfq_schedule_dispatch`).
    calls_for_dispatch: bool,

    burst_list: Vec<u32>,
    burst_size: u64,
    burst_parent: u32,
    large_burst: bool,
    last_in_burst: i64,
}

impl Bfq {
    fn new(settings: &Settings) -> Bfq {
        let clock = Clock::new(settings.nanos("tick").as_ns() as i64);
        let tunables = Tunables::new(settings, &clock);
        let user_max_budget = tunables.user_max_budget;
        let default_timeout_ms = (125_000_000 / clock.tick() * clock.tick() / 1_000_000).max(1);
        let mut bfq = Bfq {
            service: Service::new(),
            queues: Vec::new(),
            free_queues: Vec::new(),
            orphans: Vec::new(),
            processes: Vec::new(),
            process_numbers: Processes::default(),
            vm_groups: Vec::new(),
            group_queues: Vec::new(),
            requests: Requests::default(),
            dispatch_list: IdList::default(),
            in_service: NONE,
            in_service_last_position: 0,
            busy_queues: [0; 3],
            raised_busy: 0,
            waiting_in_queues: 0,
            in_driver: 0,
            most_in_driver: 0,
            queueing: None,
            queueing_samples: 0,
            flash_with_queueing: !tunables.rotational,
            peak_rate: PeakRate::new(tunables.rotational),
            budgets_assigned: 0,
            current_max_budget: if user_max_budget == 0 { DEFAULT_MAX_BUDGET } else { user_max_budget },
            default_timeout_ms,
            last_budget_start: 0,
            last_idling_start: 0,
            idle_until: None,
            injection: Injection::new(),
            last_completed: NONE,
            calls_for_dispatch: false,
            burst_list: Vec::new(),
            burst_size: 0,
            burst_parent: NONE,
            large_burst: false,
            last_in_burst: LONG_AGO,
            clock,
            tunables,
        };
        bfq.add_group_queues();
        bfq
    }

    fn add_group_queues(&mut self) {
        self.group_queues.push(GroupQueues {
            asynchronous: [NONE; ASYNC_QUEUES],
            last_created: NONE,
            positions: Vec::new(),
        });
    }

    fn entity(&self, queue: u32) -> &Entity {
        &self.service.entities[self.queues[queue as usize].entity as usize]
    }

    fn entity_mut(&mut self, queue: u32) -> &mut Entity {
        &mut self.service.entities[self.queues[queue as usize].entity as usize]
    }

    /// Sends a request that had come back.
    fn send_listed(&mut self, id: RequestId) {
        self.dispatch_list.remove(id);
        let queue = self.requests.get(id.0).queue;
        self.requests.get_mut(id.0).place = Place::Sent;
        self.queues[queue as usize].dispatched += 1;
        self.in_driver += 1;
    }

    /// Nothing goes: before the queue in service has been waited for, or one of its requests completes.
    fn nothing(&self) -> Dispatch {
        self.idle_until
            .map_or(Dispatch::Idle, |until| Dispatch::WaitUntil(Timestamp::ZERO + Nanos::from_ns(until as u64)))
    }

    /// A sent or waiting request that came back goes before all others, but not twice into a queue.
    fn list(&mut self, id: RequestId, request: &Request) {
        let sync = request.is_sync();
        let process = self.process_of(request);
        let mut queue = self.processes[process as usize].queues[usize::from(sync)];
        if queue == NONE {
            queue = self.get_queue(process, sync, false);
            self.processes[process as usize].queues[usize::from(sync)] = queue;
        }
        self.own_queue(process, queue);
        self.processes[process as usize].requests += 1;
        self.queues[queue as usize].allocated += 1;
        self.requests.add(id, queue, process, request);
        self.requests.get_mut(id.0).place = Place::Listed;
        self.dispatch_list.push_front(id);
    }
}

impl Scheduler for Bfq {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.advance(now);
        self.arrive(id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        self.advance(now);
        self.run_idle_timer();
        if let Some(id) = self.dispatch_list.first() {
            if !self.is_admitted(id.0, capacity) {
                return Dispatch::Idle;
            }
            self.send_listed(id);
            return Dispatch::Send(id);
        }
        if self.waiting_in_queues == 0 {
            return Dispatch::Idle;
        }
        if self.tunables.strict_guarantees && self.in_driver > 0 {
            return self.nothing();
        }
        let queue = self.select_queue();
        if queue == NONE {
            return self.nothing();
        }
        let id = self.queues[queue as usize].next_request;
        if !self.is_admitted(id, capacity) {
            return Dispatch::Idle;
        }
        self.send(queue, id);
        Dispatch::Send(RequestId(id))
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.advance(now);
        if self.requests.known(id).place == Place::Sent {
            self.finish(id.0);
        }
    }

    fn calls_for_dispatch(&self) -> bool {
        self.calls_for_dispatch
    }

    /// A request that is cancelled leaves its queue, which is not charged for it. If it was the last of
    /// the queue in service, that stays in service until the next decision.
    fn remove(&mut self, id: RequestId) {
        let Waiting { place, queue, process, .. } = self.requests.known(id);
        if place == Place::Listed {
            self.dispatch_list.remove(id);
        } else {
            self.take_out(id.0);
        }
        self.forget(id.0, queue, process);
    }

    /// The queue of the request comes into service as if it had been chosen here, unless that in service
    /// is empty: then the request was injected. It is charged, and in flight from now on.
    fn follow(&mut self, now: Timestamp, id: RequestId) -> bool {
        self.advance(now);
        self.run_idle_timer();
        if self.requests.get(id.0).place == Place::Listed {
            self.send_listed(id);
            return true;
        }
        let queue = self.requests.get(id.0).queue;
        let served = self.in_service;
        let waits = served != NONE && self.queues[served as usize].is_empty() && self.better_to_idle(served);
        if queue != served && !waits {
            if served != NONE {
                let reason = if self.queues[served as usize].is_empty() {
                    Reason::NoMoreRequests
                } else {
                    Reason::BudgetTimeout
                };
                self.expire(served, false, reason);
            }
            let entity = self.queues[queue as usize].entity;
            self.service.force_next(entity);
            self.take_next_queue();
        }
        if queue == self.in_service && self.queues[queue as usize].wait_request {
            self.stop_idling(queue);
        }
        self.send(queue, id.0);
        true
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        Some(Box::new(self.clone()))
    }

    /// As in the kernel, a request that comes back is finished as far as its queue goes, and goes before
    /// all that wait.
    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.advance(now);
        if self.requests.known(id).place == Place::Sent {
            self.finish(id.0);
        }
        self.list(id, request);
    }

    /// Nothing is merged into another queue's request, or a sync request into an async one.
    fn may_merge(&self, into: RequestId, request: &Request) -> bool {
        let Waiting { place, queue, .. } = self.requests.known(into);
        let sync = usize::from(request.is_sync());
        let own = |process: usize| self.processes[process].queues[sync] == queue;
        place == Place::Queued && self.process_numbers.known(request).is_some_and(own)
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.advance(now);
        let Waiting { place, queue, sector, .. } = self.requests.known(into);
        let (start, sectors) = (request.lba.sector(), request.sectors().count() as u32);
        if place != Place::Queued || start == sector {
            self.requests.get_mut(into.0).sectors = sectors;
            return;
        }
        self.requests.unsort(into.0);
        let merged = self.requests.get_mut(into.0);
        (merged.sector, merged.sectors) = (start, sectors);
        self.requests.sort(into.0);
        let before = self.queues[queue as usize].next_request;
        let next = self.better_of(before, into.0, self.peak_rate.last_position);
        if next != before {
            self.queues[queue as usize].next_request = next;
            self.next_request_changed(queue);
        }
        if !self.flash_with_queueing {
            self.update_position(queue);
        }
    }

    /// If `from` expires before `into`, `into` takes its expiry time and its place in the fifo.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        self.advance(now);
        let (first, second) = (self.requests.known(into), self.requests.known(from));
        let queued = first.place == Place::Queued && second.place == Place::Queued;
        if queued && first.queue == second.queue && second.expires < first.expires {
            let of = &mut self.queues[first.queue as usize];
            self.requests.take_place(&mut of.fifo, from.0, into.0);
            self.requests.push_youngest(&mut of.fifo, from.0);
        }
        if queued && first.queue == second.queue && self.queues[first.queue as usize].next_request == from.0 {
            self.queues[first.queue as usize].next_request = into.0;
        }
        self.remove(from);
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.waiting_in_queues as usize + self.dispatch_list.len()
    }
}
