//! A distribution as quantiles.
//!
//! There are 38: at 0, 1/32, …, 31/32, then at 1-2⁻⁶, 1-2⁻⁷, …, 1-2⁻¹⁰, and the largest. Evenly
//! spaced ones alone would draw a straight line from the 97th percentile to the largest value and make rare delays
//! common; halving what is left keeps each piece of the tail as short as its weight. Between two
//! quantiles every value is as likely.

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
mod tests {
    use super::*;

    #[test]
    fn the_levels_are_the_documented_ones() {
        let levels = Quantiles::levels();
        assert_eq!((levels[0], levels[1], levels[31]), (0.0, 1.0 / 32.0, 31.0 / 32.0));
        assert_eq!((levels[32], levels[36], levels[37]), (63.0 / 64.0, 1023.0 / 1024.0, 1.0));
    }

    #[test]
    fn a_draw_at_a_level_is_its_quantile() {
        let ns: Vec<u64> = (0..QUANTILES as u64).map(|index| index * index * 1000).collect();
        let quantiles = Quantiles::new(&ns).unwrap();
        for (index, level) in Quantiles::levels().into_iter().enumerate().take(QUANTILES - 1) {
            assert_eq!(quantiles.draw((level * 2f64.powi(64)) as u64).as_ns(), ns[index], "level {level}");
        }
        assert_eq!(quantiles.draw(u64::MAX).as_ns(), ns[QUANTILES - 1] - 1);
        // Half way between the first two, and between the last two.
        assert_eq!(quantiles.draw(1 << 58).as_ns(), 500);
        assert_eq!(quantiles.draw(!0 << 53).as_ns(), (ns[36] + ns[37]) / 2);
    }

    #[test]
    fn quantiles_grow_and_are_all_there() {
        assert!(Quantiles::new(&[1; QUANTILES]).is_some());
        assert!(Quantiles::new(&[1; QUANTILES - 1]).is_none());
        let mut falling = [5; QUANTILES];
        falling[20] = 4;
        assert!(Quantiles::new(&falling).is_none());
    }
}
