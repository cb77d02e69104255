//! Distances between consecutive requests, and sequentiality.

use super::consecutive::{Between, Consecutive, Last};
use crate::request::Operation;
use crate::results::statistics::{DistanceFigures, SeekFigures, WithinClass};
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

impl Between for Distances {
    type Point = Lba;

    #[inline]
    fn add(&mut self, from: Lba, to: Lba) {
        let (from, to) = (from.sector(), to.sector());
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
}

/// Distances from the end of each request to the start of the next on the same device.
#[derive(Clone, Debug, Default)]
pub(super) struct Seeks {
    /// Ends of the last requests by device.
    ends: Vec<Last<Lba>>,
    distances: Consecutive<Distances>,
}

impl Seeks {
    #[inline(always)]
    pub(super) fn add(&mut self, device: usize, operation: Operation, lba: Lba, sectors: Sectors) {
        if operation == Operation::Flush {
            return;
        }
        if device >= self.ends.len() {
            self.ends.resize_with(device + 1, Last::default);
        }
        self.distances.add(&mut self.ends[device], operation, lba, lba.saturating_add(sectors));
    }

    pub(super) fn figures(&self) -> SeekFigures {
        let of = |operation| self.distances.in_device_order(operation).figures();
        let within = |operation| self.distances.within_class(operation).figures();
        SeekFigures {
            read: of(Operation::Read),
            write: of(Operation::Write),
            discard: of(Operation::Discard),
            all: self.distances.all().figures(),
            within_class: WithinClass {
                read: within(Operation::Read),
                write: within(Operation::Write),
                discard: within(Operation::Discard),
            },
        }
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
        // From the read that ended at 1,016, over the write.
        let within = &figures.within_class;
        assert_eq!((within.read.count, within.write.count, within.discard.count), (2, 0, 0));
        assert_eq!((within.read.sequential, within.read.forward, within.read.backward), (1, 1, 0));
        assert_eq!(within.read.mean_sectors, Some(7.0 / 2.0));
    }
}
