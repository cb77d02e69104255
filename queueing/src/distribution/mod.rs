//! Distributions of service times, firing delays and think times: their means, second moments and draws.
//!
//! A draw takes uniform numbers from a generator and transforms them with `libm`, so that the same seed gives the same
//! bytes on each computer. All times are in the time unit of the net.

mod ziggurat;

use std::f64::consts::{PI, SQRT_2};

use rand::Rng;
use serde::Deserialize;
use traces::random::{unit, unit_above_zero};

/// A distribution of non-negative times. `docs/nets.md` shows how each is written in TOML.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// Exponential with this mean.
    Exponential {
        /// Mean, in time units.
        mean: f64,
    },
    /// Gamma with density proportional to x^(shape - 1) exp(-shape x / mean). The scale is mean / shape.
    Gamma {
        /// Mean, in time units.
        mean: f64,
        /// The shape k. The squared coefficient of variation is 1 / k.
        shape: f64,
    },
    /// Always the same time.
    Deterministic {
        /// That time.
        value: f64,
    },
    /// Uniform between two times.
    Uniform {
        /// The least time.
        low: f64,
        /// The greatest time.
        high: f64,
    },
    /// The part above zero of a normal distribution, rescaled to probability one.
    Normal {
        /// Mean before truncation.
        mean: f64,
        /// Standard deviation before truncation.
        deviation: f64,
    },
    /// Lognormal: exp(mu + sigma Z) with Z standard normal.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto: P(X > x) = (scale / x)^shape for x from `scale` on.
    Pareto {
        /// The least time.
        scale: f64,
        /// The tail index. The mean is infinite up to 1, the second moment up to 2.
        shape: f64,
    },
    /// One of these times, in proportion to their weights.
    Empirical {
        /// Times and their weights.
        points: Vec<(f64, f64)>,
    },
    /// Two-phase hyperexponential: exponential with the first mean at `probability`, else with the second.
    Hyperexponential {
        /// Probability of the first phase.
        probability: f64,
        /// Means of the phases.
        means: [f64; 2],
    },
}

/// The probability above which the part of a normal distribution above zero must lie, so that rejection ends soon.
const KEPT_MIN: f64 = 0.01;

impl Distribution {
    /// Checks the parameters.
    ///
    /// # Errors
    /// What is wrong with a parameter and what is right: a NaN, infinite or negative time, a shape that is not above
    /// zero, a weight below zero, a mean that is infinite.
    pub fn check(&self) -> Result<(), String> {
        let time = |name: &str, value: f64| {
            let good = value.is_finite() && value >= 0.0;
            good.then_some(()).ok_or_else(|| format!("{name} is {value}: give a finite number from 0 on"))
        };
        let above = |name: &str, value: f64, least: f64| {
            let good = value.is_finite() && value > least;
            good.then_some(()).ok_or_else(|| format!("{name} is {value}: give a finite number above {least}"))
        };
        match self {
            Distribution::Exponential { mean } => time("mean", *mean),
            Distribution::Gamma { mean, shape } => {
                time("mean", *mean)?;
                above("shape", *shape, 0.0)
            }
            Distribution::Deterministic { value } => time("value", *value),
            Distribution::Uniform { low, high } => {
                time("low", *low)?;
                time("high", *high)?;
                let ordered = low <= high;
                ordered.then_some(()).ok_or_else(|| format!("low is {low} and high is {high}: give low <= high"))
            }
            Distribution::Normal { mean, deviation } => {
                above("deviation", *deviation, 0.0)?;
                let kept = mean.is_finite() && upper_tail(-mean / deviation) >= KEPT_MIN;
                kept.then_some(()).ok_or_else(|| {
                    format!("mean is {mean} and deviation {deviation}: give a mean with at least 1 % above zero")
                })
            }
            Distribution::Lognormal { mu, sigma } => {
                let good = mu.is_finite() && sigma.is_finite() && *sigma >= 0.0 && self.mean().is_finite();
                good.then_some(()).ok_or_else(|| {
                    format!("mu is {mu} and sigma {sigma}: give finite numbers, sigma from 0 on, with a finite mean")
                })
            }
            Distribution::Pareto { scale, shape } => {
                time("scale", *scale)?;
                above("shape", *shape, 1.0)
            }
            Distribution::Empirical { points } => {
                for (value, weight) in points {
                    time("a value", *value)?;
                    time("a weight", *weight)?;
                }
                let total: f64 = points.iter().map(|point| point.1).sum();
                above("the sum of the weights", total, 0.0)
            }
            Distribution::Hyperexponential { probability, means } => {
                time("the first mean", means[0])?;
                time("the second mean", means[1])?;
                let good = (0.0..=1.0).contains(probability);
                good.then_some(()).ok_or_else(|| format!("probability is {probability}: give a number from 0 to 1"))
            }
        }
    }

