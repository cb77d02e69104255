//! The queue that is served, and the sending of its next request. Linux 6.18, block/bfq-iosched.c,
//! `bfq_select_queue` and `bfq_dispatch_rq_from_bfqq`.

use traces::{RequestId, Timestamp};

use crate::scheduler::Capacity;

use super::Bfq;
use super::entity::Class;
use super::expire::{IdleTime, Reason};
use super::ids::QueueId;
use super::queue::ASYNC;
use super::requests::{Place, Waiting};
use super::rules::NEW_TURN;

impl Bfq {
    /// The time is `now`. If the idle timer expired before, its effect is made up for: the caller need not have called
    /// at that time.
    pub(super) fn advance(&mut self, now: Timestamp) {
        if let Some(until) = self.idling.until
            && until < now
        {
            self.clock.set(until);
            self.run_idle_timer();
        }
        self.clock.set(now);
    }

    /// Runs the idle timer if it has expired: the queue in service was waited for long enough
    /// (`bfq_idle_slice_timer_body`).
    pub(super) fn run_idle_timer(&mut self) {
        let has_expired = self.idling.until.is_some_and(|until| self.clock.now >= until);
        let Some(queue) = self.in_service.queue.filter(|_| has_expired) else { return };
        self.stop_idling(queue);
        if self.is_timed_out(queue) {
            self.expire(queue, IdleTime::Excluded, Reason::BudgetTimeout);
        } else if self.queues[queue].is_empty() {
            self.expire(queue, IdleTime::Excluded, Reason::TooIdle);
        }
    }

    /// The queue to send a request from, if any: the queue in service, another one while it is waited for, or the next
    /// one once its turn is over.
    pub(super) fn select_queue(&mut self) -> Option<QueueId> {
        if let Some(served) = self.in_service.queue
            && self.may_time_out(served)
            && !self.must_idle(served)
        {
            self.expire(served, IdleTime::Charged, Reason::BudgetTimeout);
        }
        loop {
            let queue = match self.in_service.queue {
                Some(served) => served,
                None => self.take_next_queue()?,
            };
            let state = &self.queues[queue];
            let reason = if state.next_request.is_some() {
                if self.affords_next(queue) {
                    if state.turn.wait_request {
                        self.stop_idling(queue);
                    }
                    return Some(queue);
                }
                Reason::BudgetExhausted
            } else if state.turn.wait_request || (state.dispatched > 0 && self.better_to_idle(queue)) {
                return self.select_injected(queue);
            } else {
                Reason::NoMoreRequests
            };
            self.expire(queue, IdleTime::Charged, reason);
        }
    }

    /// The queue to send a request from while `served` is waited for. In this order: the async queue of the same
    /// process, the waker of `served`, the queue that `served` wakes, any queue within the injection limit.
    fn select_injected(&mut self, served: QueueId) -> Option<QueueId> {
        let state = &self.queues[served];
        let own_async = self.own_async_queue(served);
        let first_choices = [own_async, state.wakers.waker, state.wakers.woken_first];
        if let Some(queue) = first_choices.into_iter().flatten().find(|&queue| self.can_inject(queue)) {
            return Some(queue);
        }
        let lenient = !self.entity(served).is_raised() || self.load.raised_busy > 1 || !state.think_time.short;
        if lenient && !self.idling_raises_throughput(served) { self.choose_injected(served) } else { None }
    }

    /// The queue of the async requests of the process that is waited for, if its next request is from that process.
    fn own_async_queue(&self, served: QueueId) -> Option<QueueId> {
        let process = self.queues[served].process?;
        let queue = self.processes[process].queues[ASYNC]?;
        let next = self.queues[queue].next_request?;
        (self.requests.get(next).process == process).then_some(queue)
    }

    /// Puts the next queue into service (`bfq_set_in_service_queue`).
    pub(super) fn take_next_queue(&mut self) -> Option<QueueId> {
        let next = if self.load.busy_total() == 0 { None } else { self.service.take_next(&self.clock) };
        if let Some(queue) = next {
            self.queues[queue].turn.fifo_checked = false;
            self.queues[queue].turn.rule = NEW_TURN;
            self.budgets.assign();
            self.extend_soft_rt(queue);
            self.start_turn(queue);
        }
        self.in_service.queue = next;
        self.in_service.last_position = 0;
        next
    }

    /// Sends this request of this queue.
    pub(super) fn send(&mut self, queue: QueueId, id: RequestId) {
        let request = *self.requests.get(id);
        let charge = self.charge(queue, &request);
        self.account_service(queue, charge);
        let served = self.is_in_service(queue);
        let rule = self.rule_of_next(queue, id, served);
        self.requests.get_mut(id).rule = rule;
        self.sent[rule] += 1;
        if served {
            self.observe_measured_dispatch(id);
        }
        self.queues[queue].dispatched += 1;
        self.observe_dispatch(&request);
        self.take_out(id);
        self.requests.get_mut(id).place = Place::Sent;
        self.load.in_flight += 1;
        if served {
            self.update_raising(queue);
            // A queue of the idle class sends one request in a turn.
            if self.load.busy_total() > 1 && self.entity(queue).class == Class::Idle {
                self.expire(queue, IdleTime::Charged, Reason::BudgetExhausted);
            }
        }
    }

    /// The oldest request of a queue if it has expired; checked once in a turn (`bfq_check_fifo`). `last` is still in
    /// the queue.
    fn check_age(&mut self, queue: QueueId, last: RequestId) -> Option<RequestId> {
        if std::mem::replace(&mut self.queues[queue].turn.fifo_checked, true) {
            return None;
        }
        let oldest = self.requests.oldest(&self.queues[queue].fifo)?;
        let expired = (oldest != last && self.clock.now >= self.requests.get(oldest).expires).then_some(oldest);
        self.queues[queue].turn.expired = expired;
        expired
    }

    /// The request that follows `last`, which is still in its queue (`bfq_find_next_rq`).
    fn find_next(&mut self, queue: QueueId, last: RequestId) -> Option<RequestId> {
        if let Some(expired) = self.check_age(queue, last) {
            return Some(expired);
        }
        let next = self.requests.next(last).or_else(|| self.requests.first(queue).filter(|&first| first != last));
        let previous = self.requests.previous(last);
        self.better_of(next, previous, self.requests.get(last).sector)
    }

    /// Takes a request out of its queue (`bfq_remove_request`).
    pub(super) fn take_out(&mut self, id: RequestId) {
        let Waiting { queue, sync, .. } = *self.requests.get(id);
        if self.queues[queue].next_request == Some(id) {
            self.queues[queue].next_request = self.find_next(queue, id);
            self.next_request_changed(queue);
        }
        let state = &mut self.queues[queue];
        state.turn.expired = state.turn.expired.filter(|&expired| expired != id);
        self.requests.unlink(&mut state.fifo, id);
        state.queued[usize::from(sync)] -= 1;
        self.load.waiting -= 1;
        self.requests.unsort(id);
        if state.is_empty() {
            state.next_request = None;
            if state.is_busy() && !self.is_in_service(queue) {
                self.remove_busy(queue, false);
                let entity = self.entity_mut(queue);
                (entity.budget, entity.service) = (0, 0);
            }
            self.remove_position(queue);
        } else if !self.device.flash_with_queueing {
            self.update_position(queue);
        }
    }

    /// Whether the layer below has capacity for a request.
    pub(super) fn is_admitted(&self, id: RequestId, capacity: Capacity) -> bool {
        capacity.admits(self.requests.get(id).operation)
    }
}
