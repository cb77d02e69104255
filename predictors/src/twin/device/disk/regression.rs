//! What the arm, the platter and the sectors take, fitted to samples of service times, with what is known of drives beforehand: the shapes
//! of seek curves, and what a drive with such a turn takes for a sector.

use traces::{Operation, Sectors};

use crate::solve::solve;
use crate::twin::device::disk::seek_curves::{SeekCurve, seek_curves};
use crate::twin::device::empirical::median;

pub(crate) const OPERATIONS: usize = Operation::MOVING_DATA;
/// Fewer samples say nothing of a class.
pub(crate) const FEW: usize = 30;
/// Closer than this the platter decides more than the arm.
pub(crate) const NEAR: u64 = 2048;
/// Of the mean, by which shapes may miss the recordings and still count as fitting.
const FITS: f64 = 0.005;
/// By how much seeks of drives with the same turn differ: the standard deviation as a share of what is to be expected.
const ALIKE: f64 = 0.2;
/// By how much they differ in what it takes to go further than recordings show: half of the stroke takes 0.7 to 0.9 turns more than a hundredth with
/// all measured drives, while what this takes more than a thousandth differs by a factor of four.
const FAR_ALIKE: f64 = 0.1;
/// So large a share of the distances tells how far recordings show seeks.
const REACH: f64 = 0.95;
/// However many samples there are, they say no more of seeks than so many would if shapes were exact.
const SAMPLES_THAT_COUNT: f64 = 500.0;
/// A sector takes so many turns by the square root of how many sectors a drive holds, since tracks and what is on each grew alike: the
/// middle of the measured drives ([`super::seek_curves`]), of which the least has 13 and the most 25.
pub(crate) const SECTOR_TURNS: f64 = 18.0;
/// By how much drives differ in that.
const SECTORS_ALIKE: f64 = 0.35;
/// Of a turn, what an access without its seek and its sectors takes: half of one, since where in it a place comes by is chance, and what the
/// controller takes, which is a fiftieth to a third of a turn with the measured drives ([`super::seek_curves`]). Where all seeks are short, only
/// this tells what of a time is theirs.
const LEAST_TURNS: f64 = 0.6;
/// By how much drives differ in that, if they take less. What takes more may be due to something else.
const TURNS_ALIKE: f64 = 0.1;
/// How much more than a sample counts what cannot be.
const NOTHING: f64 = 1e6;
/// No drive takes a smaller part of that.
pub(crate) const SECTORS_LEAST: f64 = 0.25;
/// Coefficients: two for each operation, what reads behind others take more, the seek's as far as recordings show it and further, the delay,
/// and what writes from the cache take.
const UNKNOWNS: usize = 2 * OPERATIONS + 6;
const BEHIND_AT: usize = 2 * OPERATIONS;
const SEEK_AT: usize = BEHIND_AT + 1;
const FAR_AT: usize = SEEK_AT + 1;
const DELAY_AT: usize = FAR_AT + 1;
const DESTAGE_AT: usize = DELAY_AT + 1;
const DESTAGED_AT: usize = DESTAGE_AT + 1;
/// Of a turn, by how much what is put on the platter may take longer than a read.
const SETTLES: f64 = 0.1;

/// A service time with what it may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) operation: usize,
    pub(crate) sectors: f64,
    /// From the end of the request served before.
    pub(crate) distance: u64,
    /// Whether the device had nothing to do before.
    pub(crate) idle: bool,
    /// Whether it is a read behind one of the latest.
    pub(crate) follows: bool,
    /// Whether it is a write that was to be on the platter.
    pub(crate) durable: bool,
    /// Seconds.
    pub(crate) time: f64,
    /// What was put on the platter in that time before it: how many sectors how far from what came before.
    pub(crate) destaged: [Option<(f64, u64)>; DESTAGED_MOST],
}

#[cfg(test)]
impl Sample {
    /// A read at random of 8 sectors, so far from the request before, by a device that had something to do.
    pub(crate) fn read(distance: u64, ms: f64) -> Sample {
        Sample {
            operation: 0,
            sectors: 8.0,
            distance,
            idle: false,
            follows: false,
            durable: false,
            time: ms * 1e-3,
            destaged: [None; DESTAGED_MOST],
        }
    }
}

