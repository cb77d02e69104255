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
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
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
