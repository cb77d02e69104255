//! Shortest seek time first, the greedy policy of Geist et al. 2010, section 2.2: the request
//! whose first sector is nearest to the head, whichever side it is on. Distance stands for seek
//! time, as it does there; leaves out rotation. Far requests may starve.
//!
//! Of two at the same distance the one at the lower address goes, of two at the same address the
//! older.

use traces::spec::Settings;
use traces::{Lba, Timestamp};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::lba_queue::{Classes, LbaQueue};
use crate::scheduler::{Dispatch, Scheduler};
use crate::sorted::{Rule, Sorted};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "sstf",
    summary: "shortest seek time first: the nearest request in either direction",
    origin: "Geist, Jones, Westall 2010, section 2.2 (greedy)",
    tunables: &[],
    rules: &[],
    build: &build,
};

fn build(_settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Sorted::<Sstf>::default())
}

#[derive(Debug, Default)]
struct Sstf;

impl Rule for Sstf {
    fn choose(&mut self, _now: Timestamp, waiting: &LbaQueue, classes: Classes, cost: &dyn AccessCost) -> Dispatch {
        let head = cost.position();
        let distance = |key| head.distance(Lba::new(key));
        let nearest = match (waiting.before(head, classes), waiting.at_or_after(head, classes)) {
            (Some(below), Some(above)) if distance(below.key) <= distance(above.key) => Some(below),
            (below, above) => above.or(below),
        };
        nearest.map_or(Dispatch::Idle, |entry| Dispatch::Send(entry.id()))
    }
}
