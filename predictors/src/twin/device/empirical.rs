//! Empirical distributions of times: measured times are kept as quantiles and drawn with equal probability.
//!
//! Draws are independent; the order in which the times were measured is not kept.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The most quantiles kept of a distribution, which bounds memory. Set by judgement; not varied.
const QUANTILES_MAX: usize = 256;

/// A distribution of measured times.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EmpiricalTimes {
    /// Seconds in ascending order; empty if no time was measured.
    pub(crate) quantiles: Vec<f64>,
}

/// The median, or the upper one of the two middle values; `None` without values.
pub(crate) fn median(times: impl Iterator<Item = f64>) -> Option<f64> {
    let mut times: Vec<f64> = times.collect();
    let middle = times.len() / 2;
    (!times.is_empty()).then(|| *times.select_nth_unstable_by(middle, f64::total_cmp).1)
}

impl EmpiricalTimes {
    /// The mean in seconds; `None` if the distribution is empty.
    pub(crate) fn mean(&self) -> Option<f64> {
        let count = self.quantiles.len();
        (count > 0).then(|| self.quantiles.iter().sum::<f64>() / count as f64)
    }

    /// The distribution of `times` in seconds.
    pub(crate) fn of(mut times: Vec<f64>) -> EmpiricalTimes {
        times.sort_by(f64::total_cmp);
        let count = times.len();
        if count > QUANTILES_MAX {
            // Each slice is replaced by its mean, which keeps the mean of all times but for slices of unequal size.
            let slice = |index: usize| &times[index * count / QUANTILES_MAX..(index + 1) * count / QUANTILES_MAX];
            let mean = |index| slice(index).iter().sum::<f64>() / slice(index).len() as f64;
            return EmpiricalTimes { quantiles: (0..QUANTILES_MAX).map(mean).collect() };
        }
        EmpiricalTimes { quantiles: times }
    }

    /// The quantile of a `share` from 0 to 1; `None` if the distribution is empty.
    pub(crate) fn at(&self, share: f64) -> Option<f64> {
        let count = self.quantiles.len();
        (count > 0).then(|| self.quantiles[((share * count as f64) as usize).min(count - 1)])
    }

    /// Draws a time; `None` if the distribution is empty.
    pub(crate) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> Option<f64> {
        let count = self.quantiles.len() as u64;
        (count > 0).then(|| self.quantiles[(((random.next_u64() >> 32) * count) >> 32) as usize])
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn median_is_the_upper_middle_of_the_sorted_times() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        for count in (0..40).chain([999, 1000]) {
            let times: Vec<f64> = (0..count).map(|_| f64::from(random.random_range(-20..20)) / 7.0).collect();
            let mut sorted = times.clone();
            sorted.sort_by(f64::total_cmp);
            assert_eq!(median(times.into_iter()), sorted.get(sorted.len() / 2).copied());
        }
    }
}
