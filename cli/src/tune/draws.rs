//! The numbers that a tuning draws.

use rand::Rng as _;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::random::unit;

/// What numbers are drawn for: each has a generator of its own, so that one more number here changes none there.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    Candidates,
    HeldOut,
    Interval,
    /// The windows of a round.
    Windows(u32),
}

/// A generator (Xoshiro256++) for a purpose.
pub struct Draws(Xoshiro256PlusPlus);

impl Draws {
    pub fn new(seed: u64, purpose: Purpose) -> Draws {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        let streams = match purpose {
            Purpose::Candidates => 0,
            Purpose::HeldOut => 1,
            Purpose::Interval => 2,
            Purpose::Windows(round) => 3 + round,
        };
        // Each jump passes over 2^128 numbers.
        (0..streams).for_each(|_| generator.jump());
        Draws(generator)
    }

    /// A number below `count`; 0 if there is none.
    pub fn below(&mut self, count: usize) -> usize {
        (unit(self.0.next_u64()) * count as f64) as usize
    }

    /// A number in `[0, 1)`.
    pub fn share(&mut self) -> f64 {
        unit(self.0.next_u64())
    }

    /// Puts `items` into an order in which each is as likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}
