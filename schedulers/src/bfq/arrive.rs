//! The arrival of a request in its queue. Linux 6.18, block/bfq-iosched.c, `bfq_init_rq` and `__bfq_insert_request`.

use traces::{Nanos, Request, RequestId};

use super::Bfq;
use super::expire::{IdleTime, Reason};
use super::ids::{ProcessId, QueueId};
use super::queue::{ASYNC, SYNC};
use super::raise::{DEFAULT_WEIGHT, Signs};
use super::requests::{Place, SeekRule};

/// A smaller request does not end idling for throughput, in sectors.
const SMALL: u32 = 32;
/// A queue that rests longer is no longer part of a burst (`bfq_bfqq_handle_idle_busy_switch`).
const BURST_FORGOTTEN: Nanos = Nanos::from_s(10);
/// A request that comes within this number of times `slice_idle` after the last completion comes in time
/// (`bfq_bfqq_handle_idle_busy_switch`).
const IN_TIME_SLICES: u64 = 3;

impl Bfq {
    /// The queue of an arriving request, which is created or split off if need be (`bfq_get_bfqq_handle_split`).
    fn queue_for(&mut self, process: ProcessId, sync: bool) -> QueueId {
        let queue = match self.processes[process].queues[usize::from(sync)] {
            None => {
                let queue = self.get_queue(process, sync, false);
                if sync {
                    self.point_process_to(process, Some(queue));
                } else {
                    self.processes[process].queues[ASYNC] = Some(queue);
                }
                queue
            }
            Some(queue) => {
                let merging = &self.queues[queue].merging;
                let splits = merging.shared && merging.to_split && !self.processes[process].stably_merged;
                if splits { self.split(process, queue) } else { queue }
            }
        };
        self.own_queue(process, queue);
        if self.queues[queue].just_created && (self.burst.size > 0 || self.load.busy_total() == 0) {
            self.handle_burst(queue);
        }
        queue
    }

    /// A request arrives.
    pub(super) fn arrive(&mut self, id: RequestId, request: &Request) {
        let sync = request.is_sync();
        let process = self.process_of(request);
        let mut queue = self.queue_for(process, sync);
        self.processes[process].requests += 1;
        self.queues[queue].allocated += 1;
        if let Some(into) = self.find_cooperator(queue, process, request.lba.sector()) {
            self.redirect(process, queue, into);
            queue = into;
        }
        self.requests.add(id, Place::Queued, queue, process, request);
        self.update_think_time(queue);
        self.update_short_think_time(queue);
        let added = *self.requests.get(id);
        self.update_seek_history(queue, added.sector, added.sectors);
        self.add_request(id, queue);
        self.requests.get_mut(id).expires = self.clock.now + self.tunables.fifo_expire[usize::from(sync)];
        self.requests.push_youngest(&mut self.queues[queue].fifo, id);
        self.end_idling_for(id, queue);
    }

    /// The arriving request goes to the queue that its own queue is merged into.
    fn redirect(&mut self, process: ProcessId, queue: QueueId, into: QueueId) {
        self.queues[into].allocated += 1;
        self.queues[queue].allocated -= 1;
        if self.processes[process].queues[SYNC] == Some(queue) {
            self.merge_queues(process, queue, into);
        } else {
            self.free_if_unused(queue);
        }
        // Not before: a queue that was just created is saved as one that was raised.
        self.queues[queue].just_created = false;
    }

    /// Counts and sorts a request in; its queue becomes busy or gets a new next request (`bfq_add_request`).
    fn add_request(&mut self, id: RequestId, queue: QueueId) {
        let request = *self.requests.get(id);
        let raising_before = self.entity(queue).raising;
        let state = &mut self.queues[queue];
        state.queued[usize::from(request.sync)] += 1;
        self.load.waiting += 1;
        if state.sync {
            if self.processes[request.process].requests <= 1 {
                self.observe_lone_arrival(queue);
            }
            self.update_io_intensity(queue);
        }
        self.requests.sort(id);
        let before = self.queues[queue].next_request;
        let next = self.better_of(before, Some(id), self.peak_rate.last_position);
        self.queues[queue].next_request = next;
        if next != before && !self.device.flash_with_queueing {
            self.update_position(queue);
        }
        let mut interactive = false;
        if self.queues[queue].is_busy() {
            let last = self.queues[queue].raising.last_start_finish;
            let rested = self.clock.is_longer_ago(last, self.tunables.wr_min_inter_arr_async);
            if self.tunables.low_latency && raising_before == 1 && !request.sync && rested {
                self.raise_async(queue);
            }
            if next != before {
                self.next_request_changed(queue);
            }
        } else {
            interactive = self.become_busy(queue, raising_before, request.process);
        }
        let starts_or_ends = raising_before == 1 || !self.entity(queue).is_raised() || interactive;
        if self.tunables.low_latency && starts_or_ends {
            self.queues[queue].raising.last_start_finish = self.clock.jiffy;
        }
    }

