//! The process and the queue of a request. Linux 6.18, block/bfq-iosched.c.

use std::ops::{Index, IndexMut};

use traces::{Priority, Request, VmId};

use crate::processes::Processes as Numbers;

use super::Bfq;
use super::entity::Class;
use super::ids::{GroupId, Id, ProcessId, QueueId, Table};
use super::positions::Positions;
use super::queue::{ASYNC, Queue};
use super::split::Saved;

/// Weight for each level of I/O priority (`BFQ_WEIGHT_CONVERSION_COEFF`).
const WEIGHT_PER_LEVEL: u64 = 10;
const LEVELS: u8 = 8;
/// The level of a request without priority.
const LEVEL_NORMAL: u8 = 4;
/// The only level of the idle class.
const LEVEL_IDLE: u8 = 7;
const ASYNC_QUEUES: usize = Class::COUNT * LEVELS as usize;

/// A class of I/O priority and the level in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    class: Class,
    level: u8,
}

impl Rank {
    /// No priority is best effort 4.
    fn of(priority: Priority) -> Rank {
        let (class, level) = match priority.class() {
            1 => (Class::RealTime, priority.level()),
            2 => (Class::BestEffort, priority.level()),
            3 => (Class::Idle, LEVEL_IDLE),
            _ => (Class::BestEffort, LEVEL_NORMAL),
        };
        Rank { class, level }
    }

    /// The weight of a queue of this priority (`bfq_ioprio_to_weight`).
    fn weight(self) -> u64 {
        u64::from(LEVELS - self.level) * WEIGHT_PER_LEVEL
    }

    fn index(self) -> usize {
        self.class.index() * usize::from(LEVELS) + usize::from(self.level)
    }
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    group: GroupId,
    priority: Priority,
    /// The queues of its async and sync requests.
    pub(super) queues: [Option<QueueId>; 2],
    /// The number of its requests that wait or are in flight.
    pub(super) requests: u32,
    /// The queue that its queue may be merged into because their processes began together (`stable_merge_bfqq`).
    pub(super) stable_merge: Option<QueueId>,
    pub(super) stably_merged: bool,
    pub(super) saved: Saved,
}

/// All processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes {
    numbers: Numbers,
    table: Table<ProcessId, Process>,
}

impl Processes {
    /// The process that a request comes from, if it has sent one before.
    pub(super) fn known(&self, request: &Request) -> Option<ProcessId> {
        self.numbers.known(request).map(ProcessId::new)
    }
}

impl Index<ProcessId> for Processes {
    type Output = Process;

    #[inline]
    fn index(&self, process: ProcessId) -> &Process {
        &self.table[process]
    }
}

impl IndexMut<ProcessId> for Processes {
    #[inline]
    fn index_mut(&mut self, process: ProcessId) -> &mut Process {
        &mut self.table[process]
    }
}

/// The queues of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupQueues {
    /// The queues of async requests, by class and level (`async_bfqq`).
    asynchronous: [Option<QueueId>; ASYNC_QUEUES],
    /// The queue of sync requests created last.
    pub(super) last_created: Option<QueueId>,
    pub(super) positions: Positions,
}

/// All groups.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    by_vm: Vec<Option<GroupId>>,
    pub(super) queues: Table<GroupId, GroupQueues>,
}

impl Groups {
    /// The root group alone.
    pub(super) fn new() -> Groups {
        let mut queues = Table::default();
        queues.push(GroupQueues::default());
        Groups { by_vm: Vec::new(), queues }
    }
}

/// All queues. Records that are no longer in use are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    table: Table<QueueId, Queue>,
    free: Vec<QueueId>,
    /// Queues without a process that could not be freed when the last one left.
    orphans: Vec<QueueId>,
}

impl Index<QueueId> for Queues {
    type Output = Queue;

    #[inline]
    fn index(&self, queue: QueueId) -> &Queue {
        &self.table[queue]
    }
}

impl IndexMut<QueueId> for Queues {
    #[inline]
    fn index_mut(&mut self, queue: QueueId) -> &mut Queue {
        &mut self.table[queue]
    }
}

impl Bfq {
    fn group_of(&mut self, vm: VmId) -> GroupId {
        if !self.tunables.cgroups {
            return GroupId::ROOT;
        }
        let vm = usize::from(vm.0);
        if vm >= self.groups.by_vm.len() {
            self.groups.by_vm.resize(vm + 1, None);
        }
        if let Some(group) = self.groups.by_vm[vm] {
            return group;
        }
        let weight = self.tunables.weights[vm % self.tunables.weights.len()];
        let group = self.service.add_group(weight);
        self.groups.queues.push(GroupQueues::default());
        self.groups.by_vm[vm] = Some(group);
        group
    }

