//! The data of the fair queueing: entities (queues, and groups of queues), the service tree of each class, and
//! groups. Linux 6.18, `struct bfq_entity`, `struct bfq_service_tree` and `struct bfq_sched_data`.

use super::clock::Jiffy;
use super::ids::{EntityId, GroupId, QueueId};
use super::tree::ActiveTree;
use super::virtual_time::VirtualTime;

/// The classes of I/O priority; an earlier one is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    RealTime,
    /// The class of every group, and of requests without priority.
    BestEffort,
    Idle,
}

impl Class {
    pub(super) const COUNT: usize = 3;
    pub(super) const ALL: [Class; Class::COUNT] = [Class::RealTime, Class::BestEffort, Class::Idle];

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// The tree on which an entity is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// On no tree: in service, or without requests and forgotten.
    #[default]
    Nowhere,
    /// On the active tree: has requests.
    Active,
    /// On the idle tree: has no requests, but its finish is later than the virtual time.
    Idle,
}

/// The queue or group that an entity represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Queue(QueueId),
    Group(GroupId),
}

/// A queue or a group as the fair queueing sees it. Service and budget are in sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) member: Member,
    /// The group that holds this entity, and that group's own entity; the root has none.
    pub(super) group: GroupId,
    pub(super) parent: Option<EntityId>,
    pub(super) start: VirtualTime,
    pub(super) finish: VirtualTime,
    /// The service that the entity may receive before its turn ends.
    pub(super) budget: u64,
    /// The service since the last turn ended.
    pub(super) service: u64,
    /// The weight in force: the original one times `raising`.
    pub(super) weight: u64,
    pub(super) orig_weight: u64,
    /// The original weight that comes into force at the next update.
    pub(super) new_weight: u64,
    /// The factor by which the weight is raised, 1 if it is not raised (`wr_coeff`).
    pub(super) raising: u64,
    pub(super) class: Class,
    pub(super) new_class: Class,
    /// Weight or class must be updated (`prio_changed`).
    pub(super) weight_changed: bool,
    /// On a tree or in service (`on_st_or_in_serv`).
    pub(super) scheduled: bool,
    pub(super) place: Place,
    /// The weight under which the queue is counted among the queues that share the device.
    pub(super) counted: Option<u64>,
}

impl Entity {
    /// The state of an entity that has just been created.
    pub(super) fn new(member: Member, group: GroupId, parent: Option<EntityId>, weight: u64, class: Class) -> Entity {
        Entity {
            member,
            group,
            parent,
            start: VirtualTime::default(),
            finish: VirtualTime::default(),
            budget: 0,
            service: 0,
            weight,
            orig_weight: weight,
            new_weight: weight,
            raising: 1,
            class,
            new_class: class,
            weight_changed: matches!(member, Member::Queue(_)),
            scheduled: false,
            place: Place::Nowhere,
            counted: None,
        }
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raising > 1
    }

    pub(super) fn queue(&self) -> Option<QueueId> {
        match self.member {
            Member::Queue(queue) => Some(queue),
            Member::Group(_) => None,
        }
    }

    /// The rest of the budget in sectors; `None` if the entity has received more than its budget.
    pub(super) fn budget_left(&self) -> Option<u64> {
        self.budget.checked_sub(self.service)
    }

    /// Whether at least a third of the budget is left.
    pub(super) fn has_a_third_left(&self) -> bool {
        self.budget_left().is_some_and(|left| left >= self.budget / 3)
    }
}

/// The entities of one class in one group.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceTree {
    pub(super) active: ActiveTree,
    /// Entities without requests whose finish is later than the virtual time, in order of their finish.
    pub(super) idle: Vec<EntityId>,
    pub(super) vtime: VirtualTime,
    pub(super) weight_sum: u64,
}

/// A group: the root, or a cgroup.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The group's own entity; the root has none.
    pub(super) entity: Option<EntityId>,
    pub(super) trees: [ServiceTree; Class::COUNT],
    pub(super) in_service: Option<EntityId>,
    pub(super) next: Option<EntityId>,
    /// When the idle class was last served or found empty (`bfq_class_idle_last_service`).
    pub(super) idle_class_served: Jiffy,
    pub(super) active_entities: u32,
    /// The number of queues in the group with requests waiting or in flight.
    pub(super) pending_queues: u32,
}

impl Group {
    pub(super) fn new(entity: Option<EntityId>) -> Group {
        Group {
            entity,
            trees: Default::default(),
            in_service: None,
            next: None,
            idle_class_served: Jiffy::ZERO,
            active_entities: 0,
            pending_queues: 0,
        }
    }
}
