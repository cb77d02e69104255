//! Exponential variates without a logarithm: the ziggurat of Marsaglia and Tsang 2000 with 256 layers.
//!
//! Layers of the same area cover the density. A layer and a point of it are drawn; nearly always the point lies below
//! the density for certain. Layer, point and the test at the edge use bits of their own.

use std::sync::LazyLock;

use rand::Rng;
use traces::random::unit;

const LAYERS: usize = 256;

/// Where the tail begins, and the area of each layer: the solution for 256 layers, from the paper.
const TAIL: f64 = 7.697_117_470_131_05;
const AREA: f64 = 0.003_949_659_822_581_557;

/// Widths of the layers, from the base up, and the density there.
struct Layers {
    widths: [f64; LAYERS + 1],
    heights: [f64; LAYERS + 1],
}

static LAYERS_OF: LazyLock<Layers> = LazyLock::new(|| {
    let mut widths = [0.0; LAYERS + 1];
    // The base is a rectangle of the same area as base and tail together.
    widths[0] = AREA * libm::exp(TAIL);
    widths[1] = TAIL;
    for index in 2..LAYERS {
        let below: f64 = widths[index - 1];
        widths[index] = -libm::log(AREA / below + libm::exp(-below));
    }
    Layers { widths, heights: widths.map(|width| libm::exp(-width)) }
});

/// An exponential variate with mean 1.
#[inline]
pub(super) fn exponential(random: &mut impl Rng) -> f64 {
    let Layers { widths, heights } = &*LAYERS_OF;
    let mut base = 0.0;
    loop {
        let bits = random.next_u64();
        // The 8 lowest bits; `unit` uses the 53 highest.
        let layer = (bits & (LAYERS as u64 - 1)) as usize;
        let value = unit(bits) * widths[layer];
        if value < widths[layer + 1] {
            return base + value;
        }
        if layer == 0 {
            // The tail of an exponential distribution is one itself.
            base += TAIL;
            continue;
        }
        let height = heights[layer] + unit(random.next_u64()) * (heights[layer + 1] - heights[layer]);
        if height < libm::exp(-value) {
            return base + value;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn layers_close_at_the_top() {
        let Layers { widths, heights } = &*LAYERS_OF;
        let last = widths[LAYERS - 1] * (heights[LAYERS] - heights[LAYERS - 1]);
        assert!((last - AREA).abs() < 1e-9, "{last}");
    }

    #[test]
    fn shares_above_each_bound_are_those_of_the_exponential_distribution() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let count = 2_000_000;
        let draws: Vec<f64> = (0..count).map(|_| exponential(&mut random)).collect();
        for bound in [0.001, 0.1, 0.5, 1.0, 2.0, 4.0, 7.0, 7.8, 9.0] {
            let expected = libm::exp(-bound);
            let share = draws.iter().filter(|draw| **draw > bound).count() as f64 / f64::from(count);
            let error = libm::sqrt(expected * (1.0 - expected) / f64::from(count));
            assert!((share - expected).abs() < 4.0 * error, "above {bound}: {share} beside {expected}");
        }
    }
}
