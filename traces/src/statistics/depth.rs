//! How long a queue has each length.

use super::queue_length::QueueLength;
use crate::results::statistics::QueueOverTime;
use crate::units::Timestamp;

/// Lengths are told apart up to this many; the last stands for more.
const LENGTH_MAX: usize = 1024;

/// A queue's length with the time at each length.
#[derive(Clone, Debug)]
pub(super) struct Depth {
    length: QueueLength,
    since: Timestamp,
    time_at: Vec<u64>,
}

impl Default for Depth {
    fn default() -> Depth {
        Depth { length: QueueLength::default(), since: Timestamp::ZERO, time_at: vec![0; LENGTH_MAX + 1] }
    }
}

impl Depth {
    #[inline]
    fn advance(&mut self, now: Timestamp) {
        let at = (self.length.length() as usize).min(LENGTH_MAX);
        self.time_at[at] += now.since(self.since).as_ns();
        self.since = now;
    }

    #[inline]
    pub(super) fn grow(&mut self, now: Timestamp) {
        self.advance(now);
        self.length.grow(now);
    }

    #[inline]
    pub(super) fn shrink(&mut self, now: Timestamp) {
        self.advance(now);
        self.length.shrink(now);
    }

    /// Over the time from `first` to `last`, outside which it was empty.
    pub(super) fn figures(&self, first: Timestamp, last: Timestamp) -> QueueOverTime {
        let mut whole = self.clone();
        whole.advance(last);
        whole.length.advance(last);
        // Nothing was in it before the first.
        whole.time_at[0] -= first.as_ns().min(whole.time_at[0]);
        let span = last.since(first);
        let lengths = whole.time_at.iter().enumerate().filter(|(_, time)| **time > 0);
        QueueOverTime {
            mean: whole.length.mean(span),
            max: whole.length.max(),
            busy_share: whole.length.busy_share(span),
            time_at_length_ns: lengths.map(|(length, time)| (length as u64, *time)).collect(),
        }
    }

    pub(super) fn was_used(&self) -> bool {
        self.length.max() > 0
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
}
