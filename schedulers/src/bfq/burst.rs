//! Bursts: many queues that are created shortly after one another belong to one task, which wants
//! throughput; none of them is raised.

use super::Bfq;
use super::service::NONE;

impl Bfq {
    /// A queue was just created while no other, or only its burst, was busy.
    pub(super) fn handle_burst(&mut self, queue: u32) {
        let of = self.queues[queue as usize];
        let just_split = of.split_time + self.clock.jiffies_of_ms(10) >= self.clock.jiffy;
        if of.in_burst_list || of.in_large_burst || just_split {
            return;
        }
        let parent = self.entity(queue).parent;
        if self.clock.is_past(self.last_in_burst + self.tunables.burst_interval) || parent != self.burst_parent {
            self.large_burst = false;
            self.restart_burst(queue, parent);
        } else if self.large_burst {
            self.queues[queue as usize].in_large_burst = true;
        } else {
            self.add_to_burst(queue);
        }
        self.last_in_burst = self.clock.jiffy;
    }

    fn restart_burst(&mut self, queue: u32, parent: u32) {
        self.clear_burst_list();
        self.burst_size = 0;
        if self.busy_total() == 0 {
            self.join_burst_list(queue);
            self.burst_size = 1;
        }
        self.burst_parent = parent;
    }

    fn add_to_burst(&mut self, queue: u32) {
        self.burst_size += 1;
        if self.burst_size != self.tunables.large_burst_thresh {
            self.join_burst_list(queue);
            return;
        }
        self.large_burst = true;
        self.queues[queue as usize].in_large_burst = true;
        for &member in &self.burst_list {
            self.queues[member as usize].in_large_burst = true;
        }
        self.clear_burst_list();
    }

    fn clear_burst_list(&mut self) {
        for member in self.burst_list.drain(..) {
            self.queues[member as usize].in_burst_list = false;
        }
    }

    pub(super) fn join_burst_list(&mut self, queue: u32) {
        self.burst_list.push(queue);
        self.queues[queue as usize].in_burst_list = true;
    }

    pub(super) fn leave_burst_list(&mut self, queue: u32) {
        self.burst_list.retain(|&member| member != queue);
        self.queues[queue as usize].in_burst_list = false;
    }

    /// The queue created last in a group: a queue created soon after may be merged into it.
    pub(super) fn last_created(&mut self, queue: u32) -> &mut u32 {
        let group = self.entity(queue).group;
        &mut self.group_queues[group as usize].last_created
    }

    pub(super) fn replace_last_created(&mut self, queue: u32, by: u32) {
        let last = self.last_created(queue);
        if *last == queue && *last != NONE {
            *last = by;
        }
    }
}
