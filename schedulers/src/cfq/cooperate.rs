//! Processes that work in the same place. When one runs out of requests, the head is where another
//! goes on. 2.6.30 gives that one the next turn, once. 3.5 has the two share a queue from then on,
//! until their requests are found to be scattered.

use super::Cfq;
use super::idle::SEEKY_2_6_30;
use super::queue::Class;

/// A request within this many sectors of the head is close (3.5, `CFQQ_CLOSE_THR`).
const CLOSE_3_5: u64 = 8 * 1024;

impl Cfq {
    /// Whether a sector is close to the head: in 2.6.30 within the process's mean seek distance.
    pub(super) fn is_close(&self, sector: u64, process: usize) -> bool {
        let seek = &self.known[process].seek;
        let reach = match self.is_3_5() {
            true => CLOSE_3_5,
            false if seek.is_valid() => seek.mean(),
            false => SEEKY_2_6_30,
        };
        self.last_position.abs_diff(sector) <= reach
    }

    /// The queue of the same level whose next request is nearest to the head, if it is close
    /// (`cfqq_close`).
    fn nearest_queue(&self, number: usize, process: usize) -> Option<usize> {
        let tree = &self.close_trees[usize::from(self.queues[number].level)];
        let head = self.last_position;
        let ahead = tree.at_or_after(head);
        let behind = tree.descending_before(head).next();
        let nearest = [ahead, behind].into_iter().flatten().min_by_key(|entry| entry.key.abs_diff(head))?;
        self.is_close(nearest.key, process).then_some(nearest.id as usize)
    }

    /// The queue that may go on where this one has run empty (`cfq_close_cooperator`).
    pub(super) fn cooperator(&self, number: usize) -> Option<usize> {
        if self.is_3_5() { self.cooperator_3_5(number) } else { self.cooperator_2_6_30(number) }
    }

    /// Any that has not taken over already since it last had a turn of its own.
    fn cooperator_2_6_30(&self, number: usize) -> Option<usize> {
        let other = self.nearest_queue(number, self.active_process?)?;
        (!self.queues[other].cooperates).then_some(other)
    }

    /// One of the same group and class; both sync and not scattered.
    fn cooperator_3_5(&self, number: usize) -> Option<usize> {
        let queue = &self.queues[number];
        if queue.class == Class::Idle || !queue.is_sync || queue.is_seeky() || self.groups[queue.group].queues == 1 {
            return None;
        }
        let other_number = self.nearest_queue(number, 0)?;
        let other = &self.queues[other_number];
        let fits = other.group == queue.group
            && other.is_sync
            && !other.is_seeky()
            && (other.class == Class::RealTime) == (queue.class == Class::RealTime);
        fits.then_some(other_number)
    }

    /// The processes of one of the two queues move to the other with their next requests: those of the
    /// queue with fewer (`cfq_setup_merge`).
    pub(super) fn plan_merge(&mut self, number: usize, other: usize) {
        if self.queues[other].users == 0 {
            return;
        }
        let mut target = other;
        while let Some(further) = self.queues[target].merge_into {
            if further == number {
                return;
            }
            target = further;
        }
        let (users, users_of_target) = (self.queues[number].users, self.queues[target].users);
        if users == 0 || users_of_target == 0 || target == number {
            return;
        }
        let (from, into, moving) =
            if users_of_target >= users { (number, target, users) } else { (target, number, users_of_target) };
        self.queues[from].merge_into = Some(into);
        self.queues[into].users += moving;
    }

    /// The queue of a process's next sync request: it leaves a queue that is to be split, and moves to
    /// one that its queue is to be merged into. `None` if it needs a new one.
    pub(super) fn queue_after_cooperation(&mut self, process: usize) -> Option<usize> {
        let number = self.known[process].queue?;
        let queue = &mut self.queues[number];
        if queue.cooperates && queue.to_be_split {
            if queue.users == 1 {
                queue.cooperates = false;
                queue.to_be_split = false;
            } else {
                self.split_off(process, number);
                return None;
            }
        }
        let Some(into) = self.queues[number].merge_into else { return Some(number) };
        self.known[process].queue = Some(into);
        self.queues[into].cooperates = true;
        self.leave(number);
        Some(into)
    }

    /// A process leaves the queue that it shares, and those it was about to move to (`split_cfqq`).
    fn split_off(&mut self, process: usize, number: usize) {
        self.known[process].queue = None;
        let mut planned = self.queues[number].merge_into;
        while let Some(target) = planned {
            planned = self.queues[target].merge_into;
            self.leave(target);
        }
        self.leave(number);
    }

    fn leave(&mut self, number: usize) {
        self.queues[number].users -= 1;
        self.put_by_if_unused(number);
    }
}
