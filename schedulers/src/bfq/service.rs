//! B-WF2Q+ as in Linux 6.18, block/bfq-wf2q.c: entities receive service in proportion to their weights. An entity is
//! eligible once the virtual time of its tree has reached its start. Of the eligible entities, the one that would
//! finish its budget first is next.

use super::clock::Clock;
use super::entity::{Class, Entity, Group, Member, Place, ServiceTree};
use super::ids::{EntityId, GroupId, QueueId, Table};

/// How entities move up the tree of groups when one of them changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The queue in service is put back: the entities above it must be put back too (`requeue`).
    pub(super) requeue: bool,
    /// The turn of the queue in service is ending (`expiration`).
    pub(super) expiring: bool,
}

/// All entities and groups.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) entities: Table<EntityId, Entity>,
    pub(super) groups: Table<GroupId, Group>,
    /// Weights of the queues with requests, ascending, with the number of queues of each; raised queues do not count.
    pub(super) weights: Vec<(u64, u32)>,
    /// The queues on active trees, the latest last.
    pub(super) active_queues: Vec<QueueId>,
    /// The number of groups that have queues with requests (`num_groups_with_pending_reqs`).
    pub(super) groups_pending: u32,
}

impl Service {
    /// The root group alone.
    pub(super) fn new() -> Service {
        let mut groups = Table::default();
        groups.push(Group::new(None));
        Service {
            entities: Table::default(),
            groups,
            weights: Vec::new(),
            active_queues: Vec::new(),
            groups_pending: 0,
        }
    }

    /// Creates a group of this weight below the root.
    pub(super) fn add_group(&mut self, weight: u64) -> GroupId {
        let group = self.groups.next_id();
        let entity = Entity::new(Member::Group(group), GroupId::ROOT, None, weight, Class::BestEffort);
        let entity = self.entities.push(entity);
        self.groups.push(Group::new(Some(entity)))
    }

    /// The state of a queue's entity when the queue is created.
    pub(super) fn new_entity(&self, queue: QueueId, group: GroupId, weight: u64, class: Class) -> Entity {
        Entity::new(Member::Queue(queue), group, self.groups[group].entity, weight, class)
    }

    pub(super) fn tree_of(&mut self, entity: EntityId) -> &mut ServiceTree {
        let Entity { group, class, .. } = self.entities[entity];
        &mut self.groups[group].trees[class.index()]
    }

    /// The finish follows from the start and the service that is still to come or was received
    /// (`bfq_calc_finish`).
    fn set_finish(&mut self, entity: EntityId, service: u64) {
        let entity = &mut self.entities[entity];
        entity.finish = entity.start.after_service(service, entity.weight);
    }

    fn insert_active(&mut self, entity: EntityId) {
        let Entity { start, finish, group, member, .. } = self.entities[entity];
        self.tree_of(entity).active.insert(entity, start, finish);
        self.entities[entity].place = Place::Active;
        self.groups[group].active_entities += 1;
        if let Member::Queue(queue) = member {
            self.active_queues.push(queue);
        }
    }

    pub(super) fn extract_active(&mut self, entity: EntityId) {
        let Entity { group, member, .. } = self.entities[entity];
        self.tree_of(entity).active.remove(entity);
        self.entities[entity].place = Place::Nowhere;
        self.groups[group].active_entities -= 1;
        if let Member::Queue(queue) = member {
            let at = self.active_queues.iter().rposition(|&listed| listed == queue).expect("it is listed");
            self.active_queues.remove(at);
        }
    }

    fn insert_idle(&mut self, entity: EntityId) {
        let Entity { finish, group, class, .. } = self.entities[entity];
        let entities = &self.entities;
        let idle = &mut self.groups[group].trees[class.index()].idle;
        let at = idle.partition_point(|&other| !entities[other].finish.is_after(finish));
        idle.insert(at, entity);
        self.entities[entity].place = Place::Idle;
    }

    fn extract_idle(&mut self, entity: EntityId) {
        self.tree_of(entity).idle.retain(|&other| other != entity);
        self.entities[entity].place = Place::Nowhere;
    }

    /// Forgets the service that an entity has received (`bfq_forget_entity`).
    fn forget(&mut self, entity: EntityId) {
        let weight = self.entities[entity].weight;
        self.entities[entity].scheduled = false;
        self.tree_of(entity).weight_sum -= weight;
    }

