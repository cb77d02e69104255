//! Idling: whether the device is kept idle for the next request of an empty queue in service, and for how long.
//! Linux 6.18, block/bfq-iosched.c.

use traces::{Nanos, Timestamp};

use super::Bfq;
use super::entity::Class;
use super::ids::QueueId;
use super::rules::IDLED;

/// The longest idling for a seeky queue (`BFQ_MIN_TT`). A device that is without requests for less is not idle.
pub(super) const THINK_TIME_MIN: Nanos = Nanos::from_ms(2);
/// The shortest idling for a raised queue.
const RAISED_IDLE_MIN: Nanos = Nanos::from_ms(20);
/// The number of other queues' requests in flight from which it is worth while to idle for a raised queue.
const OTHERS_IN_FLIGHT: u32 = 4;

/// The idling of the device for the queue in service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idling {
    /// When the idle timer expires, if it runs (`idle_slice_timer`).
    pub(super) until: Option<Timestamp>,
    /// When the device last began to idle (`last_idling_start`).
    pub(super) started: Timestamp,
}

impl Bfq {
    /// Whether the queues that share the device must get different shares of it, and this queue does not get the
    /// smallest (`bfq_asymmetric_scenario`).
    pub(super) fn is_asymmetric(&self, queue: QueueId) -> bool {
        let classes = self.load.busy_queues.iter().filter(|&&busy| busy > 0).count();
        classes > 1 || self.service.groups_pending > 1 || self.service.weights_differ(self.queues[queue].entity)
    }

    /// Whether idling for this queue raises throughput and harms no raised queue (`idling_boosts_thr_without_issues`).
    pub(super) fn idling_raises_throughput(&self, queue: QueueId) -> bool {
        let state = &self.queues[queue];
        if state.process_refs == 0 {
            return false;
        }
        let streams = !state.is_seeky() && state.intensity.io_bound && state.think_time.short;
        let rotational = self.tunables.rotational;
        let may_queue = self.device.queueing != Some(false);
        let raises = (rotational && !may_queue) || ((rotational || !may_queue) && streams);
        raises && self.load.raised_busy == 0
    }

    /// Whether the queue gets its share only if the device idles for it (`idling_needed_for_service_guarantees`).
    pub(super) fn idling_keeps_guarantees(&self, queue: QueueId) -> bool {
        let state = &self.queues[queue];
        if state.process_refs == 0 {
            return false;
        }
        let busy = self.load.busy_total();
        let raised_among_others = self.entity(queue).is_raised()
            && (self.load.raised_busy < busy || self.load.in_flight >= state.dispatched + OTHERS_IN_FLIGHT);
        raised_among_others || self.is_asymmetric(queue) || busy == 1
    }

    /// Whether the device idles for this queue once it is empty (`bfq_better_to_idle`).
    pub(super) fn better_to_idle(&self, queue: QueueId) -> bool {
        let state = &self.queues[queue];
        if state.process_refs == 0 {
            return false;
        }
        if self.tunables.strict_guarantees {
            return true;
        }
        if self.tunables.slice_idle == Nanos::ZERO || !state.sync || self.entity(queue).class == Class::Idle {
            return false;
        }
        self.idling_raises_throughput(queue) || self.idling_keeps_guarantees(queue)
    }

    /// Whether a queue is empty and the device idles for it (`bfq_bfqq_must_idle`).
    pub(super) fn must_idle(&self, queue: QueueId) -> bool {
        self.queues[queue].is_empty() && self.better_to_idle(queue)
    }

    /// Begins to idle for the queue in service (`bfq_arm_slice_timer`).
    pub(super) fn start_idling(&mut self, queue: QueueId) {
        let raised = self.entity(queue).is_raised();
        let mut span = self.tunables.slice_idle;
        if self.queues[queue].is_seeky() && !raised && !self.is_asymmetric(queue) {
            span = span.min(THINK_TIME_MIN);
        } else if raised {
            span = span.max(RAISED_IDLE_MIN);
        }
        self.queues[queue].turn.wait_request = true;
        self.queues[queue].turn.rule = IDLED;
        self.idling = Idling { until: Some(self.clock.now + span), started: self.clock.now };
    }

    pub(super) fn stop_idling(&mut self, queue: QueueId) {
        self.queues[queue].turn.wait_request = false;
        self.idling.until = None;
    }
}
