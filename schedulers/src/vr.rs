//! V(R), the continuum of Geist and Daniel 1987 ("A continuum of disk scheduling algorithms", ACM Transactions on
//! Computer Systems 5) between SSTF and LOOK. The request with the least effective distance is sent. That is its
//! distance from the head, plus R times the capacity if it lies against the direction in which the head moves. V(0) is
//! [`crate::sstf`], V(1) is [`crate::look`]; 0.2 is the value that its authors recommend. Worthington, Ganger and Patt
//! 1994 call it VSCAN(R), and so do drives' schedulers: the name `vscan` is another for this entry.
//!
//! The direction is that of the last request sent, upwards at first; a request that starts where the head is lies ahead
//! of an upward sweep only. Of two at the same effective distance the one at the lower address goes, of two at the same
//! address the older. Leaves out rotation.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Timestamp};

use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::lba_queue::{Classes, LbaQueue};
use crate::scheduler::{Dispatch, Scheduler};
use crate::sorted::{Rule, Sorted};
use crate::sweep::Sweep;

const AHEAD: usize = 0;
const TURN: usize = 1;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("ahead", "the nearest request in the direction in which the head moves"),
    RuleInfo::new("turn", "the nearest request against that direction: it is nearer even with R, or none lies ahead"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "vr",
    summary: "V(R): nearest request; a change of direction costs R times the drive capacity (VSCAN of drives)",
    origin: "Geist, Daniel 1987 (VSCAN(R): Worthington, Ganger, Patt 1994)",
    tunables: &[Tunable::new(
        "r",
        Unit::Decimal,
        "0.2",
        "cost of a change of direction, as a share of the drive capacity",
    )
    .within(0, 1000)],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Sorted::with(Vr {
        thousandths: settings.thousandths("r"),
        sweep: Sweep::default(),
        sent: [0; RULES.len()],
    }))
}

#[derive(Debug)]
struct Vr {
    thousandths: u64,
    sweep: Sweep,
    sent: [u64; RULES.len()],
}

impl Rule for Vr {
    fn choose(&mut self, _now: Timestamp, waiting: &LbaQueue, classes: Classes, cost: &dyn AccessCost) -> Dispatch {
        let head = cost.position();
        // In thousandths of a sector, so that nothing is rounded.
        let distance = |key| u128::from(head.distance(Lba::new(key)).count()) * 1000;
        let turn = u128::from(cost.capacity().count()) * u128::from(self.thousandths);
        let ahead = self.sweep.next(waiting, head, classes);
        let behind = self.sweep.reversed().next(waiting, head, classes);
        let turns = match (ahead, behind) {
            (Some(ahead), Some(behind)) => (distance(behind.key) + turn, behind.key) < (distance(ahead.key), ahead.key),
            (ahead, _) => ahead.is_none(),
        };
        let Some(chosen) = (if turns { behind } else { ahead }) else { return Dispatch::Idle };
        if turns {
            self.sweep = self.sweep.reversed();
        }
        self.sent[if turns { TURN } else { AHEAD }] += 1;
        Dispatch::Send(chosen.id())
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
