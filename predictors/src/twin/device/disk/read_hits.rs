//! Which reads a device's cache had ready.

use crate::twin::device::disk::regression::{FEW, NEAR, Sample};

/// From the first to the last tenth, times that are steady differ by no more than this share of what a hit may take.
const STEADY: f64 = 0.25;

/// Which reads behind a latest one were in the device's cache: those that took less than any that the arm goes for, or, if it would have had
/// far to go, less than that without their sectors. Where it is there already, nobody knows whether it had to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadHits {
    /// Seconds with their sectors.
    pub(crate) most: f64,
    /// Seconds without.
    pub(crate) most_bare: f64,
    /// What a sector takes on its way from the cache; seconds.
    pub(crate) per_sector: f64,
}

impl ReadHits {
    /// Seconds that a read takes without its sectors.
    pub(crate) fn bare(&self, sample: &Sample) -> f64 {
        sample.time - self.per_sector * sample.sectors
    }

    pub(crate) fn is(&self, sample: &Sample) -> bool {
        let far = sample.distance >= NEAR && self.bare(sample) < self.most_bare;
        sample.follows && (far || sample.time < self.most)
    }

    /// The same for a machine with such samples. What only the time without its sectors tells has to take as long each time, as what a cache
    /// sends does, and what an arm went for does not; if it does not, that time tells no hits.
    pub(crate) fn of_vm(self, samples: &[Sample]) -> ReadHits {
        let told = samples.iter().filter(|sample| self.is(sample) && sample.time >= self.most);
        let mut bare: Vec<f64> = told.map(|sample| self.bare(sample)).collect();
        bare.sort_by(f64::total_cmp);
        let tenths = |tenths: usize| bare[tenths * bare.len() / 10];
        let steady = bare.len() >= FEW && tenths(9) - tenths(1) < self.most_bare * STEADY;
        ReadHits { most_bare: if steady { self.most_bare } else { f64::NEG_INFINITY }, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read of 8 sectors behind a latest one, far away from the one before.
    fn read(ms: f64) -> Sample {
        Sample { idle: true, follows: true, ..Sample::read(50_000, ms) }
    }

    const HITS: ReadHits = ReadHits { most: 1e-4, most_bare: 1e-3, per_sector: 5e-5 };

    #[test]
    fn without_their_sectors_hits_take_little_wherever_the_arm_was() {
        assert!(HITS.is(&read(0.5)) && !HITS.is(&read(7.0)));
        assert!(!HITS.is(&Sample { follows: false, ..read(0.5) }));
        // Of 7 ms its sectors take as much.
        let long = Sample { sectors: 140.0, ..read(7.0) };
        assert!(HITS.is(&long) && (HITS.bare(&long) - 0.0).abs() < 1e-9);
        // Where the arm is already, only what takes less than any that it goes for.
        assert!(!HITS.is(&Sample { distance: 0, ..long }));
        assert!(HITS.is(&Sample { distance: 0, ..read(0.09) }));
    }

    #[test]
    fn what_only_the_time_without_sectors_tells_takes_as_long_each_time() {
        let hits = |apart_ms: f64, count: usize| {
            let reads: Vec<Sample> = (0..count).map(|n| read(0.5 + apart_ms * (n % 10) as f64)).collect();
            let hits = HITS.of_vm(&reads);
            // Whatever is shorter than what any arm goes for is one all the same.
            assert!(hits.is(&read(0.09)));
            reads.iter().filter(|read| hits.is(read)).count()
        };
        assert_eq!((hits(0.0, 60), hits(0.02, 60), hits(0.04, 60)), (60, 60, 0));
        // So few tell nothing.
        assert_eq!(hits(0.0, 20), 0);
    }
}
