//! Budgets: the service that a queue may receive in its turn, in sectors. Linux 6.18, block/bfq-iosched.c.

use super::Bfq;
use super::expire::Reason;
use super::ids::QueueId;
use super::requests::Waiting;

/// The largest budget until enough budgets have been assigned to trust the estimate (`bfq_default_max_budget`).
pub(super) const DEFAULT_MAX_BUDGET: u64 = 16 * 1024;
/// The smallest budget is this part of the largest (`bfq_min_budget`).
const MIN_BUDGET_PART: u64 = 32;
/// From this mean on enough budgets have been assigned, in 1/256 (`bfq_stats_min_budgets`).
const BUDGETS_TO_TRUST: u64 = 194;
/// The factor by which an async request counts more than a sync one (`bfq_async_charge_factor`).
const ASYNC_CHARGE: u64 = 3;

/// The run-time state of budgets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budgets {
    /// A decaying mean of one for each assigned budget, in 1/256 (`budgets_assigned`).
    assigned: u64,
    /// The largest budget (`bfq_max_budget`).
    pub(super) max: u64,
}

impl Budgets {
    /// With the largest budget that the user set; zero is none.
    pub(super) fn new(user_max: u64) -> Budgets {
        Budgets { assigned: 0, max: if user_max == 0 { DEFAULT_MAX_BUDGET } else { user_max } }
    }

    /// A queue comes into service.
    pub(super) fn assign(&mut self) {
        self.assigned = (self.assigned * 7 + 256) / 8;
    }

    fn are_trusted(&self) -> bool {
        self.assigned >= BUDGETS_TO_TRUST
    }
}

impl Bfq {
    /// The largest budget.
    pub(super) fn max_budget(&self) -> u64 {
        if self.budgets.are_trusted() { self.budgets.max } else { DEFAULT_MAX_BUDGET }
    }

    /// The smallest budget.
    pub(super) fn min_budget(&self) -> u64 {
        self.max_budget() / MIN_BUDGET_PART
    }

    /// The service that a request of this queue counts as (`bfq_serv_to_charge`).
    pub(super) fn charge(&self, queue: QueueId, request: &Waiting) -> u64 {
        let sectors = u64::from(request.sectors);
        let plain = self.queues[queue].sync || self.entity(queue).is_raised() || self.is_asymmetric(queue);
        if plain { sectors } else { sectors * ASYNC_CHARGE }
    }

    /// The service that the next request of a queue counts as; `None` for an empty queue.
    fn next_charge(&self, queue: QueueId) -> Option<u64> {
        self.queues[queue].next_request.map(|next| self.charge(queue, self.requests.get(next)))
    }

    /// Whether the rest of the budget suffices for the next request of the queue, if there is one.
    pub(super) fn affords_next(&self, queue: QueueId) -> bool {
        self.next_charge(queue).is_some_and(|charge| Some(charge) <= self.entity(queue).budget_left())
    }

    /// Another request goes next: a queue that is not in service gets a budget that suffices for it
    /// (`bfq_updated_next_req`).
    pub(super) fn next_request_changed(&mut self, queue: QueueId) {
        if self.is_in_service(queue) {
            return;
        }
        let Some(charge) = self.next_charge(queue) else { return };
        let max_budget = self.queues[queue].turn.max_budget;
        let entity = self.entity_mut(queue);
        let budget = max_budget.max(charge).max(entity.service);
        if entity.budget != budget {
            entity.budget = budget;
            self.requeue_queue(queue, false);
        }
    }

    /// A queue becomes busy: sets its budget (`bfq_bfqq_update_budg_for_activation`). True if the queue goes on with
    /// the budget of its last turn. `in_time`: the request came soon after the last completion.
    pub(super) fn budget_on_activation(&mut self, queue: QueueId, in_time: bool) -> bool {
        let turn = self.queues[queue].turn;
        let left = self.entity(queue).budget_left().filter(|&left| left > 0);
        if let Some(left) = left
            && turn.non_blocking_wait
            && in_time
        {
            let entity = self.entity_mut(queue);
            entity.budget = left.min(turn.max_budget);
            entity.service = 0;
            return true;
        }
        let charge = self.next_charge(queue).unwrap_or(0);
        let entity = self.entity_mut(queue);
        entity.service = 0;
        entity.budget = turn.max_budget.max(charge);
        self.queues[queue].turn.non_blocking_wait = false;
        false
    }

    /// Sets the end of the turn of a queue that comes into service (`bfq_set_budget_timeout`). A raised queue has more
    /// time, unless it is soft real-time.
    pub(super) fn start_turn(&mut self, queue: QueueId) {
        let entity = self.entity(queue);
        let soft_rt = self.queues[queue].raising.max_time == self.tunables.wr_rt_max_time;
        let factor = if soft_rt { 1 } else { entity.weight / entity.orig_weight.max(1) };
        self.in_service.turn_started = self.clock.now;
        self.queues[queue].turn.budget_timeout = Some(self.clock.jiffy + self.tunables.timeout * factor);
    }

    /// Whether the time of the queue's turn is over (`bfq_bfqq_budget_timeout`).
    pub(super) fn is_timed_out(&self, queue: QueueId) -> bool {
        self.queues[queue].turn.budget_timeout.is_none_or(|end| end <= self.clock.jiffy)
    }

    /// Whether a queue's turn may end because its time is over (`bfq_may_expire_for_budg_timeout`). A queue that is
    /// waited for and has used most of its budget keeps the device, lest its timestamps fall behind.
    pub(super) fn may_time_out(&self, queue: QueueId) -> bool {
        let waits = self.queues[queue].turn.wait_request;
        (!waits || self.entity(queue).has_a_third_left()) && self.is_timed_out(queue)
    }

    /// The budget of the queue's next turn (`__bfq_bfqq_recalc_budget`).
    pub(super) fn adapt_budget(&mut self, queue: QueueId, reason: Reason) {
        let least = self.min_budget();
        let most = self.budgets.max;
        let state = &self.queues[queue];
        let entity = self.entity(queue);
        let mut budget = if entity.is_raised() { 2 * least } else { state.turn.max_budget };
        if state.sync && !entity.is_raised() {
            budget = match reason {
                Reason::TooIdle if state.dispatched > 0 => most.min(budget * 2),
                Reason::TooIdle if budget > 5 * least => budget - 4 * least,
                Reason::TooIdle => least,
                Reason::BudgetTimeout => most.min(budget * 2),
                Reason::BudgetExhausted => most.min(budget * 4),
                Reason::NoMoreRequests => least.max(entity.service),
                Reason::Preempted => return,
            };
        } else if !state.sync {
            budget = most;
        }
        if self.budgets.are_trusted() && self.tunables.user_max_budget == 0 {
            budget = budget.min(most);
        }
        self.queues[queue].turn.max_budget = budget;
        if let Some(charge) = self.next_charge(queue) {
            self.entity_mut(queue).budget = budget.max(charge);
        }
    }

    /// A queue has received this much service, in sectors (`bfq_bfqq_served`).
    pub(super) fn account_service(&mut self, queue: QueueId, service: u64) {
        let raised = self.entity(queue).is_raised();
        let state = &mut self.queues[queue];
        if state.backlog.service == 0 {
            state.backlog.first_service = self.clock.jiffy;
        }
        if raised {
            state.raising.service += service;
        }
        state.backlog.service += service;
        self.service.served(state.entity, service);
    }
}
