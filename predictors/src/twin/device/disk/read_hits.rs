//! Classifies reads as hits of a disk's read-ahead cache, by their times.
//!
//! A sequential read is a hit if it took less than any access of the arm. It is also a hit if the arm was far away and
//! the read took less than that without the transfer of its sectors. The second rule holds for a VM only if these times
//! are steady, since a cache sends at an even pace and an arm does not. If the arm is near already, the second rule
//! cannot tell a hit from an access.

use crate::twin::device::disk::line::{NEAR_SECTORS_BOUND, Sample};
use crate::twin::device::disk::regression::SAMPLES_MIN;

/// Times are steady if the 90 % quantile exceeds the 10 % quantile by less than this share of the longest hit without
/// sectors. Set by judgement; not varied. Without the rule the lab's reads were forecast 10.5 % off
/// (docs/validation/forecasts.md).
const STEADY_SPREAD_BOUND: f64 = 0.25;

/// The bounds of times below which sequential reads are hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadHits {
    /// The bound with the transfer of the sectors; seconds.
    pub(crate) bound: f64,
    /// The bound without the transfer, if the arm was far away; seconds.
    pub(crate) bare_bound: f64,
    /// The time to transfer a sector from the cache; seconds.
    pub(crate) per_sector: f64,
}

impl ReadHits {
    /// The time of a read without the transfer of its sectors; seconds.
    pub(crate) fn bare(&self, sample: &Sample) -> f64 {
        sample.time - self.per_sector * sample.sectors
    }

    /// Whether a read was a hit.
    pub(crate) fn is_hit(&self, sample: &Sample) -> bool {
        let far = sample.distance >= NEAR_SECTORS_BOUND && self.bare(sample) < self.bare_bound;
        sample.sequential && (far || sample.time < self.bound)
    }

    /// The bounds for a VM with these samples. If the times without transfer are not steady, that bound admits no hits.
    pub(crate) fn for_vm(self, samples: &[Sample]) -> ReadHits {
        let by_bare_time = samples.iter().filter(|sample| self.is_hit(sample) && sample.time >= self.bound);
        let mut bare: Vec<f64> = by_bare_time.map(|sample| self.bare(sample)).collect();
        bare.sort_by(f64::total_cmp);
        let tenths = |tenths: usize| bare[tenths * bare.len() / 10];
        let steady = bare.len() >= SAMPLES_MIN && tenths(9) - tenths(1) < self.bare_bound * STEADY_SPREAD_BOUND;
        ReadHits { bare_bound: if steady { self.bare_bound } else { f64::NEG_INFINITY }, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequential read of 8 sectors, far away from the request before.
    fn read(ms: f64) -> Sample {
        Sample { idle: true, sequential: true, ..Sample::read(50_000, ms) }
    }

    const HITS: ReadHits = ReadHits { bound: 1e-4, bare_bound: 1e-3, per_sector: 5e-5 };

    #[test]
    fn sequential_read_is_a_hit_if_short_without_its_sectors_and_the_arm_is_far() {
        assert!(HITS.is_hit(&read(0.5)) && !HITS.is_hit(&read(7.0)));
        assert!(!HITS.is_hit(&Sample { sequential: false, ..read(0.5) }));
        // Its 140 sectors take all of the 7 ms.
        let long = Sample { sectors: 140.0, ..read(7.0) };
        assert!(HITS.is_hit(&long) && (HITS.bare(&long) - 0.0).abs() < 1e-9);
        // Where the arm is near, only reads below the bound with transfer are hits.
        assert!(!HITS.is_hit(&Sample { distance: 0, ..long }));
        assert!(HITS.is_hit(&Sample { distance: 0, ..read(0.09) }));
    }

    #[test]
    fn bare_times_show_hits_only_if_they_are_steady_and_enough() {
        let hits = |apart_ms: f64, count: usize| {
            let reads: Vec<Sample> = (0..count).map(|n| read(0.5 + apart_ms * (n % 10) as f64)).collect();
            let hits = HITS.for_vm(&reads);
            // A read below the bound with transfer is a hit in any case.
            assert!(hits.is_hit(&read(0.09)));
            reads.iter().filter(|read| hits.is_hit(read)).count()
        };
        assert_eq!((hits(0.0, 60), hits(0.02, 60), hits(0.04, 60)), (60, 60, 0));
        // Twenty samples are too few.
        assert_eq!(hits(0.0, 20), 0);
    }
}
