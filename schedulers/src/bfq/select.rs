//! Which queue is served, and sending the next request of it.

use traces::{Operation, Timestamp};

use super::Bfq;
use super::budget::Reason;
use super::requests::{Place, Waiting};
use super::service::{IDLE, NONE};

impl Bfq {
    /// It is `now`. If the queue in service was waited for until an earlier point, what followed then
    /// is made up for: nobody need have called at that time.
    pub(super) fn advance(&mut self, now: Timestamp) {
        if let Some(until) = self.idle_until {
            let until = Timestamp::from_ns(until as u64);
            if until < now {
                self.clock.set(until);
                self.run_idle_timer();
            }
        }
        self.clock.set(now);
    }

    /// The idle timer: the queue in service has been waited for long enough.
    pub(super) fn run_idle_timer(&mut self) {
        if self.idle_until.is_none_or(|until| self.clock.ns < until) {
            return;
        }
        let queue = self.in_service;
        self.stop_idling(queue);
        if self.is_timed_out(queue) {
            self.expire(queue, true, Reason::BudgetTimeout);
        } else if self.queues[queue as usize].is_empty() {
            self.expire(queue, true, Reason::TooIdle);
        }
    }

    /// The queue to send a request from, if any: that in service, another while it is waited for, or
    /// the next once its turn is over.
    pub(super) fn select_queue(&mut self) -> u32 {
        let mut queue = self.in_service;
        if queue != NONE && self.may_time_out(queue) && !self.must_idle(queue) {
            self.expire(queue, false, Reason::BudgetTimeout);
            queue = NONE;
        }
        loop {
            if queue == NONE {
                queue = self.take_next_queue();
                if queue == NONE {
                    return NONE;
                }
            }
            let of = &self.queues[queue as usize];
            let reason = if of.next_request != NONE {
                if self.affords_next(queue) {
                    if self.queues[queue as usize].wait_request {
                        self.stop_idling(queue);
                    }
                    return queue;
                }
                Reason::BudgetExhausted
            } else if of.wait_request || (of.dispatched > 0 && self.better_to_idle(queue)) {
                return self.select_injected(queue);
            } else {
                Reason::NoMoreRequests
            };
            self.expire(queue, false, reason);
            queue = NONE;
        }
    }

    /// The queue to send a request from while `served` is waited for: of async requests of the same
    /// process, of what it waits for, of what waits for it, or of any within the limit.
    fn select_injected(&mut self, served: u32) -> u32 {
        let of = self.queues[served as usize];
        if of.process != NONE {
            let asynchronous = self.processes[of.process as usize].queues[0];
            let own = self.can_inject(asynchronous) && {
                let next = self.queues[asynchronous as usize].next_request;
                self.requests.get(next).process == of.process
            };
            if own {
                return asynchronous;
            }
        }
        if self.can_inject(of.waker) {
            return of.waker;
        }
        if self.can_inject(of.woken_first) {
            return of.woken_first;
        }
        let lenient = self.entity(served).wr_coeff == 1 || self.raised_busy > 1 || !of.short_think_time;
        if lenient && !self.idling_raises_throughput(served) { self.choose_injected() } else { NONE }
    }

    /// Puts the next queue into service.
    pub(super) fn take_next_queue(&mut self) -> u32 {
        let queue = if self.busy_total() == 0 { NONE } else { self.service.take_next(&self.clock) };
        if queue != NONE {
            self.queues[queue as usize].fifo_checked = false;
            self.budgets_assigned = (self.budgets_assigned * 7 + 256) / 8;
            self.extend_soft_rt(queue);
            self.start_turn(queue);
        }
        self.in_service = queue;
        self.in_service_last_position = 0;
        queue
    }

    /// Sends this request of this queue.
    pub(super) fn send(&mut self, queue: u32, id: u32) {
        let request = *self.requests.get(id);
        let charge = self.charge(queue, &request);
        self.account_service(queue, charge);
        let served = queue == self.in_service;
        if served {
            self.observe_measured_dispatch(id);
        }
        self.queues[queue as usize].dispatched += 1;
        self.observe_dispatch(&request);
        self.take_out(id);
        self.requests.get_mut(id).place = Place::Sent;
        self.in_driver += 1;
        if served {
            self.update_raising(queue);
            if self.busy_total() > 1 && self.entity(queue).class == IDLE {
                self.expire(queue, false, Reason::BudgetExhausted);
            }
        }
    }

