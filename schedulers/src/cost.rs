//! The time that a drive would need for a request. Schedulers that know positions ask the drive for nothing else.

use traces::{Lba, Nanos, Request, Sectors, Timestamp};

/// The cost of an access to the drive. Asking changes nothing.
pub trait AccessCost {
    /// The position of the head when all submitted requests have been served: the sector behind the last one.
    fn position(&self) -> Lba;

    /// The size of the drive.
    fn capacity(&self) -> Sectors;

    /// The expected service time of an access of `sectors` at `to` with the head at `from`; without sectors, the time
    /// to position the head.
    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos;

    /// The costs from each of `from` to each of `to` by [`AccessCost::between`], all to the first of `to` first. A
    /// table over hundreds of pairs takes one indirect call and not hundreds. There is no need to override it.
    fn between_all(&self, from: &[Lba], to: &[Lba], sectors: Sectors, into: &mut Vec<Nanos>) {
        into.extend(to.iter().flat_map(|&to| from.iter().map(move |&from| self.between(from, to, sectors))));
    }

    /// The service time of `request` if it were started now, as exactly as the drive can tell
    /// (a mechanical drive knows its rotational phase). Defaults to the expected time.
    fn access(&self, _now: Timestamp, request: &Request) -> Nanos {
        self.between(self.position(), request.lba, request.sectors())
    }

    /// The times of all `requests` by [`AccessCost::access`], in their order. A drive overrides it that can work out
    /// once what they share, such as where its arm is.
    fn access_all(&self, now: Timestamp, requests: &[Request], into: &mut Vec<Nanos>) {
        into.extend(requests.iter().map(|request| self.access(now, request)));
    }
}

/// Cost is distance: one nanosecond a sector, as in Table 1 of Geist et al. 2010. For tests,
/// examples and schedulers without a drive.
#[derive(Clone, Copy, Debug)]
pub struct DistanceCost {
    /// The position of the head.
    pub position: Lba,
    /// The size of the drive.
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
