//! Detects reads that continue one of a VM's latest reads, as read-ahead caches do.
//!
//! A drive's cache keeps a few segments, each of which follows one sequential stream. Here a read continues a stream if
//! it begins at or shortly after the end of one of the VM's latest reads. Segments of different VMs do not compete, and
//! reads backwards are not detected.

use traces::Lba;

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
    /// Adds a read that ended at `end`, in place of the oldest if the ring is full.
    pub(crate) fn add(&mut self, end: Lba) {
        if self.ends.len() < LATEST_READS_MAX {
            self.ends.push(end);
        } else {
            self.ends[self.next] = end;
        }
        self.next = (self.next + 1) % LATEST_READS_MAX;
    }

    /// Whether a read at `lba` continues one of the latest reads.
    pub(crate) fn followed_by(&self, lba: Lba) -> bool {
        self.ends.iter().any(|end| lba >= *end && end.distance(lba).count() < GAP_SECTORS_BOUND)
    }
}