    /// Forgets the first idle entity whose finish the virtual time has reached (`bfq_forget_idle`).
    pub(super) fn forget_idle(&mut self, group: GroupId, class: Class) {
        let tree = &mut self.groups[group].trees[class.index()];
        let (Some(&first), Some(&last)) = (tree.idle.first(), tree.idle.last()) else { return };
        let last_finish = self.entities[last].finish;
        if tree.active.is_empty() && !last_finish.is_after(tree.vtime) {
            tree.vtime = last_finish;
        }
        if !self.entities[first].finish.is_after(tree.vtime) {
            self.extract_idle(first);
            self.forget(first);
        }
    }

    /// Brings a changed weight into force, and a changed class if the entity is on no tree
    /// (`__bfq_entity_update_weight_prio`).
    pub(super) fn update_weight(&mut self, entity: EntityId, class_too: bool) {
        let before = self.entities[entity];
        if !before.weight_changed {
            return;
        }
        self.tree_of(entity).weight_sum -= before.weight;
        let is_queue = before.queue().is_some();
        let changed = &mut self.entities[entity];
        changed.orig_weight = changed.new_weight;
        if is_queue && class_too {
            changed.class = changed.new_class;
        }
        changed.weight_changed = is_queue && changed.class != changed.new_class;
        let weight = changed.orig_weight * if is_queue { changed.raising } else { 1 };
        if weight != before.weight && is_queue {
            self.discount_weight(entity);
        }
        self.entities[entity].weight = weight;
        if weight != before.weight && is_queue && !before.is_raised() {
            self.count_weight(entity);
        }
        let tree = self.tree_of(entity);
        tree.weight_sum += weight;
        let vtime = tree.vtime;
        let changed = &mut self.entities[entity];
        if changed.class != before.class {
            changed.start = vtime;
        }
    }

    /// An entity and those above it have received this much service (`bfq_bfqq_served`).
    pub(super) fn served(&mut self, entity: EntityId, service: u64) {
        let mut at = Some(entity);
        while let Some(entity) = at {
            let served = &mut self.entities[entity];
            served.service += service;
            let Entity { group, class, parent, .. } = *served;
            let tree = &mut self.groups[group].trees[class.index()];
            tree.vtime = tree.vtime.after_service(service, tree.weight_sum);
            self.forget_idle(group, class);
            at = parent;
        }
    }

    /// Puts an entity on its active tree; its finish follows from its budget (`bfq_update_fin_time_enqueue`).
    fn enqueue(&mut self, entity: EntityId, backshifted: bool) {
        self.update_weight(entity, true);
        let budget = self.entities[entity].budget;
        self.set_finish(entity, budget);
        let vtime = self.tree_of(entity).vtime;
        let entry = &mut self.entities[entity];
        // An entity that was shifted back far must not hold the device until it has made up for all it missed. A
        // raised entity may make up for most of it.
        if backshifted && vtime.is_after(entry.finish) {
            let behind = vtime.span_since(entry.finish, entry.raising);
            entry.start = entry.start.moved_by(behind);
            entry.finish = entry.finish.moved_by(behind);
        }
        self.insert_active(entity);
    }

    /// Puts an entity on its active tree that was idle or forgotten (`__bfq_activate_entity`).
    fn activate_entity(&mut self, entity: EntityId, waited: bool) {
        let vtime = self.tree_of(entity).vtime;
        let Entity { finish, place, weight, .. } = self.entities[entity];
        let backshifted = waited && vtime.is_after(finish);
        let earliest = if backshifted { finish } else { vtime };
        if place == Place::Idle {
            self.extract_idle(entity);
            self.entities[entity].start = if earliest.is_after(finish) { earliest } else { finish };
        } else {
            self.tree_of(entity).weight_sum += weight;
            let entity = &mut self.entities[entity];
            entity.start = earliest;
            entity.scheduled = true;
        }
        self.enqueue(entity, backshifted);
    }

    /// Puts an entity on its active tree that is in service or already there (`__bfq_requeue_entity`).
    fn requeue_entity(&mut self, entity: EntityId) {
        let Entity { group, service, place, .. } = self.entities[entity];
        if self.groups[group].in_service == Some(entity) {
            self.set_finish(entity, service);
            let served = &mut self.entities[entity];
            served.start = served.finish;
        }
        if place == Place::Active {
            self.extract_active(entity);
        }
        self.enqueue(entity, false);
    }

