//! Injection: requests of other queues are sent while the queue in service is waited for, as many as do not delay it.
//! Linux 6.18, block/bfq-iosched.c, `bfq_update_inject_limit`.

use traces::{Nanos, RequestId, Timestamp};

use super::Bfq;
use super::access::LARGE_ON_FLASH;
use super::clock::{Clock, Jiffy};
use super::ids::QueueId;

/// The limit is measured anew when its last decrease is this long ago.
const LIMIT_VALID: Nanos = Nanos::from_s(1);
/// A measurement waits this long after a decrease of the limit.
const MEASUREMENT_PAUSE: Nanos = Nanos::from_ms(10);

/// How many requests may be injected while a queue is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InjectionLimit {
    /// The number of requests in flight from which none is injected.
    limit: u32,
    /// The shortest time from arrival to completion of a request that waited for no injected one; zero if it is not
    /// known (`last_serv_time_ns`).
    service_time: Nanos,
    /// When the limit was last decreased or reset (`decrease_time_jif`).
    pub(super) changed: Jiffy,
}

impl InjectionLimit {
    pub(super) fn new(clock: &Clock) -> InjectionLimit {
        InjectionLimit { limit: 0, service_time: Nanos::ZERO, changed: clock.jiffy }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.service_time > Nanos::ZERO
    }

    /// Adapts the limit to the time from arrival to completion of a request that arrived in the empty queue in service
    /// (`bfq_update_inject_limit`). `alone`: no other request is in flight.
    fn adapt(&mut self, took: Nanos, injected: bool, alone: bool, most_in_flight: u32, now: Jiffy) {
        let limit = self.limit;
        if self.is_measured() && injected {
            let threshold = Nanos::from_ns(self.service_time.as_ns() * 3 / 2);
            if took >= threshold && limit > 0 {
                self.limit -= 1;
                self.changed = now;
            } else if took < threshold && limit <= most_in_flight {
                self.limit += 1;
            }
        }
        if (!self.is_measured() && alone) || took < self.service_time {
            if !self.is_measured() {
                self.limit = limit.max(1);
            }
            self.service_time = took;
        } else if !injected && alone {
            self.service_time = took;
        }
    }
}

/// The measurement of the time that a request takes which arrives in the empty queue in service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurement {
    /// When the request arrived (`last_empty_occupied_ns`).
    arrived: Timestamp,
    /// The request is not sent yet (`wait_dispatch`).
    wait_dispatch: bool,
    /// The request is in flight (`waited_rq`).
    waited: Option<RequestId>,
    /// Requests of other queues were sent since (`rqs_injected`).
    injected: bool,
}

impl Bfq {
    /// Begins to measure anew how much may be injected (`bfq_reset_inject_limit`).
    pub(super) fn reset_inject_limit(&mut self, queue: QueueId) {
        self.measurement.waited = None;
        let state = &mut self.queues[queue];
        state.injection = InjectionLimit {
            limit: u32::from(!state.think_time.short),
            service_time: Nanos::ZERO,
            changed: self.clock.jiffy,
        };
    }

    pub(super) fn stop_measuring_injection(&mut self) {
        self.measurement.injected = false;
        self.measurement.wait_dispatch = false;
        self.measurement.waited = None;
    }

    /// A request arrives whose process has no other: it may end a wait, and be measured (`bfq_add_request`).
    pub(super) fn observe_lone_arrival(&mut self, queue: QueueId) {
        self.detect_waker(queue);
        if self.clock.is_as_long_ago(self.queues[queue].injection.changed, self.clock.jiffies(LIMIT_VALID)) {
            self.reset_inject_limit(queue);
        }
        let injection = &self.queues[queue].injection;
        let baseline = self.load.in_flight == 0;
        let with_injection = injection.is_measured() && self.measurement.injected && !baseline;
        let settled = self.clock.is_as_long_ago(injection.changed, self.clock.jiffies(MEASUREMENT_PAUSE));
        if self.is_in_service(queue) && (baseline || with_injection) && settled {
            self.measurement.arrived = self.clock.now;
            self.measurement.wait_dispatch = true;
            if baseline {
                self.measurement.injected = false;
            }
        }
    }

    /// A request of the queue in service is sent.
    pub(super) fn observe_measured_dispatch(&mut self, id: RequestId) {
        if self.measurement.wait_dispatch {
            self.measurement.wait_dispatch = false;
            self.measurement.waited = Some(id);
        }
    }

    /// A request completes: if it is the one measured, the limit follows from the time it took.
    pub(super) fn observe_measured_completion(&mut self, id: RequestId, queue: QueueId) {
        if self.measurement.waited != Some(id) {
            return;
        }
        let took = self.clock.now.since(self.measurement.arrived);
        let alone = self.load.in_flight == 1;
        let limit = &mut self.queues[queue].injection;
        limit.adapt(took, self.measurement.injected, alone, self.device.most_in_flight, self.clock.jiffy);
        self.measurement.waited = None;
        self.measurement.injected = false;
    }

    /// A queue to send a request from while `served` is waited for (`bfq_choose_bfqq_for_injection`).
    pub(super) fn choose_injected(&mut self, served: QueueId) -> Option<QueueId> {
        let state = &self.queues[served];
        let any = !self.entity(served).is_raised() || !state.think_time.short;
        if self.load.in_flight >= state.injection.limit {
            return None;
        }
        let injects = |&queue: &QueueId| {
            // An empty queue has no next request.
            let Some(next) = self.queues[queue].next_request else { return false };
            if !(any || self.entity(queue).is_raised()) || !self.affords_next(queue) {
                return false;
            }
            // Flash serves a large request for long: it is injected only where no request is in flight.
            let large = self.requests.get(next).sectors >= LARGE_ON_FLASH;
            self.tunables.rotational || !large || self.load.in_flight == 0
        };
        let queue = self.service.active_queues.iter().rev().copied().find(injects)?;
        self.measurement.injected = true;
        Some(queue)
    }

    /// Whether a request of this queue may be sent while another queue is in service.
    pub(super) fn can_inject(&self, queue: QueueId) -> bool {
        self.queues[queue].is_busy() && self.affords_next(queue)
    }
}
