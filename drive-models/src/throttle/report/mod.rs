//! The report of a throttle: late and held completions, and every change of k.

use std::collections::VecDeque;

use traces::{Nanos, Timestamp};

use super::scale::ThrottleScale;

/// Most changes of k that a report keeps; with more, the oldest are forgotten.
pub const CHANGES_MAX: usize = 65_536;

/// Why k changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeCause {
    /// A completion arrived after its target.
    Late,
    /// Too many completions were held.
    LongQueue,
}

/// A change of k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, on the clock of the virtual system.
    pub at: Timestamp,
    /// The k before.
    pub from: ThrottleScale,
    /// The k from then on.
    pub to: ThrottleScale,
    /// Why.
    pub cause: ChangeCause,
}

/// The report of a run so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The k in force.
    pub k: ThrottleScale,
    /// Its changes, the oldest first, at most [`CHANGES_MAX`].
    pub changes: VecDeque<Change>,
    /// How many changes before those were forgotten.
    pub forgotten: u64,
    /// Completions that have come from the virtual disk.
    pub completions: u64,
    /// Those of them that arrived after their target.
    pub late: u64,
    /// The longest time that one was late by.
    pub lateness_max: Nanos,
    /// Most completions held at the same time.
    pub held_max: u64,
    /// When the virtual disk last completed something.
    pub last: Timestamp,
}

impl Report {
    pub(super) fn new(k: ThrottleScale) -> Report {
        Report {
            k,
            changes: VecDeque::new(),
            forgotten: 0,
            completions: 0,
            late: 0,
            lateness_max: Nanos::ZERO,
            held_max: 0,
            last: Timestamp::ZERO,
        }
    }

    pub(super) fn changed(&mut self, change: Change) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
            self.forgotten += 1;
        }
        self.k = change.to;
        self.changes.push_back(change);
    }

    /// The largest k that was in force at or after `time`, as far back as changes are kept.
    pub fn largest_k_since(&self, time: Timestamp) -> ThrottleScale {
        let after = self.changes.iter().rev().take_while(|change| change.at >= time);
        after.fold(self.k, |largest, change| largest.max(change.from).max(change.to))
    }

    /// The largest k of the last `parts`-th part of the run by time: the k that a dynamic run has found to be stable.
    /// The whole run with 0 or 1.
    pub fn stable_k(&self, parts: u64) -> ThrottleScale {
        let part = self.last.as_ns() / parts.max(1);
        self.largest_k_since(Timestamp::from_ns(self.last.as_ns() - part))
    }
}

#[cfg(test)]
mod tests;