/// So many at most are told apart from the read behind them.
pub(crate) const DESTAGED_MOST: usize = 2;

/// For which operations an arm moves.
fn moves(samples: &[Sample]) -> [bool; OPERATIONS] {
    let of = |operation: usize| {
        median(
            samples.iter().filter(|sample| sample.operation == operation && !sample.durable).map(|sample| sample.time),
        )
    };
    let cached = of(0).zip(of(1)).is_some_and(|(read, write)| write < read / 2.0);
    [true, !cached]
}

/// The straight part of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) capacity: Sectors,
    /// Seconds, and seconds a sector, by operation.
    pub(crate) base: [[f64; 2]; OPERATIONS],
    /// Shapes with what each contributes: as far as recordings show seeks, and further.
    seeks: Vec<(SeekCurve, [f64; 2])>,
    /// How far that is; a share of the capacity.
    reach: f64,
    /// Whether an arm moves, by operation.
    moves: [bool; OPERATIONS],
    /// Of the platter; seconds.
    pub(crate) turn: Option<f64>,
    /// Of a device that had nothing to do; seconds.
    pub(crate) delay: f64,
    /// What a write from the cache to the platter takes longer than a read does without its sectors, and for each of these; seconds.
    pub(crate) settle: f64,
    destaged: f64,
}

impl Line {
    /// Seconds for so many sectors so far from the end of the request served before.
    pub(crate) fn time(&self, operation: usize, sectors: f64, distance: u64) -> f64 {
        let [fixed, per_sector] = self.base[operation];
        let seek = if self.moves[operation] { self.seek(distance) } else { 0.0 };
        fixed + per_sector * sectors + seek
    }

    pub(crate) fn seek(&self, distance: u64) -> f64 {
        let share = distance as f64 / self.capacity.count() as f64;
        let of = |(curve, factors): &(SeekCurve, [f64; 2])| {
            curve.parts(share, self.reach).iter().zip(factors).map(|(part, factor)| part * factor).sum::<f64>()
        };
        self.seeks.iter().map(of).sum()
    }

    /// Seconds for a run of so many sectors to come from the cache to the platter.
    pub(crate) fn destage(&self, sectors: f64, distance: u64) -> f64 {
        self.time(0, 0.0, distance) + self.settle + self.destaged * sectors
    }

    /// Whether writes are done when a cache has them.
    pub(crate) fn caches(&self) -> bool {
        !self.moves[1]
    }

    /// What a sample took longer: if something was put on the platter before it, its part of that, as if all of them had taken as much.
    pub(crate) fn residual(&self, sample: &Sample) -> f64 {
        let delay = if sample.idle { self.delay } else { 0.0 };
        let destaged = || sample.destaged.iter().flatten();
        let before: f64 = destaged().map(|&(sectors, distance)| self.destage(sectors, distance)).sum();
        let longer = sample.time - delay - before - self.time(sample.operation, sample.sectors, sample.distance);
        longer / ((1 + destaged().count()) as f64).sqrt()
    }
}

/// What a turn of the platter takes, in seconds: where in it a request comes is chance, unless it goes on behind another, so that half of
/// the residuals lie within half a turn.
fn turn(samples: &[Sample], line: &Line) -> Option<f64> {
    let of = |kind: fn(&&Sample) -> bool| {
        let of_kind = samples.iter().filter(kind);
        of_kind.map(|sample| line.residual(sample)).collect::<Vec<f64>>()
    };
    let kinds: [fn(&&Sample) -> bool; 3] =
        [|sample| sample.operation == 0 && !sample.follows, |sample| sample.operation == 1, |_| true];
    let mut residuals = kinds.into_iter().map(of).find(|residuals| residuals.len() >= FEW)?;
    residuals.sort_by(f64::total_cmp);
    let quarters = |quarters: usize| residuals.get(quarters * residuals.len() / 4).copied();
    Some(2.0 * (quarters(3)? - quarters(1)?))
}

/// What is told of seeks that are further than samples show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Further {
    /// What drives take there, in turns of the platter.
    AsDrives,
    /// What short seeks tell, with what drives take there beside.
    AsShort,
}

