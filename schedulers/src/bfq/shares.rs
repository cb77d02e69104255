//! Counts that decide whether the queues that share the device must get different shares of it: the queues of each
//! weight (`bfq_weights_tree_add`) and the groups with requests. Linux 6.18, block/bfq-iosched.c.

use super::ids::{EntityId, GroupId};
use super::service::Service;

impl Service {
    /// Counts a queue among the queues that share the device, by weight.
    pub(super) fn count_weight(&mut self, entity: EntityId) {
        let weight = self.entities[entity].weight;
        if self.is_counted(entity) {
            return;
        }
        match self.weights.binary_search_by_key(&weight, |&(weight, _)| weight) {
            Ok(at) => self.weights[at].1 += 1,
            Err(at) => self.weights.insert(at, (weight, 1)),
        }
        self.entities[entity].counted = Some(weight);
    }

    /// Takes a queue out of the count (`bfq_weights_tree_remove`).
    pub(super) fn discount_weight(&mut self, entity: EntityId) {
        let Some(weight) = self.entities[entity].counted.take() else { return };
        let at = self.weights.binary_search_by_key(&weight, |&(weight, _)| weight).expect("it was counted");
        self.weights[at].1 -= 1;
        if self.weights[at].1 == 0 {
            self.weights.remove(at);
        }
    }

    pub(super) fn is_counted(&self, entity: EntityId) -> bool {
        self.entities[entity].counted.is_some()
    }

    /// Whether queues of different weights share the device and this queue does not have the smallest weight
    /// (`bfq_asymmetric_scenario`).
    pub(super) fn weights_differ(&self, entity: EntityId) -> bool {
        let least = self.weights.first().map(|&(weight, _)| weight);
        let counted = self.entities[entity].counted;
        self.weights.len() > 1 && (counted.is_none() || counted != least)
    }

    /// A queue of this group gets its first request (`bfq_add_bfqq_in_groups_with_pending_reqs`).
    pub(super) fn add_pending(&mut self, group: GroupId) {
        let pending = &mut self.groups[group].pending_queues;
        *pending += 1;
        self.groups_pending += u32::from(*pending == 1);
    }

    /// A queue of this group has no request any more, neither waiting nor in flight.
    pub(super) fn remove_pending(&mut self, group: GroupId) {
        let pending = &mut self.groups[group].pending_queues;
        *pending -= 1;
        self.groups_pending -= u32::from(*pending == 0);
    }
}
