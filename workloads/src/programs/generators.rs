//! The random number generators of the processes of a workload: disjoint parts of one xoshiro256++ sequence.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The generators of processes 0, 1, 2 …: each starts 2^128 numbers after the one before.
pub(super) struct Generators(Xoshiro256PlusPlus);

impl Generators {
    pub(super) fn new(seed: u64) -> Generators {
        Generators(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The generator of the next process.
    pub(super) fn take(&mut self) -> Xoshiro256PlusPlus {
        let taken = self.0.clone();
        self.0.jump();
        taken
    }
}

/// A number in `[0, 1)`, a multiple of 2^-53.
pub(super) fn unit(generator: &mut impl Rng) -> f64 {
    traces::random::unit(generator.next_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_different_random_numbers() {
        let mut generators = Generators::new(7);
        let first: Vec<u64> = (0..3).map(|_| generators.take().next_u64()).collect();
        assert!(first[0] != first[1] && first[1] != first[2]);
        assert_eq!(first[0], Xoshiro256PlusPlus::seed_from_u64(7).next_u64());
    }

    #[test]
    fn unit_numbers_are_below_one_with_mean_one_half() {
        let mut generator = Generators::new(1).take();
        let numbers: Vec<f64> = (0..100_000).map(|_| unit(&mut generator)).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }
}
