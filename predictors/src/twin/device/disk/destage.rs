//! What a drive's cache has acknowledged and has still to put on the platter.
//!
//! It does so whenever the arm has nothing else to do, the oldest first, and who comes meanwhile waits for what has begun. A device that
//! goes from one read to the next may put something on the platter in between, as long as there is any, or not ([`Empties`]). What goes
//! on where the latest ended is put there with it. Ruemmler and Wilkes 1994 ("An introduction to disk drive modeling") describe such
//! immediate reporting; when exactly a drive empties its cache no standard says, so it is told from how long reads take behind writes.
//! How much the cache holds is not told: it is never full.

use std::collections::VecDeque;

use traces::{Lba, Nanos, Timestamp, VmId};

/// A run of sectors that is not on the platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirtyRun {
    pub(crate) vm: VmId,
    pub(crate) start: Lba,
    end: Lba,
    since: Timestamp,
}

impl DirtyRun {
    pub(crate) fn sectors(&self) -> f64 {
        self.start.distance(self.end).count() as f64
    }
}

/// When the arm puts on the platter what the cache has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empties {
    /// Once after each read, even if others wait, and when nobody does.
    AfterReads,
    /// When nobody waits.
    WhenIdle,
}

/// The cache, and the arm that empties it.
#[derive(Clone, Debug)]
pub(crate) struct Destaging {
    empties: Empties,
    /// Oldest first.
    runs: VecDeque<DirtyRun>,
    /// Where the arm is, and when it is free.
    pub(crate) arm: Lba,
    pub(crate) free: Timestamp,
}

impl Destaging {
    pub(crate) fn new(empties: Empties) -> Destaging {
        Destaging { empties, runs: VecDeque::new(), arm: Lba::ZERO, free: Timestamp::ZERO }
    }

    /// The oldest, and when the arm sets out for it.
    pub(crate) fn oldest(&self) -> Option<(DirtyRun, Timestamp)> {
        self.runs.front().map(|run| (*run, self.free.max(run.since)))
    }

    /// The arm, which set out at `at` for the oldest, has put it on the platter.
    pub(crate) fn put(&mut self, at: Timestamp, took: Nanos) {
        if let Some(run) = self.runs.pop_front() {
            (self.arm, self.free) = (run.end, at.saturating_add(took));
        }
    }

    /// The arm has served a request until `done`. Who is served next may find that it has set out for something else just before.
    pub(crate) fn served(&mut self, arm: Lba, done: Timestamp) {
        let before = Timestamp::from_ns(done.as_ns().saturating_sub(1));
        (self.arm, self.free) = (arm, if self.empties == Empties::AfterReads { before } else { done });
    }

    /// Takes what a machine has written.
    pub(crate) fn take(&mut self, vm: VmId, start: Lba, end: Lba, since: Timestamp) {
        match self.runs.back_mut().filter(|run| run.end == start) {
            Some(run) => (run.end, run.since) = (end, since),
            None => self.runs.push_back(DirtyRun { vm, start, end, since }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_where_the_latest_ended_comes_to_the_platter_with_it() {
        let at = |ms: u64| Timestamp::from_ns(ms * 1_000_000);
        let mut destaging = Destaging::new(Empties::WhenIdle);
        for (start, ms) in [(0, 1), (8, 2), (100, 3), (108, 4), (16, 5)] {
            destaging.take(VmId(0), Lba::new(start), Lba::new(start + 8), at(ms));
        }
        let mut runs = Vec::new();
        while let Some((run, sets_out)) = destaging.oldest() {
            runs.push((run.start.sector(), run.sectors() as u64, sets_out));
            destaging.put(sets_out, Nanos::from_ms(7));
        }
        assert_eq!(runs, [(0, 16, at(2)), (100, 16, at(9)), (16, 8, at(16))]);
        assert_eq!((destaging.arm, destaging.free), (Lba::new(24), at(23)));
    }
}
