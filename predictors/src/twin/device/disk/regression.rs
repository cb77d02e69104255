//! Fits the line of a disk's service times ([`super::line`]) by least squares with prior knowledge of drives.
//!
//! One fit is made with each measured seek curve ([`super::seek_curves`]), and the fits are averaged with weights by
//! how well they meet the mean times over octaves of seek distance. A first round estimates the turn of the platter
//! from the residuals. A second round uses it for normal priors, since drives with the same turn are alike: their
//! seeks, their time for a sector and the fixed part of an access. The priors keep coefficients sensible where all
//! requests of a trace are alike.

use traces::Sectors;

use crate::twin::device::disk::equations::{NormalEquations, Observed};
use crate::twin::device::disk::line::{Line, OPERATIONS, Sample};
use crate::twin::device::disk::seek_curves::{SeekCurve, seek_curves};
use crate::twin::device::empirical::median;

/// A class with fewer samples than this gets no estimate of its own. Set by judgement; not varied.
pub(crate) const SAMPLES_MIN: usize = 30;
/// Curves are weighed by their misfits relative to the best one. The best misfit counts as at least this share of the
/// mean service time. Set by judgement; not varied.
const MISFIT_TO_MEAN_TIME_MIN: f64 = 0.005;
/// The prior's standard deviation of seek times among drives with the same turn, as a share of the expected time. Set
/// by judgement; not varied.
const SEEK_PRIOR_DEVIATION: f64 = 0.2;
/// The same for the part of a seek beyond the distances in the traces. With all measured drives half of the stroke
/// takes 0.7 to 0.9 turns more than a hundredth. By how much a hundredth takes more than a thousandth differs between
/// them by a factor of four. Set by judgement; not varied.
const FAR_SEEK_PRIOR_DEVIATION: f64 = 0.1;
/// The far part of seeks begins at this quantile of the samples' distances. Set by judgement; not varied.
const REACH_DISTANCE_QUANTILE: f64 = 0.95;
/// All samples together weigh no more against the priors than this many, as curves are not exact. Set by judgement; not
/// varied.
const SAMPLES_WEIGHT_MAX: f64 = 500.0;
/// The time of a sector in turns, times the square root of the drive's capacity in sectors: the number of tracks and
/// the sectors on each grew alike. It is the median of the measured drives ([`super::seek_curves`]), which range from
/// 13 to 25.
pub(crate) const SECTOR_TURNS_BY_ROOT_CAPACITY: f64 = 18.0;
/// The prior's standard deviation of the time of a sector, as a share of the expected time. Set by judgement; not
/// varied.
const SECTOR_PRIOR_DEVIATION: f64 = 0.35;
/// The expected minimum of an access without seek and sectors, in turns. It is half a turn, since the place on the
/// platter is random, and the controller's time. With the measured drives that time is a fiftieth to a third of a turn
/// ([`super::seek_curves`]). If all seeks are short, only this separates seeks from the rest of a time. Set by
/// judgement; not varied.
const ACCESS_TURNS_MIN: f64 = 0.6;
/// The prior's standard deviation below that minimum, in turns. Longer times may have other reasons and are left as
/// they are. Set by judgement; not varied.
const ACCESS_PRIOR_DEVIATION_TURNS: f64 = 0.1;
/// The weight, in samples for each sample, of the prior that holds an impossible negative coefficient at 0. Set by
/// judgement; not varied.
const ZERO_PRIOR_WEIGHT: f64 = 1e6;
/// No drive takes less for a sector than this share of the expected time. Set by judgement; not varied.
pub(crate) const SECTOR_TO_USUAL_MIN: f64 = 0.25;
/// The prior's standard deviation, in turns, of the extra time of a destaged run over a read. Set by judgement; not
/// varied.
const DESTAGE_PRIOR_DEVIATION_TURNS: f64 = 0.1;
/// The number of coefficients. There are two for each operation (fixed, and for each sector) and one for the extra time
/// of sequential reads. Two are the near and the far part of the seek, one is the delay, and two are for destaged runs.
pub(super) const COEFFICIENTS: usize = 2 * OPERATIONS + 6;
/// The index of the extra time of sequential reads.
pub(super) const SEQUENTIAL_AT: usize = 2 * OPERATIONS;
/// The index of the seek up to the distances in the traces.
pub(super) const SEEK_AT: usize = SEQUENTIAL_AT + 1;
/// The index of the seek beyond the distances in the traces.
pub(super) const FAR_SEEK_AT: usize = SEEK_AT + 1;
/// Both indices of seeks.
pub(super) const SEEKS_AT: [usize; 2] = [SEEK_AT, FAR_SEEK_AT];
/// The index of the delay of an idle device.
pub(super) const DELAY_AT: usize = FAR_SEEK_AT + 1;
/// The index of the extra time of a destaged run over a read.
pub(super) const DESTAGE_AT: usize = DELAY_AT + 1;
/// The index of the time for each sector of a destaged run.
pub(super) const DESTAGE_SECTOR_AT: usize = DESTAGE_AT + 1;

