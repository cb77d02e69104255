//! What it would cost the drive to serve a request: the one question a position-aware scheduler
//! may ask, and a drive answers.

use traces::{Lba, Nanos, Request, Sectors, Timestamp};

/// What access would cost, from here, now. Asking changes nothing.
pub trait AccessCost {
    /// Where the head will be when everything that was handed over has been served: the sector
    /// behind the last request.
    fn position(&self) -> Lba;

    /// The capacity of the drive.
    fn capacity(&self) -> Sectors;

    /// The expected service time of an access of `sectors` at `to` with the head at `from`; with no
    /// sectors, what it takes to get there.
    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos;

    /// The costs from each of `from` to each of `to`, all to the first of `to` first, as
    /// [`AccessCost::between`] gives them. One call for many, so that a table over hundreds of
    /// pairs does not pay for hundreds of indirect calls; there is no need to override it.
    fn between_all(&self, from: &[Lba], to: &[Lba], sectors: Sectors, into: &mut Vec<Nanos>) {
        into.extend(to.iter().flat_map(|&to| from.iter().map(move |&from| self.between(from, to, sectors))));
    }

    /// The service time of `request` if it were started now, as exactly as the drive can tell
    /// (a mechanical drive knows its rotational phase). Defaults to the expected time.
    fn access(&self, _now: Timestamp, request: &Request) -> Nanos {
        self.between(self.position(), request.lba, request.sectors())
    }
}

/// Cost is distance: one nanosecond a sector, as in Table 1 of Geist et al. 2010. For tests,
/// examples and schedulers without a drive.
#[derive(Clone, Copy, Debug)]
pub struct DistanceCost {
    /// Where the head is.
    pub position: Lba,
    /// The capacity.
    pub capacity: Sectors,
}

impl AccessCost for DistanceCost {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn between(&self, from: Lba, to: Lba, _sectors: Sectors) -> Nanos {
        Nanos::from_ns(from.distance(to).count())
    }
}
