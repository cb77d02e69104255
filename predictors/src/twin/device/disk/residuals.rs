//! Residuals of service times: distributions of measured times less the line's, by VM, from which the simulation draws.
//!
//! Requests fall into classes: far from the request before, near to it, sequential reads, cache hits, durable writes
//! past a write cache, and destaged runs. A VM draws from its own samples of a class if it has enough of them, and
//! otherwise from those of all VMs. Draws are independent of one another.

use crate::twin::device::disk::line::{Line, NEAR_SECTORS_BOUND, OPERATIONS, Sample};
use crate::twin::device::disk::read_ahead::{EXPECTATIONS, Expected, HitCounts};
use crate::twin::device::disk::read_hits::ReadHits;
use crate::twin::device::disk::regression::SAMPLES_MIN;
use crate::twin::device::empirical::EmpiricalTimes;

/// Sequential reads have residuals of their own up to this quantile of their seek distances. Set by judgement; not
/// varied.
const SEQUENTIAL_DISTANCE_QUANTILE: f64 = 0.99;

/// The residuals of a VM, or of all VMs; seconds. VMs differ in them: near requests lie in different places of the
/// platter, and sequential reads come at a pace of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Residuals {
    /// Of requests that are neither near nor sequential, by operation.
    pub(crate) far: [EmpiricalTimes; OPERATIONS],
    /// Of near requests, by operation, and whether the device served them without a pause.
    pub(crate) near: [[EmpiricalTimes; 2]; OPERATIONS],
    /// Of sequential reads.
    pub(crate) sequential: EmpiricalTimes,
    /// The seek distance up to which `sequential` applies.
    pub(crate) sequential_distance_max: u64,
    /// Times of cache hits without the transfer of their sectors.
    pub(crate) hits: EmpiricalTimes,
    /// The share of hits among sequential reads, by expectation. If the disk's read-ahead is not known, a hit is expected
    /// after a pause. `None` with too few reads.
    pub(crate) hit_share: [Option<f64>; EXPECTATIONS],
    /// Of durable writes, which go past the write cache to the platter.
    pub(crate) durable: EmpiricalTimes,
    /// Times of destaged runs near to the arm.
    pub(crate) destaged: EmpiricalTimes,
}

/// The distribution, or an empty one if it has too few times.
pub(crate) fn if_enough(times: EmpiricalTimes) -> EmpiricalTimes {
    if times.quantiles.len() < SAMPLES_MIN { EmpiricalTimes::default() } else { times }
}

/// The VM's own distribution, or that of all VMs if the own one has too few times.
pub(crate) fn own_or(own: EmpiricalTimes, all: &EmpiricalTimes) -> EmpiricalTimes {
    if own.quantiles.len() < SAMPLES_MIN { all.clone() } else { own }
}

impl Residuals {
    /// The residuals of the `hits` and of the `others` among a VM's samples.
    pub(crate) fn of(others: &[Sample], hits: &[Sample], line: &Line, known: &ReadHits) -> Residuals {
        let far: Vec<Sample> = others.iter().copied().filter(|sample| sample.distance >= NEAR_SECTORS_BOUND).collect();
        let (sequential, far): (Vec<Sample>, Vec<Sample>) = far.iter().partition(|sample| sample.sequential);
        let of = |operation: usize, samples: &[Sample]| {
            let of_operation = samples.iter().filter(|sample| sample.operation == operation);
            EmpiricalTimes::of(of_operation.map(|sample| line.residual(sample)).collect())
        };
        let near = |operation: usize, no_pause: bool| {
            let near: Vec<Sample> = others
                .iter()
                .copied()
                .filter(|sample| sample.distance < NEAR_SECTORS_BOUND && sample.idle != no_pause)
                .collect();
            if_enough(of(operation, &near))
        };
        let hit = |hit: &Sample| known.bare(hit) - if hit.idle { line.delay } else { 0.0 };
        Residuals {
            far: std::array::from_fn(|operation| of(operation, &far)),
            sequential: of(0, &sequential),
            sequential_distance_max: quantile(
                sequential.iter().map(|sample| sample.distance),
                SEQUENTIAL_DISTANCE_QUANTILE,
            ),
            near: std::array::from_fn(|operation| [near(operation, false), near(operation, true)]),
            hit_share: {
                let mut counts = HitCounts::default();
                for (samples, is_hit) in [(hits, true), (others, false)] {
                    let sequential = samples.iter().filter(|sample| sample.sequential);
                    sequential.for_each(|sample| counts.add(Expected::hit_if(sample.idle), is_hit));
                }
                counts.shares()
            },
            hits: EmpiricalTimes::of(hits.iter().map(hit).collect()),
            durable: EmpiricalTimes::default(),
            destaged: EmpiricalTimes::default(),
        }
    }

    /// The residuals of all VMs together. If no VM reads at random, sequential reads stand for random ones.
    pub(crate) fn of_all(others: &[Sample], hits: &[Sample], line: &Line, known: &ReadHits) -> Residuals {
        let drawn = Residuals::of(others, hits, line, known);
        let [reads, writes] = drawn.far;
        Residuals { far: [own_or(reads, &drawn.sequential), writes], ..drawn }
    }

