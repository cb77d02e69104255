//! Exact moments of spans of time, from integer sums.

use crate::results::Moments;
use crate::units::Nanos;

/// Count, sum, sum of squares, least and largest of spans of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// How many.
    pub count: u64,
    sum: u128,
    sum_of_squares: u128,
    /// `u64::MAX` if there is nothing.
    min: u64,
    max: u64,
}

impl Default for Spans {
    fn default() -> Spans {
        Spans { count: 0, sum: 0, sum_of_squares: 0, min: u64::MAX, max: 0 }
    }
}

impl Spans {
    /// Counts one.
    // With branches that are hardly ever taken, since a processor skips those at no cost: of the three
    // below it would otherwise load, choose and store every time.
    #[inline(always)]
    pub fn add(&mut self, span: Nanos) {
        let ns = span.as_ns();
        self.count += 1;
        self.sum += u128::from(ns);
        self.sum_of_squares = match self.sum_of_squares.checked_add(u128::from(ns) * u128::from(ns)) {
            Some(sum) => sum,
            None => too_large(),
        };
        if ns < self.min {
            self.min = ns;
        }
        if ns > self.max {
            self.max = ns;
        }
    }

    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &Spans) {
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Their total in ns.
    pub const fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// Mean and variance. The variance is taken around the whole part of the mean in integers, so
    /// that nothing cancels.
    pub fn moments(&self) -> Moments {
        if self.count == 0 {
            return Moments::default();
        }
        let n = u128::from(self.count);
        let whole = self.sum / n;
        let fraction = (self.sum % n) as f64 / n as f64;
        Moments {
            mean_ns: Some(whole as f64 + fraction),
            variance_ns2: self.squares_around(whole).map(|squares| squares as f64 / n as f64 - fraction * fraction),
            min_ns: Some(self.min),
            max_ns: Some(self.max),
        }
    }
}

/// Stands for a sum of squares that does not fit.
#[cold]
#[inline(never)]
fn too_large() -> u128 {
    u128::MAX
}

impl Spans {
    /// The sum of the squares of the distances from `whole`; `None` if the squares did not fit, as
    /// of spans of centuries.
    fn squares_around(&self, whole: u128) -> Option<u128> {
        if self.sum_of_squares == u128::MAX {
            return None;
        }
        let n = u128::from(self.count);
        let added = self.sum_of_squares.checked_add(n.checked_mul(whole.checked_mul(whole)?)?)?;
        added.checked_sub(whole.checked_mul(self.sum)?.checked_mul(2)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_do_not_cancel_far_from_zero() {
        let mut spans = Spans::default();
        for ns in [10_000_000_000_001u64, 10_000_000_000_002, 10_000_000_000_006] {
            spans.add(Nanos::from_ns(ns));
        }
        let moments = spans.moments();
        assert_eq!(moments.mean_ns, Some(10_000_000_000_003.0));
        assert!((moments.variance_ns2.unwrap() - 14.0 / 3.0).abs() < 1e-9);
        assert_eq!((moments.min_ns, moments.max_ns), (Some(10_000_000_000_001), Some(10_000_000_000_006)));
    }

    #[test]
    fn a_mean_with_a_fraction_keeps_it() {
        let mut spans = Spans::default();
        for ns in [2, 1, 1] {
            spans.add(Nanos::from_ns(ns));
        }
        let moments = spans.moments();
        assert!((moments.mean_ns.unwrap() - 4.0 / 3.0).abs() < 1e-15);
        assert!((moments.variance_ns2.unwrap() - 2.0 / 9.0).abs() < 1e-15);
        assert_eq!((moments.min_ns, moments.max_ns), (Some(1), Some(2)));
    }

    #[test]
    fn merged_spans_are_those_of_one_run() {
        let (mut a, mut b, mut both) = (Spans::default(), Spans::default(), Spans::default());
        for ns in 0..100 {
            if ns % 3 == 0 { &mut a } else { &mut b }.add(Nanos::from_ns(ns * ns));
            both.add(Nanos::from_ns(ns * ns));
        }
        a.merge(&b);
        assert_eq!(a, both);
    }

    #[test]
    fn spans_of_centuries_have_a_mean_and_no_variance() {
        let mut spans = Spans::default();
        for ns in [u64::MAX, u64::MAX, u64::MAX - 6] {
            spans.add(Nanos::from_ns(ns));
        }
        let moments = spans.moments();
        assert_eq!(moments.mean_ns, Some((u64::MAX - 2) as f64));
        assert_eq!(moments.variance_ns2, None);
    }

    #[test]
    fn nothing_measured_has_no_mean() {
        assert_eq!(Spans::default().moments().mean_ns, None);
    }
}
