//! Merging of queues: of processes that work on the same region (cooperators), and of those that
//! began together (stable merges); and taking them apart again.

use super::Bfq;
use super::clock::LONG_AGO;
use super::queue::{Process, Queue, Saved};
use super::service::{IDLE, NONE};

/// In sectors: requests nearer than this are close.
const CLOSE: u64 = 8 * 1024;
/// In ms: how long after its first service a queue may be merged.
const MERGE_WITHIN_MS: i64 = 100;
/// In ms: longest time between the creation of queues that are merged for having begun together.
const STABLE_MERGE_WITHIN_MS: i64 = 600;
/// In ms: how long such a merge is put off on a device that gains from idling.
const STABLE_MERGE_DELAY_MS: i64 = 600;

impl Bfq {
    /// A new queue of `process`: merges it with the one created just before, or plans to.
    pub(super) fn begin_stable_merge(&mut self, queue: u32, process: u32) -> u32 {
        let last = *self.last_created(queue);
        let created = self.queues[queue as usize].creation_time;
        let (new, old) = (*self.entity(queue), if last == NONE { None } else { Some(*self.entity(last)) });
        let ended = |last: u32, span: i64| self.queues[last as usize].creation_time + span < created;
        let comparable = old.is_some_and(|old| {
            !ended(last, self.clock.jiffies_of_ms(STABLE_MERGE_WITHIN_MS))
                && (new.parent, new.class, new.orig_weight) == (old.parent, old.class, old.orig_weight)
        });
        if !comparable {
            *self.last_created(queue) = queue;
            return queue;
        }
        if ended(last, self.tunables.burst_interval) {
            return queue;
        }
        if !self.flash_with_queueing {
            self.queues[last as usize].stable_refs += 1;
            self.processes[process as usize].stable_merge = last;
            return queue;
        }
        let into = self.set_up_merge(queue, last);
        if into == NONE {
            return queue;
        }
        self.mark_stably_merged(into);
        self.processes[process as usize].stably_merged = true;
        self.queues[queue as usize].process = process;
        self.merge_queues(process, queue, into);
        into
    }

    fn mark_stably_merged(&mut self, queue: u32) {
        let process = self.queues[queue as usize].process;
        if process != NONE {
            self.processes[process as usize].stably_merged = true;
        }
    }

    /// The queue that this one's requests are to be redirected to: that which was asked for, or the
    /// one that it is to be merged into itself.
    fn set_up_merge(&mut self, queue: u32, mut into: u32) -> u32 {
        if self.queues[into as usize].process_refs == 0 {
            return NONE;
        }
        while self.queues[into as usize].new_queue != NONE {
            into = self.queues[into as usize].new_queue;
            if into == queue {
                return NONE;
            }
        }
        let refs = self.queues[queue as usize].process_refs;
        let alike = self.entity(queue).parent == self.entity(into).parent;
        if into == queue || refs == 0 || self.queues[into as usize].process_refs == 0 || !alike {
            return NONE;
        }
        self.queues[queue as usize].new_queue = into;
        self.queues[into as usize].process_refs += refs;
        into
    }

    fn is_too_late_to_merge(&self, queue: u32) -> bool {
        let of = &self.queues[queue as usize];
        let end = of.first_io_time + self.clock.jiffies_of_ms(MERGE_WITHIN_MS);
        of.service_from_backlogged > 0 && self.clock.is_past(end)
    }

    fn may_cooperate(&self, queue: u32, other: u32) -> bool {
        let (a, b) = (&self.queues[queue as usize], &self.queues[other as usize]);
        let classes = (self.entity(queue).class, self.entity(other).class);
        !self.is_too_late_to_merge(other)
            && classes.0 == classes.1
            && classes.0 != IDLE
            && !a.is_seeky()
            && !b.is_seeky()
            && a.sync
            && b.sync
    }

    /// The queue to merge an arriving request's queue into, if any.
    pub(super) fn find_cooperator(&mut self, queue: u32, process: u32, sector: u64) -> u32 {
        let of = self.queues[queue as usize];
        if of.new_queue != NONE {
            let mut last = of.new_queue;
            while self.queues[last as usize].new_queue != NONE {
                last = self.queues[last as usize].new_queue;
            }
            return last;
        }
        if self.flash_with_queueing {
            return NONE;
        }
        let planned = self.processes[process as usize].stable_merge;
        let delay = self.clock.jiffies_of_ms(STABLE_MERGE_DELAY_MS);
        let due = self.clock.is_past(of.split_time + delay) && self.clock.is_past(of.creation_time + delay);
        if of.sync && planned != NONE && !of.just_created && due {
            return self.complete_stable_merge(queue, process, planned);
        }
        if self.is_too_late_to_merge(queue) || self.busy_total() == 1 {
            return NONE;
        }
        let served = self.in_service;
        if served != NONE
            && served != queue
            && self.in_service_last_position.abs_diff(sector) <= CLOSE
            && self.entity(served).parent == self.entity(queue).parent
            && self.may_cooperate(queue, served)
        {
            let into = self.set_up_merge(queue, served);
            if into != NONE {
                return into;
            }
        }
        let close = self.find_close(queue, sector);
        if close != NONE && close != queue && self.may_cooperate(queue, close) {
            return self.set_up_merge(queue, close);
        }
        NONE
    }