/// The coefficients of a fit.
pub(super) type Coefficients = [f64; COEFFICIENTS];

/// For which operations the arm moves. If the median write takes less than half of the median read, a write cache
/// acknowledges writes, and no arm moves for them.
fn moves(samples: &[Sample]) -> [bool; OPERATIONS] {
    let of = |operation: usize| {
        median(
            samples.iter().filter(|sample| sample.operation == operation && !sample.durable).map(|sample| sample.time),
        )
    };
    let cached = of(0).zip(of(1)).is_some_and(|(read, write)| write < read / 2.0);
    [true, !cached]
}

/// The turn of the platter in seconds. The position in the turn is random unless a request continues another, so half
/// of the residuals lie within half a turn.
fn turn(samples: &[Sample], line: &Line) -> Option<f64> {
    let of = |kind: fn(&&Sample) -> bool| {
        let of_kind = samples.iter().filter(kind);
        of_kind.map(|sample| line.residual(sample)).collect::<Vec<f64>>()
    };
    let kinds: [fn(&&Sample) -> bool; 3] =
        [|sample| sample.operation == 0 && !sample.sequential, |sample| sample.operation == 1, |_| true];
    let mut residuals = kinds.into_iter().map(of).find(|residuals| residuals.len() >= SAMPLES_MIN)?;
    residuals.sort_by(f64::total_cmp);
    let quarters = |quarters: usize| residuals.get(quarters * residuals.len() / 4).copied();
    Some(2.0 * (quarters(3)? - quarters(1)?))
}

/// The source of seek times beyond the distances in the traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarSeeks {
    /// From the measured drives, in turns of the platter.
    FromMeasuredDrives,
    /// From the short seeks in the traces, with the measured drives as prior.
    FromShortSeeks,
}

/// Fits the line to `samples` of a device of this `capacity`; `None` if no curve gives finite coefficients.
pub(crate) fn line(samples: &[Sample], capacity: Sectors, far_seeks: FarSeeks) -> Option<Line> {
    let (seek_curves, moves) = (seek_curves(), moves(samples));
    let shown = if far_seeks == FarSeeks::FromMeasuredDrives { reach(samples, capacity) } else { 1.0 };
    let with = |delayed: bool| {
        // Without a turn there is no prior for far seeks, so the seek has one part only.
        let known = Known { capacity, turn: None, reach: 1.0, delayed, moves };
        let free = mean_line(samples, &seek_curves, &known)?;
        match turn(samples, &free) {
            Some(turn) if turn > 0.0 => {
                mean_line(samples, &seek_curves, &Known { turn: Some(turn), reach: shown, ..known })
            }
            _ => Some(free),
        }
    };
    let line = with(true)?;
    // The delay is part of every response of an idle device. If it exceeds their 5 % quantile, something else makes
    // them long, and it is no delay.
    let mut idle: Vec<f64> = samples.iter().filter(|sample| sample.idle).map(|sample| sample.time).collect();
    idle.sort_by(f64::total_cmp);
    if idle.get(idle.len() / 20).is_some_and(|short| line.delay > *short) { with(false) } else { Some(line) }
}