/// Fits each shape, and takes the mean of the fits weighted by how well the means over octaves of distance are met.
pub(crate) fn line(samples: &[Sample], capacity: Sectors, further: Further) -> Option<Line> {
    let (seek_curves, moves) = (seek_curves(), moves(samples));
    let shown = if further == Further::AsDrives { reach(samples, capacity) } else { 1.0 };
    let with = |delayed: bool| {
        // Without a turn nothing is known of what is further than that.
        let known = Known { capacity, turn: None, reach: 1.0, delayed, moves };
        let free = best_line(samples, &seek_curves, &known)?;
        match turn(samples, &free) {
            Some(turn) if turn > 0.0 => {
                best_line(samples, &seek_curves, &Known { turn: Some(turn), reach: shown, ..known })
            }
            _ => Some(free),
        }
    };
    let line = with(true)?;
    // Nothing comes back before it has been there: what else makes requests of an idle device long is no delay.
    let mut idle: Vec<f64> = samples.iter().filter(|sample| sample.idle).map(|sample| sample.time).collect();
    idle.sort_by(f64::total_cmp);
    if idle.get(idle.len() / 20).is_some_and(|short| line.delay > *short) { with(false) } else { Some(line) }
}

/// Up to which share of the capacity samples tell what seeks take.
fn reach(samples: &[Sample], capacity: Sectors) -> f64 {
    let mut distances: Vec<u64> = samples.iter().map(|sample| sample.distance).collect();
    distances.sort_unstable();
    let shown = distances.get((distances.len() as f64 * REACH) as usize).copied();
    shown.map_or(1.0, |shown| shown as f64 / capacity.count() as f64)
}

/// What is known of the device before samples are looked at.
#[derive(Clone, Copy)]
struct Known {
    capacity: Sectors,
    /// Of the platter; seconds.
    turn: Option<f64>,
    /// How far samples show seeks; a share of the capacity.
    reach: f64,
    /// Whether it may be away from the place of the recording.
    delayed: bool,
    /// For which operations its arm moves.
    moves: [bool; OPERATIONS],
}

/// With the `turn` of the platter, if that is known, which says what seeks are to be expected.
fn best_line(samples: &[Sample], seek_curves: &[SeekCurve], known: &Known) -> Option<Line> {
    let fits: Vec<(SeekCurve, [f64; UNKNOWNS], f64)> = seek_curves
        .iter()
        .filter_map(|curve| {
            let (found, missed) = fit_curve(samples, curve, known)?;
            Some((curve.clone(), found, missed))
        })
        .collect();
    let mean = samples.iter().map(|sample| sample.time).sum::<f64>() / samples.len().max(1) as f64;
    let best = fits.iter().map(|(.., missed)| *missed).fold(f64::INFINITY, f64::min).max(FITS * mean);
    let weights: Vec<f64> = fits.iter().map(|(.., missed)| (-0.5 * (missed / best).powi(2)).exp()).collect();
    let all: f64 = weights.iter().sum();
    (all > 0.0).then(|| {
        let over = |index: usize| {
            fits.iter().zip(&weights).map(|((_, found, _), weight)| found[index] * weight / all).sum::<f64>()
        };
        let curve = |((curve, found, _), weight): ((SeekCurve, [f64; UNKNOWNS], f64), &f64)| {
            (curve, [SEEK_AT, FAR_AT].map(|at| (found[at] * weight / all).max(0.0)))
        };
        let least = known.turn.map_or(0.0, |turn| SECTORS_LEAST * sector_s(turn, known.capacity));
        Line {
            capacity: known.capacity,
            moves: known.moves,
            turn: known.turn,
            base: std::array::from_fn(|operation| [over(2 * operation), over(2 * operation + 1).max(least)]),
            delay: f64::max(over(DELAY_AT), 0.0),
            settle: over(DESTAGE_AT),
            destaged: over(DESTAGED_AT).max(least),
            seeks: fits.iter().cloned().zip(&weights).map(curve).collect(),
            reach: known.reach,
        }
    })
}

/// What a drive with this turn may take for a sector, in seconds.
pub(crate) fn sector_s(turn: f64, capacity: Sectors) -> f64 {
    SECTOR_TURNS * turn / (capacity.count() as f64).sqrt()
}

/// How many times what is known beforehand counts, so that many samples do not leave nothing of it.
fn counted(samples: &[Sample]) -> f64 {
    (samples.len() as f64 / SAMPLES_THAT_COUNT).max(1.0)
}

