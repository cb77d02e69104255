//! B-WF2Q+: entities (queues, and groups of them) get service in proportion to their weights. An
//! entity is eligible once the virtual time of its tree has reached its start; of those that are,
//! the one that would finish its budget first is next. Virtual time is service over weight in
//! fixed point and wraps around (`block/bfq-wf2q.c`).

use super::clock::Clock;
use super::tree::ActiveTree;

/// No entity, queue, request, group or process.
pub(super) const NONE: u32 = u32::MAX;

/// How many classes there are: real time, best effort, idle.
pub(super) const CLASSES: usize = 3;
/// Best effort: the class of every group.
pub(super) const BEST_EFFORT: usize = 1;
/// The last class.
pub(super) const IDLE: usize = 2;

/// Fixed-point shift of virtual time.
const SERVICE_SHIFT: u32 = 22;
/// Whether the virtual time `a` is after `b`.
pub(super) fn is_after(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) > 0
}

/// Service in sectors as virtual time at this weight.
fn virtual_span(service: i64, weight: i64) -> u64 {
    ((service.max(0) as u64) << SERVICE_SHIFT) / weight.max(1) as u64
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// In service, or without requests and forgotten.
    #[default]
    Nowhere,
    Active,
    Idle,
}

/// A queue or a group as the fair queueing sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) start: u64,
    pub(super) finish: u64,
    /// Sectors it may get until it is expired.
    pub(super) budget: i64,
    /// Sectors it got since it was last expired.
    pub(super) service: i64,
    pub(super) weight: i64,
    pub(super) orig_weight: i64,
    pub(super) new_weight: i64,
    /// The factor by which the weight is raised; one is not raised.
    pub(super) wr_coeff: i64,
    pub(super) class: usize,
    pub(super) new_class: usize,
    pub(super) weight_changed: bool,
    /// On a tree, or in service.
    pub(super) scheduled: bool,
    pub(super) place: Place,
    /// The weight under which it is counted among those that share the device.
    pub(super) counted: Option<i64>,
    pub(super) parent: u32,
    /// The group it is in.
    pub(super) group: u32,
    /// The queue it stands for.
    pub(super) queue: u32,
    /// The group it stands for.
    pub(super) children: u32,
}

/// The entities of one class in one group.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceTree {
    pub(super) active: ActiveTree,
    /// Those without requests whose finish lies ahead of virtual time, in its order.
    idle: Vec<u32>,
    pub(super) vtime: u64,
    weight_sum: i64,
}

/// A group: the root, or a cgroup.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) trees: [ServiceTree; CLASSES],
    pub(super) in_service: u32,
    pub(super) next: u32,
    pub(super) idle_class_served: i64,
    /// Its entity; the root has none.
    pub(super) entity: u32,
    pub(super) active_entities: u32,
    /// How many queues in it have requests waiting or sent.
    pub(super) pending_queues: u32,
}

/// All entities and trees.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) entities: Vec<Entity>,
    pub(super) groups: Vec<Group>,
    /// Weights of the queues that are not raised and have requests, ascending, and how many have each.
    pub(super) weights: Vec<(i64, u32)>,
    /// The queues on active trees, the latest last.
    pub(super) active_queues: Vec<u32>,
    pub(super) groups_pending: u32,
}

impl Service {
    /// The root group alone.
    pub(super) fn new() -> Service {
        let mut service = Service {
            entities: Vec::new(),
            groups: Vec::new(),
            weights: Vec::new(),
            active_queues: Vec::new(),
            groups_pending: 0,
        };
        service.add_group_data(NONE);
        service
    }

    fn add_group_data(&mut self, entity: u32) -> u32 {
        self.groups.push(Group {
            trees: Default::default(),
            in_service: NONE,
            next: NONE,
            idle_class_served: 0,
            entity,
            active_entities: 0,
            pending_queues: 0,
        });
        self.groups.len() as u32 - 1
    }

    /// A new group of this weight below the root.
    pub(super) fn add_group(&mut self, weight: i64) -> u32 {
        let entity = self.add_entity(NONE, 0, weight, BEST_EFFORT);
        let group = self.add_group_data(entity);
        self.entities[entity as usize].children = group;
        group
    }

    /// A new entity in a group.
    pub(super) fn add_entity(&mut self, queue: u32, group: u32, weight: i64, class: usize) -> u32 {
        self.entities.push(self.fresh_entity(queue, group, weight, class));
        self.entities.len() as u32 - 1
    }