    /// The process that a request comes from, with the priority of this request.
    pub(super) fn process_of(&mut self, request: &Request) -> ProcessId {
        let priority = request.priority;
        let (number, is_new) = self.processes.numbers.number(request);
        let process = ProcessId::new(number);
        if !is_new {
            if self.processes[process].priority != priority {
                self.change_priority(process, priority);
            }
            return process;
        }
        let group = self.group_of(request.vm);
        self.processes.table.push(Process {
            group,
            priority,
            queues: [None; 2],
            requests: 0,
            stable_merge: None,
            stably_merged: false,
            saved: Saved::default(),
        })
    }

    /// The priority of a process changes, maybe to another that ranks alike (`bfq_check_ioprio_change`). Its sync queue
    /// takes the new class and weight when it is next put on a tree; its async requests go to the queue of the new
    /// priority at once.
    fn change_priority(&mut self, process: ProcessId, priority: Priority) {
        self.processes[process].priority = priority;
        let rank = Rank::of(priority);
        let [asynchronous, sync] = self.processes[process].queues;
        if let Some(old) = asynchronous {
            let queue = self.get_queue(process, false, true);
            self.processes[process].queues[ASYNC] = Some(queue);
            self.release_process(old);
        }
        if let Some(sync) = sync {
            let entity = self.entity_mut(sync);
            entity.new_class = rank.class;
            entity.new_weight = rank.weight();
            entity.weight_changed = true;
        }
    }

    /// A queue for a process that has none (`bfq_get_queue`): the group's own for async requests, a new one for sync
    /// requests. A new one may be merged at once with the queue of a process that began just before, unless it is
    /// `respawned` by a split.
    pub(super) fn get_queue(&mut self, process: ProcessId, sync: bool, respawned: bool) -> QueueId {
        let Process { group, priority, .. } = self.processes[process];
        let rank = Rank::of(priority);
        if !sync && let Some(queue) = self.groups.queues[group].asynchronous[rank.index()] {
            self.queues[queue].process_refs += 1;
            return queue;
        }
        let queue = self.new_queue(group, rank, sync);
        self.queues[queue].process_refs = 1;
        if !sync {
            // The group holds the queue as well.
            self.queues[queue].process_refs += 1;
            self.groups.queues[group].asynchronous[rank.index()] = Some(queue);
            queue
        } else if respawned {
            queue
        } else {
            self.begin_stable_merge(queue, process)
        }
    }

    fn new_queue(&mut self, group: GroupId, rank: Rank, sync: bool) -> QueueId {
        let max_budget = 2 * self.max_budget() / 3;
        self.free_orphans();
        let free = self.queues.free.pop();
        let queue = free.unwrap_or_else(|| self.queues.table.next_id());
        let new_entity = self.service.new_entity(queue, group, rank.weight(), rank.class);
        if free.is_some() {
            let entity = self.queues[queue].entity;
            self.service.entities[entity] = new_entity;
            self.queues[queue] = Queue::new(&self.clock, entity, sync, max_budget);
        } else {
            let entity = self.service.entities.push(new_entity);
            self.queues.table.push(Queue::new(&self.clock, entity, sync, max_budget));
        }
        queue
    }

    fn free_orphans(&mut self) {
        for at in (0..self.queues.orphans.len()).rev() {
            let orphan = self.queues.orphans[at];
            self.free_if_unused(orphan);
            if self.queues[orphan].free {
                self.queues.orphans.swap_remove(at);
            }
        }
    }

    /// Frees a queue that nothing refers to any more (`bfq_put_queue`).
    pub(super) fn free_if_unused(&mut self, queue: QueueId) {
        let state = &self.queues[queue];
        let unused = state.process_refs == 0 && state.stable_refs == 0 && state.allocated == 0 && !state.free;
        if !unused || state.is_busy() {
            return;
        }
        let entity = self.entity(queue);
        if entity.scheduled || entity.counted.is_some() {
            return;
        }
        if state.burst.in_list {
            let had_process = state.process.is_some();
            self.leave_burst_list(queue);
            if had_process && self.burst.size > 0 {
                self.burst.size -= 1;
            }
        }
        self.remove_from_woken(queue);
        while let Some(woken) = self.queues[queue].wakers.woken_first {
            self.remove_from_woken(woken);
            self.queues[woken].wakers.waker = None;
        }
        for other in self.queues.table.iter_mut() {
            if other.wakers.tentative == Some(queue) {
                other.wakers.tentative = None;
            }
        }
        if self.last_completed == Some(queue) {
            self.last_completed = None;
        }
        self.remove_position(queue);
        self.queues[queue].free = true;
        self.queues.free.push(queue);
    }

    /// A process no longer sends to this queue (`bfq_release_process_ref`).
    pub(super) fn release_process(&mut self, queue: QueueId) {
        let state = &self.queues[queue];
        if state.is_busy() && state.is_empty() && !self.is_in_service(queue) {
            self.remove_busy(queue, false);
        }
        self.replace_last_created(queue, None);
        self.queues[queue].process_refs -= 1;
        self.free_if_unused(queue);
        let state = &self.queues[queue];
        if state.process_refs == 0 && !state.free {
            self.queues.orphans.push(queue);
        }
    }
}
