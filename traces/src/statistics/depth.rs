//! How long a queue has each length.

use crate::results::statistics::QueueOverTime;
use crate::units::{Nanos, Timestamp};

/// Lengths are told apart up to this many; the last stands for more.
const LENGTH_MAX: usize = 1024;

/// A queue's length with the time at each length.
#[derive(Clone, Debug)]
pub(super) struct Depth {
    length: u64,
    max: u64,
    since: Timestamp,
    time_at: Vec<u64>,
    /// Length times time at lengths that are not told apart.
    area_above: u128,
}

impl Default for Depth {
    fn default() -> Depth {
        Depth { length: 0, max: 0, since: Timestamp::ZERO, time_at: vec![0; LENGTH_MAX + 1], area_above: 0 }
    }
}

impl Depth {
    #[inline]
    fn advance(&mut self, now: Timestamp) {
        let span = now.since(self.since).as_ns();
        self.since = now;
        match self.time_at[..LENGTH_MAX].get_mut(self.length as usize) {
            Some(time) => *time += span,
            None => self.advance_above(span),
        }
    }

    #[cold]
    fn advance_above(&mut self, span: u64) {
        self.time_at[LENGTH_MAX] += span;
        self.area_above += u128::from(self.length) * u128::from(span);
    }

    /// When its length changed last.
    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    #[inline]
    pub(super) fn grow(&mut self, now: Timestamp) {
        self.advance(now);
        self.length += 1;
        self.max = self.max.max(self.length);
    }

    #[inline]
    pub(super) fn shrink(&mut self, now: Timestamp) {
        self.advance(now);
        self.length = self.length.checked_sub(1).expect("what leaves a queue was in it");
    }

    /// Over the time from `first` to `last`, outside which it was empty.
    pub(super) fn figures(&self, first: Timestamp, last: Timestamp) -> QueueOverTime {
        let mut whole = self.clone();
        whole.advance(last);
        // Nothing was in it before the first.
        whole.time_at[0] -= first.as_ns().min(whole.time_at[0]);
        let span = last.since(first);
        let told_apart = whole.time_at[..LENGTH_MAX].iter().enumerate();
        let area = told_apart.map(|(length, time)| length as u128 * u128::from(*time)).sum::<u128>() + whole.area_above;
        let busy = whole.time_at[1..].iter().sum::<u64>();
        let share = |part: f64| if span == Nanos::ZERO { 0.0 } else { part / span.as_ns() as f64 };
        let lengths = whole.time_at.iter().enumerate().filter(|(_, time)| **time > 0);
        QueueOverTime {
            mean: share(area as f64),
            max: whole.max,
            busy_share: share(busy as f64),
            time_at_length_ns: lengths.map(|(length, time)| (length as u64, *time)).collect(),
        }
    }

    pub(super) fn was_used(&self) -> bool {
        self.max > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_at_each_length_from_the_first_to_the_last() {
        let at = Timestamp::from_ns;
        let mut depth = Depth::default();
        depth.grow(at(100));
        depth.grow(at(110));
        depth.shrink(at(130));
        depth.shrink(at(135));
        depth.grow(at(200));
        let figures = depth.figures(at(90), at(210));
        assert_eq!(figures.time_at_length_ns, [(0, 75), (1, 25), (2, 20)]);
        assert_eq!(figures.mean, 65.0 / 120.0);
        assert_eq!(figures.busy_share, 45.0 / 120.0);
        assert_eq!(figures.max, 2);
    }

    #[test]
    fn lengths_beyond_those_told_apart_count_in_the_mean() {
        let mut depth = Depth::default();
        for ns in 0..2_000 {
            depth.grow(Timestamp::from_ns(ns));
        }
        let figures = depth.figures(Timestamp::ZERO, Timestamp::from_ns(2_000));
        assert_eq!((figures.mean, figures.max), ((1 + 2_000) as f64 / 2.0, 2_000));
        assert_eq!(figures.time_at_length_ns.last(), Some(&(1_024, 977)));
    }
}
