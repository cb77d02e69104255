//! How long the device takes for a request, as recordings of machines alone show it.
//!
//! The device serves one request after another: the one that completes next has been served from the completion before it, or
//! its own issue if that was later. That time s of a request of n sectors at distance d from the end of the one served before is
//!
//! - a *hit* of the device's cache, if it is a read behind one of its machine's latest reads that took less than a quarter of the median
//!   read, or did without its sectors while the arm was elsewhere, as long each time ([`super::samples::Hits`]); hits are drawn by their
//!   share of such reads, after pauses and without, and by their times;
//! - *near*, if d is less than 2048 sectors: the platter decides, and times are drawn from those of the same operation, apart for those
//!   that the device went on to at once;
//! - *behind* one of its machine's latest reads, if d is not more than such reads were seen to have: the platter has a place for them, and
//!   times are drawn from theirs;
//! - else a + b n + c g(d / capacity) + e: a and b by operation, g the shape of a seek curve ([`super::shapes`]) and e drawn from the
//!   residuals, which hold the turning of the platter. Writes that take less than half of what reads take are done when the device's cache
//!   has them, and no arm moves for them: c is 0. What the arm then does behind the cache ([`super::destage`]) is followed through the
//!   recordings, and d is from where it has been.
//!
//! An access without its seek and its sectors takes half a turn and a little more, as with measured drives, where a fit would have it take less.
//!
//! A device that had nothing to do shows a request later than a busy one by what lies between it and the place of the recording, in both
//! directions; that delay is fitted with the rest and added to response times, not to service times.

use std::ops::Range;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::AccessCost;
use traces::{Flags, Lba, Nanos, Operation, Request, Sectors, Timestamp};

use drive_models::WriteCache;
use drive_models::single_server::{Service, ServiceModel};

use super::destage::{Destaging, Empties};
use super::drawn::{Drawn, enough, or};
use super::line::{self, FEW, Line, NEAR, Sample};
use super::recording::Recording;
use super::samples::{self, Caching, Hits, Reads, Seen, nanos};
use super::times::{Times, median};

/// A sample that took so many times the median was held up by something else.
const HELD_UP: f64 = 12.0;

/// What was fitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    line: Line,
    /// Of all recordings.
    all: Drawn,
    /// Of each; empty if none is of one machine.
    each: Vec<Drawn>,
    /// No request takes less; seconds.
    least: f64,
    /// What reads take in the middle; seconds.
    read: f64,
    hits: Hits,
    /// If writes are done when the device's cache has them.
    empties: Option<Empties>,
    /// Between the place of the recording and the device, both ways together.
    pub(super) delay: Nanos,
}

impl Fitted {
    /// What is drawn for a machine, by the number of its recording.
    fn drawn(&self, machine: usize) -> &Drawn {
        self.each.get(machine).unwrap_or(&self.all)
    }

    /// Whether writes are done when a cache has them, from which they come to the platter later.
    #[cfg(test)]
    pub(super) fn has_cache(&self) -> bool {
        self.empties.is_some()
    }

