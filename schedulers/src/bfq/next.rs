//! Which entity of a group is next, and putting it into service.

use super::clock::Clock;
use super::service::{CLASSES, Entity, IDLE, NONE, Place, Service, is_after};

/// How long the idle class may go without service, in milliseconds.
const IDLE_CLASS_TIMEOUT_MS: i64 = 200;

impl Service {
    /// Finds out which entity of a group is next. Whether that may change what is next above it.
    pub(super) fn update_next(&mut self, clock: &Clock, group: u32, changed: u32, expiring: bool) -> bool {
        let current = self.groups[group as usize].next;
        let directly = changed != NONE && changed != current && {
            let new = self.entities[changed as usize];
            current == NONE || {
                let old = self.entities[current as usize];
                let vtime = self.groups[group as usize].trees[new.class].vtime;
                new.class == old.class && !is_after(new.start, vtime) && is_after(old.finish, new.finish)
            }
        };
        let next = if directly { changed } else { self.look_up_next(clock, group, expiring) };
        self.groups[group as usize].next = next;
        if next == NONE {
            return false;
        }
        let budget = self.entities[next as usize].budget;
        let above = self.groups[group as usize].entity;
        let sooner = above != NONE && self.entities[above as usize].budget > budget;
        if above != NONE {
            self.entity(above).budget = budget;
        }
        current == NONE || sooner
    }

    fn look_up_next(&mut self, clock: &Clock, group: u32, expiring: bool) -> u32 {
        let mut first_class = 0;
        let of = &mut self.groups[group as usize];
        if clock.is_past(of.idle_class_served + clock.jiffies_of_ms(IDLE_CLASS_TIMEOUT_MS)) {
            if !of.trees[IDLE].active.is_empty() {
                first_class = IDLE;
            }
            of.idle_class_served = clock.jiffy;
        }
        let in_service = of.in_service != NONE && !expiring;
        for class in first_class..CLASSES {
            let tree = &self.groups[group as usize].trees[class];
            let Some(least_start) = tree.active.least_start() else { continue };
            let vtime = if is_after(least_start, tree.vtime) { least_start } else { tree.vtime };
            if !in_service && vtime > tree.vtime {
                self.groups[group as usize].trees[class].vtime = vtime;
                self.forget_idle(group, class);
            }
            return self.groups[group as usize].trees[class].active.first_eligible(vtime);
        }
        NONE
    }

    /// Whether another than what is in service is next at the root.
    pub(super) fn next_may_preempt(&self) -> bool {
        self.groups[0].next != self.groups[0].in_service
    }

    /// Makes this queue next, and the groups it is in: somebody else's choice is followed.
    pub(super) fn force_next(&mut self, mut entity: u32) {
        while entity != NONE {
            let Entity { group, place, parent, .. } = self.entities[entity as usize];
            if place == Place::Active {
                self.groups[group as usize].next = entity;
            }
            entity = parent;
        }
    }

    /// Puts what is next into service, from the root down to a queue.
    pub(super) fn take_next(&mut self, clock: &Clock) -> u32 {
        let mut group = 0;
        let mut entity = NONE;
        while group != NONE {
            entity = self.groups[group as usize].next;
            if entity == NONE {
                return NONE;
            }
            self.groups[group as usize].in_service = entity;
            let children = self.entities[entity as usize].children;
            // A group stays a candidate as long as more than one of its entities is active.
            if children == NONE || self.groups[children as usize].active_entities == 1 {
                self.extract_active(entity);
            }
            group = children;
        }
        let queue = self.entities[entity as usize].queue;
        while entity != NONE {
            let Entity { group, parent, .. } = self.entities[entity as usize];
            if !self.update_next(clock, group, NONE, false) {
                break;
            }
            entity = parent;
        }
        queue
    }
}
