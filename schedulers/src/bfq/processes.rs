//! Which process a request comes from, and the queue that its requests go to.

use traces::{Priority, Request};

use super::Bfq;
use super::queue::{Process, Queue, Saved};
use super::service::NONE;

/// A weight per level of I/O priority.
const WEIGHT_PER_LEVEL: i64 = 10;
const LEVELS: i64 = 8;
/// The level of a request without priority.
const LEVEL_NORMAL: u8 = 4;

pub(super) fn weight_of(level: u8) -> i64 {
    (LEVELS - i64::from(level)) * WEIGHT_PER_LEVEL
}

/// Class from zero and level; none is best effort, and the idle class has one level.
fn class_of(priority: Priority) -> (usize, u8) {
    match priority.class() {
        1 => (0, priority.level()),
        2 => (1, priority.level()),
        3 => (2, 7),
        _ => (1, LEVEL_NORMAL),
    }
}

impl Bfq {
    fn group_of(&mut self, vm: u16) -> u32 {
        if !self.tunables.cgroups {
            return 0;
        }
        let vm = usize::from(vm);
        if vm >= self.vm_groups.len() {
            self.vm_groups.resize(vm + 1, NONE);
        }
        if self.vm_groups[vm] == NONE {
            let weight = self.tunables.weights[vm % self.tunables.weights.len()] as i64;
            self.vm_groups[vm] = self.service.add_group(weight);
            self.add_group_queues();
        }
        self.vm_groups[vm]
    }

    /// The process that this request comes from, with the priority it has now.
    pub(super) fn process_of(&mut self, request: &Request) -> u32 {
        let (class, level) = class_of(request.priority);
        let (index, is_new) = self.process_numbers.number(request);
        let index = index as u32;
        if !is_new {
            let process = self.processes[index as usize];
            if (process.class, process.level) != (class, level) {
                self.change_priority(index, class, level);
            }
            return index;
        }
        let group = self.group_of(request.vm.0);
        self.processes.push(Process {
            group,
            class,
            level,
            queues: [NONE; 2],
            requests: 0,
            stable_merge: NONE,
            stably_merged: false,
            saved: Saved::default(),
        });
        index
    }

    /// The sync queue takes its new class and weight when it is next put on a tree; async requests
    /// go to the queue of the new priority at once.
    fn change_priority(&mut self, process: u32, class: usize, level: u8) {
        let of = &mut self.processes[process as usize];
        (of.class, of.level) = (class, level);
        let [asynchronous, sync] = of.queues;
        if asynchronous != NONE {
            let queue = self.get_queue(process, false, true);
            self.processes[process as usize].queues[0] = queue;
            self.release_process(asynchronous);
        }
        if sync != NONE {
            let entity = self.entity_mut(sync);
            entity.new_class = class;
            entity.new_weight = weight_of(level);
            entity.weight_changed = true;
        }
    }

    /// The queue for a process that has none: the group's own for async requests, a new one for sync.
    /// A new one may be merged at once with that of a process which began just before, unless it is
    /// `respawned` by a split.
    pub(super) fn get_queue(&mut self, process: u32, sync: bool, respawned: bool) -> u32 {
        let Process { group, class, level, .. } = self.processes[process as usize];
        let shared = class * LEVELS as usize + usize::from(level);
        if !sync {
            let queue = self.group_queues[group as usize].asynchronous[shared];
            if queue != NONE {
                self.queues[queue as usize].process_refs += 1;
                return queue;
            }
        }
        let queue = self.new_queue(group, class, level, sync);
        self.queues[queue as usize].process_refs = 1;
        if sync {
            if respawned { queue } else { self.begin_stable_merge(queue, process) }
        } else {
            // The group holds on to it.
            self.queues[queue as usize].process_refs += 1;
            self.group_queues[group as usize].asynchronous[shared] = queue;
            queue
        }
    }

    fn new_queue(&mut self, group: u32, class: usize, level: u8, sync: bool) -> u32 {
        let max_budget = 2 * self.max_budget() / 3;
        for at in (0..self.orphans.len()).rev() {
            self.free_if_unused(self.orphans[at]);
            if self.queues[self.orphans[at] as usize].free {
                self.orphans.swap_remove(at);
            }
        }
        let index = self.free_queues.pop().unwrap_or(self.queues.len() as u32);
        let weight = weight_of(level);
        if index as usize == self.queues.len() {
            let entity = self.service.add_entity(index, group, weight, class);
            self.queues.push(Queue::new(&self.clock, entity, sync, max_budget));
        } else {
            let entity = self.queues[index as usize].entity;
            self.service.entities[entity as usize] = self.service.fresh_entity(index, group, weight, class);
            self.queues[index as usize] = Queue::new(&self.clock, entity, sync, max_budget);
        }
        index
    }

    /// Frees a queue that nothing refers to any more.
    pub(super) fn free_if_unused(&mut self, queue: u32) {
        let of = self.queues[queue as usize];
        let unused = of.process_refs == 0 && of.stable_refs == 0 && of.allocated == 0 && !of.free;
        let Queue { entity, in_burst_list, process, .. } = of;
        if !unused || self.service.entities[entity as usize].scheduled || self.service.is_counted(entity) || of.busy {
            return;
        }
        if in_burst_list {
            self.leave_burst_list(queue);
            if process != NONE && self.burst_size > 0 {
                self.burst_size -= 1;
            }
        }
        self.remove_from_woken(queue);
        while self.queues[queue as usize].woken_first != NONE {
            let woken = self.queues[queue as usize].woken_first;
            self.remove_from_woken(woken);
            self.queues[woken as usize].waker = NONE;
        }
        for other in &mut self.queues {
            if other.tentative_waker == queue {
                other.tentative_waker = NONE;
            }
        }
        if self.last_completed == queue {
            self.last_completed = NONE;
        }
        self.remove_position(queue);
        self.queues[queue as usize].free = true;
        self.free_queues.push(queue);
    }

    /// A process no longer sends to this queue.
    pub(super) fn release_process(&mut self, queue: u32) {
        let of = &self.queues[queue as usize];
        if of.busy && of.is_empty() && queue != self.in_service {
            self.remove_busy(queue, false);
        }
        self.replace_last_created(queue, NONE);
        self.queues[queue as usize].process_refs -= 1;
        self.free_if_unused(queue);
        if self.queues[queue as usize].process_refs == 0 && !self.queues[queue as usize].free {
            self.orphans.push(queue);
        }
    }
}