    /// The same for whatever machines.
    pub(super) fn of_all(self) -> Fitted {
        Fitted { each: Vec::new(), ..self }
    }

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

/// Fits `recordings` of one device as one that is done with a request when the platter is; nothing if they do not hold enough of a kind
/// that they have at all.
pub(super) fn fit(recordings: &[Recording], capacity: Sectors) -> Option<Fitted> {
    let each: Vec<Vec<Sample>> = recordings.iter().map(samples::samples).collect();
    let held_up = HELD_UP * median(each.iter().flatten().map(|sample| sample.time))?;
    let first = fit_samples(each.clone(), held_up, capacity, 0.0)?;
    // What is in the cache takes little but for its sectors, and only now it is known what these take.
    let per_sector = first.line.base[0][1];
    fit_samples(each, held_up, capacity, per_sector).or(Some(first))
}

/// The device that is `fitted` so, as one whose cache acknowledges writes and empties itself; nothing if it has none that shows.
pub(super) fn with_cache(recordings: &[Recording], fitted: &Fitted) -> Option<Fitted> {
    let eager = cached(recordings, fitted, Empties::AfterReads)?;
    // If the arm sets out after each read, what it does then takes about as long as a read; if it does not, nothing.
    let sets_out = eager.line.settle > -eager.read / 2.0;
    let (empties, first) = if sets_out {
        (Empties::AfterReads, eager)
    } else {
        (Empties::WhenIdle, cached(recordings, fitted, Empties::WhenIdle)?)
    };
    Some(cached(recordings, &first, empties).unwrap_or(first))
}

/// The same device with a cache that acknowledges writes, as far as it is `fitted`; nothing if it has none that shows.
fn cached(recordings: &[Recording], fitted: &Fitted, empties: Empties) -> Option<Fitted> {
    if !fitted.line.caches() {
        return None;
    }
    let near = fitted.all.destaged.mean();
    let caching = Caching { line: &fitted.line, hits: fitted.hits, stalled: fitted.read / 2.0, empties, near };
    let mut seen: Vec<Seen> = recordings.iter().map(|recording| samples::cached(recording, &caching)).collect();
    let each = seen.iter_mut().map(|seen| std::mem::take(&mut seen.samples)).collect();
    let mut cached = fit_samples(each, HELD_UP * fitted.read, fitted.line.capacity, fitted.hits.per_sector)?;
    if !cached.line.caches() {
        return None;
    }
    cached.empties = Some(empties);
    let all = |of: fn(&Seen) -> &Vec<f64>| enough(Times::of(seen.iter().flat_map(of).copied().collect()));
    (cached.all.durable, cached.all.destaged) = (all(|seen| &seen.durable), all(|seen| &seen.near));
    for (drawn, seen) in cached.each.iter_mut().zip(seen) {
        drawn.durable = or(Times::of(seen.durable), &cached.all.durable);
        drawn.destaged = or(Times::of(seen.near), &cached.all.destaged);
    }
    Some(cached)
}

/// Fits the samples of each recording, without those that took longer than `held_up`, where what is in the cache takes so long for each
/// sector.
fn fit_samples(mut each: Vec<Vec<Sample>>, held_up: f64, capacity: Sectors, per_sector: f64) -> Option<Fitted> {
    each.iter_mut().for_each(|samples| samples.retain(|sample| sample.time <= held_up));
    let plain_reads =
        each.iter().flatten().filter(|sample| sample.operation == 0 && !sample.follows && sample.distance >= NEAR);
    let plain_reads: Vec<&Sample> = plain_reads.collect();
    let read = median(plain_reads.iter().map(|sample| sample.time)).unwrap_or(0.0);
    let known = Hits { most: read / 4.0, most_bare: 0.0, per_sector };
    let bare = median(plain_reads.iter().map(|sample| known.bare(sample))).unwrap_or(0.0);
    let known = Hits { most_bare: bare / 4.0, ..known };
    let each: Vec<(Vec<Sample>, Vec<Sample>)> = each.into_iter().map(|samples| known.part(samples)).collect();
    let hits: Vec<Sample> = each.iter().flat_map(|(hits, _)| hits).copied().collect();
    let others: Vec<Sample> = each.iter().flat_map(|(_, others)| others).copied().collect();
    let far: Vec<Sample> = others.iter().copied().filter(|sample| sample.distance >= NEAR).collect();
    let far = if far.len() < FEW { others.clone() } else { far };
    let line = line::line(&far, capacity)?;
    let least = others.iter().chain(&hits).map(|sample| sample.time).fold(f64::INFINITY, f64::min);
    let all = Drawn::of_all(&others, &hits, &line, &known);
    Some(Fitted {
        each: each.iter().map(|(hits, others)| Drawn::of(others, hits, &line, &known).or(&all)).collect(),
        all,
        least,
        read,
        hits: known,
        empties: None,
        delay: Nanos::from_ns((line.delay * 1e9) as u64),
        line,
    })
}

/// The device as it was fitted, serving.
#[derive(Clone, Debug)]
pub(super) struct Device {
    fitted: Fitted,
    /// Which of the recordings the first machine's is.
    first: usize,
    random: Xoshiro256PlusPlus,
    /// Where the latest request ended.
    position: Lba,
    destaging: Destaging,
    idle_since: Timestamp,
    /// By machine.
    latest: Vec<Reads>,
}

impl Device {
    pub(super) fn new(fitted: Fitted, machines: Range<usize>, seed: u64) -> Device {
        let destaging = Destaging::new(fitted.empties.unwrap_or(Empties::WhenIdle));
        Device {
            fitted,
            first: machines.start,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            position: Lba::ZERO,
            destaging,
            idle_since: Timestamp::ZERO,
            latest: vec![Reads::default(); machines.len()],
        }
    }

