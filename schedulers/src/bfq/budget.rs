//! Budgets, and the end of a queue's turn: how much it is charged, and what it gets next time.

use super::Bfq;
use super::requests::Waiting;
use super::service::NONE;

/// In sectors, until enough budgets have been assigned to trust the estimate.
pub(super) const DEFAULT_MAX_BUDGET: i64 = 16 * 1024;
/// A mean of one per assigned budget, in 1/256: when it is enough.
const BUDGETS_TO_TRUST: i64 = 194;
/// What an async request counts in relation to a sync one.
const ASYNC_CHARGE: i64 = 3;

/// Why a queue's turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Nothing came while the device was kept idle for it.
    TooIdle,
    /// Its time is up.
    BudgetTimeout,
    /// What is left of its budget does not suffice for its next request.
    BudgetExhausted,
    /// It is empty, and not waited for.
    NoMoreRequests,
    /// Another is to be served before.
    Preempted,
}

impl Bfq {
    /// The largest budget, in sectors.
    pub(super) fn max_budget(&self) -> i64 {
        if self.budgets_assigned < BUDGETS_TO_TRUST { DEFAULT_MAX_BUDGET } else { self.current_max_budget }
    }

    /// The smallest.
    pub(super) fn min_budget(&self) -> i64 {
        self.max_budget() / 32
    }

    pub(super) fn budget_left(&self, queue: u32) -> i64 {
        let entity = self.entity(queue);
        entity.budget - entity.service
    }

    /// The service that a request of this queue counts as, in sectors.
    pub(super) fn charge(&self, queue: u32, request: &Waiting) -> i64 {
        let sectors = i64::from(request.sectors);
        let plain = self.queues[queue as usize].sync || self.entity(queue).wr_coeff > 1 || self.is_asymmetric(queue);
        if plain { sectors } else { sectors * ASYNC_CHARGE }
    }

    /// Whether the budget left suffices for the queue's next request.
    pub(super) fn affords_next(&self, queue: u32) -> bool {
        let next = self.requests.get(self.queues[queue as usize].next_request);
        self.charge(queue, next) <= self.budget_left(queue)
    }

    /// Another request goes next: a queue that is not in service gets a budget that suffices for it.
    pub(super) fn next_request_changed(&mut self, queue: u32) {
        let next = self.queues[queue as usize].next_request;
        if next == NONE || queue == self.in_service {
            return;
        }
        let charge = self.charge(queue, self.requests.get(next));
        let max_budget = self.queues[queue as usize].max_budget;
        let entity = self.entity_mut(queue);
        let budget = max_budget.max(charge).max(entity.service);
        if entity.budget != budget {
            entity.budget = budget;
            self.requeue_queue(queue, false);
        }
    }

    /// A queue becomes busy: its budget, and whether it is to go on with that of its last turn.
    pub(super) fn budget_on_activation(&mut self, queue: u32, in_time: bool) -> bool {
        let left = self.budget_left(queue);
        let of = self.queues[queue as usize];
        if of.non_blocking_wait && in_time && left > 0 {
            let entity = self.entity_mut(queue);
            entity.budget = left.min(of.max_budget);
            entity.service = 0;
            return true;
        }
        let charge = self.charge(queue, self.requests.get(of.next_request));
        let entity = self.entity_mut(queue);
        entity.service = 0;
        entity.budget = of.max_budget.max(charge);
        self.queues[queue as usize].non_blocking_wait = false;
        false
    }

    /// Sets the end of the turn of a queue that comes into service; a raised one has more time.
    pub(super) fn start_turn(&mut self, queue: u32) {
        let of = self.queues[queue as usize];
        let entity = self.entity(queue);
        let factor = if of.wr_cur_max_time == self.tunables.wr_rt_max_time {
            1
        } else {
            entity.weight / entity.orig_weight.max(1)
        };
        self.last_budget_start = self.clock.ns;
        self.queues[queue as usize].budget_timeout = self.clock.jiffy + self.tunables.timeout * factor;
    }

    pub(super) fn is_timed_out(&self, queue: u32) -> bool {
        self.clock.is_reached(self.queues[queue as usize].budget_timeout)
    }

    /// Whether a queue's turn may end for its time: one that is waited for keeps the device if it has
    /// used most of its budget, lest its timestamps fall behind.
    pub(super) fn may_time_out(&self, queue: u32) -> bool {
        let waits = self.queues[queue as usize].wait_request;
        (!waits || self.budget_left(queue) >= self.entity(queue).budget / 3) && self.is_timed_out(queue)
    }

