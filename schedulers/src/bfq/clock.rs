//! Time as the kernel's scheduler reads it: nanoseconds, and jiffies for everything coarse.

use traces::Timestamp;

/// A point in jiffies that lies before all others.
pub(super) const LONG_AGO: i64 = i64::MIN / 4;

/// Now, in both units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) ns: i64,
    pub(super) jiffy: i64,
    tick: i64,
}

impl Clock {
    pub(super) fn new(tick: i64) -> Clock {
        Clock { ns: 0, jiffy: 0, tick }
    }

    pub(super) fn set(&mut self, now: Timestamp) {
        self.ns = now.as_ns().min(i64::MAX as u64 / 4) as i64;
        self.jiffy = self.ns / self.tick;
    }

    /// The length of a jiffy in nanoseconds.
    pub(super) fn tick(&self) -> i64 {
        self.tick
    }

    /// A span in jiffies, rounded up.
    pub(super) fn jiffies(&self, ns: i64) -> i64 {
        ns / self.tick + i64::from(ns % self.tick != 0)
    }

    /// A span of milliseconds in jiffies, rounded up.
    pub(super) fn jiffies_of_ms(&self, ms: i64) -> i64 {
        self.jiffies(ms * 1_000_000)
    }

    /// Whether the point `jiffy` has passed.
    pub(super) fn is_past(&self, jiffy: i64) -> bool {
        jiffy < self.jiffy
    }

    /// Whether the point `jiffy` has been reached.
    pub(super) fn is_reached(&self, jiffy: i64) -> bool {
        jiffy <= self.jiffy
    }
}
