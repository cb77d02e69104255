//! Budget fair queueing (BFQ) as in Linux 6.18, `block/bfq-iosched.c` and `block/bfq-wf2q.c`; Valente and Avanzini,
//! "Evolution of the BFQ Storage-I/O Scheduler", MST 2015.
//!
//! Each process has a queue for its sync requests; async requests have a queue for each I/O priority. A queue is
//! served until it has used up a budget of sectors or its time. B-WF2Q+ gives queues, and cgroups (here VMs), service
//! in proportion to their weights. The device idles for an empty queue where that raises throughput or keeps a
//! guarantee, and meanwhile requests of other queues are injected. The weight of a queue that begins after a rest is
//! raised. Queues whose processes work together are merged.
//!
//! Some facts that the kernel knows are not in a request; they are tunables. `rotational` states whether the device is
//! rotational, `tick` the length of a jiffy, and `cgroups` whether VMs are cgroups. Jiffies begin at the clock's zero.
//! The kernel's ticks lie at multiples of a jiffy of its own clock. A replay that is compared with a capture therefore
//! keeps the kernel's clock, or puts the zero of its clock at a whole second of it.
//!
//! A process is a pair of VM and stream; it never ends. A request without priority is best effort 4, whatever the nice
//! value of its process.
//!
//! Left out are:
//!
//! - several actuators;
//! - limits of tags (`limit_depth`), which belong to the stage;
//! - merging of queues when requests are merged; queues are merged on arrival only;
//! - debug statistics;
//! - changes of tunables and cgroups during a run;
//! - the longer wait of an empty queue that allows one injection: by a mistake of units the kernel makes it 8 million
//!   jiffies long.
//!
//! Of two queues close to a request, the nearer one is merged with; the kernel's choice depends on the shape of its
//! tree. The kernel does not know capacity: here a request that there is no capacity for holds up the others.

mod access;
mod arrive;
mod budget;
mod burst;
mod busy;
mod clock;
mod complete;
mod device;
mod entity;
mod expire;
mod idle;
mod ids;
mod inject;
mod merge;
mod next;
mod positions;
mod processes;
mod queue;
mod raise;
mod rate;
mod requests;
mod rules;
mod select;
mod service;
mod shares;
mod split;
mod tree;
mod tunables;
mod virtual_time;
mod waker;

use traces::spec::Settings;
use traces::{Nanos, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::id_list::IdList;
use crate::scheduler::{Capacity, Dispatch, Scheduler};

use budget::Budgets;
use burst::Burst;
use clock::Clock;
use device::{DeviceQueueing, Load};
use entity::Entity;
use expire::{IdleTime, Reason};
use idle::Idling;
use ids::QueueId;
use inject::Measurement;
use processes::{Groups, Processes, Queues};
use rate::PeakRate;
use requests::{Place, Requests, Waiting};
use rules::{NEW_TURN, RULES};
use service::Service;
use tunables::Tunables;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "bfq",
    summary: "budget fair queueing: weights of processes and VMs, low latency, idling (Linux)",
    origin: "Linux 6.18 block/bfq-iosched.c, bfq-wf2q.c; Valente and Avanzini, MST 2015",
    tunables: tunables::TUNABLES,
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Bfq::new(settings))
}

/// The kernel's default of `timeout_sync`, HZ / 8: the time that is charged a whole budget.
const DEFAULT_TIMEOUT: Nanos = Nanos::from_ms(125);

/// The queue in service.
#[derive(Clone, Copy, Debug, Default)]
struct InService {
    queue: Option<QueueId>,
    /// When its turn started (`last_budget_start`).
    turn_started: Timestamp,
    /// The end of its last request; zero before its first (`in_serv_last_pos`).
    last_position: u64,
}