    fn complete_stable_merge(&mut self, queue: u32, process: u32, planned: u32) -> u32 {
        self.processes[process as usize].stable_merge = NONE;
        let mut into = NONE;
        if !self.idling_raises_throughput(queue) && self.queues[queue as usize].process_refs > 0 {
            into = self.set_up_merge(queue, planned);
            if into != NONE {
                self.processes[process as usize].stably_merged = true;
                self.mark_stably_merged(into);
            }
        }
        self.queues[planned as usize].stable_refs -= 1;
        self.free_if_unused(planned);
        into
    }

    /// Redirects a process from its queue to another.
    pub(super) fn merge_queues(&mut self, process: u32, queue: u32, into: u32) {
        self.save_state(queue);
        self.save_state(into);
        let merged = self.queues[queue as usize];
        self.queues[into as usize].io_bound |= merged.io_bound;
        self.queues[queue as usize].io_bound = false;
        if merged.waker != NONE && self.queues[into as usize].waker == NONE && merged.waker != into {
            self.set_waker(into, merged.waker);
            self.queues[into as usize].tentative_waker = NONE;
        }
        let raised = self.entity(queue).wr_coeff;
        if raised > 1 {
            if self.entity(into).wr_coeff == 1 {
                let of = &mut self.queues[into as usize];
                of.wr_cur_max_time = merged.wr_cur_max_time;
                of.last_wr_start_finish = merged.last_wr_start_finish;
                of.wr_start_at_switch_to_srt = merged.wr_start_at_switch_to_srt;
                self.set_raising(into, raised);
            }
            self.set_raising(queue, 1);
        }
        self.point_process_to(process, into);
        let of = &mut self.queues[into as usize];
        (of.shared, of.process) = (true, NONE);
        self.queues[queue as usize].process = NONE;
        self.replace_last_created(queue, into);
        self.release_process(queue);
    }

    /// Lets a process send its sync requests to this queue; a plan to merge it there is void.
    pub(super) fn point_process_to(&mut self, process: u32, queue: u32) {
        let Process { queues: [_, old], stable_merge, .. } = self.processes[process as usize];
        if old != NONE && self.queues[old as usize].process == process {
            self.queues[old as usize].process = NONE;
        }
        self.processes[process as usize].queues[1] = queue;
        if queue != NONE && stable_merge == queue {
            self.processes[process as usize].stable_merge = NONE;
            self.queues[queue as usize].stable_refs -= 1;
        }
    }

    fn save_state(&mut self, queue: u32) {
        let of = self.queues[queue as usize];
        if of.process == NONE {
            return;
        }
        let entity = *self.entity(queue);
        let mut saved = Saved {
            weight: entity.orig_weight,
            wr_coeff: entity.wr_coeff,
            wr_cur_max_time: of.wr_cur_max_time,
            last_wr_start_finish: of.last_wr_start_finish,
            wr_start_at_switch_to_srt: of.wr_start_at_switch_to_srt,
            service_from_wr: of.service_from_wr,
            think_time: of.think_time,
            short_think_time: of.short_think_time,
            io_bound: of.io_bound,
            io_start_time: of.io_start_time,
            total_idle_time: of.total_idle_time,
            in_large_burst: of.in_large_burst,
            in_burst_list: of.in_burst_list,
            last_service_time: of.last_service_time,
            inject_limit: of.inject_limit,
            decrease_time: of.decrease_time,
        };
        // Merged before its first request made it interactive: it would have been.
        if of.just_created && !of.in_large_burst && self.tunables.low_latency {
            saved.wr_coeff = self.tunables.wr_coeff;
            saved.wr_start_at_switch_to_srt = LONG_AGO;
            saved.wr_cur_max_time = self.raising_time();
            saved.last_wr_start_finish = self.clock.jiffy;
            saved.service_from_wr = self.processes[of.process as usize].saved.service_from_wr;
        }
        self.processes[of.process as usize].saved = saved;
    }

