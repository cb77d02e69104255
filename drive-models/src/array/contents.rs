//! The contents of a read cache after a series of requests whose times are not known, only their operations and
//! addresses.

use traces::{Lba, Operation, Sectors};

use super::geometry::Geometry;
use super::read_cache::ArrayReadCache;
use super::tracks::Tracks;

/// The sectors of a track of an array whose own is not known: the longest, if a stripe unit is as long.
pub(super) fn track(geometry: &Geometry) -> u64 {
    Tracks::<u8>::SECTORS_MAX.min(geometry.stripe_unit())
}

/// The contents of a read cache, by tracks. Requests [`pass`](Contents::pass) without times: each one and its
/// read-ahead are complete before the next.
#[derive(Clone, Debug)]
pub struct Contents(ArrayReadCache);

/// The sectors to read from the members when a request passes: the first sector and that after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// For the request, because the cache does not hold them.
    pub missing: Option<(u64, u64)>,
    /// Ahead of it.
    pub ahead: Option<(u64, u64)>,
}

impl Contents {
    /// An empty cache of `size`. The array reads `ahead` sectors ahead of a stream that reads one track behind another.
    pub fn new(geometry: &Geometry, size: Sectors, ahead: Sectors) -> Contents {
        let track = track(geometry);
        let tracks = (size.count() / track).max(1) as usize;
        Contents(ArrayReadCache::new(tracks, track, ahead.count().div_ceil(track), geometry.capacity().count() / track))
    }

    /// A request passes.
    pub fn pass(&mut self, operation: Operation, lba: Lba, sectors: Sectors) -> Passed {
        let (start, end) = (lba.sector(), lba.sector() + sectors.count());
        if operation != Operation::Read {
            if operation == Operation::Write {
                self.0.put(start, end);
            }
            return Passed::default();
        }
        let missing = self.0.put(start, end);
        let ahead = self.0.read_ahead(start, end);
        if let Some((start, end)) = ahead {
            self.0.put(start, end);
        }
        Passed { missing, ahead }
    }

    /// The cache with them.
    pub(super) fn into_cache(self) -> ArrayReadCache {
        self.0
    }
}
