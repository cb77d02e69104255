//! Merging of queues whose processes work on the same region (cooperators) or began together (stable merges).
//! Linux 6.18, block/bfq-iosched.c.

use traces::Nanos;

use super::Bfq;
use super::clock::Jiffies;
use super::entity::Class;
use super::ids::{ProcessId, QueueId};
use super::queue::SYNC;
use super::raise::Raising;

/// Two requests no farther apart are close, in sectors (`BFQQ_CLOSE_THR`).
pub(super) const CLOSE: u64 = 8 * 1024;
/// How long after its first service a queue may be merged (`bfq_merge_time_limit`).
const MERGE_WITHIN: Nanos = Nanos::from_ms(100);
/// The longest time between the creation of two queues that began together (`bfq_activation_stable_merging`).
const STABLE_MERGE_WITHIN: Nanos = Nanos::from_ms(600);
/// How long a stable merge is put off on a device that gains from idling (`bfq_late_stable_merging`).
const STABLE_MERGE_DELAY: Nanos = Nanos::from_ms(600);

impl Bfq {
    /// The queue created last in the group of a queue: a queue created soon after may be merged into it
    /// (`last_bfqq_created`).
    fn last_created(&mut self, queue: QueueId) -> &mut Option<QueueId> {
        let group = self.entity(queue).group;
        &mut self.groups.queues[group].last_created
    }

    pub(super) fn replace_last_created(&mut self, queue: QueueId, by: Option<QueueId>) {
        let last = self.last_created(queue);
        if *last == Some(queue) {
            *last = by;
        }
    }

    /// A process gets a new queue: merges it with the queue created just before, or plans to
    /// (`bfq_do_or_sched_stable_merge`). Returns the queue that the process gets.
    pub(super) fn begin_stable_merge(&mut self, queue: QueueId, process: ProcessId) -> QueueId {
        let within = self.clock.jiffies(STABLE_MERGE_WITHIN);
        let last = *self.last_created(queue);
        let Some(last) =
            last.filter(|&last| self.is_comparable(queue, last) && self.is_soon_after(queue, last, within))
        else {
            *self.last_created(queue) = Some(queue);
            return queue;
        };
        if !self.is_soon_after(queue, last, self.tunables.burst_interval) {
            return queue;
        }
        if !self.device.flash_with_queueing {
            self.queues[last].stable_refs += 1;
            self.processes[process].stable_merge = Some(last);
            return queue;
        }
        let Some(into) = self.set_up_merge(queue, last) else { return queue };
        self.mark_stably_merged(into);
        self.processes[process].stably_merged = true;
        self.queues[queue].process = Some(process);
        self.merge_queues(process, queue, into);
        into
    }

    /// Whether a queue was created no more than `span` after another.
    fn is_soon_after(&self, queue: QueueId, last: QueueId, span: Jiffies) -> bool {
        self.queues[last].created + span >= self.queues[queue].created
    }

    /// Whether two queues have the same group, class and weight.
    fn is_comparable(&self, queue: QueueId, other: QueueId) -> bool {
        let (a, b) = (self.entity(queue), self.entity(other));
        (a.parent, a.class, a.orig_weight) == (b.parent, b.class, b.orig_weight)
    }

    fn mark_stably_merged(&mut self, queue: QueueId) {
        if let Some(process) = self.queues[queue].process {
            self.processes[process].stably_merged = true;
        }
    }

    /// The queue that the requests of `queue` are redirected to from now on (`bfq_setup_merge`): `into`, or the queue
    /// at the end of the merges that are set up from there. `None` if the two cannot be merged.
    fn set_up_merge(&mut self, queue: QueueId, mut into: QueueId) -> Option<QueueId> {
        if self.queues[into].process_refs == 0 {
            return None;
        }
        while let Some(next) = self.queues[into].merging.into {
            into = next;
            if into == queue {
                return None;
            }
        }
        let refs = self.queues[queue].process_refs;
        let same_group = self.entity(queue).parent == self.entity(into).parent;
        if into == queue || refs == 0 || self.queues[into].process_refs == 0 || !same_group {
            return None;
        }
        self.queues[queue].merging.into = Some(into);
        self.queues[into].process_refs += refs;
        Some(into)
    }

    /// Whether a queue was first served too long ago to be merged (`bfq_too_late_for_merging`).
    pub(super) fn is_too_late_to_merge(&self, queue: QueueId) -> bool {
        let backlog = &self.queues[queue].backlog;
        backlog.service > 0 && self.clock.is_longer_ago(backlog.first_service, self.clock.jiffies(MERGE_WITHIN))
    }

