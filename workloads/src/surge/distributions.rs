//! The distributions of the surge workload. Each is drawn by inverting its distribution function, from 53 bits of a
//! generator, and rounded down to a whole number.
//!
//! All platforms draw the same values. Their transcendental functions differ in the last bits, so the values are those of
//! `libm`. The platform's own functions are several times as fast. They suffice wherever an error far above theirs would
//! give the same whole number; `libm` decides the rest.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::random::unit_above_zero;

/// A bound on the relative error of the platform's functions and of the few operations around them, thousands of times
/// as large as both.
const ERROR: f64 = 1e-12;

/// `exact()` rounded down, where `near` is the same computed with the platform's functions.
fn whole(near: f64, exact: impl FnOnce() -> f64) -> u64 {
    let least = (near * (1.0 - ERROR)) as u64;
    if least == (near * (1.0 + ERROR)) as u64 { least } else { exact() as u64 }
}

/// Whether `exact()` is below a bound, likewise.
fn is_below(bound: f64, near: f64, exact: impl FnOnce() -> f64) -> bool {
    if (near - bound).abs() > ERROR * bound { near < bound } else { exact() < bound }
}

/// Uniform over (0, 1], in steps of 2^-53.
fn uniform(generator: &mut Xoshiro256PlusPlus) -> f64 {
    unit_above_zero(generator.next_u64())
}

/// A value of the Pareto distribution with shape `alpha` and least value `k`, F(x) = 1 - (k/x)^alpha, made whole after
/// `scaled`, which rounds to the last bits only.
pub fn pareto(generator: &mut Xoshiro256PlusPlus, alpha: f64, k: f64, scaled: impl Fn(f64) -> f64) -> u64 {
    let uniform = uniform(generator);
    whole(scaled(k / uniform.powf(1.0 / alpha)), || scaled(k / libm::pow(uniform, 1.0 / alpha)))
}

/// The paper's continuous approximation of Zipf's law, F(x) = log(x+1)/log(N+2), rounded down: a rank
/// below `ranks`.
pub fn zipf(generator: &mut Xoshiro256PlusPlus, ranks: u32) -> u32 {
    let (uniform, most) = (uniform(generator), f64::from(ranks) + 1.0);
    let above = whole((uniform * most.ln()).exp(), || libm::exp(uniform * libm::log(most)));
    above.saturating_sub(1).min(u64::from(ranks - 1)) as u32
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

    /// Draws a size in whole bytes, at least 1. The body is made of a standard normal number (Box and Muller; one of
    /// the two numbers is used).
    pub fn draw(&self, generator: &mut Xoshiro256PlusPlus) -> u64 {
        let (first, second) = (uniform(generator), uniform(generator));
        let angle = std::f64::consts::TAU * second;
        let near = (self.mu + self.sigma * ((-2.0 * first.ln()).sqrt() * angle.cos())).exp();
        let exact = || {
            let radius = libm::sqrt(-2.0 * libm::log(first));
            libm::exp(self.mu + self.sigma * (radius * libm::cos(angle)))
        };
        if is_below(self.body_max, near, exact) {
            whole(near.clamp(1.0, self.max), || exact().clamp(1.0, self.max))
        } else {
            pareto(generator, self.alpha, self.body_max, |size| size.clamp(1.0, self.max))
        }
    }
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
        let drawn = |alpha, k| move |g: &mut Xoshiro256PlusPlus| pareto(g, alpha, k, |x| x * 1e6) as f64 / 1e6;
        assert!(distance(drawn(1.5, 2.0), pareto_cdf(1.5, 2.0)) < BOUND);
        assert!(distance(drawn(2.43, 1.0), pareto_cdf(2.43, 1.0)) < BOUND);
        assert!(distance(drawn(1.5, 2.0), pareto_cdf(1.45, 2.0)) > BOUND, "it can tell");
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

    /// The same draws with `libm` alone.
    mod exact {
        use super::*;

        pub fn pareto(generator: &mut Xoshiro256PlusPlus, alpha: f64, k: f64) -> f64 {
            k / libm::pow(uniform(generator), 1.0 / alpha)
        }

        pub fn zipf(generator: &mut Xoshiro256PlusPlus, ranks: u32) -> u32 {
            let x = libm::exp(uniform(generator) * libm::log(f64::from(ranks) + 1.0)) - 1.0;
            (x as u32).min(ranks - 1)
        }

        pub fn size(sizes: &FileSizes, generator: &mut Xoshiro256PlusPlus) -> u64 {
            let radius = libm::sqrt(-2.0 * libm::log(uniform(generator)));
            let normal = radius * libm::cos(std::f64::consts::TAU * uniform(generator));
            let body = libm::exp(sizes.mu + sizes.sigma * normal);
            let size = if body < sizes.body_max { body } else { pareto(generator, sizes.alpha, sizes.body_max) };
            size.clamp(1.0, sizes.max) as u64
        }
    }

    #[test]
    fn draws_are_those_of_libm_alone() {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(3);
        for round in 0..300_000_u32 {
            let mut same = generator.clone();
            let ranks = 1 + round % 1000 * 1009;
            assert_eq!(FileSizes::SURGE.draw(&mut generator), exact::size(&FileSizes::SURGE, &mut same));
            assert_eq!(zipf(&mut generator, ranks), exact::zipf(&mut same, ranks));
            let scaled = |ms: f64| ms * 1000.0 * f64::from(1 + round % 1500);
            assert_eq!(pareto(&mut generator, 1.5, 2.0, scaled), scaled(exact::pareto(&mut same, 1.5, 2.0)) as u64);
            assert_eq!(pareto(&mut generator, 2.43, 1.0, |x| x), exact::pareto(&mut same, 2.43, 1.0) as u64);
            assert_eq!(generator, same);
        }
    }

    #[test]
    fn near_a_whole_number_or_a_bound_the_exact_value_decides() {
        let never = || -> f64 { unreachable!("the near value is far enough") };
        assert_eq!((whole(7.5, never), whole(7.0 - 1e-9, never), whole(0.0, never)), (7, 6, 0));
        assert_eq!((whole(7.0, || 7.0 - 1e-15), whole(7.0 - 1e-14, || 7.0)), (6, 7));
        assert_eq!((whole(f64::INFINITY, never), whole(1e300, never)), (u64::MAX, u64::MAX));
        assert!(is_below(8.0, 7.5, never) && !is_below(8.0, 8.5, never));
        assert!(is_below(8.0, 8.0, || 8.0 - 1e-15) && !is_below(8.0, 8.0 - 1e-14, || 8.0));
    }
}
