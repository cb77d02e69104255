//! A request arrives in its queue, which may begin to be busy; and the change between busy and not.

use traces::{Request, RequestId};

use super::Bfq;
use super::budget::Reason;
use super::raise::{DEFAULT_WEIGHT, Signs};
use super::service::NONE;

/// In sectors: a request smaller than this does not end idling for throughput.
const SMALL: u32 = 32;
/// In ms: a queue that rests so long is no longer part of a burst.
const BURST_FORGOTTEN_MS: i64 = 10_000;

impl Bfq {
    /// The queue of an arriving request, made or split off if need be.
    fn queue_for(&mut self, process: u32, sync: bool) -> u32 {
        let mut queue = self.processes[process as usize].queues[usize::from(sync)];
        if queue == NONE {
            queue = self.get_queue(process, sync, false);
            if sync {
                self.point_process_to(process, queue);
            } else {
                self.processes[process as usize].queues[0] = queue;
            }
        } else {
            let of = &self.queues[queue as usize];
            if of.shared && of.to_split && !self.processes[process as usize].stably_merged {
                queue = self.split(process, queue);
            }
        }
        self.own_queue(process, queue);
        if self.queues[queue as usize].just_created && (self.burst_size > 0 || self.busy_total() == 0) {
            self.handle_burst(queue);
        }
        queue
    }

    /// A request arrives.
    pub(super) fn arrive(&mut self, id: RequestId, request: &Request) {
        let sync = request.is_sync();
        let process = self.process_of(request);
        let mut queue = self.queue_for(process, sync);
        self.processes[process as usize].requests += 1;
        self.queues[queue as usize].allocated += 1;
        let sector = request.lba.sector();
        let into = self.find_cooperator(queue, process, sector);
        if into != NONE {
            self.queues[into as usize].allocated += 1;
            self.queues[queue as usize].allocated -= 1;
            self.queues[queue as usize].just_created = false;
            if self.processes[process as usize].queues[1] == queue {
                self.merge_queues(process, queue, into);
            } else {
                self.free_if_unused(queue);
            }
            queue = into;
        }
        self.requests.add(id, queue, process, request);
        self.update_think_time(queue);
        self.update_short_think_time(queue);
        self.update_seek_history(queue, sector, self.requests.get(id.0).sectors);
        self.add_request(id.0, queue);
        let expires = self.clock.ns + self.tunables.fifo_expire[usize::from(sync)];
        self.requests.get_mut(id.0).expires = expires;
        self.requests.push_youngest(&mut self.queues[queue as usize].fifo, id.0);
        self.after_arrival(id.0, queue);
    }

    fn add_request(&mut self, id: u32, queue: u32) {
        let request = *self.requests.get(id);
        let raised_before = self.entity(queue).wr_coeff;
        self.queues[queue as usize].queued[usize::from(request.sync)] += 1;
        self.waiting_in_queues += 1;
        if self.queues[queue as usize].sync {
            if self.processes[request.process as usize].requests <= 1 {
                self.observe_lone_arrival(queue);
            }
            self.update_io_intensity(queue);
        }
        self.requests.sort(id);
        let before = self.queues[queue as usize].next_request;
        let next = self.better_of(before, id, self.peak_rate.last_position);
        self.queues[queue as usize].next_request = next;
        if next != before && !self.flash_with_queueing {
            self.update_position(queue);
        }
        let mut interactive = false;
        if !self.queues[queue as usize].busy {
            interactive = self.become_busy(queue, raised_before, request.process);
        } else {
            let rested = self.queues[queue as usize].last_wr_start_finish + self.tunables.wr_min_inter_arr_async;
            if self.tunables.low_latency && raised_before == 1 && !request.sync && self.clock.is_past(rested) {
                self.raise_async(queue);
            }
            if next != before {
                self.next_request_changed(queue);
            }
        }
        if self.tunables.low_latency && (raised_before == 1 || self.entity(queue).wr_coeff == 1 || interactive) {
            self.queues[queue as usize].last_wr_start_finish = self.clock.jiffy;
        }
    }

    /// Which of two requests of a queue goes first when the head is at `last`.
    pub(super) fn better_of(&self, one: u32, other: u32, last: u64) -> u32 {
        self.requests.choose(one, other, last, self.tunables.back_max, self.tunables.back_penalty)
    }

