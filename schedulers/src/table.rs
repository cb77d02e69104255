//! The table scheduler of Geist and Ross 1997 as Geist et al. 2010, section 2.2, sum it up. Of all waiting requests,
//! reads and writes alike, it computes the sequence of service that minimises the sum of their completion times. It
//! follows the sequence until the queue changes. Leaves out, as they did, the dynamics of arrival and the drive's
//! cache; see [`crate::gsw`] and [`crate::cats`].
//!
//! A request stands at its first sector. A leg from one to the next costs what the drive gives for
//! it, without transfer, as in Table 1 and in the sector-to-sector model of
//! 2010. The sequence is always the best of those that serve each side of the head outwards. It is the best of all if
//! stopping on the way costs only what every stop costs. A leg then costs c + w, c the same for every leg and w
//! additive along the line: w(x,z) = w(x,y) + w(y,z) for y between x and z. Distance and the linear drive c + S·d/D are
//! such costs. Whatever order leaves a request out in passing then does not lose by taking it along. This does not hold
//! for a seek curve that is concave, nor for transfer times, which would make short requests worth serving first. An
//! order outside the table may then be better, and the table is a heuristic.
//!
//! The bound `table_max` is ours. A table has as many states as requests waiting below the head times those above. Only
//! that many nearest the head therefore take part, and the rest waits for a later table. Requests for which there is no
//! capacity are not in the table; when that changes it is built anew.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Request, RequestId, Sectors, Timestamp};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::interval_table::{IntervalTable, Side};
use crate::lba_queue::{Classes, LbaQueue};
use crate::plan::Plan;
use crate::scheduler::{Capacity, Dispatch, Scheduler};

/// The bound on a table, for every policy that builds one.
pub(crate) const TABLE_MAX: Tunable =
    Tunable::new("table_max", Unit::Count, "256", "number of requests in the table, those nearest to the head")
        .within(1, 1024);

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "table",
    summary: "optimal sequence of the waiting requests, by dynamic programming",
    origin: "Geist, Ross 1997 (Geist, Jones, Westall 2010, section 2.2)",
    tunables: &[TABLE_MAX],
    rules: &[],
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Table::new(settings.count("table_max")))
}

/// The policy.
#[derive(Debug)]
pub struct Table {
    queue: LbaQueue,
    plan: Plan,
    /// The classes the plan was made for; `None` once the queue has changed since.
    planned_for: Option<Classes>,
}

impl Table {
    /// A scheduler whose tables hold at most `table_max` requests.
    pub fn new(table_max: u64) -> Table {
        Table { queue: LbaQueue::default(), plan: Plan::new(table_max), planned_for: None }
    }

    /// How many tables have been built so far.
    pub fn tables_built(&self) -> u64 {
        self.plan.built()
    }

    /// Whether a request waits for which there is capacity.
    pub(crate) fn can_send(&self, capacity: Capacity) -> bool {
        !self.queue.is_empty(Classes::with(capacity))
    }
}

impl Scheduler for Table {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.queue.insert(id, request);
        self.plan.enroll(id);
        self.planned_for = None;
    }

    fn dispatch(&mut self, _now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let classes = Classes::with(capacity);
        if self.queue.is_empty(classes) {
            return Dispatch::Idle;
        }
        if self.planned_for != Some(classes) || self.plan.is_exhausted() {
            self.plan.build(&self.queue, classes, cost);
            self.planned_for = Some(classes);
        }
        let Some(id) = self.plan.next() else { return Dispatch::Idle };
        self.plan.strike(id);
        self.queue.remove(id);
        Dispatch::Send(id)
    }

    fn remove(&mut self, id: RequestId) {
        self.queue.remove(id);
        self.plan.strike(id);
        self.planned_for = None;
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        self.queue.grown(into, request);
        self.planned_for = None;
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}

/// The sequence the table gives for requests that start at `queue` with the head at `head`.
pub fn optimal_sequence(head: Lba, queue: &[Lba], cost: &dyn AccessCost) -> Vec<Lba> {
    let mut table = IntervalTable::default();
    let mut sorted = queue.to_vec();
    sorted.sort_unstable();
    let (below, above) = sorted.split_at(sorted.partition_point(|&lba| lba < head));
    table.below.extend(below.iter().rev());
    table.above.extend(above);
    let mut steps = Vec::new();
    table.solve(head, cost, &mut steps);
    let (mut below, mut above) = (below.iter().rev(), above.iter());
    let next = |side| if side == Side::Below { below.next() } else { above.next() };
    steps.into_iter().filter_map(next).copied().collect()
}

/// The sequence that always goes on to the request with the least cost from the head, the lowest of
/// several.
pub fn greedy_sequence(head: Lba, queue: &[Lba], cost: &dyn AccessCost) -> Vec<Lba> {
    let mut left = queue.to_vec();
    left.sort_unstable();
    let mut from = head;
    let mut sequence = Vec::with_capacity(left.len());
    while let Some(nearest) = (0..left.len()).min_by_key(|&index| cost.between(from, left[index], Sectors::ZERO)) {
        from = left.remove(nearest);
        sequence.push(from);
    }
    sequence
}

/// The total time of serving requests in a certain sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// How many requests there are.
    pub requests: u64,
    /// The sum of their service times in nanoseconds.
    pub service_ns: u128,
    /// The sum of their completion times in nanoseconds, all having arrived at zero.
    pub response_ns: u128,
}

/// The total time of serving `sequence` in its order, with legs counted as the table counts them.
pub fn evaluate(head: Lba, sequence: &[Lba], cost: &dyn AccessCost) -> Evaluation {
    let mut evaluation = Evaluation::default();
    let mut from = head;
    for &to in sequence {
        evaluation.requests += 1;
        evaluation.service_ns += u128::from(cost.between(from, to, Sectors::ZERO).as_ns());
        evaluation.response_ns += evaluation.service_ns;
        from = to;
    }
    evaluation
}
