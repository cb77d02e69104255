//! How long the device takes for a request, as recordings of machines alone show it.
//!
//! The device serves one request after another: the one that completes next has been served from the completion before it, or
//! its own issue if that was later. That time s of a request of n sectors at distance d from the end of the one served before is
//!
//! - a *hit* of the device's cache, if it is a read behind one of its machine's latest reads that took less than a quarter of the median
//!   read; hits are drawn by their share and times among such reads;
//! - *near*, if d is less than 2048 sectors: the platter decides, and times are drawn from those of the same operation, apart for those
//!   that the device went on to at once;
//! - else a + b n + c g(d / capacity) + e: a and b by operation, g the shape of a seek curve ([`super::shapes`]) and e drawn from the
//!   residuals, which hold the turning of the platter.
//!
//! A device that had nothing to do shows a request later than a busy one by what lies between it and the place of the recording, in both
//! directions; that delay is fitted with the rest and added to response times, not to service times.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::AccessCost;
use traces::{Lba, Nanos, Operation, Request, Sectors, Timestamp};

use drive_models::WriteCache;
use drive_models::single_server::{Service, ServiceModel};

use super::recording::{Recorded, Recording};
use super::shapes::{Shape, shapes};
use super::times::{Times, median};
use crate::solve::solve;

/// Closer than this the platter decides more than the arm.
const NEAR: u64 = 2048;
/// A read that begins at most so many sectors behind a latest read may be in the cache.
const AHEAD: u64 = 512;
/// So many latest reads of each machine are remembered, as many as drives have segments.
const READS: usize = 64;
/// A sample that took so many times the median was held up by something else.
const HELD_UP: f64 = 12.0;
/// Fewer samples say nothing of a class.
const FEW: usize = 30;
/// Of the mean, by which shapes may miss the recordings and still count as fitting.
const FITS: f64 = 0.005;
/// By how much seeks of drives with the same turn differ: the standard deviation as a share of what is to be expected.
const ALIKE: f64 = 0.2;
/// However many samples there are, they say no more of seeks than so many would if shapes were exact.
const SAMPLES_THAT_COUNT: f64 = 500.0;
/// A sector takes so many seconds by the square root of how many a drive holds: tracks and what is on each grew alike. Of the measured drives most
/// take between half and twice as long.
const SECTOR_S: f64 = 0.2;
/// By how much drives differ in that.
const SECTORS_ALIKE: f64 = 0.5;
/// No drive takes a smaller part of that.
const SECTORS_LEAST: f64 = 0.25;
const OPERATIONS: usize = Operation::MOVING_DATA;
/// Coefficients: two for each operation, the seek's and the delay.
const UNKNOWNS: usize = 2 * OPERATIONS + 2;

/// A service time with what it may depend on.
#[derive(Clone, Copy, Debug)]
struct Sample {
    operation: usize,
    sectors: f64,
    /// From the end of the request served before.
    distance: u64,
    /// Whether the device had nothing to do before.
    idle: bool,
    /// Whether it is a read behind one of the latest.
    follows: bool,
    /// Seconds.
    time: f64,
}

/// What was fitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    capacity: Sectors,
    /// Seconds, and seconds a sector, by operation.
    base: [[f64; 2]; OPERATIONS],
    /// Shapes with what each contributes.
    seeks: Vec<(Shape, f64)>,
    residuals: [Times; OPERATIONS],
    /// By operation, and whether the device went from one to the other at once.
    near: [[Times; 2]; OPERATIONS],
    hits: Times,
    /// Of the reads behind a latest read.
    hit_share: f64,
    /// No request takes less; seconds.
    least: f64,
    /// Between the place of the recording and the device, both ways together.
    pub(super) delay: Nanos,
}

impl Fitted {
    /// The same with so many times as long for each sector.
    pub(super) fn with_sectors(&self, factor: f64) -> Fitted {
        Fitted { base: self.base.map(|[fixed, per_sector]| [fixed, factor * per_sector]), ..self.clone() }
    }
}

/// What the device holds, as far as that is known.
pub(super) fn capacity(recordings: &[Recording]) -> Option<Sectors> {
    let capacity = recordings.iter().map(|recording| {
        let end = Sectors::new(recording.end().sector());
        recording.device.map_or(end, |device| device.max(end))
    });
    capacity.max().filter(|capacity| *capacity > Sectors::ZERO)
}

