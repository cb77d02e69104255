//! Whether times depend on distance at all: the line of the fitted half against the other half.
//!
//! The test uses the squared correlation of the held-out times with the line's predictions, with the correlation's
//! sign. That is the share of their variance that the line explains. It is compared with the same share after the
//! held-out times are dealt to the distances at random, 999 times from a named generator with a seed. Times depend on
//! distance if the share lies above the interval that holds 99 % of the random ones *and* is at least 5 %. With many
//! reads, a dependence too small to matter for any schedule would pass the first test alone.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::calibration::Dependence;
use traces::{Nanos, Sectors};

use super::linear::Smoothed;
use super::reads::{CalibrationReads, shuffle};

/// Random orders, so that the ends of the interval have five beyond each.
const PERMUTATIONS: usize = 999;
/// How many of the sorted shares lie beyond either end of the interval of 99 %.
const BEYOND: usize = 5;
/// The smallest share of the variance that matters: a line that explains less takes not even 3 % off the deviation of
/// single times from their mean.
pub const SHARE_MIN: f64 = 0.05;

/// Tests the reads.
pub fn dependence(reads: &CalibrationReads, seed: u64) -> Dependence {
    let line = Smoothed::new(reads.half(true)).line();
    let held: Vec<(Sectors, Nanos)> = reads.half(false);
    let mut times: Vec<f64> = held.iter().map(|(_, time)| time.as_ns() as f64).collect();
    let predicted: Vec<f64> = held.iter().map(|(distance, _)| line.at(*distance)).collect();
    let explained_share = correlated(&times, &predicted);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut by_chance: Vec<f64> = (0..PERMUTATIONS)
        .map(|_| {
            shuffle(&mut times, &mut random);
            correlated(&times, &predicted)
        })
        .collect();
    by_chance.sort_unstable_by(f64::total_cmp);
    let (low, high) = (by_chance[BEYOND], by_chance[PERMUTATIONS - 1 - BEYOND]);
    Dependence {
        explained_share,
        by_chance_low: low,
        by_chance_high: high,
        permutations: PERMUTATIONS as u32,
        depends_on_distance: explained_share > high && explained_share >= SHARE_MIN && line.ns_per_sector > 0.0,
    }
}

/// The squared correlation with its sign; zero where either does not vary.
fn correlated(times: &[f64], predicted: &[f64]) -> f64 {
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
    let (time_mean, predicted_mean) = (mean(times), mean(predicted));
    let (mut both, mut of_times, mut of_predicted) = (0.0, 0.0, 0.0);
    for (time, guess) in times.iter().zip(predicted) {
        let (time, guess) = (time - time_mean, guess - predicted_mean);
        both += time * guess;
        of_times += time * time;
        of_predicted += guess * guess;
    }
    let product = of_times * of_predicted;
    if product > 0.0 { both * both.abs() / product } else { 0.0 }
}

/// The share of the variance of `times` that `predicted` explains; below zero if it is worse than their mean, zero
/// where they do not vary.
pub(super) fn explained(times: &[f64], predicted: &[f64]) -> f64 {
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let around: f64 = times.iter().map(|time| (time - mean) * (time - mean)).sum();
    let left: f64 = times.iter().zip(predicted).map(|(time, guess)| (time - guess) * (time - guess)).sum();
    if around > 0.0 { 1.0 - left / around } else { 0.0 }
}
