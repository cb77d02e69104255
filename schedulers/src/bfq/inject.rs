//! Injection: requests of other queues that are sent while the queue in service is waited for, as
//! many as do not delay it, and the detection of the queue it waits on.

use super::Bfq;
use super::idle::LARGE_ON_FLASH;
use super::service::NONE;

/// In ns: a queue that gets a request so soon after another's completion may be woken by it.
const WAKE_WITHIN: i64 = 4_000_000;
/// How often that must be seen.
const WAKER_DETECTIONS: u32 = 3;

/// The measurement of how long a request takes that arrives in the empty queue in service.
#[derive(Clone, Debug)]
pub(super) struct Injection {
    /// When it arrived, in ns.
    arrived: i64,
    /// It is not sent yet.
    wait_dispatch: bool,
    /// It is sent and not completed.
    waited: u32,
    /// Requests of others were sent since.
    injected: bool,
}

impl Injection {
    pub(super) fn new() -> Injection {
        Injection { arrived: 0, wait_dispatch: false, waited: NONE, injected: false }
    }
}

impl Bfq {
    /// Begins anew to find out how much may be injected.
    pub(super) fn reset_inject_limit(&mut self, queue: u32) {
        self.injection.waited = NONE;
        let of = &mut self.queues[queue as usize];
        of.last_service_time = 0;
        of.inject_limit = u32::from(!of.short_think_time);
        of.decrease_time = self.clock.jiffy;
    }

    pub(super) fn stop_measuring_injection(&mut self) {
        self.injection.injected = false;
        self.injection.wait_dispatch = false;
        self.injection.waited = NONE;
    }

    /// A request arrives whose process has no other: it may end a wait, and be measured.
    pub(super) fn observe_lone_arrival(&mut self, queue: u32) {
        self.detect_waker(queue);
        let of = self.queues[queue as usize];
        if self.clock.is_reached(of.decrease_time + self.clock.jiffies_of_ms(1000)) {
            self.reset_inject_limit(queue);
        }
        let of = self.queues[queue as usize];
        let baseline = self.in_driver == 0;
        let with_injection = of.last_service_time > 0 && self.injection.injected && self.in_driver > 0;
        let settled = self.clock.is_reached(of.decrease_time + self.clock.jiffies_of_ms(10));
        if queue == self.in_service && (baseline || with_injection) && settled {
            self.injection.arrived = self.clock.ns;
            self.injection.wait_dispatch = true;
            if baseline {
                self.injection.injected = false;
            }
        }
    }

    /// A request of the queue in service is sent.
    pub(super) fn observe_measured_dispatch(&mut self, id: u32) {
        if self.injection.wait_dispatch {
            self.injection.wait_dispatch = false;
            self.injection.waited = id;
        }
    }

    /// A request completes; if it is the one measured, the limit follows from the time it took.
    pub(super) fn observe_measured_completion(&mut self, id: u32, queue: u32) {
        if self.injection.waited != id {
            return;
        }
        let took = self.clock.ns - self.injection.arrived;
        let injected = self.injection.injected;
        let alone = self.in_driver == 1;
        let most = self.most_in_driver;
        let of = &mut self.queues[queue as usize];
        let limit = of.inject_limit;
        if of.last_service_time > 0 && injected {
            let threshold = (of.last_service_time * 3) >> 1;
            if took >= threshold && limit > 0 {
                of.inject_limit -= 1;
                of.decrease_time = self.clock.jiffy;
            } else if took < threshold && limit <= most {
                of.inject_limit += 1;
            }
        }
        if (of.last_service_time == 0 && alone) || took < of.last_service_time {
            if of.last_service_time == 0 {
                of.inject_limit = limit.max(1);
            }
            of.last_service_time = took;
        } else if !injected && alone {
            of.last_service_time = took;
        }
        self.injection.waited = NONE;
        self.injection.injected = false;
    }

    /// A queue to send a request from while the queue in service is waited for.
    pub(super) fn choose_injected(&mut self) -> u32 {
        let served = &self.queues[self.in_service as usize];
        let any = self.entity(self.in_service).wr_coeff == 1 || !served.short_think_time;
        if self.in_driver >= served.inject_limit {
            return NONE;
        }
        for &queue in self.service.active_queues.iter().rev() {
            let of = &self.queues[queue as usize];
            if of.is_empty() || !(any || self.entity(queue).wr_coeff > 1) || !self.affords_next(queue) {
                continue;
            }
            // Flash serves a large request for long: only one at a time.
            let large = self.requests.get(of.next_request).sectors >= LARGE_ON_FLASH;
            if self.tunables.rotational || !large || self.in_driver == 0 {
                self.injection.injected = true;
                return queue;
            }
        }
        NONE
    }

    /// Whether a request of this queue may be sent while another is in service.
    pub(super) fn can_inject(&self, queue: u32) -> bool {
        queue != NONE && {
            let of = &self.queues[queue as usize];
            of.busy && of.next_request != NONE && self.affords_next(queue)
        }
    }

    /// Looks for the queue whose completions make this one's process send.
    fn detect_waker(&mut self, queue: u32) {
        let (last, now) = (self.last_completed, self.clock.ns);
        let slice_idle = self.tunables.slice_idle;
        let soon = now - self.peak_rate.last_completion < WAKE_WITHIN;
        let of = &mut self.queues[queue as usize];
        if last == NONE || last == queue || of.short_think_time || !soon {
            return;
        }
        if of.tentative_waker != last || now > of.waker_detection_started.saturating_add(slice_idle.saturating_mul(128))
        {
            of.tentative_waker = last;
            of.waker_detections = 1;
            of.waker_detection_started = now;
        } else {
            of.waker_detections += 1;
        }
        if of.waker_detections == WAKER_DETECTIONS {
            of.tentative_waker = NONE;
            self.set_waker(queue, last);
        }
    }

    /// From now on `waker` wakes this queue.
    pub(super) fn set_waker(&mut self, queue: u32, waker: u32) {
        self.remove_from_woken(queue);
        self.queues[queue as usize].waker = waker;
        self.queues[queue as usize].woken_next = self.queues[waker as usize].woken_first;
        self.queues[waker as usize].woken_first = queue;
    }

    /// Takes a queue off the list of those its waker wakes.
    pub(super) fn remove_from_woken(&mut self, queue: u32) {
        let waker = self.queues[queue as usize].waker;
        if waker == NONE {
            return;
        }
        let next = std::mem::replace(&mut self.queues[queue as usize].woken_next, NONE);
        let mut at = self.queues[waker as usize].woken_first;
        if at == queue {
            self.queues[waker as usize].woken_first = next;
            return;
        }
        while at != NONE {
            let after = self.queues[at as usize].woken_next;
            if after == queue {
                self.queues[at as usize].woken_next = next;
                return;
            }
            at = after;
        }
    }
}
