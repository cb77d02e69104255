//! Wakers: the queue whose completions make the process of another queue send. While the woken queue is waited for,
//! its waker is served. Linux 6.18, block/bfq-iosched.c, `bfq_check_waker`.

use traces::{Nanos, Timestamp};

use super::Bfq;
use super::ids::QueueId;

/// A request that arrives this soon after the completion of another queue may be caused by it.
const WAKE_WITHIN: Nanos = Nanos::from_ms(4);
/// The number of times that must be seen.
const WAKER_DETECTIONS: u32 = 3;
/// A detection takes no longer than this number of times `slice_idle`.
const DETECTION_SLICES: u64 = 128;

/// The queue that wakes a queue, and the queues that it wakes itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wakers {
    pub(super) waker: Option<QueueId>,
    pub(super) tentative: Option<QueueId>,
    detections: u32,
    detection_started: Timestamp,
    /// The first of the queues it wakes: the one that became busy last (`woken_list`).
    pub(super) woken_first: Option<QueueId>,
    /// The next of the queues that its waker wakes.
    woken_next: Option<QueueId>,
}

impl Bfq {
    /// Looks for the queue whose completions make the process of this queue send.
    pub(super) fn detect_waker(&mut self, queue: QueueId) {
        let now = self.clock.now;
        let longest = self.tunables.slice_idle * DETECTION_SLICES;
        let soon = self.peak_rate.completed_within(now, WAKE_WITHIN);
        let Some(last) = self.last_completed.filter(|&last| last != queue && soon) else { return };
        let state = &mut self.queues[queue];
        if state.think_time.short {
            return;
        }
        let wakers = &mut state.wakers;
        if wakers.tentative != Some(last) || now > wakers.detection_started.saturating_add(longest) {
            wakers.tentative = Some(last);
            wakers.detections = 1;
            wakers.detection_started = now;
        } else {
            wakers.detections += 1;
        }
        if wakers.detections == WAKER_DETECTIONS {
            wakers.tentative = None;
            self.set_waker(queue, last);
        }
    }

    /// From now on `waker` wakes this queue.
    pub(super) fn set_waker(&mut self, queue: QueueId, waker: QueueId) {
        self.remove_from_woken(queue);
        let first = self.queues[waker].wakers.woken_first.replace(queue);
        let wakers = &mut self.queues[queue].wakers;
        wakers.waker = Some(waker);
        wakers.woken_next = first;
    }

    /// Takes a queue off the list of those that its waker wakes.
    pub(super) fn remove_from_woken(&mut self, queue: QueueId) {
        let Some(waker) = self.queues[queue].wakers.waker else { return };
        let next = self.queues[queue].wakers.woken_next.take();
        let mut at = self.queues[waker].wakers.woken_first;
        if at == Some(queue) {
            self.queues[waker].wakers.woken_first = next;
            return;
        }
        while let Some(woken) = at {
            let wakers = &mut self.queues[woken].wakers;
            if wakers.woken_next == Some(queue) {
                wakers.woken_next = next;
                return;
            }
            at = wakers.woken_next;
        }
    }
}
