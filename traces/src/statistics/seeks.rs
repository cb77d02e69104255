//! Distances between consecutive requests, and sequentiality.

use crate::request::Operation;
use crate::results::statistics::{DistanceFigures, SeekFigures};
use crate::units::{Lba, Sectors};

/// Powers of two up to the largest distance.
const POWERS: usize = 65;

#[derive(Clone, Debug)]
struct Distances {
    sum: u128,
    backward: u64,
    /// By the number of bits of the distance; that of no bits is sequential.
    bits: [u64; POWERS],
}

impl Default for Distances {
    fn default() -> Distances {
        Distances { sum: 0, backward: 0, bits: [0; POWERS] }
    }
}

impl Distances {
    #[inline]
    fn add(&mut self, from: u64, to: u64) {
        let distance = to.abs_diff(from);
        self.sum += u128::from(distance);
        self.backward += u64::from(to < from);
        self.bits[(u64::BITS - distance.leading_zeros()) as usize] += 1;
    }

    fn merge(&mut self, other: &Distances) {
        self.sum += other.sum;
        self.backward += other.backward;
        for (bits, more) in self.bits.iter_mut().zip(other.bits) {
            *bits += more;
        }
    }

    fn figures(&self) -> DistanceFigures {
        let count = self.bits.iter().sum::<u64>();
        let sequential = self.bits[0];
        let powers = self.bits.iter().enumerate().skip(1).filter(|(_, often)| **often > 0);
        DistanceFigures {
            count,
            mean_sectors: (count > 0).then(|| self.sum as f64 / count as f64),
            sequential,
            forward: count - sequential - self.backward,
            backward: self.backward,
            below_power_of_two: powers
                .map(|(bits, often)| (1u64.checked_shl(bits as u32).unwrap_or(u64::MAX), *often))
                .collect(),
        }
    }
}

/// Distances from the end of each request to the start of the next on the same device.
#[derive(Clone, Debug, Default)]
pub(super) struct Seeks {
    /// End of the last request by device.
    ends: Vec<Option<Lba>>,
    /// By operation.
    distances: [Distances; Operation::ALL.len()],
}

impl Seeks {
    #[inline(always)]
    pub(super) fn add(&mut self, device: usize, operation: Operation, lba: Lba, sectors: Sectors) {
        if operation == Operation::Flush {
            return;
        }
        if device >= self.ends.len() {
            self.ends.resize(device + 1, None);
        }
        if let Some(end) = self.ends[device].replace(lba.saturating_add(sectors)) {
            self.distances[operation as usize].add(end.sector(), lba.sector());
        }
    }

    pub(super) fn figures(&self) -> SeekFigures {
        let mut all = Distances::default();
        for distances in &self.distances {
            all.merge(distances);
        }
        let of = |operation: Operation| self.distances[operation as usize].figures();
        SeekFigures { read: of(Operation::Read), write: of(Operation::Write), all: all.figures() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_run_from_the_end_of_one_to_the_start_of_the_next() {
        let mut seeks = Seeks::default();
        let mut add = |device, operation, lba, sectors| {
            seeks.add(device, operation, Lba::new(lba), Sectors::new(sectors));
        };
        add(0, Operation::Read, 1_000, 8);
        add(0, Operation::Read, 1_008, 8); // sequential
        add(1, Operation::Write, 5, 1); // the first of another device
        add(0, Operation::Write, 1_020, 4); // 4 forwards
        add(0, Operation::Flush, 0, 0);
        add(0, Operation::Read, 1_023, 1); // 1 backwards
        add(0, Operation::Discard, 0, 8); // 1,024 backwards
        let figures = seeks.figures();
        assert_eq!((figures.all.count, figures.read.count, figures.write.count), (4, 2, 1));
        assert_eq!((figures.all.sequential, figures.all.forward, figures.all.backward), (1, 1, 2));
        assert_eq!(figures.all.mean_sectors, Some(1_029.0 / 4.0));
        assert_eq!(figures.all.below_power_of_two, [(2, 1), (8, 1), (2_048, 1)]);
    }
}
