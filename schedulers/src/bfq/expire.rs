//! The end of a queue's turn: the charge for its time, and its way out of service. Linux 6.18, block/bfq-iosched.c,
//! `bfq_bfqq_expire`.

use traces::Nanos;

use super::Bfq;
use super::ids::QueueId;

/// A turn shorter than this is too short to measure its rate.
const MEASURABLE: Nanos = Nanos::from_ms(1);
/// A turn longer than this is judged by the service that the queue received.
const JUDGED_BY_SERVICE: Nanos = Nanos::from_ms(20);
/// The time charged for a turn that is too short to measure, in milliseconds, by device: flash, rotational.
const SHORT_TURN_MS: [u64; 2] = [2, 8];

/// Why a queue's turn ends (`enum bfqq_expiration`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// No request came while the device was kept idle for the queue.
    TooIdle,
    /// The time of the turn is over.
    BudgetTimeout,
    /// The rest of the budget does not suffice for the next request.
    BudgetExhausted,
    /// The queue is empty and is not waited for.
    NoMoreRequests,
    /// Another queue must be served first.
    Preempted,
}

/// How the time that the device idled is charged at the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleTime {
    Charged,
    /// The idling was in vain: the time since its begin is not charged (`compensate`).
    Excluded,
}

impl Bfq {
    /// Whether a queue received little service for its time, and that time in milliseconds (`bfq_bfqq_is_slow`).
    fn is_slow(&self, queue: QueueId, idle_time: IdleTime) -> (bool, u64) {
        let state = &self.queues[queue];
        if !state.sync {
            return (false, 0);
        }
        let until = match idle_time {
            IdleTime::Charged => self.clock.now,
            IdleTime::Excluded => self.idling.started,
        };
        let time = until.saturating_since(self.in_service.turn_started);
        if time < MEASURABLE {
            return (state.is_seeky(), SHORT_TURN_MS[usize::from(self.tunables.rotational)]);
        }
        let us = time.as_ns() / 1000;
        let slow = if us > JUDGED_BY_SERVICE.as_ns() / 1000 {
            self.entity(queue).service < self.budgets.max / 2
        } else {
            state.is_seeky()
        };
        (slow, us / 1000)
    }

    /// Charges a slow queue for its time, as if it had been served at the peak rate (`bfq_bfqq_charge_time`).
    fn charge_time(&mut self, queue: QueueId, ms: u64) {
        let for_time = self.budgets.max * ms.min(self.default_timeout_ms) / self.default_timeout_ms;
        let entity = self.entity_mut(queue);
        let total = for_time.max(entity.service);
        entity.budget = entity.budget.max(total);
        let extra = total - entity.service;
        self.account_service(queue, extra);
    }

    /// Ends the turn of the queue in service.
    pub(super) fn expire(&mut self, queue: QueueId, idle_time: IdleTime, reason: Reason) {
        let (slow, ms) = self.is_slow(queue, idle_time);
        let entity = self.entity(queue);
        let raised = entity.is_raised();
        let wasteful = reason == Reason::BudgetTimeout && entity.has_a_third_left();
        if !raised && (slow || wasteful) {
            self.charge_time(queue, ms);
        }
        if self.tunables.low_latency {
            self.update_soft_rt_on_expiry(queue, raised);
        }
        self.stop_measuring_injection();
        self.adapt_budget(queue, reason);
        self.leave_service(queue, reason);
        let state = &mut self.queues[queue];
        if !state.is_busy() && !matches!(reason, Reason::BudgetTimeout | Reason::BudgetExhausted) {
            // The service that the queue received still counts if its next request comes in time.
            state.turn.non_blocking_wait = true;
        } else {
            self.entity_mut(queue).service = 0;
        }
        self.service.reset_service_above(self.queues[queue].entity);
        self.free_if_unused(queue);
    }

    /// Records when raising ended, and until when the queue must rest to count as soft real-time.
    fn update_soft_rt_on_expiry(&mut self, queue: QueueId, raised: bool) {
        let state = &mut self.queues[queue];
        if !raised {
            state.raising.last_start_finish = self.clock.jiffy;
        }
        if self.tunables.wr_max_softrt_rate > 0 && state.is_empty() {
            if state.dispatched == 0 {
                self.queues[queue].soft_rt.next_start = self.next_soft_rt_start(queue);
            } else {
                state.soft_rt.update_on_completion = true;
            }
        }
    }

    /// Takes a queue out of service; an empty one is no longer busy (`__bfq_bfqq_expire`).
    fn leave_service(&mut self, queue: QueueId, reason: Reason) {
        let state = &mut self.queues[queue];
        let is_empty = state.is_empty();
        let entity = state.entity;
        if state.merging.shared && state.is_seeky() {
            state.merging.to_split = true;
        }
        let keeps_turn = reason == Reason::Preempted && self.idling_keeps_guarantees(queue);
        if is_empty && !keeps_turn {
            let state = &mut self.queues[queue];
            if state.dispatched == 0 {
                state.turn.budget_timeout = Some(self.clock.jiffy);
            }
            self.remove_busy(queue, true);
        } else {
            self.requeue_queue(queue, true);
            if !self.device.flash_with_queueing && !is_empty {
                self.update_position(queue);
            }
        }
        self.stop_idling(queue);
        self.in_service.queue = None;
        self.service.reset_in_service(entity);
    }
}
