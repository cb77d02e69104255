//! The initial state of a drive, computed without simulating the writes that lead to it.
//!
//! *Random* is the steady state of uniformly random writes under greedy collection. Blocks are then collected in about
//! the order in which they were written. For each further block written, every block has lost the same share of its
//! remaining valid units. The valid units of blocks, from the youngest to the oldest, therefore form a geometric
//! sequence. Its sum is the drive's size, which fixes its ratio (the assumption of Desnoyers 2012, "Analytic modeling
//! of SSD write performance", and Xiang and Kurkoski 2012, arXiv:1110.4245). Which units these are, and where in their
//! block they lie, is drawn at random.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::flash::description::FlashGeometry;
use crate::flash::ftl::Ftl;

/// A geometry, a kind of preconditioning and a seed.
type Wanted = (FlashGeometry, String, u64);

/// The drive that was made last: a comparison replays on many that are the same.
static LAST: Mutex<Option<(Wanted, Arc<OnceLock<Ftl>>)>> = Mutex::new(None);

/// A drive whose cells are filled as `precondition` says.
pub fn preconditioned(geometry: &FlashGeometry, precondition: &str, seed: u64) -> Ftl {
    let wanted = (*geometry, precondition.to_owned(), seed);
    // No code that holds the lock can panic.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let drive = match &*last {
        Some((known, drive)) if *known == wanted => Arc::clone(drive),
        _ => Arc::clone(&last.insert((wanted, Arc::default())).1),
    };
    drop(last);
    // Made without the lock, so that others are made meanwhile; who wants the same waits.
    drive.get_or_init(|| filled(geometry, precondition, seed)).clone()
}

fn filled(geometry: &FlashGeometry, precondition: &str, seed: u64) -> Ftl {
    let mut ftl = Ftl::new(geometry);
    match precondition {
        "random" => random(&mut ftl, geometry, &mut Xoshiro256PlusPlus::seed_from_u64(seed)),
        "sequential" => sequential(&mut ftl, geometry),
        _ => {}
    }
    ftl
}

/// Written once from its first unit to its last.
fn sequential(ftl: &mut Ftl, geometry: &FlashGeometry) {
    let (units, block) = (geometry.units as u32, geometry.block_units());
    let mut first = 0;
    while first < units {
        let end = units.min(first + block);
        ftl.fill(|put| (first..end).for_each(|unit| put(unit - first, unit)));
        first += block.min(units - first);
    }
}

fn random(ftl: &mut Ftl, geometry: &FlashGeometry, random: &mut Xoshiro256PlusPlus) {
    let mut units: Vec<u32> = (0..geometry.units as u32).collect();
    for last in (1..units.len()).rev() {
        units.swap(last, random.random_range(0..=last as u32) as usize);
    }
    let (mut left, end) = (&units[..], geometry.block_units());
    for valid in valid_by_age(geometry) {
        let (block, rest) = left.split_at(valid as usize);
        left = rest;
        ftl.fill(|put| scatter(block, end, random, put));
    }
}

/// Puts `units` in their order at offsets below `end`, every choice of offsets being as likely.
fn scatter(units: &[u32], end: u32, random: &mut impl Rng, mut put: impl FnMut(u32, u32)) {
    let (mut next, count) = (0, units.len());
    for offset in 0..end {
        if next == count {
            break;
        }
        let chance = (u64::from(random.next_u32()) * u64::from(end - offset)) >> 32;
        if chance < (count - next) as u64 {
            put(offset, units[next]);
            next += 1;
        }
    }
}

/// Valid units of each block, the youngest first.
fn valid_by_age(geometry: &FlashGeometry) -> Vec<u32> {
    let (blocks, block) = (geometry.data_blocks, f64::from(geometry.block_units()));
    let total = |ratio: f64| (0..blocks).fold((0.0, block), |(sum, valid), _| (sum + valid, valid * ratio)).0;
    // Only sums and products, so every platform finds the same ratio.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if total(middle) < geometry.units as f64 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut sum = 0.0;
    let mut valid = block;
    let mut given = 0;
    let mut counts = Vec::with_capacity(blocks as usize);
    for index in 0..blocks {
        sum += valid;
        valid *= high;
        let until = if index + 1 == blocks { geometry.units } else { (sum as u64).min(geometry.units) };
        counts.push((until - given).min(u64::from(geometry.block_units())) as u32);
        given += u64::from(counts[index as usize]);
    }
    counts
}

#[cfg(test)]
mod tests;
