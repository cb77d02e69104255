//! Whether times depend on distance at all: the line of the fitted half against the other half.
//!
//! The share of the held-out times' variance that the line explains, 1 − SSE/SST, is held against
//! what it explains when the held-out times are dealt out to the distances at random, 999 times from
//! a named generator with a seed. Times depend on distance if the share lies above the interval that
//! holds 99 % of the random ones, *and* is at least 1 %: with many reads a dependence too small to
//! matter for any schedule would pass the first test alone.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::calibration::Dependence;
use traces::{Nanos, Sectors};

use super::linear::Smoothed;
use super::reads::{Reads, shuffle};

/// Random orders, so that the ends of the interval have five beyond each.
const PERMUTATIONS: usize = 999;
/// How many of the sorted shares lie beyond either end of the interval of 99 %.
const BEYOND: usize = 5;
/// The smallest share of the variance that matters.
const SHARE_MIN: f64 = 0.01;

/// Tests the reads.
pub fn dependence(reads: &Reads, seed: u64) -> Dependence {
    let line = Smoothed::new(reads.half(true)).line();
    let held: Vec<(Sectors, Nanos)> = reads.half(false);
    let mut times: Vec<f64> = held.iter().map(|(_, time)| time.as_ns() as f64).collect();
    let predicted: Vec<f64> = held.iter().map(|(distance, _)| line.at(*distance)).collect();
    let explained_share = explained(&times, &predicted);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut by_chance: Vec<f64> = (0..PERMUTATIONS)
        .map(|_| {
            shuffle(&mut times, &mut random);
            explained(&times, &predicted)
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

/// The share of the variance of `times` that `predicted` explains; below zero if it is worse than
/// their mean, zero where they do not vary.
pub(super) fn explained(times: &[f64], predicted: &[f64]) -> f64 {
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let around: f64 = times.iter().map(|time| (time - mean) * (time - mean)).sum();
    let left: f64 = times.iter().zip(predicted).map(|(time, guess)| (time - guess) * (time - guess)).sum();
    if around > 0.0 { 1.0 - left / around } else { 0.0 }
}
