//! Which reads go on behind one of the latest.

use traces::Lba;

/// A read that begins at most so many sectors behind a latest read may be in the cache.
const AHEAD: u64 = 512;
/// So many latest reads of each machine are remembered, as many as drives have segments.
const READS: usize = 64;

/// Where the latest reads of a machine ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestReads {
    ends: Vec<Lba>,
    next: usize,
}

impl LatestReads {
    pub(crate) fn add(&mut self, end: Lba) {
        if self.ends.len() < READS {
            self.ends.push(end);
        } else {
            self.ends[self.next] = end;
        }
        self.next = (self.next + 1) % READS;
    }

    pub(crate) fn followed_by(&self, lba: Lba) -> bool {
        self.ends.iter().any(|end| lba >= *end && end.distance(lba).count() < AHEAD)
    }
}
