//! The positions of the queues that may be merged: the sectors of their next requests, by group. Linux 6.18,
//! block/bfq-iosched.c, `bfq_pos_tree_add_move`.

use super::Bfq;
use super::entity::Class;
use super::ids::QueueId;
use super::merge::CLOSE;

/// Sectors with their queues, ascending.
pub(super) type Positions = Vec<(u64, QueueId)>;

impl Bfq {
    fn positions(&mut self, queue: QueueId) -> &mut Positions {
        let group = self.entity(queue).group;
        &mut self.groups.queues[group].positions
    }

    /// Lists the sector of a queue's next request, unless the queue can no longer be merged or another queue is listed
    /// at the same sector.
    pub(super) fn update_position(&mut self, queue: QueueId) {
        self.remove_position(queue);
        let Some(next) = self.queues[queue].next_request else { return };
        if self.is_too_late_to_merge(queue) || self.entity(queue).class == Class::Idle {
            return;
        }
        let sector = self.requests.get(next).sector;
        let positions = self.positions(queue);
        if let Err(at) = positions.binary_search_by_key(&sector, |&(sector, _)| sector) {
            positions.insert(at, (sector, queue));
            self.queues[queue].position = Some(sector);
        }
    }

    pub(super) fn remove_position(&mut self, queue: QueueId) {
        let Some(sector) = self.queues[queue].position.take() else { return };
        let positions = self.positions(queue);
        if let Ok(at) = positions.binary_search_by_key(&sector, |&(sector, _)| sector) {
            positions.remove(at);
        }
    }

    /// The queue whose next request is close to a sector, the nearer one of two (`bfqq_find_close`).
    pub(super) fn find_close(&self, queue: QueueId, sector: u64) -> Option<QueueId> {
        let positions = &self.groups.queues[self.entity(queue).group].positions;
        let at = positions.partition_point(|&(position, _)| position < sector);
        let neighbours = [at.checked_sub(1).and_then(|at| positions.get(at)), positions.get(at)];
        let nearest = neighbours.into_iter().flatten().min_by_key(|&&(position, _)| position.abs_diff(sector));
        nearest.filter(|&&(position, _)| position.abs_diff(sector) <= CLOSE).map(|&(_, queue)| queue)
    }
}
