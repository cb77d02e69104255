//! How long a slice is, how it begins and ends.

use super::Cfq;
use super::queue::Class;
use super::rules::{COOPERATOR, NEW_SLICE, PREEMPTION};

/// One tick of HZ = 1000; ns.
pub(super) const TICK: u64 = 1_000_000;

/// `value` x `numerator` / `denominator`, without overflow on the way; a denominator of 0 counts as 1.
pub(super) fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

impl Cfq {
    /// The slice of a priority level: a fifth more for each level above 4, less for each below; ns.
    pub(super) fn priority_slice(&self, sync: bool, level: u8) -> u64 {
        let base = self.set.slice[usize::from(sync)];
        base + base / 5 * 4 - base / 5 * u64::from(level)
    }

    /// The slice of a queue, ns. In 3.5 with `low_latency` it is shortened if the busy queues would not all have one
    /// within the group's share of `target_latency`.
    pub(super) fn slice_of(&mut self, number: usize) -> u64 {
        let queue = &self.queues[number];
        let (group, class) = (queue.group, queue.class);
        let slice = self.priority_slice(queue.is_sync, queue.level);
        if !self.set.low_latency {
            return slice;
        }
        let sync_slice = self.set.slice[1];
        let expected = sync_slice.saturating_mul(self.average_busy(group, class));
        let group_slice = self.group_slice(group);
        if expected <= group_slice {
            return slice;
        }
        let low = slice.min(scaled(2 * self.set.slice_idle, slice, sync_slice));
        scaled(slice, group_slice, expected).max(low)
    }

    /// A queue becomes the active one, or none does; whether it `takes_over` from a queue that works close by.
    pub(super) fn activate_queue(&mut self, number: Option<usize>, takes_over: bool) {
        if let Some(number) = number {
            let queue = &mut self.queues[number];
            queue.active_since = self.now;
            queue.slice_start = None;
            queue.slice_allocated = 0;
            queue.slice_sent = 0;
            queue.slice_is_new = true;
            queue.awaited = false;
            queue.must_dispatch = false;
            queue.fifo_was_checked = false;
            self.idle_until = None;
            let preempts = self.preempting.take() == Some(number);
            self.slice_rule = match (takes_over, preempts) {
                (true, _) => COOPERATOR,
                (false, true) => PREEMPTION,
                (false, false) => NEW_SLICE,
            };
        }
        self.active = number;
    }

    /// The first request of a slice has completed: the slice begins.
    pub(super) fn begin_slice(&mut self, number: usize) {
        let slice = self.slice_of(number);
        let queue = &mut self.queues[number];
        queue.slice_start = Some(self.now);
        queue.slice_end = self.now.saturating_add(traces::Nanos::from_ns(slice));
        queue.slice_allocated = slice;
        queue.slice_is_new = false;
    }

    /// The active queue's slice ends (`cfq_slice_expired`). `keeps_rest`: whether an unused rest counts in its next
    /// turn.
    pub(super) fn end_slice(&mut self, keeps_rest: bool) {
        let Some(number) = self.active else { return };
        self.has_idled = false;
        if std::mem::take(&mut self.queues[number].awaited) {
            self.idle_until = None;
        }
        if keeps_rest {
            let queue = &self.queues[number];
            if !queue.slice_is_new {
                let rest = i128::from(queue.slice_end.as_ns()) - i128::from(self.now.as_ns());
                self.queues[number].slice_left = rest as i64;
            } else if self.is_3_5() {
                self.queues[number].slice_left = self.slice_of(number) as i64;
            }
        }
        if self.is_3_5() {
            let queue = &mut self.queues[number];
            queue.prolonged = false;
            queue.to_be_split |= queue.cooperates && queue.is_seeky();
            self.charge_group(number);
            if self.queues[number].is_busy && self.queues[number].waiting.is_empty() {
                self.take_no_turns(number);
            }
        }
        if self.queues[number].is_busy {
            self.queue_up(number);
        }
        self.active = None;
        self.active_process = None;
    }

    /// How many requests an async slice has at most (`cfq_prio_to_maxrq`).
    pub(super) fn slice_requests_max(&self, number: usize) -> u64 {
        2 * self.set.slice_async_rq * (8 - u64::from(self.queues[number].level))
    }

    /// After a request of the active queue has gone: an async queue that has sent as many as it may,
    /// and one of the idle class, gives way to others.
    pub(super) fn end_slice_if_spent(&mut self, number: usize) {
        let queue = &self.queues[number];
        let spent = !queue.is_sync && queue.slice_sent >= self.slice_requests_max(number);
        if self.busy > 1 && (spent || queue.class == Class::Idle) {
            self.end_slice(false);
        }
    }
}