    /// The expired head of a queue, looked for once in its turn.
    fn check_age(&mut self, queue: u32, last: u32) -> u32 {
        if std::mem::replace(&mut self.queues[queue as usize].fifo_checked, true) {
            return NONE;
        }
        let oldest = self.requests.oldest(&self.queues[queue as usize].fifo);
        if oldest == last || self.clock.ns < self.requests.get(oldest).expires { NONE } else { oldest }
    }

    /// The request that follows `last`, which is still in its queue.
    fn find_next(&mut self, queue: u32, last: u32) -> u32 {
        let expired = self.check_age(queue, last);
        if expired != NONE {
            return expired;
        }
        let mut next = self.requests.next(last);
        if next == NONE {
            let first = self.requests.first(queue);
            next = if first == last { NONE } else { first };
        }
        let previous = self.requests.previous(last);
        self.better_of(next, previous, self.requests.get(last).sector)
    }

    /// Takes a request out of its queue.
    pub(super) fn take_out(&mut self, id: u32) {
        let Waiting { queue, sync, .. } = *self.requests.get(id);
        if self.queues[queue as usize].next_request == id {
            self.queues[queue as usize].next_request = self.find_next(queue, id);
            self.next_request_changed(queue);
        }
        let of = &mut self.queues[queue as usize];
        self.requests.unlink(&mut of.fifo, id);
        of.queued[usize::from(sync)] -= 1;
        self.waiting_in_queues -= 1;
        self.requests.unsort(id);
        if self.queues[queue as usize].is_empty() {
            self.queues[queue as usize].next_request = NONE;
            if self.queues[queue as usize].busy && queue != self.in_service {
                self.remove_busy(queue, false);
                let entity = self.entity_mut(queue);
                (entity.budget, entity.service) = (0, 0);
            }
            self.remove_position(queue);
        } else if !self.flash_with_queueing {
            self.update_position(queue);
        }
    }

    /// A sent request is done with: completed, or come back.
    pub(super) fn finish(&mut self, id: u32) {
        let Waiting { queue, process, .. } = *self.requests.get(id);
        self.observe_measured_completion(id, queue);
        self.complete(queue);
        self.forget(id, queue, process);
    }

    /// Nothing refers to a request any more.
    pub(super) fn forget(&mut self, id: u32, queue: u32, process: u32) {
        self.requests.get_mut(id).place = Place::Gone;
        self.queues[queue as usize].allocated -= 1;
        self.processes[process as usize].requests -= 1;
        self.free_if_unused(queue);
    }

    fn complete(&mut self, queue: u32) {
        self.update_queueing();
        self.in_driver -= 1;
        let of = &mut self.queues[queue as usize];
        of.dispatched -= 1;
        if of.dispatched == 0 && !of.busy {
            of.budget_timeout = self.clock.jiffy;
            self.forget_pending(queue);
        }
        self.queues[queue as usize].think_time.last_end = self.clock.ns;
        self.observe_completion();
        let of = self.queues[queue as usize];
        self.last_completed = if of.shared { NONE } else { queue };
        let rests = of.dispatched == 0 && of.is_empty();
        if of.softrt_update && rests && self.entity(queue).wr_coeff != self.tunables.wr_coeff {
            self.queues[queue as usize].soft_rt_next_start = self.next_soft_rt_start(queue);
        }
        let idles = self.in_service == queue && self.must_idle(queue);
        self.calls_for_dispatch = self.in_driver == 0 && !idles;
        if idles {
            if of.dispatched == 0 {
                self.start_idling();
            }
        } else if self.in_service == queue {
            if self.may_time_out(queue) {
                self.expire(queue, false, Reason::BudgetTimeout);
            } else if of.is_empty() && (of.dispatched == 0 || !self.better_to_idle(queue)) {
                self.expire(queue, false, Reason::NoMoreRequests);
            }
        }
    }

    /// Whether there is room for a request.
    pub(super) fn is_admitted(&self, id: u32, capacity: crate::scheduler::Capacity) -> bool {
        capacity.admits(self.requests.get(id).operation.unwrap_or(Operation::Write))
    }
}
