//! The order of the queues, and the next request of a queue.

use traces::{Nanos, RequestId};

use super::Cfq;
use super::queue::{Class, Kind};
use crate::elevator;

/// How far behind the last queue one of the idle class queues up (`CFQ_IDLE_DELAY`); ns.
const IDLE_CLASS_DELAY: i64 = 200_000_000;
/// How far ahead of the first queue one is put that preempts (3.5: `HZ`); ns.
const AHEAD: i64 = 1_000_000_000;

/// The number of a class's service tree within its group. The trees of 2.6.30 are not by kind.
pub(super) const fn tree_number(class: Class, kind: Kind) -> usize {
    match class {
        Class::Idle => TREES - 1,
        _ => class as usize * 3 + kind as usize,
    }
}

/// How many service trees a group has.
pub(super) const TREES: usize = 7;

/// Keys as the order takes them.
fn ordered(key: i64) -> u64 {
    key.wrapping_sub(i64::MIN) as u64
}

/// The inverse of [`ordered`].
pub(super) fn signed(ordered: u64) -> i64 {
    (ordered as i64).wrapping_add(i64::MIN)
}

/// A queue's number as the orders take it.
pub(super) fn as_id(number: usize) -> RequestId {
    RequestId(number as u32)
}

impl Cfq {
    /// Of two waiting requests the one to serve first (`cfq_choose_req`). Metadata goes before data, then the request
    /// nearer to `head`. Distance behind the head counts more, and beyond `back_seek_max` only if there is none ahead.
    /// That sync goes before async goes without saying: no queue has both.
    pub(super) fn better(&self, one: Option<RequestId>, other: Option<RequestId>, head: u64) -> Option<RequestId> {
        let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
        let (first, second) = (&self.held[a], &self.held[b]);
        if first.meta != second.meta {
            return if first.meta { one } else { other };
        }
        let (back_max, penalty) = (self.set.back_seek_max, self.set.back_seek_penalty);
        if elevator::is_before(head, back_max, penalty, first.sector, second.sector) { one } else { other }
    }

    /// The request to serve after a waiting one (`cfq_find_next_rq`). 3.5 measures from the request,
    /// 2.6.30 from where the head was before it.
    pub(super) fn next_after(&self, id: RequestId) -> Option<RequestId> {
        let held = &self.held[id];
        let (next, before) = self.queues[held.queue].waiting.neighbours(held.local);
        self.better(next, before, if self.is_3_5() { held.sector } else { self.last_position })
    }

    /// Takes a waiting request out of its queue, which takes no more turns if it is empty then; in
    /// 3.5 that is put off to the end of its slice.
    pub(super) fn take_out(&mut self, id: RequestId) {
        let held = self.held[id];
        if self.queues[held.queue].next == Some(id) {
            self.queues[held.queue].next = self.next_after(id);
        }
        let queue = &mut self.queues[held.queue];
        queue.waiting.remove(held.local);
        queue.meta_waiting -= u64::from(held.meta);
        self.queued -= 1;
        let (empty, is_busy) = (queue.waiting.is_empty(), queue.is_busy);
        if empty && self.is_3_5() {
            self.leave_close_tree(held.queue);
        } else if empty && is_busy {
            self.take_no_turns(held.queue);
        }
    }

    /// 3.5: an empty queue that is not active takes no turns.
    pub(super) fn retire_if_empty(&mut self, queue: usize) {
        if self.queues[queue].is_busy && self.queues[queue].waiting.is_empty() && self.active != Some(queue) {
            self.take_no_turns(queue);
        }
    }

    /// The queue has requests and takes turns from now on (`cfq_add_cfqq_rr`).
    pub(super) fn take_turns(&mut self, number: usize) {
        let queue = &mut self.queues[number];
        queue.is_busy = true;
        self.busy += 1;
        self.busy_real_time += u64::from(queue.class == Class::RealTime);
        self.busy_sync += u64::from(queue.is_sync);
        let group = queue.group;
        if self.is_3_5() {
            self.queue_up(number);
            self.group_gained_queue(group);
        } else {
            self.groups[group].queues += 1;
            self.queue_up(number);
        }
    }

    /// The queue has no requests and takes no turns (`cfq_del_cfqq_rr`).
    pub(super) fn take_no_turns(&mut self, number: usize) {
        self.leave_service_tree(number);
        self.leave_close_tree(number);
        let queue = &mut self.queues[number];
        queue.is_busy = false;
        self.busy -= 1;
        self.busy_real_time -= u64::from(queue.class == Class::RealTime);
        self.busy_sync -= u64::from(queue.is_sync);
        let group = queue.group;
        if self.is_3_5() {
            self.group_lost_queue(group);
        } else {
            self.groups[group].queues -= 1;
        }
    }

