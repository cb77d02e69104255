//! Splitting of merged queues: the state that a process keeps while its queue is merged into another, and its return.
//! Linux 6.18, block/bfq-iosched.c, `bfq_bfqq_save_state`, `bfq_split_bfqq` and `bfq_bfqq_resume_state`.

use super::Bfq;
use super::access::{IoIntensity, ThinkTime};
use super::burst::BurstMembership;
use super::ids::{ProcessId, QueueId};
use super::inject::InjectionLimit;
use super::raise::Raising;

/// The state of a queue when it was merged (`struct bfq_iocq_bfqq_data`). The default is that of a process whose queue
/// was never merged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    weight: u64,
    /// The factor by which the weight was raised.
    factor: u64,
    raising: Raising,
    think_time: ThinkTime,
    intensity: IoIntensity,
    burst: BurstMembership,
    injection: InjectionLimit,
}

impl Bfq {
    /// Saves the state of a queue, if a single process sends to it.
    pub(super) fn save_state(&mut self, queue: QueueId) {
        let state = &self.queues[queue];
        let Some(process) = state.process else { return };
        let entity = self.entity(queue);
        let mut saved = Saved {
            weight: entity.orig_weight,
            factor: entity.raising,
            raising: state.raising,
            think_time: state.think_time,
            intensity: state.intensity,
            burst: state.burst,
            injection: state.injection,
        };
        // The queue was merged before its first request made it interactive. It would have become so.
        if state.just_created && !state.burst.in_large && self.tunables.low_latency {
            saved.factor = self.tunables.wr_coeff;
            saved.raising = Raising {
                max_time: self.raising_time(),
                service: self.processes[process].saved.raising.service,
                ..Raising::new(&self.clock)
            };
        }
        self.processes[process].saved = saved;
    }

    /// Gives a process of a shared queue a queue of its own again. The last process of a shared queue keeps it.
    pub(super) fn split(&mut self, process: ProcessId, shared: QueueId) -> QueueId {
        let old = self.queues[shared];
        self.processes[process].saved.burst.in_large |= old.burst.in_large;
        if old.process_refs == 1 && old.merging.into.is_none() {
            let merging = &mut self.queues[shared].merging;
            (merging.shared, merging.to_split) = (false, false);
            self.own_queue(process, shared);
            self.restore_state(process, shared);
            return shared;
        }
        self.point_process_to(process, None);
        // The process does not follow the others to the queues that they are redirected to.
        let mut target = old.merging.into;
        while let Some(queue) = target {
            self.queues[queue].process_refs -= 1;
            target = self.queues[queue].merging.into;
        }
        let queue = self.get_queue(process, true, true);
        self.point_process_to(process, Some(queue));
        self.restore_burst(process, queue);
        self.queues[queue].merging.split_time = Some(self.clock.jiffy);
        if let Some(waker) = old.wakers.waker.filter(|&waker| waker != queue) {
            self.set_waker(queue, waker);
        }
        self.release_process(shared);
        self.own_queue(process, queue);
        self.restore_state(process, queue);
        queue
    }

    fn restore_burst(&mut self, process: ProcessId, queue: QueueId) {
        let saved = self.processes[process].saved.burst;
        let in_large = (saved.in_list && self.burst.large) || saved.in_large;
        self.queues[queue].burst.in_large = in_large;
        if !in_large && saved.in_list {
            self.join_burst_list(queue);
        }
    }

    /// A queue to which one process sends belongs to that process, unless it is merged into another.
    pub(super) fn own_queue(&mut self, process: ProcessId, queue: QueueId) {
        let state = &mut self.queues[queue];
        if state.process_refs == 1 && state.merging.into.is_none() {
            state.process = Some(process);
        }
    }

    fn restore_state(&mut self, process: ProcessId, queue: QueueId) {
        let saved = self.processes[process].saved;
        let state = &mut self.queues[queue];
        state.raising = saved.raising;
        state.think_time = saved.think_time;
        state.intensity = saved.intensity;
        state.injection = saved.injection;
        let in_large_burst = state.burst.in_large;
        self.entity_mut(queue).new_weight = saved.weight;
        let factor = if self.tunables.low_latency { saved.factor.max(1) } else { self.entity(queue).raising };
        let is_over = self.clock.is_longer_ago(saved.raising.last_start_finish, saved.raising.max_time);
        if factor == 1 || !(in_large_burst || is_over) {
            self.set_raising(queue, factor);
            return;
        }
        // The raising is over. An interactive raising that soft real-time raising interrupted goes on.
        let was_soft_rt = saved.raising.max_time == self.tunables.wr_rt_max_time;
        match self.interrupted_raising(queue) {
            Some(start) if was_soft_rt && !in_large_burst => self.back_to_interactive(queue, start),
            _ => self.set_raising(queue, 1),
        }
    }
}
