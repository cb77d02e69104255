//! How long the device takes for a request, as recordings of machines alone show it.
//!
//! The device serves one request after another: the one that completes next has been served from the completion before it, or
//! its own issue if that was later. That time s of a request of n sectors at distance d from the end of the one served before is
//!
//! - a *hit* of the device's cache, if it is a read behind one of its machine's latest reads that took less than a quarter of the median
//!   read; hits are drawn by their share and times among such reads;
//! - *near*, if d is less than 2048 sectors: the platter decides, and times are drawn from those of the same operation, apart for those
//!   that the device went on to at once;
//! - *behind* one of its machine's latest reads, if d is not more than such reads were seen to have: the platter has a place for them, and
//!   times are drawn from theirs;
//! - else a + b n + c g(d / capacity) + e: a and b by operation, g the shape of a seek curve ([`super::shapes`]) and e drawn from the
//!   residuals, which hold the turning of the platter. Writes that take less than half of what reads take are done when the device's cache
//!   has them, and no arm moves for them: c is 0.
//!
//! A device that had nothing to do shows a request later than a busy one by what lies between it and the place of the recording, in both
//! directions; that delay is fitted with the rest and added to response times, not to service times.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::AccessCost;
use traces::{Lba, Nanos, Operation, Request, Sectors, Timestamp};

use drive_models::WriteCache;
use drive_models::single_server::{Service, ServiceModel};

use super::line::{self, FEW, Line, OPERATIONS, Sample};
use super::recording::{Recorded, Recording};
use super::times::{Times, median};

/// Closer than this the platter decides more than the arm.
const NEAR: u64 = 2048;
/// A read that begins at most so many sectors behind a latest read may be in the cache.
const AHEAD: u64 = 512;
/// So many latest reads of each machine are remembered, as many as drives have segments.
const READS: usize = 64;
/// A sample that took so many times the median was held up by something else.
const HELD_UP: f64 = 12.0;
/// Of reads behind others so large a share tells how far from the one before they are.
const BEHIND: f64 = 0.99;

/// What was fitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    line: Line,
    residuals: [Times; OPERATIONS],
    /// By operation, and whether the device went from one to the other at once.
    near: [[Times; 2]; OPERATIONS],
    /// Of reads behind a latest read, up to a distance.
    behind: Times,
    behind_most: u64,
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
        let mut fitted = self.clone();
        fitted.line.base.iter_mut().for_each(|[_, per_sector]| *per_sector *= factor);
        fitted
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
    let line = line::line(&far, capacity)?;
    let (behind, far): (Vec<Sample>, Vec<Sample>) = far.iter().partition(|sample| sample.follows);
    // Where nobody reads at random, those behind others have to tell what the arm takes.
    let at_random = far.iter().filter(|sample| sample.operation == 0).count();
    let far = if at_random < FEW { [far, behind.clone()].concat() } else { far };
    let of = |operation: usize, samples: &[Sample]| {
        let of_operation = samples.iter().filter(|sample| sample.operation == operation);
        Times::of(of_operation.map(|sample| line.residual(sample)).collect())
    };
    let near = |operation: usize, at_once: bool| {
        let near: Vec<Sample> =
            others.iter().copied().filter(|sample| sample.distance < NEAR && sample.idle != at_once).collect();
        let times = of(operation, &near);
        if times.quantiles.len() < FEW { Times::default() } else { times }
    };
    let least = others.iter().map(|sample| sample.time).fold(f64::INFINITY, f64::min);
    Some(Fitted {
        residuals: std::array::from_fn(|operation| of(operation, &far)),
        behind: of(0, &behind),
        behind_most: quantile(behind.iter().map(|sample| sample.distance), BEHIND),
        near: std::array::from_fn(|operation| [near(operation, false), near(operation, true)]),
        hit_share: hits.len() as f64 / followers.max(1) as f64,
        least: hits.iter().map(|sample| sample.time).fold(least, f64::min),
        hits: Times::of(
            hits.iter().map(|sample| (sample.time - if sample.idle { line.delay } else { 0.0 }).max(0.0)).collect(),
        ),
        delay: Nanos::from_ns((line.delay * 1e9) as u64),
        line,
    })
}