/// The share of the capacity up to which samples show seek times.
fn reach(samples: &[Sample], capacity: Sectors) -> f64 {
    let mut distances: Vec<u64> = samples.iter().map(|sample| sample.distance).collect();
    distances.sort_unstable();
    let shown = distances.get((distances.len() as f64 * REACH_DISTANCE_QUANTILE) as usize).copied();
    shown.map_or(1.0, |shown| shown as f64 / capacity.count() as f64)
}

/// Properties of the device that a fit takes as given.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) capacity: Sectors,
    /// The turn of the platter; seconds.
    pub(super) turn: Option<f64>,
    /// The distance at which the far part of seeks begins; a share of the capacity.
    pub(super) reach: f64,
    /// Whether there may be a delay between the tracing point and the device.
    pub(super) delayed: bool,
    /// For which operations the arm moves.
    pub(super) moves: [bool; OPERATIONS],
}

/// The mean of the lines fitted with each seek curve, weighted by how well they fit.
fn mean_line(samples: &[Sample], seek_curves: &[SeekCurve], known: &Known) -> Option<Line> {
    let equations = NormalEquations::of(samples, seek_curves, known);
    let found: Vec<(&SeekCurve, Coefficients)> = seek_curves
        .iter()
        .zip(equations)
        .filter_map(|(curve, equations)| Some((curve, fit_curve(equations, samples, curve, known)?)))
        .collect();
    let misfits = misfits(samples, &found, known);
    let fits: Vec<(SeekCurve, Coefficients, f64)> =
        found.into_iter().zip(misfits).map(|((curve, found), misfit)| (curve.clone(), found, misfit)).collect();
    let mean = samples.iter().map(|sample| sample.time).sum::<f64>() / samples.len().max(1) as f64;
    let least = fits.iter().map(|(.., misfit)| *misfit).fold(f64::INFINITY, f64::min);
    let scale = least.max(MISFIT_TO_MEAN_TIME_MIN * mean);
    let weights: Vec<f64> = fits.iter().map(|(.., misfit)| (-0.5 * (misfit / scale).powi(2)).exp()).collect();
    let all: f64 = weights.iter().sum();
    (all > 0.0).then(|| {
        let over = |index: usize| {
            fits.iter().zip(&weights).map(|((_, found, _), weight)| found[index] * weight / all).sum::<f64>()
        };
        let curve = |((curve, found, _), weight): ((SeekCurve, Coefficients, f64), &f64)| {
            (curve, SEEKS_AT.map(|at| (found[at] * weight / all).max(0.0)))
        };
        let least = known.turn.map_or(0.0, |turn| SECTOR_TO_USUAL_MIN * sector_s(turn, known.capacity));
        Line {
            capacity: known.capacity,
            moves: known.moves,
            turn: known.turn,
            base: std::array::from_fn(|operation| [over(2 * operation), over(2 * operation + 1).max(least)]),
            delay: f64::max(over(DELAY_AT), 0.0),
            settle: over(DESTAGE_AT),
            destage_sector_s: over(DESTAGE_SECTOR_AT).max(least),
            seeks: fits.iter().cloned().zip(&weights).map(curve).collect(),
            reach: known.reach,
        }
    })
}

/// The expected time of a sector in seconds, on a drive with this turn and capacity.
pub(crate) fn sector_s(turn: f64, capacity: Sectors) -> f64 {
    SECTOR_TURNS_BY_ROOT_CAPACITY * turn / (capacity.count() as f64).sqrt()
}

/// The factor by which priors are multiplied, so that many samples do not outweigh them.
fn prior_factor(samples: &[Sample]) -> f64 {
    (samples.len() as f64 / SAMPLES_WEIGHT_MAX).max(1.0)
}