    /// What the line says of a request that the arm sets out for at `started`, and what its place on the platter adds if there is a turn;
    /// seconds.
    fn positioned(&self, started: Timestamp, request: &Request) -> (f64, Option<f64>) {
        let operation = if self.acknowledges(request) { 1 } else { self.arm_as(request) };
        let line = &self.fitted.line;
        let residuals = &self.fitted.drawn(self.first + usize::from(request.vm.0)).residuals;
        let seconds = line.time(operation, request.sectors().count() as f64, self.distance(request));
        let placed = line.turn.and_then(|turn| residuals[operation].at(place(request.lba, started, seconds, turn)));
        (seconds, placed)
    }

    /// Whether the cache has a write as soon as it is there.
    fn acknowledges(&self, request: &Request) -> bool {
        let durable = request.flags.contains(Flags::FUA);
        self.fitted.empties.is_some() && request.operation == Operation::Write && !durable
    }

    /// As which operation the arm serves a request: what has to be on the platter takes there what a read takes.
    fn arm_as(&self, request: &Request) -> usize {
        if self.fitted.empties.is_some() { 0 } else { request.operation as usize }
    }

    /// From where the arm is, or from the request before for what moves no arm.
    fn distance(&self, request: &Request) -> u64 {
        let from = if self.acknowledges(request) { self.position } else { self.destaging.arm };
        from.distance(request.lba).count()
    }

    /// Seconds, and whether it was a hit.
    fn time(&mut self, started: Timestamp, request: &Request) -> (f64, bool) {
        let (line, placed) = self.positioned(started, request);
        let operation = if self.acknowledges(request) { 1 } else { self.arm_as(request) };
        let distance = self.distance(request);
        let Device { fitted, random, idle_since, latest, first, .. } = self;
        let drawn = fitted.drawn(*first + usize::from(request.vm.0));
        let follows =
            request.operation == Operation::Read && latest[usize::from(request.vm.0)].followed_by(request.lba);
        let chance = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if follows
            && chance < drawn.hits(started <= *idle_since)
            && let Some(time) = drawn.hits.draw(random)
        {
            return ((time + fitted.hits.per_sector * request.sectors().count() as f64).max(0.0), true);
        }
        if request.operation == Operation::Write && operation == 0 {
            return ((line + drawn.durable.draw(random).unwrap_or(0.0)).max(0.0), false);
        }
        let near = &drawn.near[operation][usize::from(started <= *idle_since)];
        let residual = match distance {
            0..NEAR => near.draw(random),
            _ if follows && distance <= drawn.behind_most => drawn.behind.draw(random),
            _ => None,
        };
        let residual = residual.or(placed).or_else(|| drawn.residuals[operation].draw(random));
        ((line + residual.unwrap_or(0.0)).max(fitted.least), false)
    }

    /// Puts on the platter what the arm has time for before `until`.
    fn destage(&mut self, until: Timestamp) {
        while let Some((run, at)) = self.destaging.oldest()
            && at < until
        {
            let distance = self.destaging.arm.distance(run.start).count();
            let Device { fitted, random, first, .. } = self;
            let near = &fitted.drawn(*first + usize::from(run.vm.0)).destaged;
            let near = if distance < NEAR { near.draw(random) } else { None };
            let seconds = near.unwrap_or_else(|| {
                let residual = fitted.all.residuals[0].draw(random).unwrap_or(0.0);
                (fitted.line.destage(run.sectors(), distance) + residual).max(fitted.least)
            });
            self.destaging.put(at, nanos(seconds));
        }
    }