    /// The queue gets its first request. Whether it counts as interactive.
    fn become_busy(&mut self, queue: u32, raised_before: i64, process: u32) -> bool {
        let of = self.queues[queue as usize];
        let default_weight = self.entity(queue).new_weight == DEFAULT_WEIGHT;
        let rested = of.dispatched == 0 && self.clock.is_past(of.budget_timeout + self.tunables.wr_min_idle_time);
        let in_time =
            self.clock.ns <= of.think_time.last_end.saturating_add(self.tunables.slice_idle.saturating_mul(3));
        let in_burst = of.in_large_burst;
        let soft_rt = self.tunables.wr_max_softrt_rate > 0
            && !of.is_totally_seeky()
            && !in_burst
            && self.clock.is_past(of.soft_rt_next_start)
            && of.dispatched == 0
            && default_weight;
        let interactive = !in_burst && rested && default_weight;
        let own = of.process != NONE || self.processes[process as usize].stably_merged;
        let deserves = self.tunables.low_latency && (raised_before > 1 || (of.sync && own && (interactive || soft_rt)));
        let recovers = self.budget_on_activation(queue, in_time);
        let forgotten = self.clock.is_past(of.budget_timeout + self.clock.jiffies_of_ms(BURST_FORGOTTEN_MS));
        if !of.just_created && rested && forgotten {
            if of.in_burst_list {
                self.leave_burst_list(queue);
            }
            self.queues[queue as usize].in_large_burst = false;
        }
        self.queues[queue as usize].just_created = false;
        if self.tunables.low_latency && self.clock.is_past(of.split_time + self.tunables.wr_min_idle_time) {
            self.raise_on_arrival(queue, raised_before, Signs { deserves, interactive, soft_rt, in_burst });
        }
        let of = &mut self.queues[queue as usize];
        of.last_idle_backlogged = self.clock.jiffy;
        of.service_from_backlogged = 0;
        of.softrt_update = false;
        self.add_busy(queue);
        self.preempt(queue, recovers);
        interactive
    }

    /// A queue has become busy: does the one in service make way?
    fn preempt(&mut self, queue: u32, recovers: bool) {
        let served = self.in_service;
        if served == NONE {
            return;
        }
        let raised_alike = self.entity(queue).wr_coeff >= self.entity(served).wr_coeff;
        let ends = (recovers && raised_alike) || self.goes_before(queue, served) || !self.better_to_idle(served);
        if ends && self.service.next_may_preempt() {
            self.expire(served, false, Reason::Preempted);
        }
    }

    /// Whether a queue is of a higher class or weight than the one in service.
    fn goes_before(&self, queue: u32, served: u32) -> bool {
        let (new, old) = (self.entity(queue), self.entity(served));
        let weight = |parent: u32, own: i64| {
            if new.parent == old.parent || parent == NONE { own } else { self.service.entities[parent as usize].weight }
        };
        new.class < old.class || weight(new.parent, new.weight) > weight(old.parent, old.weight)
    }

    /// What follows for the queue in service once a request is in its queue.
    fn after_arrival(&mut self, id: u32, queue: u32) {
        let request = *self.requests.get(id);
        let end = request.sector.saturating_add(u64::from(request.sectors));
        self.queues[queue as usize].last_request_end = end;
        let of = &self.queues[queue as usize];
        if queue != self.in_service || !of.wait_request {
            return;
        }
        let small = of.queued[usize::from(request.sync)] == 1 && request.sectors < SMALL;
        let timed_out = self.is_timed_out(queue);
        // A small one is left for others to be merged into it, or for the wait to end.
        if small && self.idling_raises_throughput(queue) && !timed_out {
            return;
        }
        self.stop_idling(queue);
        if timed_out {
            self.expire(queue, false, Reason::BudgetTimeout);
        }
    }

    /// Puts a queue on its tree again, with new timestamps.
    pub(super) fn requeue_queue(&mut self, queue: u32, expiring: bool) {
        let entity = self.queues[queue as usize].entity;
        let in_service = queue == self.in_service;
        self.service.activate(&self.clock, entity, false, in_service, expiring);
    }

    fn add_busy(&mut self, queue: u32) {
        let of = &mut self.queues[queue as usize];
        let (entity, waited) = (of.entity, std::mem::take(&mut of.non_blocking_wait));
        let (dispatched, waker) = (of.dispatched, of.waker);
        of.busy = true;
        self.service.activate(&self.clock, entity, waited, false, false);
        let of = *self.entity(queue);
        self.busy_queues[of.class] += 1;
        self.queues[queue as usize].busy_class = of.class;
        if dispatched == 0 {
            if !std::mem::replace(&mut self.queues[queue as usize].pending, true) {
                self.service.add_pending(of.group);
            }
            if of.wr_coeff == 1 {
                self.service.count_weight(entity);
            }
        }
        self.raised_busy += u32::from(of.wr_coeff > 1);
        if waker != NONE && self.queues[waker as usize].woken_first != queue {
            self.set_waker(queue, waker);
        }
    }

    pub(super) fn remove_busy(&mut self, queue: u32, expiring: bool) {
        let of = &mut self.queues[queue as usize];
        of.busy = false;
        let (entity, dispatched) = (of.entity, of.dispatched);
        self.busy_queues[of.busy_class] -= 1;
        self.raised_busy -= u32::from(self.entity(queue).wr_coeff > 1);
        self.service.deactivate(&self.clock, entity, true, expiring);
        if dispatched == 0 {
            self.forget_pending(queue);
        }
    }

    /// A queue has no requests, neither waiting nor sent.
    pub(super) fn forget_pending(&mut self, queue: u32) {
        let of = &mut self.queues[queue as usize];
        let entity = of.entity;
        if std::mem::take(&mut of.pending) {
            let group = self.entity(queue).group;
            self.service.remove_pending(group);
        }
        self.service.discount_weight(entity);
        self.free_if_unused(queue);
    }
}
