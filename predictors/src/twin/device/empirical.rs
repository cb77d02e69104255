//! Times that are drawn as they were seen.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Times are kept as so many quantiles.
const QUANTILES: usize = 256;

/// Times to draw from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EmpiricalTimes {
    /// Seconds, growing; empty if nothing is known.
    pub(crate) quantiles: Vec<f64>,
}

/// The middle one.
pub(crate) fn median(times: impl Iterator<Item = f64>) -> Option<f64> {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

impl EmpiricalTimes {
    /// Nothing of none.
    pub(crate) fn mean(&self) -> Option<f64> {
        let count = self.quantiles.len();
        (count > 0).then(|| self.quantiles.iter().sum::<f64>() / count as f64)
    }

    pub(crate) fn of(mut times: Vec<f64>) -> EmpiricalTimes {
        times.sort_by(f64::total_cmp);
        let count = times.len();
        if count > QUANTILES {
            // The mean of each slice, so that the mean of all stays.
            let slice = |index: usize| &times[index * count / QUANTILES..(index + 1) * count / QUANTILES];
            let mean = |index| slice(index).iter().sum::<f64>() / slice(index).len() as f64;
            return EmpiricalTimes { quantiles: (0..QUANTILES).map(mean).collect() };
        }
        EmpiricalTimes { quantiles: times }
    }

    /// The one that so large a share does not exceed.
    pub(crate) fn at(&self, share: f64) -> Option<f64> {
        let count = self.quantiles.len();
        (count > 0).then(|| self.quantiles[((share * count as f64) as usize).min(count - 1)])
    }

    pub(crate) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> Option<f64> {
        let count = self.quantiles.len() as u64;
        (count > 0).then(|| self.quantiles[(((random.next_u64() >> 32) * count) >> 32) as usize])
    }
}
