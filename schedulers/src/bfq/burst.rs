//! Bursts: queues that are created shortly after one another belong to one task, which wants throughput. The queues
//! of a large burst are not raised. Linux 6.18, block/bfq-iosched.c, `bfq_handle_burst`.

use traces::Nanos;

use super::Bfq;
use super::clock::Jiffy;
use super::ids::{EntityId, QueueId};

/// A queue that was split off more recently is not part of a burst.
const JUST_SPLIT: Nanos = Nanos::from_ms(10);

/// The burst that is being formed.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    /// The queues of the burst, as long as it is not large (`burst_list`).
    list: Vec<QueueId>,
    pub(super) size: u64,
    /// The group that the queues are in (`burst_parent_entity`).
    parent: Option<EntityId>,
    pub(super) large: bool,
    /// When the last queue of the burst was created (`last_ins_in_burst`).
    last_created: Option<Jiffy>,
}

/// The part of a queue in bursts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BurstMembership {
    pub(super) in_list: bool,
    pub(super) in_large: bool,
}

impl Bfq {
    /// A queue was created while no other, or only its burst, was busy.
    pub(super) fn handle_burst(&mut self, queue: QueueId) {
        let state = &self.queues[queue];
        let just_split = !self.clock.is_longer_ago(state.merging.split_time, self.clock.jiffies(JUST_SPLIT));
        if state.burst.in_list || state.burst.in_large || just_split {
            return;
        }
        let parent = self.entity(queue).parent;
        let is_over = self.clock.is_longer_ago(self.burst.last_created, self.tunables.burst_interval);
        if is_over || parent != self.burst.parent {
            self.burst.large = false;
            self.restart_burst(queue, parent);
        } else if self.burst.large {
            self.queues[queue].burst.in_large = true;
        } else {
            self.add_to_burst(queue);
        }
        self.burst.last_created = Some(self.clock.jiffy);
    }

    /// Begins a new burst with this queue (`bfq_reset_burst_list`).
    fn restart_burst(&mut self, queue: QueueId, parent: Option<EntityId>) {
        self.clear_burst_list();
        self.burst.size = 0;
        if self.load.busy_total() == 0 {
            self.join_burst_list(queue);
            self.burst.size = 1;
        }
        self.burst.parent = parent;
    }

    /// Adds a queue to the burst, which may become large (`bfq_add_to_burst`).
    fn add_to_burst(&mut self, queue: QueueId) {
        self.burst.size += 1;
        if self.burst.size != self.tunables.large_burst_thresh {
            self.join_burst_list(queue);
            return;
        }
        self.burst.large = true;
        self.queues[queue].burst.in_large = true;
        for &member in &self.burst.list {
            self.queues[member].burst.in_large = true;
        }
        self.clear_burst_list();
    }

    fn clear_burst_list(&mut self) {
        for member in self.burst.list.drain(..) {
            self.queues[member].burst.in_list = false;
        }
    }

    pub(super) fn join_burst_list(&mut self, queue: QueueId) {
        self.burst.list.push(queue);
        self.queues[queue].burst.in_list = true;
    }

    pub(super) fn leave_burst_list(&mut self, queue: QueueId) {
        self.burst.list.retain(|&member| member != queue);
        self.queues[queue].burst.in_list = false;
    }
}
