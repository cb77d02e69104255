//! Times of each machine that are drawn when it is played.

use crate::twin::device::disk::read_hits::ReadHits;
use crate::twin::device::disk::regression::{FEW, Line, NEAR, OPERATIONS, Sample};
use crate::twin::device::empirical::EmpiricalTimes;

/// Of reads behind others so large a share tells how far from the one before they are.
const BEHIND: f64 = 0.99;

/// What is drawn, from what the line leaves of times; seconds. Machines differ in it: what is near lies in one place or another, and what
/// comes behind others comes at a pace of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Residuals {
    pub(crate) far: [EmpiricalTimes; OPERATIONS],
    /// By operation, and whether the device went from one to the other at once.
    pub(crate) near: [[EmpiricalTimes; 2]; OPERATIONS],
    /// Of reads behind a latest read, up to a distance.
    pub(crate) behind: EmpiricalTimes,
    pub(crate) behind_most: u64,
    /// Without their sectors.
    pub(crate) hits: EmpiricalTimes,
    /// Of the reads behind a latest read, after a pause and at once: a drive has read on in a pause. Nothing where there are too few.
    pub(crate) hit_share: [Option<f64>; 2],
    /// Of writes that are to be on the platter past a cache.
    pub(crate) durable: EmpiricalTimes,
    /// What runs take that come from the cache to the platter near to where the arm is.
    pub(crate) destaged: EmpiricalTimes,
}

/// Enough to tell anything.
pub(crate) fn enough(times: EmpiricalTimes) -> EmpiricalTimes {
    if times.quantiles.len() < FEW { EmpiricalTimes::default() } else { times }
}

/// Its own if that is enough, or else that of all.
pub(crate) fn or(own: EmpiricalTimes, all: &EmpiricalTimes) -> EmpiricalTimes {
    if own.quantiles.len() < FEW { all.clone() } else { own }
}

impl Residuals {
    /// Of samples that were no hits, and of those that were.
    pub(crate) fn of(others: &[Sample], hits: &[Sample], line: &Line, known: &ReadHits) -> Residuals {
        let far: Vec<Sample> = others.iter().copied().filter(|sample| sample.distance >= NEAR).collect();
        let (behind, far): (Vec<Sample>, Vec<Sample>) = far.iter().partition(|sample| sample.follows);
        let of = |operation: usize, samples: &[Sample]| {
            let of_operation = samples.iter().filter(|sample| sample.operation == operation);
            EmpiricalTimes::of(of_operation.map(|sample| line.residual(sample)).collect())
        };
        let near = |operation: usize, at_once: bool| {
            let near: Vec<Sample> =
                others.iter().copied().filter(|sample| sample.distance < NEAR && sample.idle != at_once).collect();
            enough(of(operation, &near))
        };
        let hit = |hit: &Sample| known.bare(hit) - if hit.idle { line.delay } else { 0.0 };
        Residuals {
            far: std::array::from_fn(|operation| of(operation, &far)),
            behind: of(0, &behind),
            behind_most: quantile(behind.iter().map(|sample| sample.distance), BEHIND),
            near: std::array::from_fn(|operation| [near(operation, false), near(operation, true)]),
            hit_share: [false, true].map(|at_once| {
                let count = |samples: &[Sample]| {
                    samples.iter().filter(|sample| sample.follows && sample.idle != at_once).count()
                };
                let (hits, others) = (count(hits), count(others));
                (hits + others >= FEW).then(|| hits as f64 / (hits + others) as f64)
            }),
            hits: EmpiricalTimes::of(hits.iter().map(hit).collect()),
            durable: EmpiricalTimes::default(),
            destaged: EmpiricalTimes::default(),
        }
    }

    /// The same of all machines: where nobody reads at random, reads behind others have to tell what the arm takes.
    pub(crate) fn of_all(others: &[Sample], hits: &[Sample], line: &Line, known: &ReadHits) -> Residuals {
        let drawn = Residuals::of(others, hits, line, known);
        let [reads, writes] = drawn.far;
        Residuals { far: [or(reads, &drawn.behind), writes], ..drawn }
    }

    /// Its own, where it has enough of a kind, or else that of `all`.
    pub(crate) fn or(self, all: &Residuals) -> Residuals {
        let Residuals { far, near, behind, behind_most, hits, hit_share, durable, destaged } = self;
        let [reads, writes] = far;
        let [near_reads, near_writes] = near;
        let both = |own: [EmpiricalTimes; 2], all: &[EmpiricalTimes; 2]| {
            let [apart, at_once] = own;
            [or(apart, &all[0]), or(at_once, &all[1])]
        };
        // Reads behind others save time among themselves and never lose any: if they take longer than reads at random, they are so long.
        let long = behind.quantiles.len() >= FEW && behind.mean() > all.far[0].mean();
        let reads = if long { or(reads, &behind) } else { or(reads, &all.far[0]) };
        Residuals {
            far: [reads, or(writes, &all.far[1])],
            near: [both(near_reads, &all.near[0]), both(near_writes, &all.near[1])],
            behind_most: if behind.quantiles.len() < FEW { all.behind_most } else { behind_most },
            behind: or(behind, &all.behind),
            hits: or(hits, &all.hits),
            hit_share: [0, 1].map(|kind: usize| hit_share[kind].or(all.hit_share[kind])),
            durable,
            destaged,
        }
    }

