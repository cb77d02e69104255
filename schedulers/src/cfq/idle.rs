//! When to wait for the next request of a process or a group instead of serving another, and the
//! guess whether the device queues.

use traces::{Nanos, RequestId, Timestamp};

use super::Cfq;
use super::queue::Class;
use super::service::tree_number;
use super::slice::TICK;
use super::tunables::Version;

/// The wait for a process that seeks (2.6.30, `CFQ_MIN_TT`): 2 ms.
const IDLE_SEEKY: u64 = 2_000_000;
/// A mean seek distance above this many sectors is seeky (2.6.30, `CIC_SEEK_THR`).
pub(super) const SEEKY_2_6_30: u64 = 8 * 1024;
/// How deep a device must queue to count as queueing (`CFQ_HW_QUEUE_MIN`).
const QUEUEING_MIN: u64 = 5;
/// Samples under load after which the guess is made.
const QUEUEING_SAMPLES: u64 = 50;

/// Whether the device is taken to queue requests itself (`hw_tag`), from how deep it was seen to.
#[derive(Debug)]
pub(super) struct Queueing {
    /// `None`: not known yet, which counts as yes.
    queues: Option<bool>,
    samples: u64,
    deepest: u64,
}

impl Queueing {
    /// 2.6.30 begins with yes, 3.5 with not known.
    pub(super) fn at_start(version: Version) -> Queueing {
        Queueing { queues: (version == Version::Linux2_6_30).then_some(true), samples: 0, deepest: 0 }
    }

    /// Whether it does or may.
    pub(super) fn is_assumed(&self) -> bool {
        self.queues != Some(false)
    }
}

impl Cfq {
    /// Goes to the time of a call. A wait that has ended since the last call has ended at its time.
    pub(super) fn set_time(&mut self, now: Timestamp) {
        if let Some(until) = self.idle_until
            && until < now
        {
            self.now = until;
            self.idled_in_vain();
        }
        self.now = now;
    }

    /// Whether idling is in vain because the device seeks at no cost and has others to work on.
    fn seeks_are_free(&self) -> bool {
        !self.set.rotational && self.queueing.is_assumed()
    }

    /// The wait for the active queue's next request is over (`cfq_idle_slice_timer`).
    pub(super) fn idled_in_vain(&mut self) {
        self.idle_until = None;
        let Some(active) = self.active else { return };
        let is_3_5 = self.is_3_5();
        let queue = &mut self.queues[active];
        self.has_idled &= !queue.waiting.is_empty();
        if queue.must_dispatch {
            return;
        }
        if !queue.slice_used(self.now) {
            if self.busy == 0 || !queue.waiting.is_empty() {
                return;
            }
            queue.deep &= !is_3_5;
        }
        self.end_slice(false);
    }

    /// Whether to idle for a queue (3.5): if it is worth while for itself, or it is the last sync queue
    /// of its service tree, whose queues together come soon.
    pub(super) fn should_idle(&self, number: usize) -> bool {
        let queue = &self.queues[number];
        if self.set.slice_idle == 0 || queue.class == Class::Idle {
            return false;
        }
        if queue.idle_window && !self.seeks_are_free() {
            return true;
        }
        let group = &self.groups[queue.group];
        let tree = queue.tree.unwrap_or_else(|| self.tree_of(number));
        group.trees[tree].len() == 1 && queue.is_sync && !group.tree_think[tree].is_longer_than(self.set.slice_idle)
    }

    /// The active queue has run empty with a completion: begin to wait for its next request if that
    /// is worth while (`cfq_arm_slice_timer`).
    fn begin_to_idle(&mut self, active: usize) {
        if self.seeks_are_free() {
            return;
        }
        let wait = if self.is_3_5() { self.idle_wait_3_5(active) } else { self.idle_wait_2_6_30(active) };
        if let Some(wait) = wait {
            self.queues[active].awaited = true;
            self.has_idled = true;
            self.idle_until = Some(self.now.saturating_add(Nanos::from_ns(wait)));
        }
    }

    /// Not while anything is below; short for a process that seeks, which is to have its share of time.
    fn idle_wait_2_6_30(&self, active: usize) -> Option<u64> {
        let process = &self.known[self.active_process?];
        if self.set.slice_idle == 0 || !self.queues[active].idle_window || self.in_driver > 0 {
            return None;
        }
        let seeky = process.seek.is_valid() && process.seek.mean() > SEEKY_2_6_30;
        Some(if seeky { self.set.slice_idle.min(IDLE_SEEKY) } else { self.set.slice_idle })
    }

