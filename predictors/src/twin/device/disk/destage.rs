//! The write cache of a drive: writes are acknowledged at once and destaged to the platter later.
//!
//! The drive destages the oldest run whenever the arm is free. A request that comes meanwhile waits until the run is on
//! the platter. Some drives also destage a run between two reads while others wait, and some do not
//! ([`DestagePolicy`]). A write that continues the latest run joins it. Ruemmler and Wilkes 1994 ("An introduction to
//! disk drive modeling") describe such immediate reporting. No standard says when a drive destages, so the policy is
//! inferred from the times of reads behind writes. The cache's size is not inferred; in the simulation it is never
//! full.

use std::collections::VecDeque;

use traces::{Lba, Nanos, Timestamp, VmId};

/// A contiguous run of sectors that is not on the platter yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirtyRun {
    pub(crate) vm: VmId,
    pub(crate) start: Lba,
    end: Lba,
    /// The time from which it can be destaged.
    since: Timestamp,
}

impl DirtyRun {
    pub(crate) fn sectors(&self) -> f64 {
        self.start.distance(self.end).count() as f64
    }
}

/// When the drive destages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DestagePolicy {
    /// One run after each read, even if requests wait; and whenever no request waits.
    AfterReads,
    /// Only when no request waits.
    WhenIdle,
}

/// The cached runs and the state of the arm that destages them.
#[derive(Clone, Debug)]
pub(crate) struct Destaging {
    policy: DestagePolicy,
    /// Oldest first.
    runs: VecDeque<DirtyRun>,
    /// The position of the arm.
    pub(crate) arm: Lba,
    /// The time from which the arm is free.
    pub(crate) free: Timestamp,
}

impl Destaging {
    pub(crate) fn new(policy: DestagePolicy) -> Destaging {
        Destaging { policy, runs: VecDeque::new(), arm: Lba::ZERO, free: Timestamp::ZERO }
    }

    /// The oldest run, and the time at which the arm starts for it.
    pub(crate) fn oldest(&self) -> Option<(DirtyRun, Timestamp)> {
        self.runs.front().map(|run| (*run, self.free.max(run.since)))
    }

    /// Removes the oldest run: the arm started for it `at` a time and destaged it within `took`.
    pub(crate) fn destaged(&mut self, at: Timestamp, took: Nanos) {
        if let Some(run) = self.runs.pop_front() {
            (self.arm, self.free) = (run.end, at.saturating_add(took));
        }
    }

    /// The arm has served a request until `done`. With [`DestagePolicy::AfterReads`] it counts as free 1 ns earlier, so
    /// that it starts for a run before it starts for the next request.
    pub(crate) fn served(&mut self, arm: Lba, done: Timestamp) {
        let before = Timestamp::from_ns(done.as_ns().saturating_sub(1));
        (self.arm, self.free) = (arm, if self.policy == DestagePolicy::AfterReads { before } else { done });
    }

    /// Adds a VM's acknowledged write.
    pub(crate) fn add(&mut self, vm: VmId, start: Lba, end: Lba, since: Timestamp) {
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
    fn contiguous_writes_are_destaged_as_one_run_in_order_of_age() {
        let at = |ms: u64| Timestamp::from_ns(ms * 1_000_000);
        let mut destaging = Destaging::new(DestagePolicy::WhenIdle);
        for (start, ms) in [(0, 1), (8, 2), (100, 3), (108, 4), (16, 5)] {
            destaging.add(VmId(0), Lba::new(start), Lba::new(start + 8), at(ms));
        }
        let mut runs = Vec::new();
        while let Some((run, starts)) = destaging.oldest() {
            runs.push((run.start.sector(), run.sectors() as u64, starts));
            destaging.destaged(starts, Nanos::from_ms(7));
        }
        assert_eq!(runs, [(0, 16, at(2)), (100, 16, at(9)), (16, 8, at(16))]);
        assert_eq!((destaging.arm, destaging.free), (Lba::new(24), at(23)));
    }
}