/// The scheduler (`struct bfq_data`).
#[derive(Clone, Debug)]
struct Bfq {
    tunables: Tunables,
    clock: Clock,
    /// The fair queueing, which chooses the next queue.
    service: Service,
    queues: Queues,
    processes: Processes,
    groups: Groups,
    requests: Requests,
    /// Requests that came back unserved and go first.
    dispatch_list: IdList,
    in_service: InService,
    load: Load,
    device: DeviceQueueing,
    peak_rate: PeakRate,
    budgets: Budgets,
    /// The default of `timeout_sync` in whole jiffies, in milliseconds.
    default_timeout_ms: u64,
    idling: Idling,
    measurement: Measurement,
    burst: Burst,
    /// The queue whose request completed last, unless several processes share it (`last_completed_rq_bfqq`).
    last_completed: Option<QueueId>,
    /// After the last completion the device was idle and nothing was waited for (`bfq_schedule_dispatch`).
    calls_for_dispatch: bool,
    sent: [u64; RULES.len()],
}

impl Bfq {
    fn new(settings: &Settings) -> Bfq {
        let clock = Clock::new(settings.nanos("tick"));
        let tunables = Tunables::new(settings, &clock);
        let default_timeout = clock.nanos(clock.whole_jiffies(DEFAULT_TIMEOUT));
        Bfq {
            service: Service::new(),
            queues: Queues::default(),
            processes: Processes::default(),
            groups: Groups::new(),
            requests: Requests::default(),
            dispatch_list: IdList::default(),
            in_service: InService::default(),
            load: Load::default(),
            device: DeviceQueueing::new(tunables.rotational),
            peak_rate: PeakRate::new(tunables.rotational),
            budgets: Budgets::new(tunables.user_max_budget),
            default_timeout_ms: (default_timeout.as_ns() / 1_000_000).max(1),
            idling: Idling::default(),
            measurement: Measurement::default(),
            burst: Burst::default(),
            last_completed: None,
            calls_for_dispatch: false,
            sent: [0; RULES.len()],
            clock,
            tunables,
        }
    }

    fn entity(&self, queue: QueueId) -> &Entity {
        &self.service.entities[self.queues[queue].entity]
    }

    fn entity_mut(&mut self, queue: QueueId) -> &mut Entity {
        &mut self.service.entities[self.queues[queue].entity]
    }

    /// Sends a request that had come back.
    fn send_listed(&mut self, id: RequestId) {
        self.dispatch_list.remove(id);
        let request = self.requests.get_mut(id);
        request.place = Place::Sent;
        self.sent[request.rule] += 1;
        self.queues[request.queue].dispatched += 1;
        self.load.in_flight += 1;
    }

    /// Nothing is sent until the idle timer expires, or until a request of the queue in service completes.
    fn wait(&self) -> Dispatch {
        self.idling.until.map_or(Dispatch::Idle, Dispatch::WaitUntil)
    }

    /// A request that this rule has chosen came back: it goes before all others and is not put into a queue again.
    fn list(&mut self, id: RequestId, request: &Request, rule: usize) {
        let sync = request.is_sync();
        let process = self.process_of(request);
        let queue = match self.processes[process].queues[usize::from(sync)] {
            Some(queue) => queue,
            None => {
                let queue = self.get_queue(process, sync, false);
                self.processes[process].queues[usize::from(sync)] = Some(queue);
                queue
            }
        };
        self.own_queue(process, queue);
        self.processes[process].requests += 1;
        self.queues[queue].allocated += 1;
        self.requests.add(id, Place::Listed, queue, process, request);
        self.requests.get_mut(id).rule = rule;
        self.dispatch_list.push_front(id);
    }

    fn is_in_flight(&self, id: RequestId) -> bool {
        self.requests.known(id).is_some_and(|request| request.place == Place::Sent)
    }