/// Least squares with one shape: the coefficients, and the root mean square of what the means over octaves of distance are missed by.
fn fit_curve(samples: &[Sample], curve: &SeekCurve, known: &Known) -> Option<([f64; UNKNOWNS], f64)> {
    let &Known { capacity, turn, reach, delayed, moves } = known;
    let seek = |row: &mut [f64; UNKNOWNS], distance: u64| {
        let [near, far] = curve.parts(distance as f64 / capacity.count() as f64, reach);
        row[SEEK_AT] += near;
        row[FAR_AT] += far;
    };
    let row = |sample: &Sample| {
        let mut row = [0.0; UNKNOWNS];
        row[2 * sample.operation] = 1.0;
        row[2 * sample.operation + 1] = sample.sectors;
        row[BEHIND_AT] = if sample.follows { 1.0 } else { 0.0 };
        if moves[sample.operation] {
            seek(&mut row, sample.distance);
        }
        row[DELAY_AT] = if sample.idle && delayed { 1.0 } else { 0.0 };
        for &(sectors, distance) in sample.destaged.iter().flatten() {
            row[0] += 1.0;
            row[DESTAGED_AT] += sectors;
            seek(&mut row, distance);
            row[DESTAGE_AT] += 1.0;
        }
        row
    };
    let mut square = [[0.0; UNKNOWNS]; UNKNOWNS];
    let mut right = [0.0; UNKNOWNS];
    for sample in samples {
        let row = row(sample);
        for (index, value) in row.iter().enumerate() {
            right[index] += value * sample.time;
            row.iter().zip(&mut square[index]).for_each(|(other, sum)| *sum += value * other);
        }
    }
    // Where all reads are behind others, they take nothing more.
    square[BEHIND_AT][BEHIND_AT] += 1.0;
    square[DESTAGE_AT][DESTAGE_AT] += 1.0;
    square[DESTAGED_AT][DESTAGED_AT] += 1.0;
    if let Some(turn) = turn {
        // A normal prior. The variance of a time is that of a place in the turn.
        let expected = turn / curve.turn;
        let counted = counted(samples);
        for (at, alike) in [(SEEK_AT, ALIKE), (FAR_AT, FAR_ALIKE)] {
            let weight = counted * (turn * turn / 12.0) / (alike * expected).powi(2);
            square[at][at] += weight;
            right[at] += weight * expected;
        }
        square[DESTAGE_AT][DESTAGE_AT] += counted / 12.0 / SETTLES.powi(2);
        let expected = sector_s(turn, capacity);
        let weight = counted * (turn * turn / 12.0) / (SECTORS_ALIKE * expected).powi(2);
        for sectors_at in (0..OPERATIONS).map(|operation| 2 * operation + 1).chain([DESTAGED_AT]) {
            square[sectors_at][sectors_at] += weight;
            right[sectors_at] += weight * expected;
        }
    }
    let mut found = solve(square, right)?;
    for operation in (0..OPERATIONS).filter(|&operation| moves[operation]) {
        let least = turn.map(|turn| LEAST_TURNS * turn).filter(|least| found[2 * operation] < *least);
        if let Some(least) = least {
            let weight = counted(samples) / 12.0 / TURNS_ALIKE.powi(2);
            square[2 * operation][2 * operation] += weight;
            right[2 * operation] += weight * least;
            found = solve(square, right)?;
        }
    }
    // Where sizes and distances differ little, what they take can be had from what all take, but that is never less than nothing.
    for operation in 0..OPERATIONS {
        if found[2 * operation] < 0.0 {
            square[2 * operation][2 * operation] += NOTHING * samples.len() as f64;
            found = solve(square, right)?;
        }
    }
    let mut octaves = [(0.0f64, 0.0f64); 64];
    for sample in samples {
        let forecast: f64 = row(sample).iter().zip(&found).map(|(value, factor)| value * factor).sum();
        let octave = &mut octaves[sample.distance.max(1).ilog2() as usize];
        *octave = (octave.0 + sample.time - forecast, octave.1 + 1.0);
    }
    let enough = octaves.iter().filter(|(_, count)| *count >= FEW as f64);
    let (sum, count) =
        enough.fold((0.0, 0.0), |(sum, all), (missed, count)| (sum + (missed / count).powi(2) * count, all + count));
    Some((found, if count > 0.0 { (sum / count).sqrt() } else { 0.0 }))
}

