//! The choice of the entity that a group serves next, and its way into service. Linux 6.18, block/bfq-wf2q.c.

use traces::Nanos;

use super::clock::Clock;
use super::entity::{Class, Entity, Member, Place};
use super::ids::{EntityId, GroupId, QueueId};
use super::service::Service;

/// How long the idle class may go without service (`BFQ_CL_IDLE_TIMEOUT`).
const IDLE_CLASS_TIMEOUT: Nanos = Nanos::from_ms(200);

impl Service {
    /// Determines the entity that a group serves next (`bfq_update_next_in_service`). True if the choice of the group
    /// above may change with it.
    pub(super) fn update_next(
        &mut self,
        clock: &Clock,
        group: GroupId,
        changed: Option<EntityId>,
        expiring: bool,
    ) -> bool {
        let current = self.groups[group].next;
        let next = match changed {
            Some(changed) if self.goes_before_next(group, changed) => Some(changed),
            _ => self.look_up_next(clock, group, expiring),
        };
        self.groups[group].next = next;
        let Some(next) = next else { return false };
        let budget = self.entities[next].budget;
        let mut sooner = false;
        if let Some(above) = self.groups[group].entity {
            let above = &mut self.entities[above];
            sooner = above.budget > budget;
            above.budget = budget;
        }
        current.is_none() || sooner
    }

    /// Whether an entity that changed is next without a search of the trees.
    fn goes_before_next(&self, group: GroupId, changed: EntityId) -> bool {
        let group = &self.groups[group];
        let Some(current) = group.next else { return true };
        let (new, old) = (&self.entities[changed], &self.entities[current]);
        let vtime = group.trees[new.class.index()].vtime;
        changed != current && new.class == old.class && !new.start.is_after(vtime) && old.finish.is_after(new.finish)
    }

    /// Searches the trees of a group, a higher class first (`bfq_lookup_next_entity`).
    fn look_up_next(&mut self, clock: &Clock, group: GroupId, expiring: bool) -> Option<EntityId> {
        let mut first_class = Class::RealTime;
        let searched = &mut self.groups[group];
        if clock.is_longer_ago(searched.idle_class_served, clock.jiffies(IDLE_CLASS_TIMEOUT)) {
            if !searched.trees[Class::Idle.index()].active.is_empty() {
                first_class = Class::Idle;
            }
            searched.idle_class_served = clock.jiffy;
        }
        let in_service = searched.in_service.is_some() && !expiring;
        for class in Class::ALL.into_iter().skip(first_class.index()) {
            let tree = &mut self.groups[group].trees[class.index()];
            let Some(least_start) = tree.active.least_start() else { continue };
            let vtime = if least_start.is_after(tree.vtime) { least_start } else { tree.vtime };
            if !in_service && vtime.exceeds(tree.vtime) {
                tree.vtime = vtime;
                self.forget_idle(group, class);
            }
            return self.groups[group].trees[class.index()].active.first_eligible(vtime);
        }
        None
    }

    /// Whether the root would serve another entity than the one in service (`next_queue_may_preempt`).
    pub(super) fn next_may_preempt(&self) -> bool {
        let root = &self.groups[GroupId::ROOT];
        root.next != root.in_service
    }

    /// Makes a queue next, and the groups above it: the choice of another scheduler is followed.
    pub(super) fn force_next(&mut self, entity: EntityId) {
        let mut at = Some(entity);
        while let Some(entity) = at {
            let Entity { group, place, parent, .. } = self.entities[entity];
            if place == Place::Active {
                self.groups[group].next = Some(entity);
            }
            at = parent;
        }
    }

    /// Puts the next entities into service, from the root down to a queue (`bfq_get_next_queue`).
    pub(super) fn take_next(&mut self, clock: &Clock) -> Option<QueueId> {
        let mut group = GroupId::ROOT;
        let (entity, queue) = loop {
            let entity = self.groups[group].next?;
            self.groups[group].in_service = Some(entity);
            match self.entities[entity].member {
                Member::Queue(queue) => {
                    self.extract_active(entity);
                    break (entity, queue);
                }
                Member::Group(children) => {
                    // A group stays a candidate as long as more than one of its entities is active.
                    if self.groups[children].active_entities == 1 {
                        self.extract_active(entity);
                    }
                    group = children;
                }
            }
        };
        let mut at = Some(entity);
        while let Some(entity) = at {
            let Entity { group, parent, .. } = self.entities[entity];
            if !self.update_next(clock, group, None, false) {
                break;
            }
            at = parent;
        }
        Some(queue)
    }
}