    /// What an entity is when its queue is created.
    pub(super) fn fresh_entity(&self, queue: u32, group: u32, weight: i64, class: usize) -> Entity {
        Entity {
            start: 0,
            finish: 0,
            budget: 0,
            service: 0,
            weight,
            orig_weight: weight,
            new_weight: weight,
            wr_coeff: 1,
            class,
            new_class: class,
            weight_changed: queue != NONE,
            scheduled: false,
            place: Place::Nowhere,
            counted: None,
            parent: self.groups.get(group as usize).map_or(NONE, |group| group.entity),
            group,
            queue,
            children: NONE,
        }
    }

    pub(super) fn tree_of(&mut self, entity: u32) -> &mut ServiceTree {
        let Entity { group, class, .. } = self.entities[entity as usize];
        &mut self.groups[group as usize].trees[class]
    }

    pub(super) fn entity(&mut self, entity: u32) -> &mut Entity {
        &mut self.entities[entity as usize]
    }

    fn set_finish(&mut self, entity: u32, service: i64) {
        let entity = self.entity(entity);
        entity.finish = entity.start.wrapping_add(virtual_span(service, entity.weight));
    }

    fn insert_active(&mut self, entity: u32) {
        let Entity { start, finish, group, queue, .. } = self.entities[entity as usize];
        self.tree_of(entity).active.insert(entity, start, finish);
        self.entity(entity).place = Place::Active;
        self.groups[group as usize].active_entities += 1;
        if queue != NONE {
            self.active_queues.push(queue);
        }
    }

    pub(super) fn extract_active(&mut self, entity: u32) {
        let Entity { group, queue, .. } = self.entities[entity as usize];
        self.tree_of(entity).active.remove(entity);
        self.entity(entity).place = Place::Nowhere;
        self.groups[group as usize].active_entities -= 1;
        if queue != NONE {
            let at = self.active_queues.iter().rposition(|&listed| listed == queue).expect("it is listed");
            self.active_queues.remove(at);
        }
    }

    fn insert_idle(&mut self, entity: u32) {
        let Entity { finish, group, class, .. } = self.entities[entity as usize];
        let entities = &self.entities;
        let idle = &mut self.groups[group as usize].trees[class].idle;
        let at = idle.partition_point(|&other| !is_after(entities[other as usize].finish, finish));
        idle.insert(at, entity);
        self.entity(entity).place = Place::Idle;
    }

    fn extract_idle(&mut self, entity: u32) {
        self.tree_of(entity).idle.retain(|&other| other != entity);
        self.entity(entity).place = Place::Nowhere;
    }

    fn forget(&mut self, entity: u32) {
        let weight = self.entities[entity as usize].weight;
        self.entity(entity).scheduled = false;
        self.tree_of(entity).weight_sum -= weight;
    }

    /// Lets go of the first idle entity that virtual time has passed.
    pub(super) fn forget_idle(&mut self, group: u32, class: usize) {
        let tree = &self.groups[group as usize].trees[class];
        let (Some(&first), Some(&last)) = (tree.idle.first(), tree.idle.last()) else { return };
        let last_finish = self.entities[last as usize].finish;
        if tree.active.is_empty() && !is_after(last_finish, tree.vtime) {
            self.groups[group as usize].trees[class].vtime = last_finish;
        }
        if !is_after(self.entities[first as usize].finish, self.groups[group as usize].trees[class].vtime) {
            self.extract_idle(first);
            self.forget(first);
        }
    }

    /// Brings a changed weight into force, and a changed class if the entity is on no tree.
    pub(super) fn update_weight(&mut self, entity: u32, class_too: bool) {
        let before = self.entities[entity as usize];
        if !before.weight_changed {
            return;
        }
        self.tree_of(entity).weight_sum -= before.weight;
        let is_queue = before.queue != NONE;
        let changed = self.entity(entity);
        changed.orig_weight = changed.new_weight;
        if is_queue && class_too {
            changed.class = changed.new_class;
        }
        changed.weight_changed = is_queue && changed.class != changed.new_class;
        let weight = changed.orig_weight * if is_queue { changed.wr_coeff } else { 1 };
        if weight != before.weight && is_queue {
            self.discount_weight(entity);
        }
        self.entity(entity).weight = weight;
        if weight != before.weight && is_queue && before.wr_coeff == 1 {
            self.count_weight(entity);
        }
        let tree = self.tree_of(entity);
        tree.weight_sum += weight;
        let vtime = tree.vtime;
        if self.entities[entity as usize].class != before.class {
            self.entity(entity).start = vtime;
        }
    }

    /// An entity and those above it have got this much service.
    pub(super) fn served(&mut self, mut entity: u32, service: i64) {
        while entity != NONE {
            let Entity { group, class, parent, .. } = self.entities[entity as usize];
            self.entity(entity).service += service;
            let tree = self.tree_of(entity);
            tree.vtime = tree.vtime.wrapping_add(virtual_span(service, tree.weight_sum));
            self.forget_idle(group, class);
            entity = parent;
        }
    }