    /// Gives a process of a shared queue one of its own again, unless it is the last of it.
    pub(super) fn split(&mut self, process: u32, shared: u32) -> u32 {
        let old = self.queues[shared as usize];
        self.processes[process as usize].saved.in_large_burst |= old.in_large_burst;
        if old.process_refs == 1 && old.new_queue == NONE {
            let of = &mut self.queues[shared as usize];
            (of.shared, of.to_split) = (false, false);
            self.own_queue(process, shared);
            self.restore_state(process, shared);
            return shared;
        }
        self.point_process_to(process, NONE);
        // It will not follow the others to where they are redirected.
        let mut target = old.new_queue;
        while target != NONE {
            self.queues[target as usize].process_refs -= 1;
            target = self.queues[target as usize].new_queue;
        }
        let queue = self.get_queue(process, true, true);
        self.point_process_to(process, queue);
        let saved = self.processes[process as usize].saved;
        let in_large_burst = (saved.in_burst_list && self.large_burst) || saved.in_large_burst;
        self.queues[queue as usize].in_large_burst = in_large_burst;
        if !in_large_burst && saved.in_burst_list {
            self.join_burst_list(queue);
        }
        self.queues[queue as usize].split_time = self.clock.jiffy;
        if old.waker != NONE && old.waker != queue {
            self.set_waker(queue, old.waker);
        }
        self.release_process(shared);
        self.own_queue(process, queue);
        self.restore_state(process, queue);
        queue
    }

    /// A queue with one process is that process's.
    pub(super) fn own_queue(&mut self, process: u32, queue: u32) {
        if self.queues[queue as usize].process_refs == 1 {
            self.queues[queue as usize].process = process;
        }
    }

    fn restore_state(&mut self, process: u32, queue: u32) {
        let saved = self.processes[process as usize].saved;
        let of = &mut self.queues[queue as usize];
        of.short_think_time = saved.short_think_time;
        of.io_bound = saved.io_bound;
        of.last_service_time = saved.last_service_time;
        of.inject_limit = saved.inject_limit;
        of.decrease_time = saved.decrease_time;
        of.think_time = saved.think_time;
        of.io_start_time = saved.io_start_time;
        of.total_idle_time = saved.total_idle_time;
        of.service_from_wr = saved.service_from_wr;
        of.wr_start_at_switch_to_srt = saved.wr_start_at_switch_to_srt;
        of.last_wr_start_finish = saved.last_wr_start_finish;
        of.wr_cur_max_time = saved.wr_cur_max_time;
        let Queue { in_large_burst, last_wr_start_finish, wr_cur_max_time, wr_start_at_switch_to_srt, .. } = *of;
        self.entity_mut(queue).new_weight = saved.weight;
        let mut coefficient =
            if self.tunables.low_latency { saved.wr_coeff.max(1) } else { self.entity(queue).wr_coeff };
        let over = self.clock.is_past(last_wr_start_finish + wr_cur_max_time);
        let mut to_interactive = false;
        if coefficient > 1 && (in_large_burst || over) {
            let was_soft_rt = wr_cur_max_time == self.tunables.wr_rt_max_time;
            to_interactive =
                was_soft_rt && !in_large_burst && wr_start_at_switch_to_srt + self.raising_time() >= self.clock.jiffy;
            coefficient = 1;
        }
        if to_interactive {
            self.back_to_interactive(queue);
        } else {
            self.set_raising(queue, coefficient);
        }
    }

    /// Notes the sector of a queue's next request among its group's, unless it can no longer be merged
    /// or another is there.
    pub(super) fn update_position(&mut self, queue: u32) {
        self.remove_position(queue);
        let next = self.queues[queue as usize].next_request;
        if next == NONE || self.is_too_late_to_merge(queue) || self.entity(queue).class == IDLE {
            return;
        }
        let sector = self.requests.get(next).sector;
        let group = self.entity(queue).group;
        let positions = &mut self.group_queues[group as usize].positions;
        if let Err(at) = positions.binary_search_by_key(&sector, |&(sector, _)| sector) {
            positions.insert(at, (sector, queue));
            self.queues[queue as usize].position = Some(sector);
        }
    }

    pub(super) fn remove_position(&mut self, queue: u32) {
        let Some(sector) = self.queues[queue as usize].position.take() else { return };
        let group = self.entity(queue).group;
        let positions = &mut self.group_queues[group as usize].positions;
        if let Ok(at) = positions.binary_search_by_key(&sector, |&(sector, _)| sector) {
            positions.remove(at);
        }
    }

    /// The queue whose next request is close to a sector, the nearer one of two.
    fn find_close(&self, queue: u32, sector: u64) -> u32 {
        let positions = &self.group_queues[self.entity(queue).group as usize].positions;
        let at = positions.partition_point(|&(position, _)| position < sector);
        let neighbours = [at.checked_sub(1).and_then(|at| positions.get(at)), positions.get(at)];
        let nearest = neighbours.into_iter().flatten().min_by_key(|&&(position, _)| position.abs_diff(sector));
        nearest.filter(|&&(position, _)| position.abs_diff(sector) <= CLOSE).map_or(NONE, |&(_, queue)| queue)
    }
}