/// The value that so large a share does not exceed; 0 of none.
fn quantile(values: impl Iterator<Item = u64>, share: f64) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or_default()
}

/// The service times of a machine alone.
fn samples(recording: &Recording) -> Vec<Sample> {
    let mut served: Vec<&Recorded> = recording.moving().collect();
    served.sort_by_key(|request| (request.completed, request.issued, request.lba));
    let mut latest = Reads::default();
    let mut samples = Vec::with_capacity(served.len());
    for pair in served.windows(2) {
        let (before, request) = (pair[0], pair[1]);
        let started = request.issued.max(before.completed);
        if before.operation == Operation::Read {
            latest.add(before.end());
        }
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

    /// What the line says of a request that the arm sets out for at `started`, and what its place on the platter adds if there is a turn;
    /// seconds.
    fn positioned(&self, started: Timestamp, request: &Request) -> (f64, Option<f64>) {
        let operation = request.operation as usize;
        let Fitted { line, residuals, .. } = &self.fitted;
        let distance = self.position.distance(request.lba).count();
        let seconds = line.time(operation, request.sectors().count() as f64, distance);
        let placed = line.turn.and_then(|turn| residuals[operation].at(place(request.lba, started, seconds, turn)));
        (seconds, placed)
    }

    /// Seconds, and whether it was a hit.
    fn time(&mut self, started: Timestamp, request: &Request) -> (f64, bool) {
        let (line, placed) = self.positioned(started, request);
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
        let near = &fitted.near[operation][usize::from(started <= *idle_since)];
        let residual = match distance {
            0..NEAR => near.draw(random),
            _ if follows && distance <= fitted.behind_most => fitted.behind.draw(random),
            _ => None,
        };
        let residual = residual.or(placed).or_else(|| fitted.residuals[operation].draw(random));
        ((line + residual.unwrap_or(0.0)).max(fitted.least), false)
    }
}

/// Which share of a turn away a place is when the arm, which sets out at `started`, has come there. Nobody knows how places lie around
/// the platter, but each always lies where it lies.
fn place(lba: Lba, started: Timestamp, positioning: f64, turn: f64) -> f64 {
    let around = (lba.sector().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11) as f64 / (1u64 << 53) as f64;
    (around - (started.saturating_since(Timestamp::ZERO).as_s_f64() + positioning) / turn).rem_euclid(1.0)
}

impl AccessCost for Device {
    fn access(&self, now: Timestamp, request: &Request) -> Nanos {
        let (line, placed) = self.positioned(now, request);
        Nanos::from_ns(((line + placed.unwrap_or(0.0)).max(self.fitted.least) * 1e9) as u64)
    }

    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.fitted.line.capacity
    }

    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        let seconds = self.fitted.line.time(0, sectors.count() as f64, from.distance(to).count());
        Nanos::from_ns((seconds.max(0.0) * 1e9) as u64)
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
            let ours = longer(&|distance| fitted.line.seek(distance));
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
        let usual = line::sector_s(6e-3, capacity);
        let fitted = fit(&[recording(0.3)], capacity).unwrap();
        assert!((fitted.line.base[0][1] / usual - 1.0).abs() < 0.5, "{} {usual}", fitted.line.base[0][1]);
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
        assert!((fitted.line.base[0][1] / 2e-4 - 1.0).abs() < 0.1, "{}", fitted.line.base[0][1]);
        // No more takes no less.
        let mut odd = recording(0.3);
        for (n, request) in odd.requests.iter_mut().enumerate() {
            request.sectors = if n % 2 == 0 { 8 } else { 128 };
            if n % 2 == 0 {
                request.completed = request.completed.saturating_add(Nanos::from_ms(3));
            }
        }
        let fitted = fit(&[odd], capacity).unwrap();
        let least = line::SECTORS_LEAST * line::sector_s(fitted.line.turn.unwrap(), capacity);
        assert!((fitted.line.base[0][1] / least - 1.0).abs() < 1e-9, "{} {least}", fitted.line.base[0][1]);
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

    /// Reads of three streams in turn at their own places, each 3 ms, among them `random` ones as [`recording`] has them.
    fn streams(random: usize) -> Recording {
        let mut streams = recording(0.1);
        streams.requests.truncate(random);
        let mut now = streams.requests.last().map_or(Timestamp::ZERO, |last| last.completed);
        for n in 0..6000u64 {
            let done = now.saturating_add(Nanos::from_ms(3));
            let lba = Lba::new(n % 3 * 200_000 + n / 3 * 64);
            let sent = Recorded::sent(Operation::Read, 1, 0, 0);
            streams.requests.push(Recorded { arrival: now, issued: now, completed: done, lba, sectors: 64, ..sent });
            now = done;
        }
        streams
    }

    #[test]
    fn streams_hide_neither_the_turn_nor_what_random_reads_take() {
        let drive = known();
        let fitted = fit(&[streams(1500)], drive.capacity()).unwrap();
        let turn = fitted.line.turn.unwrap();
        assert!((turn / 6e-3 - 1.0).abs() < 0.1, "{turn}");
        let mut device = Device::new(fitted, 1, 1);
        let mut mean = |lba: &dyn Fn(u64) -> u64, from: &dyn Fn(u64) -> u64| {
            let (mut sum, mut now) = (0.0, Timestamp::ZERO);
            for n in 0..1000 {
                let read =
                    |lba: u64, sectors: u64| Request::new(now, Operation::Read, Lba::new(lba), Sectors::new(sectors));
                let before = device.serve(now, &read(from(n), 8)).time;
                let took = device.serve(now.saturating_add(before), &read(lba(n), 64)).time;
                sum += took.as_s_f64();
                now = now.saturating_add(before + took + Nanos::from_us(n * 7));
            }
            sum / 1000.0
        };
        let there = |n: u64| 16_000_000 + n * 800;
        let (near, far) = (mean(&|n| n * 64, &|n| 200_000 + n * 64), mean(&|n| n * 64 + 64_000, &there));
        let random = mean(&|n| 1_000_000 + n * 7919 % 400_000 / 8 * 8, &there);
        // A stream beside another takes what it took; behind a read at the other end of the drive, what any read takes there.
        assert!((near / 3e-3 - 1.0).abs() < 0.15, "{near}");
        assert!(random > 8e-3 && (far / random - 1.0).abs() < 0.05, "{far} {random}");
    }

    #[test]
    fn writes_that_a_cache_takes_move_no_arm() {
        let mut cached = recording(0.1);
        let mut sooner = Nanos::ZERO;
        for (n, request) in cached.requests.iter_mut().enumerate() {
            let took = request.completed.since(request.issued);
            let began = request.issued.as_ns() - sooner.as_ns();
            if n % 2 == 0 {
                request.operation = Operation::Write;
                sooner += took.saturating_sub(Nanos::from_us(700));
            }
            let done = request.completed.as_ns() - sooner.as_ns();
            (request.issued, request.completed) = (Timestamp::from_ns(began), Timestamp::from_ns(done));
            request.arrival = request.issued;
        }
        let fitted = fit(&[cached], known().capacity()).unwrap();
        for distance in [5000, 8_000_000] {
            let took = fitted.line.time(1, 8.0, distance);
            assert!((took / 7e-4 - 1.0).abs() < 0.05, "{distance}: {took}");
        }
        assert!(fitted.line.time(0, 8.0, 8_000_000) > fitted.line.time(0, 8.0, 5000) + 2e-3);
    }

    #[test]
    fn a_place_comes_by_once_in_a_turn() {
        let lba = Lba::new(123_456);
        let at = |ms: f64| place(lba, Timestamp::from_ns((ms * 1e6) as u64), 1e-3, 8e-3);
        let away = at(0.0);
        assert!((0.0..1.0).contains(&away));
        // What waits a quarter of a turn is a quarter nearer, or has to wait for the next.
        assert!(((away - 0.25).rem_euclid(1.0) - at(2.0)).abs() < 1e-6 && (away - at(8.0)).abs() < 1e-6);
        let places: Vec<f64> = (0..1000).map(|n| place(Lba::new(n * 8), Timestamp::ZERO, 0.0, 8e-3)).collect();
        let below = |share: f64| places.iter().filter(|place| **place < share).count();
        assert!((200..300).contains(&below(0.25)) && (700..800).contains(&below(0.75)));
    }
}
