//! Batches, first come first served: when a batch is used up, the oldest `batch_max` waiting requests become the next
//! one. A batch is served as a whole before any request that arrived after it was cut. Inside, a batch is served
//! upwards from the head and then on from the lowest (`within=cscan`), or in order of arrival (`within=arrival`, which
//! is fifo except for capacity). So no request waits longer than its batch and those before it: the N-step scan of
//! Frank 1969, or FSCAN if `batch_max` is large.
//!
//! The name is that of DiskSim's BATCH_FCFS, which keeps batches that their sender marks, and sends none before it is
//! complete. Here requests carry no such mark, so batches are cut by arrival.
//!
//! Reads, or all others, are passed over if there is no capacity for them. The batch ends only after they have been
//! sent, too: the next batch waits even if there is no capacity for the rest of this one.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::id_list::IdList;
use crate::lba_queue::{Classes, LbaQueue};
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "batch-fcfs",
    summary: "batches in order of arrival, each batch in ascending address order (N-step scan, FSCAN)",
    origin: "DiskSim 4 BATCH_FCFS, batches cut as in Frank 1969 (N-step scan)",
    tunables: &[
        Tunable::new("batch_max", Unit::Count, "32", "most requests of a batch").within(1, u64::MAX),
        Tunable::new("within", Unit::Choice(&["cscan", "arrival"]), "cscan", "the order within a batch"),
    ],
    rules: &[],
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(BatchFcfs {
        batch_max: settings.count("batch_max"),
        by_arrival: settings.word("within") == "arrival",
        batch: LbaQueue::default(),
        later: IdList::default(),
        requests: Slots::default(),
    })
}

/// A request that waits, if it waits.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting(Option<Request>);

#[derive(Debug)]
struct BatchFcfs {
    batch_max: u64,
    by_arrival: bool,
    /// The batch that is being served.
    batch: LbaQueue,
    /// Those of later batches, by arrival.
    later: IdList,
    requests: Slots<Waiting>,
}

impl BatchFcfs {
    /// Cuts the next batch if the last is used up.
    fn cut(&mut self) {
        if self.batch.len() > 0 {
            return;
        }
        for _ in 0..self.batch_max {
            let Some(id) = self.later.first() else { return };
            self.later.remove(id);
            let Waiting(request) = self.requests[id];
            self.batch.insert(id, &request.expect("what is listed waits"));
        }
    }

    fn choose(&self, classes: Classes, cost: &dyn AccessCost) -> Option<RequestId> {
        if self.by_arrival {
            let all = self.batch.ascending_from(Lba::ZERO, classes);
            return all.min_by_key(|entry| entry.age).map(|entry| entry.id());
        }
        self.batch.circular(cost.position(), classes).map(|entry| entry.id())
    }
}

impl Scheduler for BatchFcfs {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.requests.set(id, Waiting(Some(*request)));
        self.later.push_back(id);
    }

    fn dispatch(&mut self, _now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        self.cut();
        let Some(id) = self.choose(Classes::with(capacity), cost) else { return Dispatch::Idle };
        self.batch.remove(id);
        Dispatch::Send(id)
    }

    fn remove(&mut self, id: RequestId) {
        if self.later.contains(id) { self.later.remove(id) } else { self.batch.remove(id) }
    }

    /// It belongs to the batch it was sent with, if that is not over, and else begins the next.
    fn requeue(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.requests.set(id, Waiting(Some(*request)));
        if self.batch.len() > 0 { self.batch.insert(id, request) } else { self.later.push_front(id) }
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        self.requests[into] = Waiting(Some(*request));
        if !self.later.contains(into) {
            self.batch.grown(into, request);
        }
    }

    fn waiting(&self) -> usize {
        self.batch.len() + self.later.len()
    }
}
