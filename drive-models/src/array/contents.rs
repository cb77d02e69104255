//! What a read cache holds after requests of which nothing is known but what they moved.

use traces::{Lba, Operation, Sectors};

use super::geometry::Geometry;
use super::read_cache::ArrayReadCache;
use super::tracks::Tracks;

/// The sectors of a track of an array whose own is not known: the longest, if a stripe unit is as long.
pub(super) fn track(geometry: &Geometry) -> u64 {
    Tracks::<u8>::SECTORS_MAX.min(geometry.stripe_unit())
}

/// The contents of a read cache, by tracks. Where requests [`pass`](Contents::pass) there are no times: each is done before the next,
/// and what is read ahead for it has come.
#[derive(Clone, Debug)]
pub struct Contents(ArrayReadCache);

/// What has to be read of the members when a request passes: the first sector and that after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// For the request, because it is not there.
    pub missing: Option<(u64, u64)>,
    /// Ahead of it.
    pub ahead: Option<(u64, u64)>,
}

impl Contents {
    /// Nothing, in a cache of `size` of an array that reads so far `ahead` of who reads one track behind another.
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