/// Fits `recordings` of one device; nothing if they do not hold enough of a kind that they have at all.
pub(super) fn fit(recordings: &[Recording], capacity: Sectors) -> Option<Fitted> {
    let mut samples: Vec<Sample> = recordings.iter().flat_map(samples).collect();
    let held_up = HELD_UP * median(samples.iter().map(|sample| sample.time))?;
    samples.retain(|sample| sample.time <= held_up);
    let plain_reads =
        samples.iter().filter(|sample| sample.operation == 0 && !sample.follows && sample.distance >= NEAR);
    let hit = median(plain_reads.map(|sample| sample.time)).map_or(0.0, |median| median / 4.0);
    let followers = samples.iter().filter(|sample| sample.follows).count();
    let (hits, others): (Vec<Sample>, Vec<Sample>) =
        samples.into_iter().partition(|sample| sample.follows && sample.time < hit);
    let far: Vec<Sample> = others.iter().copied().filter(|sample| sample.distance >= NEAR).collect();
    let far = if far.len() < FEW { others.clone() } else { far };
    let line = line(&far, capacity)?;
    let residual = |sample: &Sample| sample.time - line.time(sample, capacity);
    let of = |operation: usize, samples: &[Sample]| {
        let of_operation = samples.iter().filter(|sample| sample.operation == operation);
        Times::of(of_operation.map(residual).collect())
    };
    let near = |operation: usize, at_once: bool| {
        let near: Vec<Sample> =
            others.iter().copied().filter(|sample| sample.distance < NEAR && sample.idle != at_once).collect();
        let times = of(operation, &near);
        if times.quantiles.len() < FEW { Times::default() } else { times }
    };
    let least = others.iter().map(|sample| sample.time).fold(f64::INFINITY, f64::min);
    Some(Fitted {
        capacity,
        residuals: std::array::from_fn(|operation| of(operation, &far)),
        near: std::array::from_fn(|operation| [near(operation, false), near(operation, true)]),
        hit_share: hits.len() as f64 / followers.max(1) as f64,
        least: hits.iter().map(|sample| sample.time).fold(least, f64::min),
        hits: Times::of(
            hits.iter().map(|sample| (sample.time - if sample.idle { line.delay } else { 0.0 }).max(0.0)).collect(),
        ),
        delay: Nanos::from_ns((line.delay * 1e9) as u64),
        base: line.base,
        seeks: line.seeks,
    })
}

/// The service times of a machine alone.
fn samples(recording: &Recording) -> Vec<Sample> {
    let mut served: Vec<&Recorded> = recording.moving().collect();
    served.sort_by_key(|request| (request.completed, request.issued, request.lba));
    let mut latest = Reads::default();
    let mut samples = Vec::with_capacity(served.len());
    for pair in served.windows(2) {
        let (before, request) = (pair[0], pair[1]);
        if before.operation == Operation::Read {
            latest.add(before.end());
        }
        let started = request.issued.max(before.completed);
        samples.push(Sample {
            operation: request.operation as usize,
            sectors: f64::from(request.sectors),
            distance: before.end().distance(request.lba).count(),
            idle: request.issued > before.completed,
            follows: request.operation == Operation::Read && latest.followed_by(request.lba),
            time: request.completed.saturating_since(started).as_s_f64(),
        });
    }
    samples
}

/// Where the latest reads of a machine ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    ends: Vec<Lba>,
    next: usize,
}

impl Reads {
    pub(super) fn add(&mut self, end: Lba) {
        if self.ends.len() < READS {
            self.ends.push(end);
        } else {
            self.ends[self.next] = end;
        }
        self.next = (self.next + 1) % READS;
    }

    pub(super) fn followed_by(&self, lba: Lba) -> bool {
        self.ends.iter().any(|end| lba >= *end && end.distance(lba).count() < AHEAD)
    }
}

/// The straight part of the model.
struct Line {
    base: [[f64; 2]; OPERATIONS],
    seeks: Vec<(Shape, f64)>,
    delay: f64,
}

impl Line {
    fn time(&self, sample: &Sample, capacity: Sectors) -> f64 {
        let [fixed, per_sector] = self.base[sample.operation];
        let delay = if sample.idle { self.delay } else { 0.0 };
        fixed + per_sector * sample.sectors + seek(&self.seeks, sample.distance, capacity) + delay
    }
}

