//! Pseudonyms for names and addresses under a key. Equal inputs give equal pseudonyms in every capture; without the key
//! they cannot be reversed.
//!
//! Addresses pass a keyed permutation (a Feistel network of four rounds over HMAC-SHA-256), so that no two addresses
//! become one. Names keep their length, because lengths stand in the headers.

use std::collections::BTreeMap;

use traces::anonymise::{AnonymiseError, Anonymiser};

const FEISTEL_ROUNDS: u32 = 4;

/// Renames initiators, targets and addresses.
pub struct Renamer {
    anonymiser: Anonymiser,
    known: BTreeMap<(u32, u128), u128>,
}

impl Renamer {
    /// A renamer with this key.
    ///
    /// # Errors
    /// The key is too short.
    pub fn new(key: &[u8]) -> Result<Renamer, AnonymiseError> {
        Ok(Renamer { anonymiser: Anonymiser::new(key)?, known: BTreeMap::new() })
    }

    /// Permutes a number of `bits` bits; `bits` is even and at most 128.
    fn permuted(&mut self, bits: u32, number: u128) -> u128 {
        if let Some(&known) = self.known.get(&(bits, number)) {
            return known;
        }
        let half = bits / 2;
        let mask = (1u128 << half) - 1;
        let (mut left, mut right) = (number >> half & mask, number & mask);
        for round in 0..FEISTEL_ROUNDS {
            let name = self.anonymiser.pseudonym(&format!("{bits}-bit address, round {round}"), &format!("{right:x}"));
            let digits = name.rsplit('-').next().unwrap_or_default();
            let keyed = u128::from(u64::from_str_radix(digits, 16).unwrap_or_default());
            (left, right) = (right, left ^ keyed & mask);
        }
        let permuted = left << half | right;
        self.known.insert((bits, number), permuted);
        permuted
    }

    /// Replaces an IPv4 address.
    pub fn ipv4(&mut self, address: &mut [u8; 4]) {
        *address = (self.permuted(32, u128::from(u32::from_be_bytes(*address))) as u32).to_be_bytes();
    }

    /// Replaces an IPv6 address.
    pub fn ipv6(&mut self, address: &mut [u8; 16]) {
        *address = self.permuted(128, u128::from_be_bytes(*address)).to_be_bytes();
    }

    /// Replaces a MAC address by one that is marked as locally administered. Group addresses and zero stay.
    pub fn mac(&mut self, address: &mut [u8; 6]) {
        if address[0] & 1 != 0 || *address == [0; 6] {
            return;
        }
        let number = address.iter().fold(0u128, |number, &byte| number << 8 | u128::from(byte));
        // The two lowest bits of the first byte are flags.
        let kept = (number >> 42) << 40 | number & 0xff_ffff_ffff;
        let permuted = self.permuted(46, kept);
        let whole = (permuted >> 40) << 42 | permuted & 0xff_ffff_ffff | 2 << 40;
        address.copy_from_slice(&whole.to_be_bytes()[10..]);
    }

    /// Replaces a name by one of the same length.
    pub fn name(&self, name: &mut [u8]) {
        let text = String::from_utf8_lossy(name).into_owned();
        let mut letters = Vec::with_capacity(name.len() + 16);
        let mut part = 0;
        while letters.len() < name.len() {
            let pseudonym = self.anonymiser.pseudonym(&format!("iscsi name {part}"), &text);
            letters.extend_from_slice(pseudonym.rsplit('-').next().unwrap_or("0").as_bytes());
            part += 1;
        }
        name.copy_from_slice(&letters[..name.len()]);
        for (place, &letter) in name.iter_mut().zip(b"iqn.") {
            *place = letter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_permuted_by_key_and_names_keep_their_length() {
        let (mut one, mut two) =
            (Renamer::new(b"one is the first key").unwrap(), Renamer::new(b"two is the other key").unwrap());
        let renamed = |renamer: &mut Renamer, last: u8| {
            let mut address = [10, 0, 0, last];
            renamer.ipv4(&mut address);
            address
        };
        let all: std::collections::BTreeSet<_> = (0..=255).map(|last| renamed(&mut one, last)).collect();
        assert_eq!(all.len(), 256);
        assert_eq!(renamed(&mut one, 7), renamed(&mut Renamer::new(b"one is the first key").unwrap(), 7));
        assert_ne!(renamed(&mut one, 7), renamed(&mut two, 7));

        let mut mac = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
        one.mac(&mut mac);
        assert_ne!(mac, [0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        assert_eq!(mac[0] & 3, 2, "a unicast address, locally administered");
        let mut all = [0xff; 6];
        one.mac(&mut all);
        assert_eq!(all, [0xff; 6]);

        let mut name = *b"iqn.2026-11.org.example:post";
        one.name(&mut name);
        assert!(name.starts_with(b"iqn."));
        assert_eq!(name.len(), 28);
        assert!(!String::from_utf8_lossy(&name).contains("example"));
        assert!(Renamer::new(b"").is_err());
    }
}
