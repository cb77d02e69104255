//! The length of a queue over time.

use crate::units::{Nanos, Timestamp};

/// The length of a queue over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueLength {
    length: u64,
    max: u64,
    /// Length times nanoseconds up to `since`.
    area: u128,
    /// Nanoseconds up to `since` during which it was not empty.
    busy: u64,
    since: Timestamp,
}

impl QueueLength {
    /// Counts the time up to `now`.
    pub(super) fn advance(&mut self, now: Timestamp) {
        let span = now.since(self.since).as_ns();
        self.area += u128::from(self.length) * u128::from(span);
        if self.length > 0 {
            self.busy += span;
        }
        self.since = now;
    }

    /// One more from `now` on.
    pub fn grow(&mut self, now: Timestamp) {
        self.advance(now);
        self.length += 1;
        self.max = self.max.max(self.length);
    }

    /// One fewer from `now` on.
    ///
    /// # Panics
    /// If it is empty: whoever calls this lost count.
    pub fn shrink(&mut self, now: Timestamp) {
        self.advance(now);
        self.length = self.length.checked_sub(1).expect("what leaves a queue was in it");
    }

    /// Now.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The most at any time.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The mean over `span` ns.
    pub fn mean(&self, span: Nanos) -> f64 {
        if span == Nanos::ZERO { 0.0 } else { self.area as f64 / span.as_ns() as f64 }
    }

    /// The share of `span` during which it was not empty.
    pub fn busy_share(&self, span: Nanos) -> f64 {
        if span == Nanos::ZERO { 0.0 } else { self.busy as f64 / span.as_ns() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queues_mean_is_its_area_over_time() {
        let at = Timestamp::from_ns;
        let mut queue = QueueLength::default();
        queue.grow(at(0));
        queue.grow(at(10));
        queue.shrink(at(30));
        queue.shrink(at(40));
        queue.grow(at(90));
        queue.shrink(at(100));
        assert_eq!(queue.mean(Nanos::from_ns(100)), (10 + 40 + 10 + 10) as f64 / 100.0);
        assert_eq!(queue.busy_share(Nanos::from_ns(100)), 0.5);
        assert_eq!(queue.max(), 2);
    }
}