    /// The budget of the queue's next turn.
    fn adapt_budget(&mut self, queue: u32, reason: Reason) {
        let least = self.min_budget();
        let most = self.current_max_budget;
        let of = self.queues[queue as usize];
        let entity = *self.entity(queue);
        let mut budget = if entity.wr_coeff == 1 { of.max_budget } else { 2 * least };
        if of.sync && entity.wr_coeff == 1 {
            budget = match reason {
                Reason::TooIdle if of.dispatched > 0 => most.min(budget * 2),
                Reason::TooIdle if budget > 5 * least => budget - 4 * least,
                Reason::TooIdle => least,
                Reason::BudgetTimeout => most.min(budget * 2),
                Reason::BudgetExhausted => most.min(budget * 4),
                Reason::NoMoreRequests => least.max(entity.service),
                Reason::Preempted => return,
            };
        } else if !of.sync {
            budget = most;
        }
        if self.budgets_assigned >= BUDGETS_TO_TRUST && self.tunables.user_max_budget == 0 {
            budget = budget.min(most);
        }
        self.queues[queue as usize].max_budget = budget;
        if of.next_request != NONE {
            let charge = self.charge(queue, self.requests.get(of.next_request));
            self.entity_mut(queue).budget = budget.max(charge);
        }
    }

    /// Whether a queue got little for the time it was in service, and that time in milliseconds.
    /// `idled`: up to when the device began to idle for it.
    fn is_slow(&self, queue: u32, idled: bool) -> (bool, i64) {
        let of = &self.queues[queue as usize];
        if !of.sync {
            return (false, 0);
        }
        let until = if idled { self.last_idling_start } else { self.clock.ns };
        let us = (until - self.last_budget_start) / 1000;
        if us < 1000 {
            return (of.is_seeky(), if self.tunables.rotational { 8 } else { 2 });
        }
        let slow = if us > 20_000 { self.entity(queue).service < self.current_max_budget / 2 } else { of.is_seeky() };
        (slow, us / 1000)
    }

    /// Charges a slow queue for its time, as if it had been served at the peak rate.
    fn charge_time(&mut self, queue: u32, ms: i64) {
        let timeout = self.default_timeout_ms;
        let for_time = self.current_max_budget * ms.min(timeout) / timeout;
        let entity = self.entity_mut(queue);
        let total = for_time.max(entity.service);
        entity.budget = entity.budget.max(total);
        let extra = total - entity.service;
        self.account_service(queue, extra);
    }

    /// A queue has got this much service.
    pub(super) fn account_service(&mut self, queue: u32, service: i64) {
        let raised = self.entity(queue).wr_coeff > 1;
        let of = &mut self.queues[queue as usize];
        if of.service_from_backlogged == 0 {
            of.first_io_time = self.clock.jiffy;
        }
        if raised {
            of.service_from_wr += service;
        }
        of.service_from_backlogged += service;
        self.service.served(of.entity, service);
    }

    /// Ends the turn of the queue in service. `idled`: do not charge it for the time idled.
    pub(super) fn expire(&mut self, queue: u32, idled: bool, reason: Reason) {
        let (slow, ms) = self.is_slow(queue, idled);
        let entity = *self.entity(queue);
        let wasteful = reason == Reason::BudgetTimeout && self.budget_left(queue) >= entity.budget / 3;
        if entity.wr_coeff == 1 && (slow || wasteful) {
            self.charge_time(queue, ms);
        }
        let is_empty = self.queues[queue as usize].is_empty();
        if self.tunables.low_latency {
            if entity.wr_coeff == 1 {
                self.queues[queue as usize].last_wr_start_finish = self.clock.jiffy;
            }
            if self.tunables.wr_max_softrt_rate > 0 && is_empty {
                if self.queues[queue as usize].dispatched == 0 {
                    self.queues[queue as usize].soft_rt_next_start = self.next_soft_rt_start(queue);
                } else {
                    self.queues[queue as usize].softrt_update = true;
                }
            }
        }
        self.stop_measuring_injection();
        self.adapt_budget(queue, reason);
        self.leave_service(queue, reason);
        let of = &mut self.queues[queue as usize];
        if !of.busy && !matches!(reason, Reason::BudgetTimeout | Reason::BudgetExhausted) {
            // The service it got counts on if its next request comes in time.
            of.non_blocking_wait = true;
        } else {
            self.entity_mut(queue).service = 0;
        }
        self.service.reset_service_above(self.queues[queue as usize].entity);
        self.free_if_unused(queue);
    }

    fn leave_service(&mut self, queue: u32, reason: Reason) {
        let of = self.queues[queue as usize];
        if of.shared && of.is_seeky() {
            self.queues[queue as usize].to_split = true;
        }
        let keeps_turn = reason == Reason::Preempted && self.idling_keeps_guarantees(queue);
        if of.is_empty() && !keeps_turn {
            if of.dispatched == 0 {
                self.queues[queue as usize].budget_timeout = self.clock.jiffy;
            }
            self.remove_busy(queue, true);
        } else {
            self.requeue_queue(queue, true);
            if !self.flash_with_queueing && !of.is_empty() {
                self.update_position(queue);
            }
        }
        self.queues[queue as usize].wait_request = false;
        self.idle_until = None;
        self.in_service = NONE;
        self.service.reset_in_service(of.entity);
    }
}