    /// A write that the cache has as soon as it is there.
    fn acknowledge(&mut self, started: Timestamp, request: &Request) -> Service {
        let (seconds, _) = self.time(started, request);
        let time = nanos(seconds);
        self.idle_since = started.saturating_add(time);
        self.destaging.take(request.vm, request.lba, request.end(), self.idle_since);
        self.position = request.end();
        Service { time, seek: Sectors::ZERO, hit: true }
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
        self.destaging.arm
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
        self.destage(started);
        if self.acknowledges(request) {
            return self.acknowledge(started, request);
        }
        if request.operation == Operation::Write {
            // What is to be on the platter goes there behind all that was written before.
            self.destage(Timestamp::from_ns(u64::MAX));
        }
        let from = started.max(self.destaging.free);
        let (seconds, hit) = self.time(from, request);
        if request.operation == Operation::Read {
            self.latest[usize::from(request.vm.0)].add(request.end());
        }
        let from = if hit { started } else { from };
        let done = from.saturating_add(nanos(seconds));
        self.idle_since = done;
        if hit {
            return Service { time: done.saturating_since(started), seek: Sectors::ZERO, hit };
        }
        let seek = self.destaging.arm.distance(request.lba);
        self.position = request.end();
        self.destaging.served(request.end(), done);
        Service { time: done.saturating_since(started), seek, hit }
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
    use super::super::recording::Recorded;
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
        let mut device = Device::new(fitted, 0..1, 1);
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
        let mut device = Device::new(fitted, 0..1, 1);
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

    /// Two reads at random and a write, over and over with a pause now and then, of a drive that is done with a write after 1 ms and puts
    /// it on the platter later; else as [`recording`].
    fn behind_a_cache(empties: Empties) -> Recording {
        let drive = known();
        let part = drive.capacity().count() / 10;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut unit = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let (mut arm, mut free, mut now) = (0u64, 0u64, 0u64);
        let mut waiting: Vec<(u64, u64)> = Vec::new();
        let mut recording = Recording::default();
        for n in 0..9000 {
            let lba = (unit() * part as f64) as u64 / 8 * 8;
            let mut access = |arm: &mut u64, lba: u64| {
                let seek = drive.cost().between(Lba::new(*arm), Lba::new(lba), Sectors::ZERO).as_ns() as f64;
                *arm = lba + 8;
                (1e6 + seek + 6e6 * unit()) as u64
            };
            while waiting.first().is_some_and(|(_, since)| free.max(*since) < now) {
                let (lba, since) = waiting.remove(0);
                free = free.max(since) + access(&mut arm, lba);
            }
            let operation = if n % 3 == 2 { Operation::Write } else { Operation::Read };
            let done = if operation == Operation::Write {
                waiting.push((lba, now + 1_000_000));
                now + 1_000_000
            } else {
                let done = now.max(free) + access(&mut arm, lba);
                free = done - u64::from(empties == Empties::AfterReads);
                done
            };
            let (issued, completed) = (Timestamp::from_ns(now), Timestamp::from_ns(done));
            let lba = Lba::new(lba);
            recording.requests.push(Recorded {
                arrival: issued,
                issued,
                completed,
                lba,
                ..Recorded::sent(operation, 0, 0, 0)
            });
            now = done + if n % 50 == 0 { 300_000_000 } else { 0 };
        }
        recording
    }

    #[test]
    fn what_the_arm_does_behind_a_cache_is_told_from_reads() {
        let drive = known();
        let seek = |distance: u64| drive.cost().between(Lba::ZERO, Lba::new(distance), Sectors::ZERO).as_s_f64();
        for empties in [Empties::AfterReads, Empties::WhenIdle] {
            let recordings = [behind_a_cache(empties)];
            let plain = fit(&recordings, drive.capacity()).unwrap();
            let cached = with_cache(&recordings, &plain).unwrap();
            assert_eq!(cached.empties, Some(empties));
            let off = |fitted: &Fitted| fitted.line.time(0, 8.0, 500_000) / (4e-3 + seek(500_000)) - 1.0;
            assert!(off(&cached).abs() < 0.1, "{empties:?} {}", off(&cached));
            // A run takes what a read takes.
            assert!(cached.line.settle.abs() < 5e-4, "{empties:?} {}", cached.line.settle);
            let plainly = off(&plain);
            assert!(empties == Empties::WhenIdle || plainly > 0.25, "{plainly}");
            // Alone it takes as long as it did.
            let mut device = Device::new(cached, 0..1, 1);
            let [mut played, mut recorded] = [0.0; 2];
            let mut now = Timestamp::ZERO;
            for pair in recordings[0].requests.windows(2) {
                let took = device.serve(now, &pair[0].request(traces::VmId(0), now)).time;
                played += took.as_s_f64();
                recorded += pair[0].completed.since(pair[0].issued).as_s_f64();
                now = now.saturating_add(took + pair[1].issued.since(pair[0].completed));
            }
            assert!((played / recorded - 1.0).abs() < 0.07, "{empties:?} {played} {recorded}");
        }
        assert!(with_cache(&[recording(0.1)], &fit(&[recording(0.1)], drive.capacity()).unwrap()).is_none());
    }

    #[test]
    fn reads_wait_for_what_another_machine_has_written() {
        let drive = known();
        let recordings = [behind_a_cache(Empties::AfterReads)];
        let plain = fit(&recordings, drive.capacity()).unwrap();
        let mut device = Device::new(with_cache(&recordings, &plain).unwrap().of_all(), 0..2, 1);
        let far = drive.capacity().count() / 10 * 9;
        let mut now = Timestamp::ZERO;
        let mut serve = |operation: Operation, vm: u16, lba: u64, flags: Flags| {
            let mut request = Request::new(now, operation, Lba::new(lba / 8 * 8), Sectors::new(8));
            (request.vm, request.flags) = (traces::VmId(vm), flags);
            let took = device.serve(now, &request).time.as_s_f64();
            now = now.saturating_add(nanos(took));
            took
        };
        let place = |n: u64| n.wrapping_mul(0x9E37_79B9) % (drive.capacity().count() / 10);
        let mut mean = |written: bool| {
            let mut sum = 0.0;
            for n in 0..1000 {
                if written {
                    let took = serve(Operation::Write, 1, far + place(n + 7), Flags::empty());
                    assert!(took < 2e-3, "{took}");
                }
                sum += serve(Operation::Read, 0, place(2 * n), Flags::empty());
            }
            sum / 1000.0
        };
        let (alone, behind) = (mean(false), mean(true));
        // There and back again.
        assert!(behind > 2.5 * alone, "{alone} {behind}");
        // What is to be on the platter waits for all that was written before.
        let durable = |serve: &mut dyn FnMut(Operation, u16, u64, Flags) -> f64, writes: u64| {
            for n in 0..writes {
                serve(Operation::Write, 1, far + place(3 * n + 1), Flags::empty());
            }
            serve(Operation::Write, 0, place(5), Flags::FUA)
        };
        durable(&mut serve, 0);
        let (few, many) = (durable(&mut serve, 1), durable(&mut serve, 12));
        assert!(many > few + 20e-3, "{few} {many}");
    }

    #[test]
    fn behind_a_cache_times_are_drawn_as_they_were_seen() {
        let drive = known();
        let recordings = [behind_a_cache(Empties::AfterReads)];
        let plain = fit(&recordings, drive.capacity()).unwrap();
        let fitted = with_cache(&recordings, &plain).unwrap().of_all();
        let always = |seconds: f64| Times::of(vec![seconds; FEW]);
        // What each of three requests takes, one after the other.
        let took = |fitted: &Fitted, requests: [(Operation, u64, Flags); 3]| {
            let mut device = Device::new(fitted.clone(), 0..1, 1);
            let mut now = Timestamp::from_ns(1_000_000_000);
            requests.map(|(operation, lba, flags)| {
                let mut request = Request::new(now, operation, Lba::new(lba), Sectors::new(8));
                request.flags = flags;
                let took = device.serve(now, &request).time;
                now = now.saturating_add(took);
                took.as_s_f64()
            })
        };
        let (read, write, none) = (Operation::Read, Operation::Write, Flags::empty());
        // A write next to where the arm is comes to the platter before one that is to be there.
        let mut near = fitted.clone();
        let requests = [(read, 100_000, none), (write, 100_100, none), (write, 100_300, Flags::FUA)];
        let last = |fitted: &Fitted| took(fitted, requests)[2];
        near.all.durable = always(0.0);
        near.all.destaged = always(1e-3);
        let soon = last(&near);
        near.all.destaged = always(41e-3);
        assert!((last(&near) - soon - 40e-3).abs() < 1e-3, "{soon}");
        near.all.durable = always(30e-3);
        assert!((last(&near) - soon - 70e-3).abs() < 1e-3, "{soon}");
        // What the drive has read ahead waits for no arm, but takes its sectors' time.
        let mut hits = fitted;
        let sectors = 8.0 * hits.hits.per_sector;
        assert!(sectors > 0.0);
        (hits.all.hits, hits.all.hit_share, hits.all.destaged) = (always(1e-4), [Some(1.0); 2], always(50e-3));
        let mut device = Device::new(hits, 0..1, 1);
        let mut now = Timestamp::from_ns(1_000_000_000);
        let mut hit = 0.0;
        for (operation, lba) in [(read, 100_000), (write, 100_100), (write, 100_200), (read, 100_008)] {
            let took = device.serve(now, &Request::new(now, operation, Lba::new(lba), Sectors::new(8))).time;
            now = now.saturating_add(took);
            hit = took.as_s_f64();
        }
        assert!((hit - 1e-4 - sectors).abs() < 1e-9 && device.destaging.free > now, "{hit}");
    }
}
