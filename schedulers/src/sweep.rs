//! The direction in which the head sweeps, and the requests that lie in it.

use traces::{Lba, Sectors};

use crate::cost::AccessCost;
use crate::lba_queue::{Classes, LbaQueue};
use crate::order::Entry;

/// The direction of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Towards higher addresses; every sweep begins so.
    #[default]
    Up,
    /// Towards lower addresses.
    Down,
}

impl Sweep {
    pub(crate) fn reversed(self) -> Sweep {
        match self {
            Sweep::Up => Sweep::Down,
            Sweep::Down => Sweep::Up,
        }
    }

    /// The next request this way. One that starts where the head is lies ahead of an upward sweep
    /// only, so that a sequential stream does not pull a downward sweep up.
    pub(crate) fn next(self, waiting: &LbaQueue, head: Lba, classes: Classes) -> Option<Entry> {
        match self {
            Sweep::Up => waiting.at_or_after(head, classes),
            Sweep::Down => waiting.before(head, classes),
        }
    }

    /// The last sector this way.
    pub(crate) fn edge(self, cost: &dyn AccessCost) -> Lba {
        match self {
            Sweep::Up => Lba::new(cost.capacity().count().saturating_sub(1)),
            Sweep::Down => Lba::ZERO,
        }
    }

    /// The time to seek to the edge and back to `head`: twice the cost of moving there over that of staying.
    pub(crate) fn edge_trip_ns(self, head: Lba, cost: &dyn AccessCost) -> u64 {
        let there = cost.between(head, self.edge(cost), Sectors::ZERO);
        let staying = cost.between(head, head, Sectors::ZERO);
        there.saturating_sub(staying).as_ns().saturating_mul(2)
    }
}