    /// The one of two requests of a queue that goes first when the head is at `last`.
    pub(super) fn better_of(&self, one: Option<RequestId>, other: Option<RequestId>, last: u64) -> Option<RequestId> {
        let rule = SeekRule { last, back_max: self.tunables.back_max, back_penalty: self.tunables.back_penalty };
        self.requests.choose(one, other, rule)
    }

    /// A queue gets its first request (`bfq_bfqq_handle_idle_busy_switch`). True if it counts as interactive.
    fn become_busy(&mut self, queue: QueueId, raising_before: u64, process: ProcessId) -> bool {
        let state = &self.queues[queue];
        let clock = &self.clock;
        let idle_since = state.turn.budget_timeout;
        let min_idle_time = self.tunables.wr_min_idle_time;
        let default_weight = self.entity(queue).new_weight == DEFAULT_WEIGHT;
        let rested = state.dispatched == 0 && clock.is_longer_ago(idle_since, min_idle_time);
        let in_time = clock.now <= state.think_time.last_end.saturating_add(self.tunables.slice_idle * IN_TIME_SLICES);
        let in_burst = state.burst.in_large;
        let soft_rt = self.tunables.wr_max_softrt_rate > 0
            && !state.seeks.are_all()
            && !in_burst
            && clock.is_past(state.soft_rt.next_start)
            && state.dispatched == 0
            && default_weight;
        let interactive = !in_burst && rested && default_weight;
        let owned = state.process.is_some() || self.processes[process].stably_merged;
        let deserves =
            self.tunables.low_latency && (raising_before > 1 || (state.sync && owned && (interactive || soft_rt)));
        let burst_forgotten = clock.is_longer_ago(idle_since, clock.jiffies(BURST_FORGOTTEN));
        let leaves_burst = !state.just_created && rested && burst_forgotten;
        let long_split = clock.is_longer_ago(state.merging.split_time, min_idle_time);
        let recovers = self.budget_on_activation(queue, in_time);
        if leaves_burst {
            if self.queues[queue].burst.in_list {
                self.leave_burst_list(queue);
            }
            self.queues[queue].burst.in_large = false;
        }
        self.queues[queue].just_created = false;
        if self.tunables.low_latency && long_split {
            self.raise_on_arrival(queue, raising_before, Signs { deserves, interactive, soft_rt, in_burst });
        }
        let state = &mut self.queues[queue];
        state.backlog.since = self.clock.jiffy;
        state.backlog.service = 0;
        state.soft_rt.update_on_completion = false;
        self.add_busy(queue);
        self.preempt(queue, recovers);
        interactive
    }

    /// A queue has become busy: ends the turn of the queue in service if the new one must go first.
    fn preempt(&mut self, queue: QueueId, recovers: bool) {
        let Some(served) = self.in_service.queue else { return };
        let raised_alike = self.entity(queue).raising >= self.entity(served).raising;
        let ends = (recovers && raised_alike) || self.goes_before(queue, served) || !self.better_to_idle(served);
        if ends && self.service.next_may_preempt() {
            self.expire(served, IdleTime::Charged, Reason::Preempted);
        }
    }

    /// Whether a queue has a higher class or weight than the one in service
    /// (`bfq_bfqq_higher_class_or_weight`).
    fn goes_before(&self, queue: QueueId, served: QueueId) -> bool {
        let (new, old) = (self.entity(queue), self.entity(served));
        let parents = match (new.parent, old.parent) {
            (new_parent, old_parent) if new_parent == old_parent => (None, None),
            parents => parents,
        };
        let weight = |parent: Option<_>, own: u64| parent.map_or(own, |parent| self.service.entities[parent].weight);
        new.class < old.class || weight(parents.0, new.weight) > weight(parents.1, old.weight)
    }

    /// A request has arrived: ends the idling for its queue, unless the request is small (`bfq_rq_enqueued`).
    fn end_idling_for(&mut self, id: RequestId, queue: QueueId) {
        let request = self.requests.get(id);
        let state = &mut self.queues[queue];
        state.seeks.last_end = request.end();
        let small = state.queued[usize::from(request.sync)] == 1 && request.sectors < SMALL;
        if !state.turn.wait_request || !self.is_in_service(queue) {
            return;
        }
        let timed_out = self.is_timed_out(queue);
        // A small request waits for others to be merged into it, or for the idling to end.
        if small && self.idling_raises_throughput(queue) && !timed_out {
            return;
        }
        self.stop_idling(queue);
        if timed_out {
            self.expire(queue, IdleTime::Charged, Reason::BudgetTimeout);
        }
    }
}