    /// Not if the slice ends before the request is expected. A queue not worth it may be waited for
    /// as the only one of its group.
    fn idle_wait_3_5(&self, active: usize) -> Option<u64> {
        let queue = &self.queues[active];
        let for_group = !self.should_idle(active);
        if (for_group && self.set.group_idle == 0) || queue.in_flight > 0 {
            return None;
        }
        let think = &self.known[self.active_process?].think.mean;
        if think.is_valid() && queue.slice_rest(self.now) < think.mean() {
            return None;
        }
        if !for_group {
            return Some(self.set.slice_idle);
        }
        (self.groups[queue.group].queues <= 1).then_some(self.set.group_idle)
    }

    /// A request has completed (`cfq_completed_request`).
    pub(super) fn in_driver_completed(&mut self, id: RequestId) {
        let held = self.held[id];
        let number = held.queue;
        self.estimate_queueing();
        self.in_driver -= 1;
        self.left_flight(number);
        if held.sync {
            self.known[held.process].think.last_end = self.now;
        }
        if self.is_3_5() {
            let queue = &self.queues[number];
            let tree = queue.tree.unwrap_or_else(|| tree_number(queue.class, queue.kind()));
            let group = &mut self.groups[queue.group];
            group.think.last_end = self.now;
            if held.sync {
                group.tree_think[tree].last_end = self.now;
                if held.since.saturating_add(self.set.fifo_expire[1]) <= self.now {
                    self.last_delayed_sync = Some(self.now);
                }
            }
        }
        if self.active == Some(number) {
            self.active_completed(number, held.sync, held.noidle);
        }
        self.let_go(number);
    }

    /// A request of the active queue has completed.
    fn active_completed(&mut self, active: usize, sync: bool, noidle: bool) {
        let empty = self.queues[active].waiting.is_empty();
        if self.queues[active].slice_is_new {
            self.begin_slice(active);
        }
        if self.is_3_5() && self.should_prolong(active) {
            let wait = if self.set.slice_idle > 0 { self.set.slice_idle } else { self.set.group_idle };
            let queue = &mut self.queues[active];
            queue.slice_end = self.now.saturating_add(Nanos::from_ns(wait));
            queue.prolonged = true;
        }
        if self.queues[active].slice_used(self.now) || self.queues[active].class == Class::Idle {
            self.end_slice(true);
        } else if sync && empty && (self.is_3_5() || !noidle) && self.cooperator(active).is_none() {
            self.begin_to_idle(active);
        }
    }

    /// Whether the scheduler waits for the only queue of a group although it is empty and its slice is at the end. The
    /// group then keeps its place (3.5, `cfq_should_wait_busy`).
    fn should_prolong(&self, active: usize) -> bool {
        let queue = &self.queues[active];
        let group = &self.groups[queue.group];
        if !queue.waiting.is_empty() || group.queues > 1 || group.think.is_longer_than(self.set.group_idle) {
            return false;
        }
        let think = self.active_process.map(|process| self.known[process].think.mean);
        let rest = queue.slice_rest(self.now);
        queue.slice_used(self.now) || think.is_some_and(|think| think.is_valid() && rest < think.mean()) || rest <= TICK
    }

    /// Once there is load, sees how deep the device is filled (`cfq_update_hw_tag`). Linux 2.6.30 guesses anew after
    /// every 51 samples. Linux 3.5 stays with a yes, and takes no samples while idling keeps the device from being
    /// filled.
    fn estimate_queueing(&mut self) {
        let is_3_5 = self.is_3_5();
        self.queueing.deepest = self.queueing.deepest.max(self.in_driver);
        if is_3_5 && self.queueing.queues == Some(true) {
            return;
        }
        if self.queued as u64 <= QUEUEING_MIN && self.in_driver <= QUEUEING_MIN {
            return;
        }
        if is_3_5
            && let Some(active) = self.active.map(|active| &self.queues[active])
            && active.idle_window
            && active.in_flight + (active.waiting.len() as u64) < QUEUEING_MIN
            && self.in_driver < QUEUEING_MIN
        {
            return;
        }
        self.queueing.samples += 1;
        if self.queueing.samples <= QUEUEING_SAMPLES {
            return;
        }
        self.queueing.queues = Some(self.queueing.deepest >= QUEUEING_MIN);
        if !is_3_5 {
            self.queueing.samples = 0;
            self.queueing.deepest = 0;
        }
    }
}
