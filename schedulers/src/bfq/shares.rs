//! Whether the queues that share the device are to get the same shares: how many of them have which
//! weight, and how many groups they are in.

use super::service::{Entity, Service};

impl Service {
    /// Counts a queue among those that share the device by weight.
    pub(super) fn count_weight(&mut self, entity: u32) {
        let Entity { counted, weight, .. } = self.entities[entity as usize];
        if counted.is_some() {
            return;
        }
        match self.weights.binary_search_by_key(&weight, |&(weight, _)| weight) {
            Ok(at) => self.weights[at].1 += 1,
            Err(at) => self.weights.insert(at, (weight, 1)),
        }
        self.entity(entity).counted = Some(weight);
    }

    /// Takes a queue out of the count.
    pub(super) fn discount_weight(&mut self, entity: u32) {
        let Some(weight) = self.entity(entity).counted.take() else { return };
        let at = self.weights.binary_search_by_key(&weight, |&(weight, _)| weight).expect("it was counted");
        self.weights[at].1 -= 1;
        if self.weights[at].1 == 0 {
            self.weights.remove(at);
        }
    }

    pub(super) fn is_counted(&self, entity: u32) -> bool {
        self.entities[entity as usize].counted.is_some()
    }

    /// Whether queues of different weights share the device, and this one does not have the least.
    pub(super) fn weights_differ(&self, entity: u32) -> bool {
        let least = self.weights.first().map(|&(weight, _)| weight);
        let counted = self.entities[entity as usize].counted;
        self.weights.len() > 1 && (counted.is_none() || counted != least)
    }

    /// A queue of this group has requests from now on.
    pub(super) fn add_pending(&mut self, group: u32) {
        self.groups[group as usize].pending_queues += 1;
        self.groups_pending += u32::from(self.groups[group as usize].pending_queues == 1);
    }

    /// And now it has none, waiting or sent.
    pub(super) fn remove_pending(&mut self, group: u32) {
        self.groups[group as usize].pending_queues -= 1;
        self.groups_pending -= u32::from(self.groups[group as usize].pending_queues == 0);
    }
}
