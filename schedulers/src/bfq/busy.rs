//! The change of a queue between busy and not busy. A queue is busy while it has requests or is waited for.
//! Linux 6.18, block/bfq-wf2q.c, `bfq_add_bfqq_busy` and `bfq_del_bfqq_busy`.

use super::Bfq;
use super::ids::QueueId;
use super::service::Change;

impl Bfq {
    /// Puts a queue on its tree again, with new timestamps (`bfq_requeue_bfqq`).
    pub(super) fn requeue_queue(&mut self, queue: QueueId, expiring: bool) {
        let change = Change { requeue: self.is_in_service(queue), expiring };
        self.service.activate(&self.clock, self.queues[queue].entity, false, change);
    }

    pub(super) fn add_busy(&mut self, queue: QueueId) {
        let state = &mut self.queues[queue];
        let id = state.entity;
        let waited = std::mem::take(&mut state.turn.non_blocking_wait);
        self.service.activate(&self.clock, id, waited, Change { requeue: false, expiring: false });
        let entity = self.service.entities[id];
        self.load.count_busy(entity.class, 1);
        state.busy = true;
        let waker = state.wakers.waker;
        if state.dispatched == 0 {
            if !std::mem::replace(&mut state.pending, true) {
                self.service.add_pending(entity.group);
            }
            if !entity.is_raised() {
                self.service.count_weight(id);
            }
        }
        self.load.raised_busy += u32::from(entity.is_raised());
        // The waker's list of woken queues begins with the one that became busy last.
        if let Some(waker) = waker
            && self.queues[waker].wakers.woken_first != Some(queue)
        {
            self.set_waker(queue, waker);
        }
    }

    pub(super) fn remove_busy(&mut self, queue: QueueId, expiring: bool) {
        let state = &mut self.queues[queue];
        state.busy = false;
        let (entity, dispatched) = (state.entity, state.dispatched);
        self.load.count_busy(self.service.entities[entity].class, -1);
        self.load.raised_busy -= u32::from(self.entity(queue).is_raised());
        self.service.deactivate(&self.clock, entity, expiring);
        if dispatched == 0 {
            self.forget_pending(queue);
        }
    }

    /// A queue has no requests, neither waiting nor in flight
    /// (`bfq_del_bfqq_in_groups_with_pending_reqs`, `bfq_weights_tree_remove`).
    pub(super) fn forget_pending(&mut self, queue: QueueId) {
        let state = &mut self.queues[queue];
        let entity = state.entity;
        if std::mem::take(&mut state.pending) {
            self.service.remove_pending(self.service.entities[entity].group);
        }
        self.service.discount_weight(entity);
        self.free_if_unused(queue);
    }
}
