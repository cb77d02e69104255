//! The effects of a new request: on its queue's order, on the estimates for its process, and on the turn.

use traces::{Priority, Request, RequestId};

use super::Cfq;
use super::idle::SEEKY_2_6_30;
use super::queue::{ASYNC_QUEUES, Class, Kind, Process, Queue, ThinkTime, async_queue, class_and_level};
use super::rules::{ALIAS, NEW_SLICE};
use super::waiting::Held;

/// A seek further than this many sectors is one (3.5, `CFQQ_SEEK_THR`).
const SEEK_3_5: u64 = 8 * 100;
/// On a drive without seeks, a request of fewer sectors counts as one (3.5, `CFQQ_SECT_THR_NONROT`).
const SMALL_3_5: u64 = 2 * 32;
/// So many requests waiting at once make a queue deep (3.5).
const DEEP: usize = 4;
/// A request of more than a page is taken not to grow any more; sectors.
const PAGE: u64 = 8;

impl Cfq {
    /// A request comes (`cfq_set_request` and `cfq_insert_request`).
    pub(super) fn arrive(&mut self, id: RequestId, request: &Request) {
        let (process, is_new) = self.processes.number(request);
        if is_new {
            let think = ThinkTime { last_end: self.now, ..ThinkTime::default() };
            self.known.push(Process { think, ..Process::default() });
        }
        let sync = request.is_sync();
        let number = if sync { self.sync_queue(process, request) } else { async_queue(request.priority) };
        self.set_priority(number, request.priority);
        let is_write = request.operation != traces::Operation::Read;
        let held = Held {
            queue: number,
            local: 0,
            process,
            sector: request.lba.sector(),
            end: request.end().sector(),
            since: self.now,
            operation: request.operation,
            sync,
            meta: request.flags.contains(traces::Flags::META),
            noidle: sync && is_write && self.set.noidle_writes,
            rule: NEW_SLICE,
        };
        self.held.set(id, held);
        self.queues[number].requests += 1;
        self.queued += 1;
        self.make_way(number, held.sector);
        let queue = &mut self.queues[number];
        self.held[id].local = queue.waiting.push(id, held.sector);
        queue.meta_waiting += u64::from(held.meta);
        self.sorted_in(id);
        self.learn(id);
        self.act_on(id);
    }

    /// 2.6.30: a queue holds no two requests at the same sector. The one that waits goes to the
    /// dispatch queue.
    fn make_way(&mut self, number: usize, sector: u64) {
        if self.is_3_5() {
            return;
        }
        if let Some(alias) = self.queues[number].waiting.at(sector) {
            self.held[alias].rule = ALIAS;
            self.decide(alias);
            self.dispatch_queue.push_back(alias);
        }
    }

    /// A request is in the order of its queue: the queue takes turns, and the request may be next.
    fn sorted_in(&mut self, id: RequestId) {
        let number = self.held[id].queue;
        if !self.queues[number].is_busy {
            self.take_turns(number);
        }
        let before = self.queues[number].next;
        let next = self.better(before, Some(id), self.last_position);
        self.queues[number].next = next;
        if next != before || next == Some(id) {
            self.enter_close_tree(number);
        }
    }

    /// A request has grown by a merge; if its start has moved it is sorted in anew.
    pub(super) fn grown(&mut self, id: RequestId, request: &Request) {
        let held = self.held[id];
        let sector = request.lba.sector();
        self.held[id].end = request.end().sector();
        if held.sector == sector {
            return;
        }
        // Never merged into here, but the kernel of a capture may have.
        if self.dispatch_queue.contains(id) {
            self.held[id].sector = sector;
            return;
        }
        self.queues[held.queue].waiting.sort_out(held.local);
        self.make_way(held.queue, sector);
        self.held[id].sector = sector;
        self.queues[held.queue].waiting.sort_in(held.local, sector);
        self.sorted_in(id);
    }

