//! The footprint of a VM: the pieces of the device that it reads or writes.
//!
//! Pieces are 1 MiB, and twice as large as often as needed to keep the footprint within bounds. Reads and writes are
//! not distinguished, nor is how often a piece is touched.

use traces::results::isolation::Footprint;
use traces::{Lba, Sectors};

/// Sectors of the smallest piece: 1 MiB.
const PIECE_SECTORS_MIN: u64 = 2048;
/// Most pieces of a device while requests are added; a larger device has larger pieces.
const PIECES_MAX: u64 = 1 << 20;
/// Most runs in a footprint.
const RUNS_MAX: usize = 256;

/// The touched pieces of a device.
pub(super) struct Pieces {
    /// Sectors of a piece.
    sectors: u64,
    /// One bit for each piece.
    touched: Vec<u64>,
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces { sectors: PIECE_SECTORS_MIN, touched: Vec::new() }
    }
}

impl Pieces {
    /// Marks the pieces of a request.
    pub(super) fn touch(&mut self, lba: Lba, sectors: Sectors) {
        let begin = lba.sector();
        let last = begin.saturating_add(sectors.count().saturating_sub(1));
        while last / self.sectors >= PIECES_MAX {
            self.double();
        }
        let words = (last / self.sectors / 64 + 1) as usize;
        if words > self.touched.len() {
            self.touched.resize(words, 0);
        }
        for piece in begin / self.sectors..=last / self.sectors {
            self.touched[(piece / 64) as usize] |= 1 << (piece % 64);
        }
    }

    /// Doubles the size of the pieces.
    fn double(&mut self) {
        let mut halved = vec![0u64; self.touched.len().div_ceil(2)];
        for (index, word) in self.touched.iter().enumerate() {
            let pairs = word | word >> 1;
            let folded = (0..32).map(|bit| (pairs >> (2 * bit) & 1) << bit).fold(0, |all, bit| all | bit);
            halved[index / 2] |= folded << (32 * (index % 2));
        }
        self.touched = halved;
        self.sectors *= 2;
    }

    /// The runs of touched pieces: the first piece and the number of pieces of each.
    fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (word, bits) in (0u64..).zip(&self.touched).filter(|(_, bits)| **bits != 0) {
            for piece in (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 64 + bit) {
                match runs.last_mut() {
                    Some((first, count)) if *first + *count == piece => *count += 1,
                    _ => runs.push((piece, 1)),
                }
            }
        }
        runs
    }

    /// The footprint, with pieces large enough for at most `RUNS_MAX` runs.
    pub(super) fn figures(mut self) -> Footprint {
        let mut runs = self.runs();
        while runs.len() > RUNS_MAX {
            self.double();
            runs = self.runs();
        }
        Footprint { piece_sectors: self.sectors, runs }
    }
}

/// The sectors of a footprint's runs: the first sector of each, and the sector after its last. `None` if a run ends
/// beyond the last address.
fn extents(of: &Footprint) -> Option<Vec<(u64, u64)>> {
    let extent = |&(first, count): &(u64, u64)| {
        Some((first.checked_mul(of.piece_sectors)?, first.checked_add(count)?.checked_mul(of.piece_sectors)?))
    };
    of.runs.iter().map(extent).collect()
}

/// Whether a footprint is possible: ascending runs of one or more pieces that do not overlap, on a device of less than
/// 2^64 sectors.
pub(crate) fn is_possible(of: &Footprint) -> bool {
    let apart = |two: &[(u64, u64)]| two[0].1 <= two[1].0;
    extents(of).is_some_and(|extents| extents.iter().all(|(begin, end)| begin < end) && extents.windows(2).all(apart))
}

/// The share of the footprint `one` that `other` touches, too, both at their places on the device. `None` if a
/// footprint is empty or not possible.
pub fn overlap(one: &Footprint, other: &Footprint) -> Option<f64> {
    if !is_possible(one) || !is_possible(other) {
        return None;
    }
    let (one, other) = (extents(one)?, extents(other)?);
    let touched = |extents: &[(u64, u64)]| -> u64 { extents.iter().map(|(begin, end)| end - begin).sum() };
    let common = |&(begin, end): &(u64, u64)| -> u64 {
        other.iter().map(|(other_begin, other_end)| end.min(*other_end).saturating_sub(begin.max(*other_begin))).sum()
    };
    let whole = touched(&one);
    (whole > 0 && touched(&other) > 0).then(|| one.iter().map(common).sum::<u64>() as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(requests: &[(u64, u64)]) -> Footprint {
        let mut pieces = Pieces::default();
        for &(lba, sectors) in requests {
            pieces.touch(Lba::new(lba), Sectors::new(sectors));
        }
        pieces.figures()
    }

    #[test]
    fn runs_are_the_pieces_that_requests_touch() {
        let footprint = touched(&[(0, 8), (2047, 2), (10 * 2048, 2048), (9 * 2048 + 5, 1), (400 * 2048, 1)]);
        assert_eq!(footprint, Footprint { piece_sectors: 2048, runs: vec![(0, 2), (9, 2), (400, 1)] });
    }

    #[test]
    fn pieces_grow_with_the_device_and_with_scatter() {
        let far = 5 << 32;
        let footprint = touched(&[(0, 1), (3 * 2048, 1), (far, 1)]);
        let piece = footprint.piece_sectors;
        assert!(piece.is_power_of_two() && far / piece < PIECES_MAX && far / piece >= PIECES_MAX / 2);
        assert_eq!(footprint.runs, [(0, 1), (far / piece, 1)]);
        let scattered: Vec<(u64, u64)> = (0..5000).map(|index| (index * 7 * 2048, 8)).collect();
        let footprint = touched(&scattered);
        assert!(footprint.runs.len() <= RUNS_MAX && !footprint.runs.is_empty());
        for (lba, _) in scattered {
            let piece = lba / footprint.piece_sectors;
            assert!(footprint.runs.iter().any(|(first, count)| (*first..first + count).contains(&piece)), "{lba}");
        }
    }

    #[test]
    fn overlap_is_a_share_of_the_first_footprint() {
        let one = touched(&[(0, 4 * 2048)]);
        let other = touched(&[(2048, 2048), (3 * 2048, 100 * 2048)]);
        assert_eq!(overlap(&one, &other), Some(0.5));
        assert_eq!(overlap(&other, &one), Some(2.0 / 101.0));
        assert_eq!(overlap(&Footprint::default(), &one), None);
        assert_eq!(overlap(&one, &Footprint::default()), None);
    }

    #[test]
    fn impossible_footprint_has_no_overlap_and_does_not_overflow() {
        let one = touched(&[(0, 4 * 2048)]);
        let most = u64::MAX;
        let cases = [
            (2048, vec![(0, most), (0, most)]),
            (2048, vec![(most, 1)]),
            (1, vec![(0, most), (0, most)]),
            (1, vec![(4, 1), (2, 1)]),
            (1, vec![(most, 1)]),
            (0, vec![(0, 1)]),
            (1, vec![(0, 0)]),
        ];
        for (piece_sectors, runs) in cases {
            let odd = Footprint { piece_sectors, runs };
            assert!(!is_possible(&odd), "{odd:?}");
            assert_eq!((overlap(&odd, &one), overlap(&one, &odd)), (None, None), "{odd:?}");
        }
        let all = Footprint { piece_sectors: 1, runs: vec![(0, most)] };
        assert_eq!((overlap(&one, &all), overlap(&all, &all)), (Some(1.0), Some(1.0)));
    }
}
