//! CSCAN as Geist et al. 2010, section 2.2, describe the scan of Linux before 2.6. Requests are served in ascending
//! order of their first sector from where the head is until none remains. Then the head sweeps back down to the
//! lowest-numbered pending request. Worthington, Ganger and Patt 1994 and drives' schedulers call this C-LOOK, and
//! C-SCAN one that also travels to the edges: the name `clook` is another for this entry. Leaves out rotation.

use traces::Timestamp;
use traces::spec::Settings;

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::lba_queue::{Classes, LbaQueue};
use crate::scheduler::{Dispatch, Scheduler};
use crate::sorted::{Rule, Sorted};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "cscan",
    summary: "circular scan: in ascending order, then back to the lowest waiting request (C-LOOK of drives)",
    origin: "Geist, Jones, Westall 2010, section 2.2 (Linux 2.4)",
    tunables: &[],
    rules: &[],
    build: &build,
};

fn build(_settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Sorted::<Cscan>::default())
}

#[derive(Debug, Default)]
struct Cscan;

impl Rule for Cscan {
    fn choose(&mut self, _now: Timestamp, waiting: &LbaQueue, classes: Classes, cost: &dyn AccessCost) -> Dispatch {
        waiting.circular(cost.position(), classes).map_or(Dispatch::Idle, |entry| Dispatch::Send(entry.id()))
    }
}