    /// `from` is about to be gone into `into`, which becomes as old. 3.5 puts it in its place, too, and
    /// has it next if `from` was.
    pub(super) fn joined(&mut self, into: RequestId, from: RequestId) {
        let (kept, gone) = (self.held[into], self.held[from]);
        let is_older = gone.since < kept.since;
        self.held[into].since = kept.since.min(gone.since);
        let is_dispatched = self.dispatch_queue.contains(from) || self.dispatch_queue.contains(into);
        if self.is_3_5() && gone.queue == kept.queue && !is_dispatched {
            let queue = &mut self.queues[kept.queue];
            if is_older {
                queue.waiting.age_as(kept.local, gone.local);
            }
            if queue.next == Some(from) {
                queue.next = Some(into);
                self.enter_close_tree(kept.queue);
            }
        }
    }

    /// The queue of a process's sync requests; made if there is none.
    fn sync_queue(&mut self, process: usize, request: &Request) -> usize {
        if let Some(queue) = self.queue_after_cooperation(process) {
            return queue;
        }
        let group = if self.is_3_5() { 1 + usize::from(request.vm.0) } else { 0 };
        self.have_group(group);
        let queue = Queue::new(true, request.priority, group);
        let number = match self.free.pop() {
            Some(free) => {
                // Its allocated memory is reused.
                let waiting = std::mem::take(&mut self.queues[free].waiting);
                self.queues[free] = Queue { waiting, ..queue };
                free
            }
            None => {
                self.queues.push(queue);
                self.queues.len() - 1
            }
        };
        self.queues[number].users = 1;
        self.known[process].queue = Some(number);
        number
    }

    /// The queue that a request would be in, as things are now.
    pub(super) fn queue_known(&self, request: &Request) -> Option<usize> {
        if !request.is_sync() {
            return Some(async_queue(request.priority));
        }
        self.known[self.processes.known(request)?].queue
    }

    /// One request less that is waiting or in flight in a queue, which is put by if it was the last of
    /// all processes that used it.
    pub(super) fn let_go(&mut self, number: usize) {
        self.queues[number].requests -= 1;
        self.put_by_if_unused(number);
    }

    /// A queue that no process uses any more is free for another.
    pub(super) fn put_by_if_unused(&mut self, number: usize) {
        let queue = &self.queues[number];
        if number < ASYNC_QUEUES || queue.users > 0 || queue.requests > 0 {
            return;
        }
        if self.active == Some(number) {
            self.end_slice(false);
        }
        self.free.push(number);
    }

    /// Priority is a process's, and its request brings a new one into force.
    fn set_priority(&mut self, number: usize, priority: Priority) {
        if number < ASYNC_QUEUES || self.queues[number].priority == priority {
            return;
        }
        let (class, level) = class_and_level(priority);
        let queue = &mut self.queues[number];
        let busy = u64::from(queue.is_busy);
        self.busy_real_time -= busy * u64::from(queue.class == Class::RealTime);
        self.busy_real_time += busy * u64::from(class == Class::RealTime);
        queue.priority = priority;
        queue.class = class;
        queue.level = level;
        queue.idle_window &= class != Class::Idle;
        if queue.is_busy {
            self.queue_up(number);
        }
    }

    /// Updates the estimates for the request's process, queue and group.
    fn learn(&mut self, id: RequestId) {
        let held = self.held[id];
        if self.is_3_5() {
            self.learn_3_5(&held);
        } else {
            let process = &mut self.known[held.process];
            process.think.arrived(self.now, self.set.slice_idle);
            let distance = if process.last_end == 0 { 0 } else { process.last_end.abs_diff(held.sector) };
            process.seek.add_distance(distance);
            process.last_end = held.end;
        }
        self.judge_idle_window(&held);
    }

    fn learn_3_5(&mut self, held: &Held) {
        let queue = &mut self.queues[held.queue];
        let group = &mut self.groups[queue.group];
        if queue.is_sync {
            self.known[held.process].think.arrived(self.now, self.set.slice_idle);
            if let Some(tree) = queue.tree {
                group.tree_think[tree].arrived(self.now, self.set.slice_idle);
            }
        }
        group.think.arrived(self.now, self.set.group_idle);
        let distance = if queue.last_end == 0 { 0 } else { queue.last_end.abs_diff(held.sector) };
        let seeks = if self.set.rotational { distance > SEEK_3_5 } else { held.end - held.sector < SMALL_3_5 };
        queue.seek_history = queue.seek_history << 1 | u32::from(seeks);
        queue.last_end = held.end;
    }

