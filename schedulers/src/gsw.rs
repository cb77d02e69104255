//! The scheduler of Geist, Steele and Westall 2005: the table of Geist and Ross with a busdriver
//! delay, as Geist et al. 2010, section 2.2, sum it up. Reads and writes are treated alike. Leaves
//! out the additions of their later scheduler: the drive's cache and deadlines ([`crate::cats`]).
//!
//! It waits after completions; when exactly, says [`crate::busdriver`]. The 7 ms are those of
//! CATS: the delay of 2005 is not known from the later paper.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Request, RequestId, Timestamp};

use crate::busdriver::Busdriver;
use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::table::{TABLE_MAX, Table};

/// The delay, for every policy that has one.
pub(crate) const BUSDRIVER_DELAY: Tunable = Tunable::new(
    "busdriver_delay",
    Unit::Time,
    "7ms",
    "pause after a completion for further arrivals, although requests are waiting",
);

const AT_ONCE: usize = 0;
const AFTER_DELAY: usize = 1;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("table", "the next request of the table, sent without a wait"),
    RuleInfo::new("after the delay", "the next request of the table, after the policy waited for the busdriver delay"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "gsw",
    summary: "optimal sequence, with a pause after completions for further arrivals (busdriver delay)",
    origin: "Geist, Steele, Westall 2005 (Geist, Jones, Westall 2010, section 2.2)",
    tunables: &[BUSDRIVER_DELAY, TABLE_MAX],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Gsw {
        table: Table::new(settings.count("table_max")),
        busdriver: Busdriver::new(settings.nanos("busdriver_delay")),
        waits_for_delay: false,
        sent: [0; RULES.len()],
    })
}

#[derive(Debug)]
struct Gsw {
    table: Table,
    busdriver: Busdriver,
    /// Whether the last answer was to wait for the busdriver delay.
    waits_for_delay: bool,
    sent: [u64; RULES.len()],
}

impl Scheduler for Gsw {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.busdriver.arrived(request);
        self.table.insert(now, id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let has_waited = std::mem::take(&mut self.waits_for_delay);
        if let Some(until) = self.busdriver.waits_until(now)
            && self.table.can_send(capacity)
        {
            self.waits_for_delay = true;
            return Dispatch::WaitUntil(until);
        }
        let choice = self.table.dispatch(now, capacity, cost);
        if let Dispatch::Send(_) = choice {
            self.sent[if has_waited { AFTER_DELAY } else { AT_ONCE }] += 1;
        }
        choice
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        self.busdriver.completed(now, request);
    }

    fn remove(&mut self, id: RequestId) {
        self.table.remove(id);
        self.waits_for_delay &= self.table.waiting() > 0;
    }

    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.table.requeue(now, id, request);
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.table.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
