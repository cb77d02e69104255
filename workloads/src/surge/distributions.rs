//! The distributions of the surge workload. Each is drawn by inverting its distribution function, from 53 bits of a
//! generator. Transcendental functions come from `libm`, so that all platforms draw the same values.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Uniform over (0, 1], in steps of 2^-53.
fn uniform(generator: &mut Xoshiro256PlusPlus) -> f64 {
    let steps: u64 = generator.random_range(1..=1 << 53);
    steps as f64 / (1_u64 << 53) as f64
}

/// Pareto with shape `alpha` and least value `k`: F(x) = 1 - (k/x)^alpha.
pub fn pareto(generator: &mut Xoshiro256PlusPlus, alpha: f64, k: f64) -> f64 {
    k / libm::pow(uniform(generator), 1.0 / alpha)
}

/// The paper's continuous approximation of Zipf's law, F(x) = log(x+1)/log(N+2), rounded down: a rank
/// below `ranks`.
pub fn zipf(generator: &mut Xoshiro256PlusPlus, ranks: u32) -> u32 {
    let x = libm::exp(uniform(generator) * libm::log(f64::from(ranks) + 1.0)) - 1.0;
    (x as u32).min(ranks - 1)
}

/// The size of a file in bytes: lognormal below `body_max` and Pareto above. The shares of the two are those of the
/// lognormal distribution below and above `body_max`. Sizes are cut at `max`.
#[derive(Clone, Copy, Debug)]
pub struct FileSizes {
    /// The mean of the logarithm.
    pub mu: f64,
    /// The standard deviation of the logarithm.
    pub sigma: f64,
    /// The size at which the tail begins, in bytes.
    pub body_max: f64,
    /// The shape of the tail.
    pub alpha: f64,
    /// The greatest size, in bytes.
    pub max: f64,
}

impl FileSizes {
    /// The parameters of Barford and Crovella, as Geist et al. 2010 give them in section 5. Sizes are cut at 100 MB.
    pub const SURGE: FileSizes =
        FileSizes { mu: 9.357, sigma: 1.318, body_max: 133.0 * 1024.0, alpha: 1.1, max: 100.0 * 1024.0 * 1024.0 };

    /// Draws a size in whole bytes, at least 1.
    pub fn draw(&self, generator: &mut Xoshiro256PlusPlus) -> u64 {
        let body = libm::exp(self.mu + self.sigma * normal(generator));
        let size = if body < self.body_max { body } else { pareto(generator, self.alpha, self.body_max) };
        size.clamp(1.0, self.max) as u64
    }
}

/// A standard normal number (Box and Muller; one of the two numbers is used).
fn normal(generator: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(uniform(generator)));
    radius * libm::cos(std::f64::consts::TAU * uniform(generator))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// The greatest distance of the empirical distribution function from `cdf` (Kolmogorov).
    fn distance(mut draw: impl FnMut(&mut Xoshiro256PlusPlus) -> f64, cdf: impl Fn(f64) -> f64) -> f64 {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut values: Vec<f64> = (0..40_000).map(|_| draw(&mut generator)).collect();
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        values.iter().enumerate().map(|(index, &x)| (cdf(x) - index as f64 / n).abs()).fold(0.0, f64::max)
    }

    /// Kolmogorov's 99.9 % bound for 40,000 values.
    const BOUND: f64 = 1.95 / 200.0;

    #[test]
    fn values_follow_the_papers_distribution_functions() {
        let pareto_cdf = |alpha: f64, k: f64| move |x: f64| 1.0 - (k / x).powf(alpha);
        assert!(distance(|g| pareto(g, 1.5, 2.0), pareto_cdf(1.5, 2.0)) < BOUND);
        assert!(distance(|g| pareto(g, 2.43, 1.0), pareto_cdf(2.43, 1.0)) < BOUND);
        assert!(distance(|g| pareto(g, 1.5, 2.0), pareto_cdf(1.45, 2.0)) > BOUND, "it can tell");
        // Ranks are rounded down: F at the next rank is the share of ranks up to this one.
        let n = 1_000_000_u32;
        let zipf_cdf = |x: f64| (x + 1.0).ln() / (f64::from(n) + 1.0).ln();
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(2);
        let ranks: Vec<u32> = (0..40_000).map(|_| zipf(&mut generator, n)).collect();
        for rank in [0, 1, 9, 99, 9_999, 499_999] {
            let share = ranks.iter().filter(|&&r| r <= rank).count() as f64 / ranks.len() as f64;
            assert!((share - zipf_cdf(f64::from(rank) + 1.0)).abs() < BOUND, "{rank}: {share}");
        }
        assert!(ranks.iter().all(|&rank| rank < n));
    }

    #[test]
    fn file_sizes_have_the_body_the_tail_and_the_cut() {
        let sizes = FileSizes::SURGE;
        let body = |x: f64| 0.5 * libm::erfc(-(x.ln() - sizes.mu) / sizes.sigma / std::f64::consts::SQRT_2);
        let at_tail = body(sizes.body_max);
        let cdf = |x: f64| {
            if x < sizes.body_max {
                body(x)
            } else if x < sizes.max {
                1.0 - (1.0 - at_tail) * (sizes.body_max / x).powf(sizes.alpha)
            } else {
                1.0
            }
        };
        assert!(distance(|g| sizes.draw(g) as f64, cdf) < BOUND);
        assert!((0.965..0.975).contains(&at_tail), "97 % are in the body: {at_tail}");
    }
}