    /// Idling is not worth while for a process that thinks longer than `slice_idle` (`cfq_update_idle_window`). Nor is
    /// it for one that seeks: in 2.6.30 if the device queues, in 3.5 unless it once had many requests at a time.
    fn judge_idle_window(&mut self, held: &Held) {
        let process = &self.known[held.process];
        let seeky = if self.is_3_5() {
            let queue = &mut self.queues[held.queue];
            queue.deep |= queue.is_sync && queue.class != Class::Idle && queue.waiting.len() >= DEEP;
            !queue.deep && queue.is_seeky()
        } else {
            self.queueing.is_assumed() && process.seek.mean() > SEEKY_2_6_30
        };
        let queue = &self.queues[held.queue];
        if !queue.is_sync || queue.class == Class::Idle {
            return;
        }
        let next_is_noidle = self.is_3_5() && queue.next.is_some_and(|next| self.held[next].noidle);
        let think = &self.known[held.process].think.mean;
        if next_is_noidle || self.set.slice_idle == 0 || seeky {
            self.queues[held.queue].idle_window = false;
        } else if think.is_valid() {
            self.queues[held.queue].idle_window = think.mean() <= self.set.slice_idle;
        }
    }

    /// The request may be the one that is waited for, or end another queue's turn (`cfq_rq_enqueued`).
    fn act_on(&mut self, id: RequestId) {
        let held = self.held[id];
        let number = held.queue;
        if self.active != Some(number) {
            if self.preempts(id) {
                self.preempt(number);
            }
        } else if self.queues[number].awaited {
            let is_3_5 = self.is_3_5();
            let goes_at_once = held.end - held.sector > PAGE || self.busy > 1;
            let queue = &mut self.queues[number];
            if goes_at_once {
                self.idle_until = None;
            }
            if is_3_5 {
                queue.awaited = !goes_at_once;
            }
            queue.must_dispatch |= !(is_3_5 && goes_at_once);
        }
    }

    /// Whether a request ends the active queue's turn in favour of its own (`cfq_should_preempt`).
    fn preempts(&self, id: RequestId) -> bool {
        let Some(number) = self.active else { return false };
        let (held, active) = (&self.held[id], &self.queues[number]);
        let queue = &self.queues[held.queue];
        let real_time = (queue.class == Class::RealTime, active.class == Class::RealTime);
        let slice_used = active.slice_used(self.now);
        if !self.is_3_5() && slice_used {
            return true;
        }
        if queue.class == Class::Idle || active.class == Class::Idle {
            return queue.class != Class::Idle;
        }
        if self.is_3_5() && real_time == (false, true) {
            return false;
        }
        if held.sync && !active.is_sync {
            return true;
        }
        if self.is_3_5() {
            if queue.group != active.group {
                return false;
            }
            if slice_used || self.preempts_among_noidle(held.queue, number) {
                return true;
            }
        }
        if held.meta && active.meta_waiting == 0 {
            return true;
        }
        if real_time == (true, false) {
            return true;
        }
        if self.is_3_5() && active.waiting.is_empty() && !self.should_idle(number) {
            return true;
        }
        // As good as the one that is waited for.
        active.awaited && self.active_process.is_some_and(|process| self.is_close(held.sector, process))
    }

    /// Two queues not worth idling for, of which the active one is empty: the other takes over.
    fn preempts_among_noidle(&self, number: usize, active: usize) -> bool {
        let queue = &self.queues[number];
        let tree = queue.tree.map(|tree| self.groups[queue.group].trees[tree].len());
        self.workload.kind == Kind::SyncNoidle
            && queue.kind() == Kind::SyncNoidle
            && tree == Some(2)
            && self.queues[active].waiting.is_empty()
    }

    /// The active queue keeps the rest of its slice, and another goes first.
    fn preempt(&mut self, number: usize) {
        let kind = self.active.map(|active| self.queues[active].kind());
        self.end_slice(true);
        if self.is_3_5() && kind != Some(self.queues[number].kind()) {
            let group = self.queues[number].group;
            self.groups[group].saved_workload = None;
        }
        self.queue_up_first(number);
        self.queues[number].slice_is_new = true;
        self.preempting = Some(number);
    }
}
