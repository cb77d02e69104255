//! Detects reads that continue one of a VM's latest reads, as read-ahead caches do.
//!
//! A drive's cache keeps a few segments, each of which follows one sequential stream. Here a read continues a stream if
//! it begins at or shortly after the end of one of the VM's latest reads. Segments of different VMs do not compete, and
//! reads backwards are not detected.

use traces::{Lba, Sectors};

/// A read continues a latest read if it begins fewer sectors than this after its end; 256 KiB. Set by judgement; not
/// varied.
const GAP_SECTORS_BOUND: u64 = 512;
/// The latest reads remembered of each VM, about as many as drives' caches have segments. Set by judgement; not varied.
const LATEST_READS_MAX: usize = 64;

/// The ends of a VM's latest reads, in a ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestReads {
    ends: Vec<Lba>,
    next: usize,
}

impl LatestReads {
    /// Adds a read that ended at `end`, in place of the oldest if the ring is full. Returns its place.
    pub(crate) fn add(&mut self, end: Lba) -> usize {
        let place = self.next;
        if self.ends.len() < LATEST_READS_MAX {
            self.ends.push(end);
        } else {
            self.ends[place] = end;
        }
        self.next = (place + 1) % LATEST_READS_MAX;
        place
    }

    /// The place of the read that one at `lba` continues, and its distance from the end of that. Of several it is the
    /// one that ended nearest.
    pub(crate) fn place_followed_by(&self, lba: Lba) -> Option<(usize, Sectors)> {
        if !self.followed_by(lba) {
            return None;
        }
        let gaps = self.ends.iter().enumerate().map(|(place, end)| (place, gap(*end, lba)));
        gaps.min_by_key(|(_, gap)| *gap).map(|(place, gap)| (place, Sectors::new(gap)))
    }

    /// Whether a read at `lba` continues one of the latest reads.
    pub(crate) fn followed_by(&self, lba: Lba) -> bool {
        self.ends.iter().any(|end| gap(*end, lba) < GAP_SECTORS_BOUND)
    }
}

/// The sectors from the end of a read to `lba`; nearly 2^64 if it lies before that.
fn gap(end: Lba, lba: Lba) -> u64 {
    lba.sector().wrapping_sub(end.sector())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_continues_the_latest_read_that_ended_nearest_before_it() {
        let mut latest = LatestReads::default();
        let found = |latest: &LatestReads, lba: u64| {
            let found = latest.place_followed_by(Lba::new(lba)).map(|(place, gap)| (place, gap.count()));
            assert_eq!(found.is_some(), latest.followed_by(Lba::new(lba)));
            found
        };
        assert_eq!(found(&latest, 0), None);
        assert_eq!((latest.add(Lba::new(1000)), latest.add(Lba::new(1100))), (0, 1));
        assert_eq!(
            [999, 1000, 1099, 1100].map(|lba| found(&latest, lba)),
            [None, Some((0, 0)), Some((0, 99)), Some((1, 0))]
        );
        assert_eq!([1611, 1612].map(|lba| found(&latest, lba)), [Some((1, 511)), None]);
        // The oldest makes room.
        let places: Vec<usize> = (2..LATEST_READS_MAX as u64 + 1).map(|n| latest.add(Lba::new(n * 100_000))).collect();
        assert_eq!(places, (2..LATEST_READS_MAX).chain([0]).collect::<Vec<_>>());
        assert_eq!((found(&latest, 1000), found(&latest, 1100)), (None, Some((1, 0))));
    }
}