/// Fits the coefficients with one seek curve.
fn fit_curve(
    mut equations: NormalEquations,
    samples: &[Sample],
    curve: &SeekCurve,
    known: &Known,
) -> Option<Coefficients> {
    // If all reads are sequential, the fixed part and this one cannot be separated: the latter is then 0.
    for at in [SEQUENTIAL_AT, DESTAGE_AT, DESTAGE_SECTOR_AT] {
        equations.add_prior(at, 1.0, 0.0);
    }
    let factor = prior_factor(samples);
    if let Some(turn) = known.turn {
        // A single time varies with the position in the turn, which is uniform: variance turn^2 / 12.
        let variance = turn * turn / 12.0;
        let expected = turn / curve.turn;
        for (at, deviation) in [(SEEK_AT, SEEK_PRIOR_DEVIATION), (FAR_SEEK_AT, FAR_SEEK_PRIOR_DEVIATION)] {
            equations.add_prior(at, factor * variance / (deviation * expected).powi(2), expected);
        }
        equations.add_prior(DESTAGE_AT, factor / 12.0 / DESTAGE_PRIOR_DEVIATION_TURNS.powi(2), 0.0);
        let expected = sector_s(turn, known.capacity);
        let weight = factor * variance / (SECTOR_PRIOR_DEVIATION * expected).powi(2);
        for at in (0..OPERATIONS).map(|operation| 2 * operation + 1).chain([DESTAGE_SECTOR_AT]) {
            equations.add_prior(at, weight, expected);
        }
    }
    let mut found = equations.solve()?;
    for operation in (0..OPERATIONS).filter(|&operation| known.moves[operation]) {
        let least = known.turn.map(|turn| ACCESS_TURNS_MIN * turn).filter(|least| found[2 * operation] < *least);
        if let Some(least) = least {
            equations.add_prior(2 * operation, factor / 12.0 / ACCESS_PRIOR_DEVIATION_TURNS.powi(2), least);
            found = equations.solve()?;
        }
    }
    // If sizes and distances differ little, their times and the fixed part cannot be separated. The fixed part is never
    // negative.
    for operation in 0..OPERATIONS {
        if found[2 * operation] < 0.0 {
            equations.add_prior(2 * operation, ZERO_PRIOR_WEIGHT * samples.len() as f64, 0.0);
            found = equations.solve()?;
        }
    }
    Some(found)
}

/// The root mean square by which the coefficients of each curve miss the mean times over octaves of seek distance;
/// seconds.
fn misfits(samples: &[Sample], fits: &[(&SeekCurve, Coefficients)], known: &Known) -> Vec<f64> {
    // The sum of what the times exceed the forecasts by, and the count.
    let mut octaves = vec![[(0.0f64, 0.0f64); 64]; fits.len()];
    for sample in samples {
        let observed = Observed::of(sample, known);
        for ((curve, found), octaves) in fits.iter().zip(&mut octaves) {
            let row = observed.with(curve);
            let forecast = (0..COEFFICIENTS).fold(0.0, |sum, at| sum + row[at] * found[at]);
            let octave = &mut octaves[sample.distance.max(1).ilog2() as usize];
            *octave = (octave.0 + sample.time - forecast, octave.1 + 1.0);
        }
    }
    let misfit = |octaves: &[(f64, f64); 64]| {
        let enough = octaves.iter().filter(|(_, count)| *count >= SAMPLES_MIN as f64);
        let (sum, count) = enough
            .fold((0.0, 0.0), |(sum, all), (missed, count)| (sum + (missed / count).powi(2) * count, all + count));
        if count > 0.0 { (sum / count).sqrt() } else { 0.0 }
    };
    octaves.iter().map(misfit).collect()
}

#[cfg(test)]
mod tests {
    use traces::Lba;

    use super::*;

    #[test]
    fn residual_of_several_accesses_is_divided_by_the_root_of_their_number() {
        let sample =
            |ms: f64, destaged: Option<(f64, u64)>| Sample { destaged: [destaged, None], ..Sample::read(5_000, ms) };
        let samples: Vec<Sample> = (0..600).map(|n| sample(4.0 + f64::from(n % 7), None)).collect();
        let line = line(&samples, Sectors::new(17_000_000), FarSeeks::FromShortSeeks).unwrap();
        let run = line.destage(8.0, 9_000) * 1e3;
        let off = |sample: &Sample| line.residual(sample) * 1e3;
        let (one, two) = (off(&sample(9.0, None)), off(&sample(9.0 + run, Some((8.0, 9_000)))));
        assert!(one > 0.5 && (two * 2f64.sqrt() / one - 1.0).abs() < 1e-9, "{one} {two}");
    }

