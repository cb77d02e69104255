//! A sequence of service computed by table, followed until it is computed anew.

use traces::{Lba, RequestId};

use crate::cost::AccessCost;
use crate::interval_table::{IntervalTable, Side};
use crate::lba_queue::{Classes, LbaQueue};
use crate::order::Entry;
use crate::slots::Slots;

/// The sequence, and the table it comes from.
#[derive(Debug)]
pub(crate) struct Plan {
    /// How many requests a table holds at most; see [`Plan::build`].
    table_max: usize,
    table: IntervalTable,
    below: Vec<Entry>,
    above: Vec<Entry>,
    steps: Vec<Side>,
    sequence: Vec<RequestId>,
    next: usize,
    /// Whether a request is in the part of the sequence that is still to come.
    planned: Slots<bool>,
    planned_left: usize,
    built: u64,
}

impl Plan {
    pub(crate) fn new(table_max: u64) -> Plan {
        Plan {
            table_max: usize::try_from(table_max).unwrap_or(usize::MAX),
            table: IntervalTable::default(),
            below: Vec::new(),
            above: Vec::new(),
            steps: Vec::new(),
            sequence: Vec::new(),
            next: 0,
            planned: Slots::default(),
            planned_left: 0,
            built: 0,
        }
    }

    /// How many tables have been built.
    pub(crate) fn built(&self) -> u64 {
        self.built
    }

    /// Whether nothing of the sequence is left.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.planned_left == 0
    }

    /// The next request of the sequence.
    pub(crate) fn next(&mut self) -> Option<RequestId> {
        while let Some(&id) = self.sequence.get(self.next) {
            if self.planned[id] {
                return Some(id);
            }
            self.next += 1;
        }
        None
    }

    /// A new request has this id: an old one is not in the sequence.
    pub(crate) fn enroll(&mut self, id: RequestId) {
        self.planned.set(id, false);
    }

    /// A request is gone, or has been served.
    pub(crate) fn strike(&mut self, id: RequestId) {
        if std::mem::take(&mut self.planned[id]) {
            self.planned_left -= 1;
        }
    }

    /// Drops the rest of the sequence.
    pub(crate) fn abandon(&mut self) {
        for &id in &self.sequence[self.next..] {
            self.planned[id] = false;
        }
        self.sequence.clear();
        (self.next, self.planned_left) = (0, 0);
    }

    /// Computes the sequence of these classes anew, with the head where it will be. If more than
    /// `table_max` requests wait, the nearest take part, in distance from the head; ties go below.
    pub(crate) fn build(&mut self, queue: &LbaQueue, classes: Classes, cost: &dyn AccessCost) {
        self.abandon();
        self.built += 1;
        let head = cost.position();
        self.collect(queue, classes, head);
        let starts = |entries: &[Entry], lbas: &mut Vec<Lba>| {
            lbas.clear();
            lbas.extend(entries.iter().map(|entry| Lba::new(entry.key)));
        };
        starts(&self.below, &mut self.table.below);
        starts(&self.above, &mut self.table.above);
        self.table.solve(head, cost, &mut self.steps);
        let (mut below, mut above) = (self.below.iter(), self.above.iter());
        self.sequence.extend(self.steps.iter().filter_map(|side| match side {
            Side::Below => below.next().map(Entry::id),
            Side::Above => above.next().map(Entry::id),
        }));
        for &id in &self.sequence {
            self.planned[id] = true;
        }
        self.planned_left = self.sequence.len();
    }

    fn collect(&mut self, queue: &LbaQueue, classes: Classes, head: Lba) {
        self.below.clear();
        self.below.extend(queue.descending_before(head, classes).take(self.table_max));
        for equals in self.below.chunk_by_mut(|a, b| a.key == b.key) {
            equals.reverse();
        }
        self.above.clear();
        self.above.extend(queue.ascending_from(head, classes).take(self.table_max));
        let distance = |entry: &Entry| head.distance(Lba::new(entry.key));
        while self.below.len() + self.above.len() > self.table_max {
            let below_is_farther = self.below.last().map(distance) > self.above.last().map(distance);
            if below_is_farther {
                self.below.pop()
            } else {
                self.above.pop()
            };
        }
    }
}
