//! LOOK, the elevator: serves the requests ahead of the head in the direction it sweeps, and reverses at the last
//! request. It is Coffman and Hofri's scan without the trip to the edge. Leaves out rotation. Requests that arrive
//! ahead join the sweep, so a stream that keeps arriving ahead can hold up the other side.

use traces::Timestamp;
use traces::spec::Settings;

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::lba_queue::{Classes, LbaQueue};
use crate::scheduler::{Dispatch, Scheduler};
use crate::sorted::{Rule, Sorted};
use crate::sweep::Sweep;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "look",
    summary: "elevator: sweeps to the last request of a direction, then reverses",
    origin: "Coffman, Hofri 1982 (as cited by Geist, Jones, Westall 2010), without idle travel",
    tunables: &[],
    rules: &[],
    build: &build,
};

fn build(_settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Sorted::<Look>::default())
}

#[derive(Debug, Default)]
struct Look {
    sweep: Sweep,
}

impl Rule for Look {
    fn choose(&mut self, _now: Timestamp, waiting: &LbaQueue, classes: Classes, cost: &dyn AccessCost) -> Dispatch {
        let head = cost.position();
        if let Some(ahead) = self.sweep.next(waiting, head, classes) {
            return Dispatch::Send(ahead.id());
        }
        let Some(behind) = self.sweep.reversed().next(waiting, head, classes) else { return Dispatch::Idle };
        self.sweep = self.sweep.reversed();
        Dispatch::Send(behind.id())
    }
}
