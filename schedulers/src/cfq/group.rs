//! Groups (3.5). They share the device's time by weight. Within a group each class and kind of load has its share of
//! the group's time. Linux 2.6.30 has one group, of which nothing but the trees is used.

use super::Cfq;
use super::queue::{Class, Kind, ThinkTime};
use super::service::{TREES, as_id, signed, tree_number};
use super::slice::{TICK, scaled};
use crate::order::Order;

/// A weight at which vdisktime passes as time does (`CFQ_WEIGHT_DEFAULT`).
const WEIGHT_DEFAULT: u64 = 500;
/// vdisktime in a tick (1 << `CFQ_SERVICE_SHIFT`).
const VDISKTIME_TICK: u64 = 1 << 12;
/// How far behind the last group one begins (`CFQ_IDLE_DELAY`, a number of ticks that the kernel
/// adds to vdisktime as it is).
const VDISKTIME_DELAY: u64 = 200;
/// The least time for a kind of load (`CFQ_MIN_TT`); ns.
const WORKLOAD_MIN: u64 = 2 * TICK;

/// A group of queues.
#[derive(Debug)]
pub(super) struct Group {
    /// The queues that wait for their turn, by class and kind ([`tree_number`]).
    pub(super) trees: [Order; TREES],
    /// The think time of their processes together.
    pub(super) tree_think: [ThinkTime; TREES],
    pub(super) think: ThinkTime,
    /// Busy queues.
    pub(super) queues: u64,
    pub(super) in_flight: u64,
    weight: u64,
    /// The device time it has had, divided by its weight.
    vdisktime: u64,
    is_waiting: bool,
    /// Class, kind and rest (ns) of the service that was interrupted when its turn ended.
    pub(super) saved_workload: Option<(Class, Kind, u64)>,
    /// How many queues are busy on average, by class.
    average_busy: [u64; 2],
}

impl Group {
    pub(super) fn new(weight: u64) -> Group {
        Group {
            trees: Default::default(),
            tree_think: Default::default(),
            think: ThinkTime::default(),
            queues: 0,
            in_flight: 0,
            weight,
            vdisktime: 0,
            is_waiting: false,
            saved_workload: None,
            average_busy: [0, 0],
        }
    }

    /// Busy queues of a class.
    fn busy(&self, class: Class) -> u64 {
        let trees = match class {
            Class::Idle => TREES - 1..TREES,
            _ => tree_number(class, Kind::Async)..tree_number(class, Kind::Sync) + 1,
        };
        self.trees[trees].iter().map(|tree| tree.len() as u64).sum()
    }

    /// Busy async queues but for the idle class's.
    fn busy_async(&self) -> u64 {
        [Class::RealTime, Class::BestEffort]
            .iter()
            .map(|&class| self.trees[tree_number(class, Kind::Async)].len() as u64)
            .sum()
    }
}

/// The class and kind of load that has the device, and until when; ns, negative is before zero.
#[derive(Debug, Default)]
pub(super) struct Workload {
    class: Class,
    pub(super) kind: Kind,
    ends: i64,
}

impl Workload {
    /// Its service tree's number.
    pub(super) fn tree(&self) -> usize {
        tree_number(self.class, self.kind)
    }
}

impl Cfq {
    /// Makes sure that there is a group with this number.
    pub(super) fn have_group(&mut self, number: usize) {
        while self.groups.len() <= number {
            let mut group = Group::new(self.set.weight_of_group(self.groups.len()));
            group.think.last_end = self.now;
            self.groups.push(group);
        }
    }

    /// A group with requests waits for its turn: behind all others if it had none.
    pub(super) fn group_gained_queue(&mut self, number: usize) {
        self.groups[number].queues += 1;
        if self.groups[number].is_waiting {
            return;
        }
        let last = self.group_order.descending_before(u64::MAX).next();
        self.groups[number].vdisktime =
            last.map_or(self.vdisktime_min, |last| last.key.saturating_add(VDISKTIME_DELAY));
        self.enter_group_order(number);
    }

    pub(super) fn group_lost_queue(&mut self, number: usize) {
        self.groups[number].queues -= 1;
        if self.groups[number].queues == 0 {
            self.leave_group_order(number);
            self.groups[number].saved_workload = None;
        }
    }

    fn enter_group_order(&mut self, number: usize) {
        let group = &mut self.groups[number];
        group.is_waiting = true;
        self.weight_busy += group.weight;
        self.group_order.insert(as_id(number), group.vdisktime, self.turns);
        self.turns += 1;
    }

    fn leave_group_order(&mut self, number: usize) {
        let group = &mut self.groups[number];
        if std::mem::take(&mut group.is_waiting) {
            self.weight_busy -= group.weight;
            self.group_order.remove(as_id(number));
        }
    }

