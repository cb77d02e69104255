//! Permutations of any number of numbers, decided by a key.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::first_64_bits;

/// A keyed permutation of `0..size`. It is a Feistel network over the next even number of bits, walked until it comes
/// back into the range. Black and Rogaway 2002 ("Ciphers with arbitrary finite domains") call it cycle walking. It
/// needs no table, so that the range may be as large as it likes.
#[derive(Clone)]
pub(super) struct Permutation {
    size: u64,
    half_bits: u32,
    mac: Hmac<Sha256>,
}

/// Four rounds of a good round function make a Feistel network a pseudo-random permutation that resists chosen plain
/// and cipher texts (Luby and Rackoff 1988). There are more here, since halves are small.
const ROUNDS: u8 = 8;

impl Permutation {
    /// `purpose` keeps two permutations under one key apart.
    pub(super) fn new(mac: &Hmac<Sha256>, purpose: &str, size: u64) -> Permutation {
        let bits = u64::BITS - size.saturating_sub(1).leading_zeros();
        let mut mac = mac.clone();
        mac.update(b"permutation");
        mac.update(&(purpose.len() as u64).to_le_bytes());
        mac.update(purpose.as_bytes());
        mac.update(&size.to_le_bytes());
        Permutation { size, half_bits: bits.div_ceil(2), mac }
    }

    /// How many numbers are permuted.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Where `index`, which must be below the size, goes.
    pub(super) fn apply(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = self.feistel(value);
            if value < self.size {
                return value;
            }
        }
    }

    fn feistel(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..ROUNDS {
            let mut mac = self.mac.clone();
            mac.update(&[round]);
            mac.update(&right.to_le_bytes());
            (left, right) = (right, left ^ (first_64_bits(mac) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use hmac::KeyInit;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_permutation_is_that_of_its_description() {
        // From a Python version of it, so that the same key means the same numbers for good.
        let permutation = Permutation::new(&Hmac::new_from_slice(b"key").unwrap(), "test", 1_000);
        assert_eq!([0, 1, 2, 3].map(|index| permutation.apply(index)), [26, 655, 389, 226]);
    }

    proptest! {
        #[test]
        fn indexes_map_onto_their_range_without_collision(size in 1u64..600, key in any::<[u8; 4]>()) {
            let permutation = Permutation::new(&Hmac::new_from_slice(&key).unwrap(), "test", size);
            let mut images: Vec<u64> = (0..size).map(|index| permutation.apply(index)).collect();
            images.sort_unstable();
            prop_assert!(images.into_iter().eq(0..size));
        }
    }
}