    /// Puts an entity on its active tree with the finish its budget gives it.
    fn enqueue(&mut self, entity: u32, backshifted: bool) {
        self.update_weight(entity, true);
        let budget = self.entities[entity as usize].budget;
        self.set_finish(entity, budget);
        let vtime = self.tree_of(entity).vtime;
        let entry = self.entity(entity);
        // One that was shifted back far must not hold the device for all it missed; one that is raised
        // may for most.
        if backshifted && is_after(vtime, entry.finish) {
            let behind = vtime.wrapping_sub(entry.finish) / entry.wr_coeff as u64;
            entry.start = entry.start.wrapping_add(behind);
            entry.finish = entry.finish.wrapping_add(behind);
        }
        self.insert_active(entity);
    }

    fn activate_entity(&mut self, entity: u32, waited: bool) {
        let vtime = self.tree_of(entity).vtime;
        let Entity { finish, place, weight, .. } = self.entities[entity as usize];
        let backshifted = waited && is_after(vtime, finish);
        let earliest = if backshifted { finish } else { vtime };
        if place == Place::Idle {
            self.extract_idle(entity);
            self.entity(entity).start = if is_after(earliest, finish) { earliest } else { finish };
        } else {
            self.entity(entity).start = earliest;
            self.tree_of(entity).weight_sum += weight;
            self.entity(entity).scheduled = true;
        }
        self.enqueue(entity, backshifted);
    }

    fn requeue_entity(&mut self, entity: u32) {
        let Entity { group, service, place, .. } = self.entities[entity as usize];
        if self.groups[group as usize].in_service == entity {
            self.set_finish(entity, service);
            let served = self.entity(entity);
            served.start = served.finish;
        }
        if place == Place::Active {
            self.extract_active(entity);
        }
        self.enqueue(entity, false);
    }

    /// An entity has work: it comes onto its tree, or moves on it, and so do those above it.
    /// `waited`: it was waiting for this work. `requeue`: all above it stop being in service.
    pub(super) fn activate(&mut self, clock: &Clock, mut entity: u32, waited: bool, requeue: bool, expiring: bool) {
        while entity != NONE {
            let Entity { group, place, parent, .. } = self.entities[entity as usize];
            if self.groups[group as usize].in_service == entity || place == Place::Active {
                self.requeue_entity(entity);
            } else {
                self.activate_entity(entity, waited);
            }
            if !self.update_next(clock, group, entity, expiring) && !requeue {
                return;
            }
            entity = parent;
        }
    }

    fn deactivate_entity(&mut self, entity: u32, to_idle: bool) -> bool {
        let Entity { group, service, place, scheduled, .. } = self.entities[entity as usize];
        if !scheduled {
            return false;
        }
        if self.groups[group as usize].in_service == entity {
            self.set_finish(entity, service);
            self.groups[group as usize].in_service = NONE;
        }
        match place {
            Place::Active => self.extract_active(entity),
            Place::Idle => self.extract_idle(entity),
            Place::Nowhere => {}
        }
        let vtime = self.tree_of(entity).vtime;
        if to_idle && is_after(self.entities[entity as usize].finish, vtime) {
            self.insert_idle(entity);
        } else {
            self.forget(entity);
        }
        true
    }

    /// An entity has no more work; those above it neither, if it was all they had.
    pub(super) fn deactivate(&mut self, clock: &Clock, mut entity: u32, mut to_idle: bool, expiring: bool) {
        let mut above = NONE;
        while entity != NONE {
            let Entity { group, parent, .. } = self.entities[entity as usize];
            above = parent;
            if !self.deactivate_entity(entity, to_idle) {
                return;
            }
            if self.groups[group as usize].next == entity {
                self.update_next(clock, group, NONE, expiring);
            }
            if self.groups[group as usize].next != NONE || self.groups[group as usize].in_service != NONE {
                break;
            }
            to_idle = true;
            above = NONE;
            entity = parent;
        }
        entity = above;
        while entity != NONE {
            let Entity { group, parent, .. } = self.entities[entity as usize];
            self.requeue_entity(entity);
            if !self.update_next(clock, group, entity, expiring) && !expiring {
                return;
            }
            entity = parent;
        }
    }

    /// A queue and those above it are no longer in service.
    pub(super) fn reset_in_service(&mut self, mut entity: u32) {
        while entity != NONE {
            let Entity { group, parent, .. } = self.entities[entity as usize];
            self.groups[group as usize].in_service = NONE;
            entity = parent;
        }
    }

    /// The groups above a queue begin to count their service anew.
    pub(super) fn reset_service_above(&mut self, entity: u32) {
        let mut above = self.entities[entity as usize].parent;
        while above != NONE {
            self.entity(above).service = 0;
            above = self.entities[above as usize].parent;
        }
    }
}
