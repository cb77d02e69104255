//! SCAN: the head sweeps from edge to edge and serves the requests ahead. After Coffman and Hofri 1982 as Geist et al.
//! 2010 describe it ("without regard to the extent of the requests that are actually queued"). Leaves out rotation, and
//! sweeping while nothing waits.
//!
//! No request makes a drive seek to an edge, so the trip is paid as a wait. When requests wait only behind the head,
//! the policy waits for the time of a seek to the edge and back, and then reverses. That time is twice the cost of
//! moving there over that of staying. A request that arrives ahead meanwhile is served at once, and the trip begins
//! anew behind it. If all requests behind are cancelled, the trip is over without a reversal.

use traces::spec::Settings;
use traces::{Nanos, Timestamp};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::lba_queue::{Classes, LbaQueue};
use crate::scheduler::{Dispatch, Scheduler};
use crate::sorted::{Rule, Sorted};
use crate::sweep::Sweep;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "scan",
    summary: "elevator: sweeps to the edge of the disk, then reverses",
    origin: "Coffman, Hofri 1982 (as cited by Geist, Jones, Westall 2010)",
    tunables: &[],
    rules: &[],
    build: &build,
};

fn build(_settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Sorted::<Scan>::default())
}

#[derive(Debug, Default)]
struct Scan {
    sweep: Sweep,
    /// When the trip to the edge and back ends, if the head is on one.
    back_from_edge: Option<Timestamp>,
}

impl Rule for Scan {
    fn choose(&mut self, now: Timestamp, waiting: &LbaQueue, classes: Classes, cost: &dyn AccessCost) -> Dispatch {
        let head = cost.position();
        if let Some(ahead) = self.sweep.next(waiting, head, classes) {
            self.back_from_edge = None;
            return Dispatch::Send(ahead.id());
        }
        let Some(behind) = self.sweep.reversed().next(waiting, head, classes) else {
            self.back_from_edge = None;
            return Dispatch::Idle;
        };
        let back = *self
            .back_from_edge
            .get_or_insert_with(|| now.saturating_add(Nanos::from_ns(self.sweep.edge_trip_ns(head, cost))));
        if back > now {
            return Dispatch::WaitUntil(back);
        }
        self.back_from_edge = None;
        self.sweep = self.sweep.reversed();
        Dispatch::Send(behind.id())
    }
}