fn seek(seeks: &[(Shape, f64)], distance: u64, capacity: Sectors) -> f64 {
    let share = distance as f64 / capacity.count() as f64;
    seeks.iter().map(|(shape, factor)| factor * shape.at(share)).sum()
}

/// What a turn of the platter takes, in seconds: where in it a request comes is chance, so that half of the residuals lie within half a turn.
fn turn(samples: &[Sample], capacity: Sectors, line: &Line) -> Option<f64> {
    let of = |operation: usize| {
        let of_operation = samples.iter().filter(move |sample| sample.operation == operation);
        of_operation.map(|sample| sample.time - line.time(sample, capacity)).collect::<Vec<f64>>()
    };
    let mut residuals = of(0);
    if residuals.len() < FEW {
        residuals = of(1);
    }
    residuals.sort_by(f64::total_cmp);
    let quarters = |quarters: usize| residuals.get(quarters * residuals.len() / 4).copied();
    Some(2.0 * (quarters(3)? - quarters(1)?))
}

/// Fits each shape, and takes the mean of the fits weighted by how well the means over octaves of distance are met.
fn line(samples: &[Sample], capacity: Sectors) -> Option<Line> {
    let shapes = shapes();
    let with = |delayed: bool| {
        let known = Known { capacity, turn: None, delayed };
        let free = best_line(samples, &shapes, &known)?;
        match turn(samples, capacity, &free) {
            Some(turn) if turn > 0.0 => best_line(samples, &shapes, &Known { turn: Some(turn), ..known }),
            _ => Some(free),
        }
    };
    let line = with(true)?;
    // Nothing comes back before it has been there: what else makes requests of an idle device long is no delay.
    let mut idle: Vec<f64> = samples.iter().filter(|sample| sample.idle).map(|sample| sample.time).collect();
    idle.sort_by(f64::total_cmp);
    if idle.get(idle.len() / 20).is_some_and(|short| line.delay > *short) { with(false) } else { Some(line) }
}

/// What is known of the device before samples are looked at.
#[derive(Clone, Copy)]
struct Known {
    capacity: Sectors,
    /// Of the platter; seconds.
    turn: Option<f64>,
    /// Whether it may be away from the place of the recording.
    delayed: bool,
}

/// With the `turn` of the platter, if that is known, which says what seeks are to be expected.
fn best_line(samples: &[Sample], shapes: &[Shape], known: &Known) -> Option<Line> {
    let fits: Vec<(Shape, [f64; UNKNOWNS], f64)> = shapes
        .iter()
        .filter_map(|shape| {
            let (found, missed) = fit_shape(samples, shape, known)?;
            Some((shape.clone(), found, missed))
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
        let shape = |((shape, found, _), weight): ((Shape, [f64; UNKNOWNS], f64), &f64)| {
            (shape, found[UNKNOWNS - 2] * weight / all)
        };
        let least =
            if known.turn.is_some() { SECTORS_LEAST * SECTOR_S / (known.capacity.count() as f64).sqrt() } else { 0.0 };
        Line {
            base: std::array::from_fn(|operation| [over(2 * operation), over(2 * operation + 1).max(least)]),
            delay: f64::max(over(UNKNOWNS - 1), 0.0),
            seeks: fits.iter().cloned().zip(&weights).map(shape).filter(|(_, factor)| *factor > 0.0).collect(),
        }
    })
}