    /// How many of the reads behind a latest read are in the cache. Who never did without pauses is not told to have it ready then.
    pub(crate) fn hits(&self, at_once: bool) -> f64 {
        let [paused, without] = self.hit_share;
        if at_once { without.unwrap_or(0.0) } else { paused.or(without).unwrap_or(0.0) }
    }
}

/// The value that so large a share does not exceed; 0 of none.
fn quantile(values: impl Iterator<Item = u64>, share: f64) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use traces::Sectors;

    use super::*;
    use crate::twin::device::disk::regression::{Further, line};

    /// So many reads of 8 sectors next to the one before, each so many milliseconds, and as many far ones of 10 to 14 ms.
    fn samples(count: usize, ms: f64) -> Vec<Sample> {
        let pair = |n: usize| [Sample::read(8, ms), Sample::read(10_000 + 1000 * n as u64, 10.0 + (n % 5) as f64)];
        (0..count).flat_map(pair).collect()
    }

    /// So many reads behind a latest one, far away from the one before, and each so many milliseconds.
    fn streams(count: usize, ms: f64, idle: bool) -> Vec<Sample> {
        let far = samples(count, ms).into_iter().filter(|sample| sample.distance >= NEAR);
        far.map(|sample| Sample { follows: true, idle, time: ms * 1e-3, ..sample }).collect()
    }

    #[test]
    fn who_reads_in_streams_alone_takes_what_others_take_at_random() {
        let (random, streams) = (samples(200, 3.0), streams(200, 2.0, false));
        let both = [random.clone(), streams.clone()].concat();
        let line = line(&both, Sectors::new(10_000_000), Further::AsShort).unwrap();
        let none = ReadHits { most: 0.0, most_bare: 0.0, per_sector: 0.0 };
        let all = Residuals::of_all(&both, &[], &line, &none);
        let own = Residuals::of(&streams, &[], &line, &none).or(&all);
        assert_eq!(own.far[0], Residuals::of(&random, &[], &line, &none).far[0]);
        assert!(own.behind != own.far[0]);
        // Unless its own take longer.
        let long = Residuals::of(&self::streams(200, 40.0, false), &[], &line, &none).or(&all);
        assert_eq!(long.far[0], long.behind);
        // Where nobody does, streams have to tell.
        let alone = Residuals::of_all(&streams, &[], &line, &none);
        assert_eq!(alone.far[0], alone.behind);
    }

    #[test]
    fn what_was_read_on_in_pauses_only_is_not_there_without_one() {
        let (paused, at_once) = (streams(60, 0.5, true), streams(60, 7.0, false));
        let line =
            line(&[samples(200, 3.0), at_once.clone()].concat(), Sectors::new(10_000_000), Further::AsShort).unwrap();
        let known = ReadHits { most: 1e-4, most_bare: 1e-3, per_sector: 5e-5 };
        let drawn = Residuals::of(&at_once, &paused, &line, &known);
        assert_eq!((drawn.hits(false), drawn.hits(true)), (1.0, 0.0));
        let drawn = Residuals::of(&[], &paused, &line, &known);
        assert_eq!((drawn.hits(false), drawn.hits(true)), (1.0, 0.0));
        // Without their sectors, 8 of 50 us.
        assert!((drawn.hits.mean().unwrap() - 1e-4).abs() < 1e-5, "{:?}", drawn.hits.mean());
    }

    #[test]
    fn a_machine_draws_its_own_times_if_it_has_enough() {
        let (one, other) = (samples(200, 1.0), samples(200, 3.0));
        let both = [one.clone(), other.clone()].concat();
        let line = line(&both, Sectors::new(10_000_000), Further::AsShort).unwrap();
        let none = ReadHits { most: 0.0, most_bare: 0.0, per_sector: 0.0 };
        let all = Residuals::of_all(&both, &[], &line, &none);
        let near = |drawn: &Residuals| drawn.near[0][1].mean().unwrap() + line.time(0, 8.0, 8);
        let of = |samples: &[Sample]| Residuals::of(samples, &[], &line, &none).or(&all);
        assert!((near(&of(&one)) - 1e-3).abs() < 1e-9 && (near(&of(&other)) - 3e-3).abs() < 1e-9);
        // Ten are not enough.
        assert_eq!(of(&samples(10, 1.0)).near, all.near);
        assert_eq!(of(&samples(10, 1.0)).far, all.far);
    }
}