    /// A busy queue goes to its place among those that wait for their turn (`cfq_resort_rr_list`).
    pub(super) fn queue_up(&mut self, number: usize) {
        let queue = &mut self.queues[number];
        let (class, group, is_sync, level) = (queue.class, queue.group, queue.is_sync, queue.level);
        let key = if class == Class::Idle {
            let last = self.last_key(number);
            last.unwrap_or(self.now.as_ns() as i64).saturating_add(IDLE_CLASS_DELAY)
        } else {
            let left = std::mem::take(&mut queue.slice_left);
            let others = self.groups[group].queues as i64 - 1;
            let handicap = self.priority_slice(true, 0) as i64 - self.priority_slice(is_sync, level) as i64;
            let turn = (self.now.as_ns() as i64).saturating_add(others.saturating_mul(handicap));
            // 2.6.30 puts who had time left further back, which 3.5 puts right.
            if self.is_3_5() { turn.saturating_sub(left) } else { turn.saturating_add(left) }
        };
        self.enter_service_tree(number, key);
        self.enter_close_tree(number);
    }

    /// A busy queue goes first.
    pub(super) fn queue_up_first(&mut self, number: usize) {
        let (group, tree) = (self.queues[number].group, self.tree_of(number));
        let key = if self.is_3_5() {
            let first = self.groups[group].trees[tree].first().map(|entry| signed(entry.key));
            first.unwrap_or(self.now.as_ns() as i64).saturating_sub(AHEAD)
        } else {
            i64::MIN
        };
        self.enter_service_tree(number, key);
    }

    /// The key of the last of those behind which a queue of the idle class queues up: in 2.6.30
    /// of any class, in 3.5 of its class.
    fn last_key(&self, number: usize) -> Option<i64> {
        let trees = &self.groups[self.queues[number].group].trees;
        let of_class = &trees[if self.is_3_5() { TREES - 1..TREES } else { 0..TREES }];
        let last = of_class.iter().rev().find_map(|tree| tree.descending_before(u64::MAX).next())?;
        (last.id as usize != number).then_some(signed(last.key))
    }

    /// The service tree that a queue belongs into now.
    pub(super) fn tree_of(&self, number: usize) -> usize {
        let queue = &self.queues[number];
        tree_number(queue.class, if self.is_3_5() { queue.kind() } else { Kind::default() })
    }

    fn enter_service_tree(&mut self, number: usize, key: i64) {
        let tree = self.tree_of(number);
        let queue = &self.queues[number];
        if queue.tree == Some(tree) && queue.key == key {
            return;
        }
        self.leave_service_tree(number);
        let queue = &mut self.queues[number];
        (queue.tree, queue.key) = (Some(tree), key);
        self.groups[queue.group].trees[tree].insert(as_id(number), ordered(key), self.turns);
        self.turns += 1;
    }

    fn leave_service_tree(&mut self, number: usize) {
        let queue = &mut self.queues[number];
        if let Some(tree) = queue.tree.take() {
            self.groups[queue.group].trees[tree].remove(as_id(number));
        }
    }

    /// The first queue in a service tree.
    pub(super) fn first_in(&self, group: usize, tree: usize) -> Option<usize> {
        self.groups[group].trees[tree].first().map(|entry| entry.id as usize)
    }

    /// Puts a queue in the order of next sectors, unless another's next request is at the same.
    pub(super) fn enter_close_tree(&mut self, number: usize) {
        self.leave_close_tree(number);
        let queue = &mut self.queues[number];
        let Some(next) = queue.next.filter(|_| queue.class != Class::Idle) else { return };
        let sector = self.held[next].sector;
        let tree = &mut self.close_trees[usize::from(queue.level)];
        if tree.at_or_after(sector).is_none_or(|entry| entry.key != sector) {
            tree.insert(as_id(number), sector, 0);
            queue.close_tree = Some(usize::from(queue.level));
        }
    }

    pub(super) fn leave_close_tree(&mut self, number: usize) {
        if let Some(tree) = self.queues[number].close_tree.take() {
            self.close_trees[tree].remove(as_id(number));
        }
    }

    /// The oldest request of a queue if it has expired; asked once in a slice (`cfq_check_fifo`).
    pub(super) fn expired(&self, number: usize) -> Option<RequestId> {
        let queue = &self.queues[number];
        let oldest = queue.waiting.oldest().filter(|_| !queue.fifo_was_checked)?;
        let expire: Nanos = self.set.fifo_expire[usize::from(queue.is_sync)];
        (self.now >= self.held[oldest].since.saturating_add(expire)).then_some(oldest)
    }
}