/// Least squares with one shape: the coefficients, and the root mean square of what the means over octaves of distance are missed by.
fn fit_shape(samples: &[Sample], shape: &Shape, known: &Known) -> Option<([f64; UNKNOWNS], f64)> {
    let &Known { capacity, turn, delayed } = known;
    let row = |sample: &Sample| {
        let mut row = [0.0; UNKNOWNS];
        row[2 * sample.operation] = 1.0;
        row[2 * sample.operation + 1] = sample.sectors;
        row[UNKNOWNS - 2] = shape.at(sample.distance as f64 / capacity.count() as f64);
        row[UNKNOWNS - 1] = if sample.idle && delayed { 1.0 } else { 0.0 };
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
    if let Some(turn) = turn {
        // A normal prior. The variance of a time is that of a place in the turn.
        let expected = turn / shape.turn;
        let counted = (samples.len() as f64 / SAMPLES_THAT_COUNT).max(1.0);
        let weight = counted * (turn * turn / 12.0) / (ALIKE * expected).powi(2);
        square[UNKNOWNS - 2][UNKNOWNS - 2] += weight;
        right[UNKNOWNS - 2] += weight * expected;
        let expected = SECTOR_S / (capacity.count() as f64).sqrt();
        let weight = counted * (turn * turn / 12.0) / (SECTORS_ALIKE * expected).powi(2);
        for operation in 0..OPERATIONS {
            square[2 * operation + 1][2 * operation + 1] += weight;
            right[2 * operation + 1] += weight * expected;
        }
    }
    let found = solve(square, right)?;
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

/// The device as it was fitted, serving.
#[derive(Clone, Debug)]
pub(super) struct Device {
    fitted: Fitted,
    random: Xoshiro256PlusPlus,
    position: Lba,
    idle_since: Timestamp,
    /// By machine.
    latest: Vec<Reads>,
}

impl Device {
    pub(super) fn new(fitted: Fitted, machines: usize, seed: u64) -> Device {
        Device {
            fitted,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            position: Lba::ZERO,
            idle_since: Timestamp::ZERO,
            latest: vec![Reads::default(); machines],
        }
    }

    /// Seconds, and whether it was a hit.
    fn time(&mut self, started: Timestamp, request: &Request) -> (f64, bool) {
        let Device { fitted, random, position, idle_since, latest } = self;
        let operation = request.operation as usize;
        let follows =
            request.operation == Operation::Read && latest[usize::from(request.vm.0)].followed_by(request.lba);
        let chance = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if follows
            && chance < fitted.hit_share
            && let Some(time) = fitted.hits.draw(random)
        {
            return (time, true);
        }
        let distance = position.distance(request.lba).count();
        let [fixed, per_sector] = fitted.base[operation];
        let line =
            fixed + per_sector * request.sectors().count() as f64 + seek(&fitted.seeks, distance, fitted.capacity);
        let near = &fitted.near[operation][usize::from(started <= *idle_since)];
        let residual = if distance < NEAR { near.draw(random) } else { None };
        let residual = residual.or_else(|| fitted.residuals[operation].draw(random)).unwrap_or(0.0);
        ((line + residual).max(fitted.least), false)
    }
}

impl AccessCost for Device {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.fitted.capacity
    }

    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        let [fixed, per_sector] = self.fitted.base[0];
        let seek = seek(&self.fitted.seeks, from.distance(to).count(), self.fitted.capacity);
        Nanos::from_ns(((fixed + per_sector * sectors.count() as f64 + seek).max(0.0) * 1e9) as u64)
    }
}

impl ServiceModel for Device {
    fn serve(&mut self, started: Timestamp, request: &Request) -> Service {
        let (seconds, hit) = self.time(started, request);
        let time = Nanos::from_ns((seconds * 1e9) as u64);
        let seek = if hit { Sectors::ZERO } else { self.position.distance(request.lba) };
        if request.operation == Operation::Read {
            self.latest[usize::from(request.vm.0)].add(request.end());
        }
        if !hit {
            self.position = request.end();
        }
        self.idle_since = started.saturating_add(time);
        Service { time, seek, hit }
    }

    /// So that it is told which writes are to be durable. Flushes never come here.
    fn write_cache(&self) -> WriteCache {
        WriteCache::Volatile { fua: true }
    }