    /// The mean, in time units; infinite where it does not exist.
    pub fn mean(&self) -> f64 {
        match self {
            Distribution::Exponential { mean } | Distribution::Gamma { mean, .. } => *mean,
            Distribution::Deterministic { value } => *value,
            Distribution::Uniform { low, high } => low + (high - low) / 2.0,
            // Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions, 13.10.1: mu + sigma h(-mu / sigma).
            Distribution::Normal { mean, deviation } => mean + deviation * hazard(-mean / deviation),
            Distribution::Lognormal { mu, sigma } => libm::exp(mu + sigma * sigma / 2.0),
            Distribution::Pareto { scale, shape } if *shape > 1.0 => scale * shape / (shape - 1.0),
            Distribution::Pareto { .. } => f64::INFINITY,
            Distribution::Empirical { points } => weighted(points, |value| value),
            Distribution::Hyperexponential { probability, means } => {
                probability * means[0] + (1.0 - probability) * means[1]
            }
        }
    }

    /// The mean of the square, in squared time units; infinite where it does not exist.
    pub fn second_moment(&self) -> f64 {
        match self {
            Distribution::Exponential { mean } => 2.0 * mean * mean,
            Distribution::Gamma { mean, shape } => mean * mean * (1.0 + 1.0 / shape),
            Distribution::Deterministic { value } => value * value,
            Distribution::Uniform { low, high } => (low * low + low * high + high * high) / 3.0,
            // E[X^2] = mu^2 + sigma^2 + mu sigma h(-mu / sigma), from the same source as the mean.
            Distribution::Normal { mean, deviation } => {
                mean * mean + deviation * deviation + mean * deviation * hazard(-mean / deviation)
            }
            Distribution::Lognormal { mu, sigma } => libm::exp(2.0 * (mu + sigma * sigma)),
            Distribution::Pareto { scale, shape } if *shape > 2.0 => scale * scale * shape / (shape - 2.0),
            Distribution::Pareto { .. } => f64::INFINITY,
            Distribution::Empirical { points } => weighted(points, |value| value * value),
            Distribution::Hyperexponential { probability, means } => {
                2.0 * (probability * means[0] * means[0] + (1.0 - probability) * means[1] * means[1])
            }
        }
    }

    /// Draws a time. To draw often, make a [`Sampler`] once.
    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        self.sampler().draw(random)
    }

    /// The distribution with what its draws share worked out.
    pub fn sampler(&self) -> Sampler {
        Sampler(match self {
            Distribution::Exponential { mean } => Draw::Exponential(*mean),
            Distribution::Gamma { mean, shape } => {
                let scale = mean / shape;
                let whole = *shape == libm::floor(*shape) && *shape <= ERLANG_MAX;
                if whole { Draw::Erlang { phases: *shape as u32, scale } } else { Draw::gamma(*shape, scale) }
            }
            Distribution::Deterministic { value } => Draw::Deterministic(*value),
            Distribution::Uniform { low, high } => Draw::Uniform { low: *low, span: high - low },
            Distribution::Normal { mean, deviation } => Draw::Normal { mean: *mean, deviation: *deviation },
            Distribution::Lognormal { mu, sigma } => Draw::Lognormal { mu: *mu, sigma: *sigma },
            Distribution::Pareto { scale, shape } => Draw::Pareto { scale: *scale, power: -1.0 / shape },
            Distribution::Empirical { points } => {
                let total: f64 = points.iter().map(|point| point.1).sum();
                let mut below = 0.0;
                let kept = points.iter().filter(|point| point.1 > 0.0);
                let steps = kept.map(|&(value, weight)| {
                    below += weight / total;
                    (below, value)
                });
                Draw::Empirical(steps.collect())
            }
            Distribution::Hyperexponential { probability, means } => {
                Draw::Hyperexponential { probability: *probability, means: *means }
            }
        })
    }
}

/// The most phases that are drawn as a sum of exponential ones.
const ERLANG_MAX: f64 = 8.0;

