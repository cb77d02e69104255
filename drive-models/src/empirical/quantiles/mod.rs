//! A distribution as quantiles.
//!
//! There are 38: at 0, 1/32, …, 31/32, then at 1-2⁻⁶, 1-2⁻⁷, …, 1-2⁻¹⁰, and the largest. Evenly spaced quantiles alone
//! would draw a straight line from the 97th percentile to the largest value and make rare delays common. Halving the
//! remaining share keeps each piece of the tail as short as its weight. Between two quantiles every value is equally
//! likely.

use traces::Nanos;

/// How many quantiles.
pub const QUANTILES: usize = 38;
/// Equal shares of the body.
const BODY: u32 = 32;
/// The tail is halved until 2⁻¹⁰ is left.
const HALVINGS: u32 = 10;

/// The quantiles of a distribution of times, in ns, none below the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantiles([u64; QUANTILES]);

impl Quantiles {
    /// The shares of a distribution that lie at or below each quantile.
    pub fn levels() -> [f64; QUANTILES] {
        std::array::from_fn(|index| {
            let index = index as u32;
            if index < BODY {
                f64::from(index) / f64::from(BODY)
            } else if index + 1 == QUANTILES as u32 {
                1.0
            } else {
                1.0 - 1.0 / f64::from(1u32 << (index - BODY + 6))
            }
        })
    }

    /// From as many times; `None` if there are not, or if one is below the one before.
    pub fn new(ns: &[u64]) -> Option<Quantiles> {
        let quantiles: [u64; QUANTILES] = ns.try_into().ok()?;
        quantiles.is_sorted().then_some(Quantiles(quantiles))
    }

    /// The times, in ns.
    pub fn as_ns(&self) -> &[u64] {
        &self.0
    }

    /// The median.
    pub fn median(&self) -> Nanos {
        Nanos::from_ns(self.0[BODY as usize / 2])
    }

    /// The time that 64 random bits stand for.
    pub fn draw(&self, bits: u64) -> Nanos {
        let share = (bits >> 59) as u32;
        let (index, used) = if share + 1 < BODY {
            (share, 5)
        } else {
            let halvings = bits.leading_ones().min(HALVINGS);
            // Fewer ones than that are ended by a zero, which is used up too.
            (BODY - 1 + halvings - 5, halvings + u32::from(halvings < HALVINGS))
        };
        let (low, high) = (self.0[index as usize], self.0[index as usize + 1]);
        let fraction = (bits << used) >> 32;
        Nanos::from_ns(low + ((u128::from(high - low) * u128::from(fraction)) >> 32) as u64)
    }
}

#[cfg(test)]
mod tests;