#[cfg(test)]
mod tests {
    use traces::Lba;

    use super::*;

    #[test]
    fn what_several_accesses_are_off_by_is_shared_as_among_independent_ones() {
        let sample =
            |ms: f64, destaged: Option<(f64, u64)>| Sample { destaged: [destaged, None], ..Sample::read(5_000, ms) };
        let samples: Vec<Sample> = (0..600).map(|n| sample(4.0 + f64::from(n % 7), None)).collect();
        let line = line(&samples, Sectors::new(17_000_000), Further::AsShort).unwrap();
        let run = line.destage(8.0, 9_000) * 1e3;
        let off = |sample: &Sample| line.residual(sample) * 1e3;
        let (one, two) = (off(&sample(9.0, None)), off(&sample(9.0 + run, Some((8.0, 9_000)))));
        assert!(one > 0.5 && (two * 2f64.sqrt() / one - 1.0).abs() < 1e-9, "{one} {two}");
    }

    #[test]
    fn short_seeks_take_nothing_of_the_half_turn_that_every_access_takes() {
        // Reads 2,000 to 20,000 sectors away, of which the farther take longer than any measured drive's, and a place in a turn of 6 ms.
        let sample = |n: u64| {
            let away = n * 7919 % 18_000;
            let (seek, place) = (0.5 + away as f64 / 18_000.0 * 2.5, (n * 104_729 % 6000) as f64 / 1000.0);
            Sample::read(2048 + away, seek + place)
        };
        let samples: Vec<Sample> = (0..1500).map(sample).collect();
        let line = line(&samples, Sectors::new(17_000_000), Further::AsShort).unwrap();
        let ([base, _], turn) = (line.base[0], line.turn.unwrap());
        assert!(base > 0.4 * turn && base < LEAST_TURNS * turn, "{base} {turn}");
    }

    #[test]
    fn what_is_further_than_recordings_show_takes_what_drives_take_there() {
        // A drive that is in no list of shapes, whose reads lie within a hundredth of it: how steep seeks are there tells nothing of half the
        // stroke.
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
        let line = line(&samples, capacity, Further::AsDrives).unwrap();
        let near = capacity.count() / 200;
        for share in [0.1, 0.3, 0.5] {
            let distance = (capacity.count() as f64 * share) as u64;
            let (ours, truth) = (line.seek(distance) - line.seek(near), seek(distance) - seek(near));
            assert!((ours / truth - 1.0).abs() < 0.15, "{share}: {ours} {truth}");
        }
        // What is shown counts more than what drives take: here a far seek takes twice as long.
        let half = capacity.count() / 2;
        let far = |n: u64| {
            let sample = sample(n, half);
            Sample { time: sample.time + seek(half), ..sample }
        };
        let both: Vec<Sample> = samples.iter().copied().chain((0..2000).map(far)).collect();
        let line = super::line(&both, capacity, Further::AsDrives).unwrap();
        let (shown, truth) = (line.seek(half) - line.seek(near), 2.0 * seek(half) - seek(near));
        assert!((shown / truth - 1.0).abs() < 0.1, "{shown} {truth}");
    }

    #[test]
    fn sizes_and_distances_that_go_together_leave_nothing_below_nothing() {
        // Two streams that hardly differ in distance: one of 256 sectors and one of 512, which take twice as long and a little more.
        let sample = |n: u64| {
            let long = n % 2 == 1;
            let (sectors, distance, ms) = if long { (512.0, 70_000, 61.0) } else { (256.0, 30_000, 28.0) };
            Sample { sectors, follows: true, ..Sample::read(distance, ms + n as f64 % 8.0 * 0.5) }
        };
        let samples: Vec<Sample> = (0..2000).map(sample).collect();
        let line = line(&samples, Sectors::new(17_000_000), Further::AsShort).unwrap();
        assert!(line.base[0][0] >= -1e-6, "{:?}", line.base);
        // A third of the drive away such a read takes no three times as long.
        let (near, far) = (line.time(0, 256.0, 30_000), line.time(0, 256.0, 6_000_000));
        assert!((near / 29.75e-3 - 1.0).abs() < 0.25 && far > near && far < 1.5 * near, "{near} {far}");
    }
}
