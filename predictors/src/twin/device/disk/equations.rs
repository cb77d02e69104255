//! The normal equations of the fit of a disk's service times, with each seek curve.

use super::line::{DESTAGED_RUNS_MAX, Sample};
use super::regression::{
    COEFFICIENTS, Coefficients, DELAY_AT, DESTAGE_AT, DESTAGE_SECTOR_AT, FAR_SEEK_AT, Known, SEEK_AT, SEEKS_AT,
    SEQUENTIAL_AT,
};
use super::seek_curves::{Distance, SeekCurve};
use crate::solve::solve;

/// What a sample says with any seek curve: the values that the coefficients multiply in its time, but for those of
/// seeks, and the distances of its seeks.
pub(super) struct Observed {
    row: Coefficients,
    seeks: [Option<Distance>; 1 + DESTAGED_RUNS_MAX],
}

impl Observed {
    pub(super) fn of(sample: &Sample, known: &Known) -> Observed {
        let seek = |distance: u64| Distance::of(distance as f64 / known.capacity.count() as f64, known.reach);
        let mut row = [0.0; COEFFICIENTS];
        row[2 * sample.operation] = 1.0;
        row[2 * sample.operation + 1] = sample.sectors;
        row[SEQUENTIAL_AT] = if sample.sequential { 1.0 } else { 0.0 };
        row[DELAY_AT] = if sample.idle && known.delayed { 1.0 } else { 0.0 };
        let moves = known.moves[sample.operation];
        let mut seeks = [None; 1 + DESTAGED_RUNS_MAX];
        seeks[0] = moves.then(|| seek(sample.distance));
        for (place, &(sectors, distance)) in seeks[1..].iter_mut().zip(sample.destaged.iter().flatten()) {
            row[0] += 1.0;
            row[DESTAGE_SECTOR_AT] += sectors;
            *place = Some(seek(distance));
            row[DESTAGE_AT] += 1.0;
        }
        Observed { row, seeks }
    }

    /// The values with one curve.
    pub(super) fn with(&self, curve: &SeekCurve) -> Coefficients {
        let mut row = self.row;
        for distance in self.seeks.iter().flatten() {
            let [near, far] = curve.parts(distance);
            row[SEEK_AT] += near;
            row[FAR_SEEK_AT] += far;
        }
        row
    }
}

/// The normal equations of a least-squares fit.
#[derive(Clone)]
pub(super) struct NormalEquations {
    pub(super) square: [Coefficients; COEFFICIENTS],
    pub(super) right: Coefficients,
}

impl NormalEquations {
    /// Those of each curve, in one pass over the samples. Only what seeks multiply differs between curves; the rest is
    /// added up once.
    pub(super) fn of(samples: &[Sample], seek_curves: &[SeekCurve], known: &Known) -> Vec<NormalEquations> {
        let mut common = NormalEquations { square: [[0.0; COEFFICIENTS]; COEFFICIENTS], right: [0.0; COEFFICIENTS] };
        let mut all = vec![common.clone(); seek_curves.len()];
        for sample in samples {
            let observed = Observed::of(sample, known);
            common.add(&observed.row, sample.time);
            if observed.seeks.iter().all(Option::is_none) {
                continue;
            }
            for (equations, curve) in all.iter_mut().zip(seek_curves) {
                equations.add_seeks(&observed.with(curve), sample.time);
            }
        }
        all.iter_mut().for_each(|equations| equations.complete(&common));
        all
    }

    /// Adds a sample without its seeks. Most of its values are 0.
    fn add(&mut self, row: &Coefficients, time: f64) {
        let (mut places, mut count) = ([0; COEFFICIENTS], 0);
        for (at, value) in row.iter().enumerate() {
            if *value != 0.0 {
                places[count] = at;
                count += 1;
            }
        }
        let places = &places[..count];
        for &at in places {
            self.right[at] += row[at] * time;
            for &other in places {
                self.square[at][other] += row[at] * row[other];
            }
        }
    }

    /// Adds what the seeks of a sample multiply, in their own rows.
    fn add_seeks(&mut self, row: &Coefficients, time: f64) {
        for at in SEEKS_AT {
            self.right[at] += row[at] * time;
            for other in 0..COEFFICIENTS {
                self.square[at][other] += row[at] * row[other];
            }
        }
    }

    /// Adds what is `common` to all curves to the rows of seeks. Equations are symmetric.
    fn complete(&mut self, common: &NormalEquations) {
        for at in (0..COEFFICIENTS).filter(|at| !SEEKS_AT.contains(at)) {
            self.right[at] = common.right[at];
            self.square[at] = common.square[at];
            SEEKS_AT.into_iter().for_each(|seek| self.square[at][seek] = self.square[seek][at]);
        }
    }

    /// Adds a normal prior: the coefficient is `expected`, with the weight of this many samples.
    pub(super) fn add_prior(&mut self, at: usize, weight: f64, expected: f64) {
        self.square[at][at] += weight;
        self.right[at] += weight * expected;
    }

    pub(super) fn solve(&self) -> Option<Coefficients> {
        solve(self.square, self.right)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use traces::Sectors;

    use super::super::line::OPERATIONS;
    use super::super::seek_curves::seek_curves;
    use super::*;

    #[test]
    fn equations_of_a_curve_are_those_of_its_own_pass_over_the_samples() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let sample = |_| {
            let operation = random.random_range(0..OPERATIONS);
            let mut distance = || random.random_range(0..1u64 << 20);
            let destaged = [Some((8.0, distance())), Some((64.0, distance()))];
            let runs = random.random_range(0..=DESTAGED_RUNS_MAX);
            Sample {
                operation,
                sectors: f64::from(random.random_range(1..999)),
                idle: random.random(),
                sequential: random.random(),
                destaged: std::array::from_fn(|run| destaged[run].filter(|_| run < runs)),
                ..Sample::read(random.random_range(0..1 << 20), f64::from(random.random_range(1..20_000)) / 1000.0)
            }
        };
        let samples: Vec<Sample> = (0..500).map(sample).collect();
        let (capacity, seek_curves) = (Sectors::new(17_000_000), seek_curves());
        for (moves, delayed) in [([true, true], true), ([true, false], true), ([true, false], false)] {
            let known = Known { capacity, turn: None, reach: 0.01, delayed, moves };
            let found = NormalEquations::of(&samples, &seek_curves, &known);
            for (curve, found) in seek_curves.iter().zip(&found) {
                let (mut square, mut right) = ([[0.0; COEFFICIENTS]; COEFFICIENTS], [0.0; COEFFICIENTS]);
                for sample in &samples {
                    let row = Observed::of(sample, &known).with(curve);
                    for at in 0..COEFFICIENTS {
                        right[at] += row[at] * sample.time;
                        (0..COEFFICIENTS).for_each(|other| square[at][other] += row[at] * row[other]);
                    }
                }
                assert_eq!((found.square, found.right), (square, right));
            }
        }
    }
}