    fn discards(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A measured drive that is not among the shapes.
    fn known() -> Box<dyn drive_models::DriveModel> {
        drive_models::build(&"atlas-10k".parse().unwrap()).unwrap().drive
    }

    /// Reads at random within the first `part` of the drive: 1 ms, the drive's own seek, and a place in its turn of 6 ms.
    fn recording(part: f64) -> Recording {
        let drive = known();
        let capacity = drive.capacity().count();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut unit = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut recording = Recording::default();
        let (mut position, mut now) = (0u64, 0u64);
        for _ in 0..3000 {
            let lba = (unit() * part * capacity as f64) as u64 / 8 * 8;
            let took = 1e6
                + drive.cost().between(Lba::new(position), Lba::new(lba), Sectors::ZERO).as_ns() as f64
                + 6e6 * unit();
            let issued = Timestamp::from_ns(now);
            now += took as u64;
            recording.requests.push(Recorded {
                arrival: issued,
                issued,
                completed: Timestamp::from_ns(now),
                lba: Lba::new(lba),
                ..Recorded::sent(Operation::Read, 0, 0, 0)
            });
            position = lba + 8;
        }
        recording
    }

    #[test]
    fn long_seeks_are_told_from_short_ones_and_the_turn() {
        let drive = known();
        let capacity = drive.capacity();
        for part in [0.01, 0.1, 1.0] {
            let fitted = fit(&[recording(part)], capacity).unwrap();
            let longer = |seek: &dyn Fn(u64) -> f64| seek(capacity.count() / 3) - seek(10_000);
            let ours = longer(&|distance| seek(&fitted.seeks, distance, capacity));
            let known = longer(&|distance| {
                drive.cost().between(Lba::ZERO, Lba::new(distance), Sectors::ZERO).as_ns() as f64 / 1e9
            });
            let within = 0.2;
            assert!((ours / known - 1.0).abs() < within, "{part}: {ours} {known}");
        }
    }

    #[test]
    fn a_drive_is_no_further_away_than_what_comes_back_soonest() {
        let mut recording = recording(0.1);
        // Every tenth request comes after a pause and has a hard time, as little as others may take.
        let mut later = Nanos::ZERO;
        for (n, request) in recording.requests.iter_mut().enumerate() {
            if n % 10 == 0 {
                later += Nanos::from_ms(20);
            }
            let long = if n % 10 == 0 { Nanos::from_ms(if n % 100 == 0 { 1 } else { 30 }) } else { Nanos::ZERO };
            let took = if n % 100 == 0 { long } else { request.completed.since(request.issued) + long };
            request.arrival = request.arrival.saturating_add(later);
            request.issued = request.arrival;
            request.completed = request.issued.saturating_add(took);
            later += long;
        }
        let fitted = fit(&[recording], known().capacity()).unwrap();
        assert!(fitted.delay < Nanos::from_ms(2), "{}", fitted.delay);
    }

    #[test]
    fn what_a_sector_takes_is_as_usual_where_all_requests_are_alike() {
        let capacity = known().capacity();
        let usual = SECTOR_S / (capacity.count() as f64).sqrt();
        let fitted = fit(&[recording(0.3)], capacity).unwrap();
        assert!((fitted.base[0][1] / usual - 1.0).abs() < 0.5, "{} {usual}", fitted.base[0][1]);
        // Where they are not it is what was seen.
        let mut varied = recording(0.3);
        let mut later = Nanos::ZERO;
        for (n, request) in varied.requests.iter_mut().enumerate() {
            request.sectors = 8 << (n % 5);
            let long = Nanos::from_us(200 * (u64::from(request.sectors) - 8));
            request.arrival = request.arrival.saturating_add(later);
            request.issued = request.arrival;
            later += long;
            request.completed = request.completed.saturating_add(later);
        }
        let fitted = fit(&[varied], capacity).unwrap();
        assert!((fitted.base[0][1] / 2e-4 - 1.0).abs() < 0.1, "{}", fitted.base[0][1]);
        // No more takes no less.
        let mut odd = recording(0.3);
        for (n, request) in odd.requests.iter_mut().enumerate() {
            request.sectors = if n % 2 == 0 { 8 } else { 128 };
            if n % 2 == 0 {
                request.completed = request.completed.saturating_add(Nanos::from_ms(3));
            }
        }
        let fitted = fit(&[odd], capacity).unwrap();
        assert_eq!(fitted.base[0][1], SECTORS_LEAST * usual);
    }

    #[test]
    fn the_device_takes_as_long_as_it_did() {
        let recording = recording(0.3);
        let fitted = fit(std::slice::from_ref(&recording), known().capacity()).unwrap();
        assert!(fitted.delay < Nanos::from_us(300), "{}", fitted.delay);
        let mut device = Device::new(fitted, 1, 1);
        let mut now = Timestamp::ZERO;
        for request in &recording.requests {
            now = now.saturating_add(device.serve(now, &request.request(traces::VmId(0), now)).time);
        }
        let recorded = recording.requests.last().unwrap().completed;
        let ratio = now.as_ns() as f64 / recorded.as_ns() as f64;
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    }
}
