//! Requests by operation and length.

use std::collections::BTreeMap;

use crate::request::Operation;
use crate::results::statistics::RequestFigures;
use crate::units::{Nanos, SECTOR_BYTES, Sectors};

/// Lengths are told apart up to this many sectors.
const EXACT: usize = 2048;

/// Powers of two above that, up to the longest request.
const POWERS: usize = 22;

#[derive(Clone, Debug)]
struct OfOperation {
    sectors: u64,
    errors: u64,
    /// By sectors, and above [`EXACT`] by powers of two.
    sizes: Vec<u64>,
}

impl Default for OfOperation {
    fn default() -> OfOperation {
        OfOperation { sectors: 0, errors: 0, sizes: vec![0; EXACT + 1 + POWERS] }
    }
}

/// The place of a length in the histogram.
#[inline]
fn place(sectors: u64) -> usize {
    if sectors as usize <= EXACT {
        sectors as usize
    } else {
        let power = (u64::BITS - (sectors - 1).leading_zeros()) as usize;
        (EXACT + power - EXACT.ilog2() as usize).min(EXACT + POWERS)
    }
}

/// The length that a place stands for.
fn length(place: usize) -> u64 {
    if place <= EXACT { place as u64 } else { (EXACT as u64) << (place - EXACT) }
}

/// Requests by operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    operations: [OfOperation; Operation::ALL.len()],
}

impl Sizes {
    #[inline]
    pub(super) fn add(&mut self, operation: Operation, sectors: Sectors) {
        let counted = &mut self.operations[operation as usize];
        counted.sectors = counted.sectors.saturating_add(sectors.count());
        counted.sizes[place(sectors.count())] += 1;
    }

    pub(super) fn error(&mut self, operation: Operation) {
        self.operations[operation as usize].errors += 1;
    }

    /// Requests of one operation.
    pub(super) fn count(&self, operation: Operation) -> u64 {
        self.operations[operation as usize].sizes.iter().sum()
    }

    /// By name of the operation, without those that did not occur.
    pub(super) fn figures(&self, span: Nanos) -> BTreeMap<String, RequestFigures> {
        let seconds = span.as_s_f64();
        let per_s = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let figures = |operation: Operation| {
            let counted = &self.operations[operation as usize];
            let requests = self.count(operation);
            let bytes = counted.sectors.saturating_mul(SECTOR_BYTES);
            let sizes = counted.sizes.iter().enumerate().filter(|(_, often)| **often > 0);
            let figures = RequestFigures {
                requests,
                bytes,
                requests_per_s: per_s(requests),
                bytes_per_s: SECTOR_BYTES as f64 * per_s(counted.sectors),
                mean_bytes: (requests > 0).then(|| SECTOR_BYTES as f64 * (counted.sectors as f64 / requests as f64)),
                sizes: sizes.map(|(place, often)| (length(place), *often)).collect(),
                errors: counted.errors,
            };
            (requests > 0).then(|| (operation.name().to_owned(), figures))
        };
        Operation::ALL.into_iter().filter_map(figures).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_exact_to_one_mebibyte_and_powers_of_two_above() {
        for sectors in 0..=2_048 {
            assert_eq!(length(place(sectors)), sectors);
        }
        for (sectors, counted_as) in
            [(2_049, 4_096), (4_096, 4_096), (4_097, 8_192), (1 << 31, 1 << 31), (u64::from(u32::MAX), 1 << 32)]
        {
            assert_eq!(length(place(sectors)), counted_as, "{sectors}");
        }
    }

    #[test]
    fn rates_are_over_the_span_and_none_without_one() {
        let mut sizes = Sizes::default();
        for _ in 0..6 {
            sizes.add(Operation::Read, Sectors::new(8));
        }
        let rates = |span| {
            let figures = &sizes.figures(span)["read"];
            (figures.requests_per_s, figures.bytes_per_s)
        };
        assert_eq!(rates(Nanos::from_s(4)), (1.5, 6_144.0));
        assert_eq!(rates(Nanos::ZERO), (0.0, 0.0));
    }

    #[test]
    fn bytes_beyond_all_counting_stay_at_the_most_and_their_mean_is_right() {
        let (mut sizes, longest) = (Sizes::default(), Sectors::new(1 << 32));
        // 2^23 requests of 2^41 bytes are 2^64 bytes.
        for _ in 0..1 << 23 {
            sizes.add(Operation::Write, longest);
        }
        let figures = &sizes.figures(Nanos::from_s(1))["write"];
        assert_eq!((figures.requests, figures.bytes), (1 << 23, u64::MAX));
        assert_eq!(figures.mean_bytes, Some(longest.bytes() as f64));
        assert_eq!(figures.bytes_per_s, 2f64.powi(64));
    }
}