    /// For each class the VM's own residuals, or those of `all` VMs if it has too few samples.
    pub(crate) fn or_of_all(self, all: &Residuals) -> Residuals {
        let Residuals { far, near, sequential, sequential_distance_max, hits, hit_share, durable, destaged } = self;
        let [reads, writes] = far;
        let [near_reads, near_writes] = near;
        let both = |own: [EmpiricalTimes; 2], all: &[EmpiricalTimes; 2]| {
            let [paused, no_pause] = own;
            [own_or(paused, &all[0]), own_or(no_pause, &all[1])]
        };
        // Sequential reads never take longer than random ones of the same VM. If they take longer than others' random
        // reads, this VM's random reads take at least as long.
        let long = sequential.quantiles.len() >= SAMPLES_MIN && sequential.mean() > all.far[0].mean();
        let reads = own_or(reads, if long { &sequential } else { &all.far[0] });
        Residuals {
            far: [reads, own_or(writes, &all.far[1])],
            near: [both(near_reads, &all.near[0]), both(near_writes, &all.near[1])],
            sequential_distance_max: if sequential.quantiles.len() < SAMPLES_MIN {
                all.sequential_distance_max
            } else {
                sequential_distance_max
            },
            sequential: own_or(sequential, &all.sequential),
            hits: own_or(hits, &all.hits),
            hit_share: [0, 1].map(|kind: usize| hit_share[kind].or(all.hit_share[kind])),
            durable,
            destaged,
        }
    }

    /// The probability that a sequential read is a hit. If too few reads were expected to be
    /// hits, it is that of the others; if too few were not, it is 0.
    pub(crate) fn hit_probability(&self, expected: Expected) -> f64 {
        self.hit_share[expected as usize..].iter().flatten().next().copied().unwrap_or(0.0)
    }
}

/// The quantile of `values`; 0 without values.
fn quantile(values: impl Iterator<Item = u64>, share: f64) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use traces::Sectors;

    use super::*;
    use crate::twin::device::disk::regression::{FarSeeks, line};

    /// Near reads of 8 sectors that take `ms` each, and as many far reads that take 10 to 14 ms.
    fn samples(count: usize, ms: f64) -> Vec<Sample> {
        let pair = |n: usize| [Sample::read(8, ms), Sample::read(10_000 + 1000 * n as u64, 10.0 + (n % 5) as f64)];
        (0..count).flat_map(pair).collect()
    }

    /// Sequential reads far away from the request before, each of `ms`.
    fn streams(count: usize, ms: f64, idle: bool) -> Vec<Sample> {
        let far = samples(count, ms).into_iter().filter(|sample| sample.distance >= NEAR_SECTORS_BOUND);
        far.map(|sample| Sample { sequential: true, idle, time: ms * 1e-3, ..sample }).collect()
    }

    #[test]
    fn vm_without_random_reads_draws_those_of_others_unless_its_streams_take_longer() {
        let (random, streams) = (samples(200, 3.0), streams(200, 2.0, false));
        let both = [random.clone(), streams.clone()].concat();
        let line = line(&both, Sectors::new(10_000_000), FarSeeks::FromShortSeeks).unwrap();
        let none = ReadHits { bound: 0.0, bare_bound: 0.0, per_sector: 0.0 };
        let all = Residuals::of_all(&both, &[], &line, &none);
        let own = Residuals::of(&streams, &[], &line, &none).or_of_all(&all);
        assert_eq!(own.far[0], Residuals::of(&random, &[], &line, &none).far[0]);
        assert!(own.sequential != own.far[0]);
        // Its own sequential reads take longer than others' random ones.
        let long = Residuals::of(&self::streams(200, 40.0, false), &[], &line, &none).or_of_all(&all);
        assert_eq!(long.far[0], long.sequential);
        // If no VM reads at random, sequential reads stand for random ones.
        let alone = Residuals::of_all(&streams, &[], &line, &none);
        assert_eq!(alone.far[0], alone.sequential);
    }

    #[test]
    fn sequential_reads_without_a_pause_are_no_hits_if_only_pauses_gave_hits() {
        let (paused, at_once) = (streams(60, 0.5, true), streams(60, 7.0, false));
        let line =
            line(&[samples(200, 3.0), at_once.clone()].concat(), Sectors::new(10_000_000), FarSeeks::FromShortSeeks)
                .unwrap();
        let known = ReadHits { bound: 1e-4, bare_bound: 1e-3, per_sector: 5e-5 };
        let drawn = Residuals::of(&at_once, &paused, &line, &known);
        assert_eq!([Expected::Hit, Expected::Miss].map(|expected| drawn.hit_probability(expected)), [1.0, 0.0]);
        let drawn = Residuals::of(&[], &paused, &line, &known);
        assert_eq!([Expected::Hit, Expected::Miss].map(|expected| drawn.hit_probability(expected)), [1.0, 0.0]);
        // Hits are kept without the transfer of their 8 sectors, 50 us each.
        assert!((drawn.hits.mean().unwrap() - 1e-4).abs() < 1e-5, "{:?}", drawn.hits.mean());
    }

    #[test]
    fn vm_draws_its_own_times_if_it_has_enough_samples() {
        let (one, other) = (samples(200, 1.0), samples(200, 3.0));
        let both = [one.clone(), other.clone()].concat();
        let line = line(&both, Sectors::new(10_000_000), FarSeeks::FromShortSeeks).unwrap();
        let none = ReadHits { bound: 0.0, bare_bound: 0.0, per_sector: 0.0 };
        let all = Residuals::of_all(&both, &[], &line, &none);
        let near = |drawn: &Residuals| drawn.near[0][1].mean().unwrap() + line.time(0, 8.0, 8);
        let of = |samples: &[Sample]| Residuals::of(samples, &[], &line, &none).or_of_all(&all);
        assert!((near(&of(&one)) - 1e-3).abs() < 1e-9 && (near(&of(&other)) - 3e-3).abs() < 1e-9);
        // Ten samples are too few.
        assert_eq!(of(&samples(10, 1.0)).near, all.near);
        assert_eq!(of(&samples(10, 1.0)).far, all.far);
    }
}
