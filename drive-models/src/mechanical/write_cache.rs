//! The buffer as a write cache. It holds written runs that the drive has acknowledged and still has to put on the
//! medium. The drive writes them, oldest first, while it has no request to serve.

use std::collections::VecDeque;

use traces::spec::Settings;
use traces::{Nanos, Timestamp};

/// A run of sectors that is not yet on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirtyRun {
    pub start: u64,
    /// The sector behind its last.
    pub end: u64,
    /// When its last sector came.
    pub since: Timestamp,
}

/// The write cache.
#[derive(Clone, Debug)]
pub(super) struct WriteBack {
    /// Oldest first.
    runs: VecDeque<DirtyRun>,
    sectors: u64,
    sectors_max: u64,
    runs_max: usize,
    /// From the last write to the beginning of its way to the medium.
    pub delay: Nanos,
}

impl WriteBack {
    /// The cache that the settings of [`super::MODEL`] describe; `None` if writes go through.
    pub fn new(settings: &Settings) -> Option<WriteBack> {
        let runs_max = settings.count("dirty_runs") as usize;
        (settings.word("write_cache") == "back").then(|| WriteBack {
            runs: VecDeque::with_capacity(runs_max),
            sectors: 0,
            sectors_max: settings.count("dirty_sectors"),
            runs_max,
            delay: settings.nanos("destage_delay"),
        })
    }

    /// Whether it can take `sectors` at all.
    pub fn could_hold(&self, sectors: u64) -> bool {
        sectors <= self.sectors_max
    }

    /// Whether there is capacity for a write of `start` to `end` now.
    #[inline]
    pub fn has_capacity(&self, start: u64, end: u64) -> bool {
        let more = self.followed(start).is_some() || self.runs.len() < self.runs_max;
        more && self.sectors + (end - start) <= self.sectors_max
    }

    /// The youngest run, if a write from `start` on follows it.
    #[inline]
    fn followed(&self, start: u64) -> Option<usize> {
        self.runs.back().filter(|run| run.end == start).map(|_| self.runs.len() - 1)
    }

    /// Takes a write for which there is capacity.
    pub fn push(&mut self, start: u64, end: u64, since: Timestamp) {
        self.sectors += end - start;
        match self.followed(start) {
            Some(index) => (self.runs[index].end, self.runs[index].since) = (end, since),
            None => self.runs.push_back(DirtyRun { start, end, since }),
        }
    }

    /// The oldest run.
    pub fn oldest(&self) -> Option<DirtyRun> {
        self.runs.front().copied()
    }

    /// The oldest run is on the medium.
    pub fn pop(&mut self) {
        if let Some(run) = self.runs.pop_front() {
            self.sectors -= run.end - run.start;
        }
    }

    /// Whether some of `start` to `end` waits for the medium, and whether one run has all of it. Of several, the
    /// youngest counts: it has the data.
    #[inline]
    pub fn find(&self, start: u64, end: u64) -> Option<bool> {
        let (older, younger) = self.runs.as_slices();
        let overlaps = |run: &&DirtyRun| run.start < end && start < run.end;
        let run = younger.iter().rfind(overlaps).or_else(|| older.iter().rfind(overlaps))?;
        Some(run.start <= start && end <= run.end)
    }
}
