//! The completion of a request. Linux 6.18, block/bfq-iosched.c, `bfq_finish_requeue_request`.

use traces::RequestId;

use super::Bfq;
use super::expire::{IdleTime, Reason};
use super::ids::{ProcessId, QueueId};
use super::requests::Waiting;

impl Bfq {
    /// A request in flight has completed or come back.
    pub(super) fn finish(&mut self, id: RequestId) {
        let Waiting { queue, process, .. } = *self.requests.get(id);
        self.observe_measured_completion(id, queue);
        self.complete(queue);
        self.forget(id, queue, process);
    }

    /// Removes the traces of a request that completed or was cancelled (`bfq_finish_requeue_request_body`).
    pub(super) fn forget(&mut self, id: RequestId, queue: QueueId, process: ProcessId) {
        self.requests.forget(id);
        self.queues[queue].allocated -= 1;
        self.processes[process].requests -= 1;
        self.free_if_unused(queue);
    }

    /// A request of this queue is no longer in flight (`bfq_completed_request`).
    fn complete(&mut self, queue: QueueId) {
        self.update_queueing();
        self.load.in_flight -= 1;
        let state = &mut self.queues[queue];
        state.dispatched -= 1;
        if state.dispatched == 0 && !state.is_busy() {
            state.turn.budget_timeout = Some(self.clock.jiffy);
            self.forget_pending(queue);
        }
        self.queues[queue].think_time.last_end = self.clock.now;
        self.observe_completion();
        let state = &self.queues[queue];
        self.last_completed = if state.merging.shared { None } else { Some(queue) };
        let rests = state.dispatched == 0 && state.is_empty();
        let is_interactive = self.entity(queue).raising == self.tunables.wr_coeff;
        if state.soft_rt.update_on_completion && rests && !is_interactive {
            self.queues[queue].soft_rt.next_start = self.next_soft_rt_start(queue);
        }
        self.decide_on_idling(queue);
    }

    /// A request of a queue has completed: idles for the queue if it is in service and empty, or ends its turn.
    fn decide_on_idling(&mut self, queue: QueueId) {
        let served = self.is_in_service(queue);
        let idles = served && self.must_idle(queue);
        self.calls_for_dispatch = self.load.in_flight == 0 && !idles;
        let state = &self.queues[queue];
        let in_flight = state.dispatched > 0;
        if idles {
            if !in_flight {
                self.start_idling(queue);
            }
        } else if served {
            if self.may_time_out(queue) {
                self.expire(queue, IdleTime::Charged, Reason::BudgetTimeout);
            } else if state.is_empty() && (!in_flight || !self.better_to_idle(queue)) {
                self.expire(queue, IdleTime::Charged, Reason::NoMoreRequests);
            }
        }
    }
}