    /// A group's share of `target_latency`; ns.
    pub(super) fn group_slice(&self, number: usize) -> u64 {
        scaled(self.set.target_latency, self.groups[number].weight, self.weight_busy)
    }

    /// How many queues of a class are busy: quick to grow, slow to shrink (by a quarter of the way).
    pub(super) fn average_busy(&mut self, number: usize, class: Class) -> u64 {
        let group = &mut self.groups[number];
        let busy = group.busy(class);
        let Some(average) = group.average_busy.get_mut(class as usize) else { return busy };
        *average = (3 * busy.max(*average) + busy.min(*average) + 2) / 4;
        *average
    }

    /// The active queue's slice is over: its group pays for it (`cfq_group_served`).
    pub(super) fn charge_group(&mut self, queue: usize) {
        let number = self.queues[queue].group;
        let charge = self.charge(queue);
        let was_waiting = self.groups[number].is_waiting;
        self.leave_group_order(number);
        let group = &mut self.groups[number];
        group.vdisktime =
            group.vdisktime.saturating_add(scaled(scaled(charge, VDISKTIME_TICK, TICK), WEIGHT_DEFAULT, group.weight));
        if was_waiting {
            self.enter_group_order(number);
        }
        let rest = self.workload.ends.saturating_sub(self.now.as_ns() as i64);
        let saved = (rest > 0).then_some((self.workload.class, self.workload.kind, rest as u64));
        self.groups[number].saved_workload = saved;
    }

    /// The charge for a slice: the time since its first completion, but no more than it was given. Before the first
    /// completion it is the time since the queue became active, at least a tick. A tick per request if no idling and
    /// the device queues; and all of it for async where no sync is.
    fn charge(&self, number: usize) -> u64 {
        let queue = &self.queues[number];
        let group = &self.groups[queue.group];
        let busy_idle = group.busy(Class::Idle);
        if self.set.slice_idle == 0 && self.queueing.is_assumed() {
            return queue.slice_sent.saturating_mul(TICK);
        }
        if !queue.is_sync && group.queues == group.busy_async() + busy_idle {
            return queue.slice_allocated;
        }
        match queue.slice_start {
            Some(start) if start != self.now => self.now.saturating_since(start).as_ns().min(queue.slice_allocated),
            _ => self.now.saturating_since(queue.active_since).as_ns().max(TICK),
        }
    }

    /// The group with the least vdisktime, with its class and kind of load set (`cfq_choose_cfqg`).
    pub(super) fn choose_group(&mut self) -> Option<usize> {
        let first = self.group_order.first()?;
        let number = first.id as usize;
        self.vdisktime_min = self.vdisktime_min.max(first.key);
        let now = self.now.as_ns() as i64;
        self.workload.ends = match self.groups[number].saved_workload {
            Some((class, kind, rest)) => {
                (self.workload.class, self.workload.kind) = (class, kind);
                now.saturating_add(rest as i64)
            }
            None => now - 1,
        };
        self.choose_workload(number);
        Some(number)
    }

    /// Chooses the highest class with requests. In it, chooses the kind of load that was interrupted, or else the one
    /// whose first queue has waited longest. That kind gets a share of the group's slice by its busy queues.
    fn choose_workload(&mut self, number: usize) {
        let now = self.now.as_ns() as i64;
        let group = &self.groups[number];
        let class = [Class::RealTime, Class::BestEffort].into_iter().find(|&class| group.busy(class) > 0);
        let before = self.workload.class;
        let Some(class) = class else {
            self.workload.class = Class::Idle;
            self.workload.ends = now.saturating_add(TICK as i64);
            return;
        };
        self.workload.class = class;
        if before == class && !group.trees[self.workload.tree()].is_empty() && now <= self.workload.ends {
            return;
        }
        let first_key = |kind: &Kind| group.trees[tree_number(class, *kind)].first().map(|entry| signed(entry.key));
        let waiting = Kind::ALL.into_iter().filter_map(|kind| Some((first_key(&kind)?, kind)));
        self.workload.kind = waiting.min_by_key(|&(key, _)| key).map_or(Kind::SyncNoidle, |(_, kind)| kind);
        let queues = group.trees[self.workload.tree()].len() as u64;
        let busy = group.busy(class).max(group.average_busy[class as usize]);
        let mut slice = scaled(self.group_slice(number), queues, busy);
        if self.workload.kind == Kind::Async {
            slice = slice.min(scaled(self.set.target_latency, group.busy_async(), self.busy));
            slice = scaled(slice, self.set.slice[0], self.set.slice[1]);
        } else {
            slice = slice.max(2 * self.set.slice_idle);
        }
        self.workload.ends = now.saturating_add(slice.max(WORKLOAD_MIN) as i64);
    }
}