    #[test]
    fn short_seeks_leave_the_half_turn_of_every_access_in_the_fixed_part() {
        // Reads 2,000 to 20,000 sectors away with a random position in a turn of 6 ms. The farther ones take longer
        // than with any measured drive.
        let sample = |n: u64| {
            let away = n * 7919 % 18_000;
            let (seek, place) = (0.5 + away as f64 / 18_000.0 * 2.5, (n * 104_729 % 6000) as f64 / 1000.0);
            Sample::read(2048 + away, seek + place)
        };
        let samples: Vec<Sample> = (0..1500).map(sample).collect();
        let line = line(&samples, Sectors::new(17_000_000), FarSeeks::FromShortSeeks).unwrap();
        let ([base, _], turn) = (line.base[0], line.turn.unwrap());
        assert!(base > 0.4 * turn && base < ACCESS_TURNS_MIN * turn, "{base} {turn}");
    }

    #[test]
    fn far_seeks_are_those_of_measured_drives_unless_the_samples_show_them() {
        // A drive that is not among the seek curves. Its reads lie within a hundredth of the stroke, where the slope
        // does not determine the seek over half of the stroke.
        let drive = drive_models::build(&"cheetah-15k5".parse().unwrap()).unwrap().drive;
        let capacity = drive.capacity();
        let seek = |distance: u64| {
            let from = |eighths: u64| Lba::new(capacity.count() / 8 * eighths);
            let one = |from: Lba| {
                drive.cost().between(from, from.saturating_add(Sectors::new(distance)), Sectors::ZERO).as_s_f64()
            };
            [0, 1, 2, 3].map(from).map(one).iter().sum::<f64>() / 4.0
        };
        let sample = |n: u64, distance: u64| {
            Sample::read(distance, seek(distance) * 1e3 + ((n * 104_729 % 4000) as f64 + 300.0) * 1e-3)
        };
        let near = |n: u64| sample(n, 20_000 + n * 1_000_003 % (capacity.count() / 100));
        let samples: Vec<Sample> = (0..4000).map(near).collect();
        let line = line(&samples, capacity, FarSeeks::FromMeasuredDrives).unwrap();
        let near = capacity.count() / 200;
        for share in [0.1, 0.3, 0.5] {
            let distance = (capacity.count() as f64 * share) as u64;
            let (ours, truth) = (line.seek(distance) - line.seek(near), seek(distance) - seek(near));
            assert!((ours / truth - 1.0).abs() < 0.15, "{share}: {ours} {truth}");
        }
        // Samples count more than measured drives: here a far seek takes twice as long.
        let half = capacity.count() / 2;
        let far = |n: u64| {
            let sample = sample(n, half);
            Sample { time: sample.time + seek(half), ..sample }
        };
        let both: Vec<Sample> = samples.iter().copied().chain((0..2000).map(far)).collect();
        let line = super::line(&both, capacity, FarSeeks::FromMeasuredDrives).unwrap();
        let (shown, truth) = (line.seek(half) - line.seek(near), 2.0 * seek(half) - seek(near));
        assert!((shown / truth - 1.0).abs() < 0.1, "{shown} {truth}");
    }

    #[test]
    fn fixed_part_is_not_negative_if_sizes_and_distances_are_correlated() {
        // Two streams whose distances hardly differ. Reads of 512 sectors take a little more than twice as long as
        // those of 256 sectors.
        let sample = |n: u64| {
            let long = n % 2 == 1;
            let (sectors, distance, ms) = if long { (512.0, 70_000, 61.0) } else { (256.0, 30_000, 28.0) };
            Sample { sectors, sequential: true, ..Sample::read(distance, ms + n as f64 % 8.0 * 0.5) }
        };
        let samples: Vec<Sample> = (0..2000).map(sample).collect();
        let line = line(&samples, Sectors::new(17_000_000), FarSeeks::FromShortSeeks).unwrap();
        assert!(line.base[0][0] >= -1e-6, "{:?}", line.base);
        // A third of the drive away, such a read takes less than 1.5 times as long.
        let (near, far) = (line.time(0, 256.0, 30_000), line.time(0, 256.0, 6_000_000));
        assert!((near / 29.75e-3 - 1.0).abs() < 0.25 && far > near && far < 1.5 * near, "{near} {far}");
    }
}
