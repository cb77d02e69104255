//! The two clocks of the kernel's scheduler: nanoseconds (`blk_time_get_ns`), and jiffies for all coarse times.

use std::ops::{Add, AddAssign, Mul};

use traces::{Nanos, Timestamp};

/// The latest time that bfq distinguishes; no sum of a time and the longest spans overflows.
const LATEST: Timestamp = Timestamp::from_ns(u64::MAX / 8);

/// A point in time, in jiffies since the clock's zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Jiffy(u64);

/// A span of time in jiffies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Jiffies(u64);

impl Jiffy {
    /// The clock's zero.
    pub(super) const ZERO: Jiffy = Jiffy(0);

    /// The span since `earlier`; zero if that is later.
    pub(super) fn saturating_since(self, earlier: Jiffy) -> Jiffies {
        Jiffies(self.0.saturating_sub(earlier.0))
    }
}

impl Jiffies {
    /// No time at all.
    pub(super) const ZERO: Jiffies = Jiffies(0);

    pub(super) const fn new(count: u64) -> Jiffies {
        Jiffies(count)
    }

    pub(super) const fn count(self) -> u64 {
        self.0
    }
}

impl Add<Jiffies> for Jiffy {
    type Output = Jiffy;

    fn add(self, span: Jiffies) -> Jiffy {
        Jiffy(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Jiffies> for Jiffy {
    fn add_assign(&mut self, span: Jiffies) {
        *self = *self + span;
    }
}

impl Mul<u64> for Jiffies {
    type Output = Jiffies;

    fn mul(self, times: u64) -> Jiffies {
        Jiffies(self.0.saturating_mul(times))
    }
}

/// The current time in both units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) now: Timestamp,
    pub(super) jiffy: Jiffy,
    tick: Nanos,
}

impl Clock {
    /// A clock at zero; `tick` is the length of a jiffy.
    pub(super) fn new(tick: Nanos) -> Clock {
        Clock { now: Timestamp::ZERO, jiffy: Jiffy::ZERO, tick }
    }

    pub(super) fn set(&mut self, now: Timestamp) {
        let now = now.min(LATEST);
        if now == self.now {
            return;
        }
        self.now = now;
        self.jiffy = Jiffy(now.as_ns() / self.tick.as_ns());
    }

    /// A span in jiffies, rounded up (`msecs_to_jiffies`).
    pub(super) fn jiffies(&self, span: Nanos) -> Jiffies {
        Jiffies(span.as_ns().div_ceil(self.tick.as_ns()))
    }

    /// A span in jiffies, rounded down (`nsecs_to_jiffies`).
    pub(super) fn whole_jiffies(&self, span: Nanos) -> Jiffies {
        Jiffies(span.as_ns() / self.tick.as_ns())
    }

    /// The length of a number of jiffies.
    pub(super) fn nanos(&self, span: Jiffies) -> Nanos {
        self.tick * span.0
    }

    /// Whether `jiffy` lies before the current one (`time_is_before_jiffies`).
    pub(super) fn is_past(&self, jiffy: Jiffy) -> bool {
        jiffy < self.jiffy
    }

    /// Whether `start` is longer ago than `span`; a start of `None` is long ago.
    pub(super) fn is_longer_ago(&self, start: impl Into<Option<Jiffy>>, span: Jiffies) -> bool {
        start.into().is_none_or(|start| self.is_past(start + span))
    }

    /// Whether `start` is as long ago as `span` or longer (`time_is_before_eq_jiffies`).
    pub(super) fn is_as_long_ago(&self, start: Jiffy, span: Jiffies) -> bool {
        start + span <= self.jiffy
    }
}
