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
use crate::entry::Entry;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::table::{TABLE_MAX, Table};

/// The delay, for every policy that has one.
pub(crate) const BUSDRIVER_DELAY: Tunable = Tunable::new(
    "busdriver_delay",
    Unit::Time,
    "7ms",
    "pause after a completion for further arrivals, although requests are waiting",
);

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "gsw",
    summary: "optimal sequence, with a pause after completions for further arrivals (busdriver delay)",
    origin: "Geist, Steele, Westall 2005 (Geist, Jones, Westall 2010, section 2.2)",
    tunables: &[BUSDRIVER_DELAY, TABLE_MAX],
    build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Gsw {
        table: Table::new(settings.count("table_max")),
        busdriver: Busdriver::new(settings.nanos("busdriver_delay")),
    })
}

#[derive(Debug)]
struct Gsw {
    table: Table,
    busdriver: Busdriver,
}

impl Scheduler for Gsw {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.busdriver.arrived(request);
        self.table.insert(now, id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        match self.busdriver.waits_until(now) {
            Some(until) if self.table.can_send(capacity) => Dispatch::WaitUntil(until),
            _ => self.table.dispatch(now, capacity, cost),
        }
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        self.busdriver.completed(now, request);
    }

    fn remove(&mut self, id: RequestId) {
        self.table.remove(id);
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
}