/// A distribution made ready for many draws.
#[derive(Clone, Debug)]
pub struct Sampler(Draw);

#[derive(Clone, Debug)]
enum Draw {
    Exponential(f64),
    Erlang {
        phases: u32,
        scale: f64,
    },
    /// Marsaglia and Tsang 2000. `boost` is 1 / shape for shapes below one, else 0.
    Gamma {
        d: f64,
        c: f64,
        boost: f64,
        scale: f64,
    },
    Deterministic(f64),
    Uniform {
        low: f64,
        span: f64,
    },
    Normal {
        mean: f64,
        deviation: f64,
    },
    Lognormal {
        mu: f64,
        sigma: f64,
    },
    Pareto {
        scale: f64,
        power: f64,
    },
    /// Cumulative probabilities and values.
    Empirical(Vec<(f64, f64)>),
    Hyperexponential {
        probability: f64,
        means: [f64; 2],
    },
}

impl Draw {
    fn gamma(shape: f64, scale: f64) -> Draw {
        // A shape below one is drawn with one more, then scaled by a power of a uniform number.
        let (raised, boost) = if shape < 1.0 { (shape + 1.0, 1.0 / shape) } else { (shape, 0.0) };
        let d = raised - 1.0 / 3.0;
        Draw::Gamma { d, c: 1.0 / libm::sqrt(9.0 * d), boost, scale }
    }
}

impl Sampler {
    /// Draws a time.
    #[inline]
    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        match &self.0 {
            Draw::Exponential(mean) => mean * ziggurat::exponential(random),
            Draw::Erlang { phases, scale } => scale * (0..*phases).map(|_| ziggurat::exponential(random)).sum::<f64>(),
            Draw::Gamma { d, c, boost, scale } => {
                let value = scale * d * marsaglia_tsang(*d, *c, random);
                if *boost > 0.0 { value * libm::pow(unit_above_zero(random.next_u64()), *boost) } else { value }
            }
            Draw::Deterministic(value) => *value,
            Draw::Uniform { low, span } => low + span * unit(random.next_u64()),
            Draw::Normal { mean, deviation } => loop {
                let value = mean + deviation * standard_normal(random);
                if value >= 0.0 {
                    break value;
                }
            },
            Draw::Lognormal { mu, sigma } => libm::exp(mu + sigma * standard_normal(random)),
            Draw::Pareto { scale, power } => scale * libm::pow(unit_above_zero(random.next_u64()), *power),
            Draw::Empirical(steps) => {
                let at = unit(random.next_u64());
                let index = steps.partition_point(|step| step.0 <= at).min(steps.len().saturating_sub(1));
                steps.get(index).map_or(0.0, |step| step.1)
            }
            Draw::Hyperexponential { probability, means } => {
                let phase = usize::from(unit(random.next_u64()) >= *probability);
                means[phase] * ziggurat::exponential(random)
            }
        }
    }
}

/// A gamma variate over d: Marsaglia, Tsang, A simple method for generating gamma variables, 2000.
fn marsaglia_tsang(d: f64, c: f64, random: &mut impl Rng) -> f64 {
    loop {
        let normal = standard_normal(random);
        let root = 1.0 + c * normal;
        if root <= 0.0 {
            continue;
        }
        let cube = root * root * root;
        let uniform = unit_above_zero(random.next_u64());
        if libm::log(uniform) < normal * normal / 2.0 + d * (1.0 - cube + libm::log(cube)) {
            return cube;
        }
    }
}

/// A standard normal variate by Box and Muller 1958. The second of the pair is dropped, so that draws keep no state.
fn standard_normal(random: &mut impl Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(unit_above_zero(random.next_u64())));
    radius * libm::cos(2.0 * PI * unit(random.next_u64()))
}

/// P(Z > z) of the standard normal.
fn upper_tail(z: f64) -> f64 {
    libm::erfc(z / SQRT_2) / 2.0
}

/// Density over upper tail of the standard normal at `z`.
fn hazard(z: f64) -> f64 {
    libm::exp(-z * z / 2.0) / libm::sqrt(2.0 * PI) / upper_tail(z)
}

/// The weighted mean of a function of the values.
fn weighted(points: &[(f64, f64)], of: impl Fn(f64) -> f64) -> f64 {
    let total: f64 = points.iter().map(|point| point.1).sum();
    points.iter().map(|point| point.1 * of(point.0)).sum::<f64>() / total
}

#[cfg(test)]
mod tests;
