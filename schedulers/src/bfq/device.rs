//! The load of the device, and the detection of its internal queueing. Linux 6.18, block/bfq-iosched.c.

use super::Bfq;
use super::entity::Class;
use super::ids::QueueId;

/// More requests in flight than this are queueing (`BFQ_HW_QUEUE_THRESHOLD`).
const QUEUEING_DEPTH: u32 = 3;
/// The number of samples after which the device is judged (`BFQ_HW_QUEUE_SAMPLES`).
const QUEUEING_SAMPLES: u32 = 32;

/// Counts of queues and requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// The number of busy queues of each class.
    pub(super) busy_queues: [u32; Class::COUNT],
    /// The number of busy queues that are raised (`wr_busy_queues`).
    pub(super) raised_busy: u32,
    /// The number of requests that wait in queues (`queued`).
    pub(super) waiting: u32,
    /// The number of requests in flight (`tot_rq_in_driver`).
    pub(super) in_flight: u32,
}

impl Load {
    pub(super) fn busy_total(&self) -> u32 {
        self.busy_queues.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// A queue becomes busy or ceases to be. The kernel counts it out under the class that it has then, even if that is
    /// not the one under which it was counted in: the counts of both are wrong from then on, and wrap around.
    pub(super) fn count_busy(&mut self, class: Class, change: i32) {
        let count = &mut self.busy_queues[class.index()];
        *count = count.wrapping_add_signed(change);
    }
}

/// Whether the device queues requests internally.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceQueueing {
    /// Whether the device holds several requests at once; `None` until that is known (`hw_tag`).
    pub(super) queueing: Option<bool>,
    /// The device is flash and queues, or may (`nonrot_with_queueing`).
    pub(super) flash_with_queueing: bool,
    /// The most requests that were in flight at once (`max_rq_in_driver`).
    pub(super) most_in_flight: u32,
    samples: u32,
}

impl DeviceQueueing {
    pub(super) fn new(rotational: bool) -> DeviceQueueing {
        DeviceQueueing { queueing: None, flash_with_queueing: !rotational, most_in_flight: 0, samples: 0 }
    }
}

impl Bfq {
    /// Detects whether the device holds several requests at once (`bfq_update_hw_tag`).
    pub(super) fn update_queueing(&mut self) {
        let load = &self.load;
        let device = &mut self.device;
        device.most_in_flight = device.most_in_flight.max(load.in_flight);
        if device.queueing == Some(true) || load.in_flight + load.waiting <= QUEUEING_DEPTH {
            return;
        }
        // A queue in service with few requests may be the reason why few are in flight.
        if let Some(served) = self.in_service.queue {
            let state = &self.queues[served];
            let outstanding = state.dispatched + state.waiting();
            if state.think_time.short && outstanding < QUEUEING_DEPTH && load.in_flight < QUEUEING_DEPTH {
                return;
            }
        }
        device.samples += 1;
        if device.samples <= QUEUEING_SAMPLES {
            return;
        }
        let queueing = device.most_in_flight > QUEUEING_DEPTH;
        *device = DeviceQueueing {
            queueing: Some(queueing),
            flash_with_queueing: !self.tunables.rotational && queueing,
            most_in_flight: 0,
            samples: 0,
        };
    }

    /// Whether this queue is in service.
    pub(super) fn is_in_service(&self, queue: QueueId) -> bool {
        self.in_service.queue == Some(queue)
    }
}