    /// Puts the queue of a request that another scheduler chose into service, as if it had been chosen here.
    fn follow_queue(&mut self, queue: QueueId) {
        if let Some(served) = self.in_service.queue {
            let is_empty = self.queues[served].is_empty();
            let reason = if is_empty { Reason::NoMoreRequests } else { Reason::BudgetTimeout };
            self.expire(served, IdleTime::Charged, reason);
        }
        self.service.force_next(self.queues[queue].entity);
        self.take_next_queue();
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
            if !self.is_admitted(id, capacity) {
                return Dispatch::Idle;
            }
            self.send_listed(id);
            return Dispatch::Send(id);
        }
        if self.load.waiting == 0 {
            return Dispatch::Idle;
        }
        if self.tunables.strict_guarantees && self.load.in_flight > 0 {
            return self.wait();
        }
        let Some(queue) = self.select_queue() else { return self.wait() };
        let id = self.queues[queue].next_request.expect("a selected queue has a request");
        if !self.is_admitted(id, capacity) {
            return Dispatch::Idle;
        }
        self.send(queue, id);
        Dispatch::Send(id)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.advance(now);
        if self.is_in_flight(id) {
            self.finish(id);
        }
    }

    fn calls_for_dispatch(&self) -> bool {
        self.calls_for_dispatch
    }

    /// A request that is cancelled leaves its queue, which is not charged for it. If it was the last request of the
    /// queue in service, that queue stays in service until the next decision.
    fn remove(&mut self, id: RequestId) {
        let Waiting { place, queue, process, .. } = *self.requests.get(id);
        if place == Place::Listed {
            self.dispatch_list.remove(id);
        } else {
            self.take_out(id);
        }
        self.forget(id, queue, process);
    }

    /// The queue of the request comes into service as if it had been chosen here. If the queue in service is empty and
    /// waited for, the request was injected instead. The queue is charged, and the request is in flight from now on.
    fn follow(&mut self, now: Timestamp, id: RequestId) -> bool {
        self.advance(now);
        self.run_idle_timer();
        let Waiting { place, queue, .. } = *self.requests.get(id);
        if place == Place::Listed {
            self.send_listed(id);
            return true;
        }
        let is_injected = self.in_service.queue.is_some_and(|served| self.must_idle(served));
        if !self.is_in_service(queue) && !is_injected {
            self.follow_queue(queue);
        }
        if self.is_in_service(queue) && self.queues[queue].turn.wait_request {
            self.stop_idling(queue);
        }
        self.send(queue, id);
        true
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        Some(Box::new(self.clone()))
    }

    /// As in the kernel, a request that comes back counts as completed in its queue, and goes before all requests that
    /// wait.
    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.advance(now);
        let rule = self.requests.known(id).map_or(NEW_TURN, |request| request.rule);
        if self.is_in_flight(id) {
            self.finish(id);
        }
        self.list(id, request, rule);
    }

    /// A request is merged only within a queue, and so never a sync request into an async one
    /// (`bfq_allow_bio_merge`).
    fn may_merge(&self, into: RequestId, request: &Request) -> bool {
        let Some(Waiting { place: Place::Queued, queue, .. }) = self.requests.known(into) else { return false };
        let process = self.processes.known(request);
        process.is_some_and(|process| self.processes[process].queues[usize::from(request.is_sync())] == Some(*queue))
    }

    /// A front merge that brings the request before the previous one in sector order may make it the next of its queue
    /// (`bfq_request_merged`).
    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.advance(now);
        let (start, sectors) = (request.lba.sector(), request.sectors().count() as u32);
        let Waiting { place, queue, sector, .. } = *self.requests.get(into);
        if place != Place::Queued || start == sector {
            self.requests.get_mut(into).sectors = sectors;
            return;
        }
        let previous = self.requests.previous(into);
        let overtakes = previous.is_some_and(|previous| start < self.requests.get(previous).sector);
        self.requests.unsort(into);
        let merged = self.requests.get_mut(into);
        (merged.sector, merged.sectors) = (start, sectors);
        self.requests.sort(into);
        let before = self.queues[queue].next_request;
        let next = if overtakes { self.better_of(before, Some(into), self.peak_rate.last_position) } else { before };
        if next != before {
            self.queues[queue].next_request = next;
            self.next_request_changed(queue);
        }
        if !self.device.flash_with_queueing {
            self.update_position(queue);
        }
    }

    /// If `from` expires before `into`, `into` takes its expiry time and its place in the fifo
    /// (`bfq_requests_merged`).
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        self.advance(now);
        let (first, second) = (*self.requests.get(into), *self.requests.get(from));
        let both_queued = first.place == Place::Queued && second.place == Place::Queued;
        if both_queued && first.queue == second.queue {
            let state = &mut self.queues[first.queue];
            if second.expires < first.expires {
                self.requests.take_place(&mut state.fifo, from, into);
            }
            if state.next_request == Some(from) {
                state.next_request = Some(into);
            }
        }
        self.remove(from);
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.load.waiting as usize + self.dispatch_list.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