    /// An entity has work: it is put on its tree or moves on it, and so do the entities above it
    /// (`bfq_activate_requeue_entity`). `waited`: it was waiting for this work (`non_blocking_wait_rq`).
    pub(super) fn activate(&mut self, clock: &Clock, entity: EntityId, waited: bool, change: Change) {
        let mut at = Some(entity);
        while let Some(entity) = at {
            let Entity { group, place, parent, .. } = self.entities[entity];
            if self.groups[group].in_service == Some(entity) || place == Place::Active {
                self.requeue_entity(entity);
            } else {
                self.activate_entity(entity, waited);
            }
            if !self.update_next(clock, group, Some(entity), change.expiring) && !change.requeue {
                return;
            }
            at = parent;
        }
    }

    /// Takes an entity off its tree or out of service (`__bfq_deactivate_entity`). False if it was on none.
    fn deactivate_entity(&mut self, entity: EntityId) -> bool {
        let Entity { group, service, place, scheduled, .. } = self.entities[entity];
        if !scheduled {
            return false;
        }
        self.set_finish(entity, service);
        if self.groups[group].in_service == Some(entity) {
            self.groups[group].in_service = None;
        } else {
            // Its turn does not end, where the service would be reset.
            self.entities[entity].service = 0;
        }
        match place {
            Place::Active => self.extract_active(entity),
            Place::Idle => self.extract_idle(entity),
            Place::Nowhere => {}
        }
        let vtime = self.tree_of(entity).vtime;
        if self.entities[entity].finish.is_after(vtime) {
            self.insert_idle(entity);
        } else {
            self.forget(entity);
        }
        true
    }

    /// An entity has no work any more, and neither has a group above it that holds nothing else
    /// (`bfq_deactivate_entity`).
    pub(super) fn deactivate(&mut self, clock: &Clock, entity: EntityId, expiring: bool) {
        let mut at = Some(entity);
        // The first entity above that keeps other work.
        let mut above = None;
        while let Some(entity) = at {
            let Entity { group, parent, .. } = self.entities[entity];
            if !self.deactivate_entity(entity) {
                return;
            }
            if self.groups[group].next == Some(entity) {
                self.update_next(clock, group, None, expiring);
            }
            if self.groups[group].next.is_some() || self.groups[group].in_service.is_some() {
                above = parent;
                break;
            }
            at = parent;
        }
        while let Some(entity) = above {
            let Entity { group, parent, .. } = self.entities[entity];
            self.requeue_entity(entity);
            if !self.update_next(clock, group, Some(entity), expiring) && !expiring {
                return;
            }
            above = parent;
        }
    }

    /// A queue and the groups above it are no longer in service (`__bfq_bfqd_reset_in_service`).
    pub(super) fn reset_in_service(&mut self, entity: EntityId) {
        let mut at = Some(entity);
        while let Some(entity) = at {
            let Entity { group, parent, .. } = self.entities[entity];
            self.groups[group].in_service = None;
            at = parent;
        }
    }

    /// The groups above a queue begin to count their service anew (`bfq_bfqq_expire`).
    pub(super) fn reset_service_above(&mut self, entity: EntityId) {
        let mut above = self.entities[entity].parent;
        while let Some(entity) = above {
            self.entities[entity].service = 0;
            above = self.entities[entity].parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use traces::Nanos;

    use super::super::ids::Id as _;
    use super::*;

    #[test]
    fn entity_that_ends_out_of_service_finishes_by_the_service_that_it_received() {
        let (clock, mut service) = (Clock::new(Nanos::from_ms(4)), Service::new());
        let entity = service.new_entity(QueueId::new(0), GroupId::ROOT, 100, Class::BestEffort);
        let entity = service.entities.push(Entity { budget: 1000, ..entity });
        service.activate(&clock, entity, false, Change { requeue: false, expiring: false });
        let start = service.entities[entity].start;
        assert_eq!(service.entities[entity].finish, start.after_service(1000, 100));
        // It is served while another is in service: injected.
        service.served(entity, 64);
        service.deactivate(&clock, entity, false);
        let Entity { finish, service: received, .. } = service.entities[entity];
        assert_eq!((finish, received), (start.after_service(64, 100), 0));
    }
}