    /// Whether two queues may be merged because their processes read close together (`bfq_may_be_close_cooperator`).
    fn may_cooperate(&self, queue: QueueId, other: QueueId) -> bool {
        let (a, b) = (&self.queues[queue], &self.queues[other]);
        let classes = (self.entity(queue).class, self.entity(other).class);
        !self.is_too_late_to_merge(other)
            && classes.0 == classes.1
            && classes.0 != Class::Idle
            && !a.is_seeky()
            && !b.is_seeky()
            && a.sync
            && b.sync
    }

    /// The queue to merge the queue of an arriving request into, if any (`bfq_setup_cooperator`).
    pub(super) fn find_cooperator(&mut self, queue: QueueId, process: ProcessId, sector: u64) -> Option<QueueId> {
        let state = &self.queues[queue];
        if let Some(mut last) = state.merging.into {
            while let Some(next) = self.queues[last].merging.into {
                last = next;
            }
            return Some(last);
        }
        if self.device.flash_with_queueing {
            return None;
        }
        if let Some(planned) = self.processes[process].stable_merge
            && state.sync
            && !state.just_created
        {
            let delay = self.clock.jiffies(STABLE_MERGE_DELAY);
            let is_due = self.clock.is_longer_ago(state.merging.split_time, delay)
                && self.clock.is_longer_ago(state.created, delay);
            if is_due {
                return self.complete_stable_merge(queue, process, planned);
            }
        }
        if self.is_too_late_to_merge(queue) || self.load.busy_total() == 1 {
            return None;
        }
        if let Some(served) = self.in_service.queue
            && served != queue
            && self.in_service.last_position.abs_diff(sector) <= CLOSE
            && self.entity(served).parent == self.entity(queue).parent
            && self.may_cooperate(queue, served)
            && let Some(into) = self.set_up_merge(queue, served)
        {
            return Some(into);
        }
        let close = self.find_close(queue, sector)?;
        if close != queue && self.may_cooperate(queue, close) { self.set_up_merge(queue, close) } else { None }
    }

    /// The time of a planned stable merge has come (`bfq_setup_stable_merge`).
    fn complete_stable_merge(&mut self, queue: QueueId, process: ProcessId, planned: QueueId) -> Option<QueueId> {
        self.processes[process].stable_merge = None;
        let mut into = None;
        if !self.idling_raises_throughput(queue) && self.queues[queue].process_refs > 0 {
            into = self.set_up_merge(queue, planned);
            if let Some(into) = into {
                self.processes[process].stably_merged = true;
                self.mark_stably_merged(into);
            }
        }
        self.queues[planned].stable_refs -= 1;
        self.free_if_unused(planned);
        into
    }

    /// Redirects a process from its queue to another (`bfq_merge_bfqqs`).
    pub(super) fn merge_queues(&mut self, process: ProcessId, queue: QueueId, into: QueueId) {
        self.save_state(queue);
        self.save_state(into);
        let io_bound = std::mem::take(&mut self.queues[queue].intensity.io_bound);
        self.queues[into].intensity.io_bound |= io_bound;
        let waker = self.queues[queue].wakers.waker.filter(|&waker| waker != into);
        if let Some(waker) = waker
            && self.queues[into].wakers.waker.is_none()
        {
            self.set_waker(into, waker);
            self.queues[into].wakers.tentative = None;
        }
        self.merge_raising(queue, into);
        self.point_process_to(process, Some(into));
        let state = &mut self.queues[into];
        (state.merging.shared, state.process) = (true, None);
        self.queues[queue].process = None;
        self.replace_last_created(queue, Some(into));
        self.release_process(queue);
    }

    /// A raised queue passes its raising on to the queue that it is merged into.
    fn merge_raising(&mut self, queue: QueueId, into: QueueId) {
        let factor = self.entity(queue).raising;
        if factor == 1 {
            return;
        }
        if !self.entity(into).is_raised() {
            let raising = self.queues[queue].raising;
            let target = &mut self.queues[into].raising;
            *target = Raising { service: target.service, ..raising };
            self.set_raising(into, factor);
        }
        self.set_raising(queue, 1);
    }

    /// Lets a process send its sync requests to this queue (`bic_set_bfqq`). A plan to merge its queue into that one is
    /// void.
    pub(super) fn point_process_to(&mut self, process: ProcessId, queue: Option<QueueId>) {
        let state = &mut self.processes[process];
        let old = std::mem::replace(&mut state.queues[SYNC], queue);
        let fulfilled = queue.filter(|_| state.stable_merge == queue);
        if fulfilled.is_some() {
            state.stable_merge = None;
        }
        if let Some(old) = old
            && self.queues[old].process == Some(process)
        {
            self.queues[old].process = None;
        }
        if let Some(queue) = fulfilled {
            self.queues[queue].stable_refs -= 1;
        }
    }
}
