//! How long the device takes for a request, as recordings of machines alone show it.
//!
//! The device serves one request after another: the one that completes next has been served from the completion before it, or
//! its own issue if that was later. That time s of a request of n sectors at distance d from the end of the one served before is
//!
//! - a *hit* of the device's cache, if it is a read behind one of its machine's latest reads that took less than a quarter of the median
//!   read, or did without its sectors while the arm was elsewhere, as long each time ([`ReadHits`]); hits are drawn by their
//!   share of such reads, after pauses and without, and by their times;
//! - *near*, if d is less than 2048 sectors: the platter decides, and times are drawn from those of the same operation, apart for those
//!   that the device went on to at once;
//! - *behind* one of its machine's latest reads, if d is not more than such reads were seen to have: the platter has a place for them, and
//!   times are drawn from theirs;
//! - else a + b n + c g(d / capacity) + e: a and b by operation, g the shape of a seek curve ([`super::seek_curves`]) and e drawn from the
//!   residuals, which hold the turning of the platter. Writes that take less than half of what reads take are done when the device's cache
//!   has them, and no arm moves for them: c is 0. What the arm then does behind the cache ([`super::destage`]) is followed through the
//!   recordings, and d is from where it has been.
//!
//! An access without its seek and its sectors takes half a turn and a little more, as with measured drives, where a fit would have it take less.
//!
//! A device that had nothing to do shows a request later than a busy one by what lies between it and the place of the recording, in both
//! directions; that delay is fitted with the rest and added to response times, not to service times.

use traces::{Nanos, Sectors};

use crate::isolated_trace::IsolatedTrace;
use crate::twin::device::disk::destage::Empties;
use crate::twin::device::disk::read_hits::ReadHits;
use crate::twin::device::disk::regression::{self, FEW, Further, Line, NEAR, Sample};
use crate::twin::device::disk::residuals::{Residuals, enough, or};
use crate::twin::device::disk::samples::{self, Caching, Seen};
use crate::twin::device::empirical::{EmpiricalTimes, median};

/// A sample that took so many times the median was held up by something else.
const HELD_UP: f64 = 12.0;

/// What was fitted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FittedDisk {
    pub(crate) line: Line,
    /// Of all recordings.
    pub(crate) all: Residuals,
    /// Of each; empty if none is of one machine.
    each: Vec<Residuals>,
    /// No request takes less; seconds.
    pub(crate) least: f64,
    /// What reads take in the middle; seconds.
    read: f64,
    /// Which reads were in the cache, by recording.
    hits: Vec<ReadHits>,
    /// What a sector takes on its way from there; seconds.
    pub(crate) hit_sector: f64,
    /// If writes are done when the device's cache has them.
    pub(crate) empties: Option<Empties>,
    /// Between the place of the recording and the device, both ways together.
    pub(crate) delay: Nanos,
}

impl FittedDisk {
    /// What is drawn for a machine, by the number of its recording.
    pub(crate) fn drawn(&self, vm: usize) -> &Residuals {
        self.each.get(vm).unwrap_or(&self.all)
    }

    /// Whether writes are done when a cache has them, from which they come to the platter later.
    #[cfg(test)]
    pub(crate) fn has_cache(&self) -> bool {
        self.empties.is_some()
    }

    /// The same for whatever machines.
    pub(crate) fn of_all(self) -> FittedDisk {
        FittedDisk { each: Vec::new(), ..self }
    }

    /// The same with so many times as long for each sector.
    pub(crate) fn with_sectors(&self, factor: f64) -> FittedDisk {
        let mut fitted = self.clone();
        fitted.line.base.iter_mut().for_each(|[_, per_sector]| *per_sector *= factor);
        fitted
    }
}

/// What the device holds, as far as that is known.
pub(crate) fn capacity(traces: &[IsolatedTrace]) -> Option<Sectors> {
    let capacity = traces.iter().map(|trace| {
        let end = Sectors::new(trace.end().sector());
        trace.device.map_or(end, |device| device.max(end))
    });
    capacity.max().filter(|capacity| *capacity > Sectors::ZERO)
}

/// Fits `traces` of one device as one that is done with a request when the platter is; nothing if they do not hold enough of a kind
/// that they have at all.
pub(crate) fn fit(traces: &[IsolatedTrace], capacity: Sectors) -> Option<FittedDisk> {
    // Machines on one drive are played as taking turns more often than they do, which long seeks that are too short make up for.
    fit_to(traces.iter().map(samples::samples).collect(), capacity, Further::AsShort)
}

/// The same of the samples of each recording, and of seeks `further` than they show.
pub(crate) fn fit_to(each: Vec<Vec<Sample>>, capacity: Sectors, further: Further) -> Option<FittedDisk> {
    let held_up = HELD_UP * median(each.iter().flatten().map(|sample| sample.time))?;
    let first = fit_samples(each.clone(), held_up, capacity, 0.0, further)?;
    // What is in the cache takes little but for its sectors, and only now it is known what these take.
    let per_sector = first.line.base[0][1];
    fit_samples(each, held_up, capacity, per_sector, further).or(Some(first))
}

/// The device that is `fitted` so, as one whose cache acknowledges writes and empties itself; nothing if it has none that shows.
pub(crate) fn with_cache(traces: &[IsolatedTrace], fitted: &FittedDisk) -> Option<FittedDisk> {
    let eager = cached(traces, fitted, Empties::AfterReads)?;
    // If the arm sets out after each read, what it does then takes about as long as a read; if it does not, nothing.
    let sets_out = eager.line.settle > -eager.read / 2.0;
    let (empties, first) = if sets_out {
        (Empties::AfterReads, eager)
    } else {
        (Empties::WhenIdle, cached(traces, fitted, Empties::WhenIdle)?)
    };
    Some(cached(traces, &first, empties).unwrap_or(first))
}

/// The same device with a cache that acknowledges writes, as far as it is `fitted`; nothing if it has none that shows.
fn cached(traces: &[IsolatedTrace], fitted: &FittedDisk, empties: Empties) -> Option<FittedDisk> {
    if !fitted.line.caches() {
        return None;
    }
    let near = fitted.all.destaged.mean();
    let caching = |hits: ReadHits| Caching { line: &fitted.line, hits, stalled: fitted.read / 2.0, empties, near };
    let each = traces.iter().zip(&fitted.hits);
    let mut seen: Vec<Seen> = each.map(|(trace, hits)| samples::cached(trace, &caching(*hits))).collect();
    let each = seen.iter_mut().map(|seen| std::mem::take(&mut seen.samples)).collect();
    let capacity = fitted.line.capacity;
    let mut cached = fit_samples(each, HELD_UP * fitted.read, capacity, fitted.hit_sector, Further::AsShort)?;
    if !cached.line.caches() {
        return None;
    }
    cached.empties = Some(empties);
    let all = |of: fn(&Seen) -> &Vec<f64>| enough(EmpiricalTimes::of(seen.iter().flat_map(of).copied().collect()));
    (cached.all.durable, cached.all.destaged) = (all(|seen| &seen.durable), all(|seen| &seen.near));
    for (drawn, seen) in cached.each.iter_mut().zip(seen) {
        drawn.durable = or(EmpiricalTimes::of(seen.durable), &cached.all.durable);
        drawn.destaged = or(EmpiricalTimes::of(seen.near), &cached.all.destaged);
    }
    Some(cached)
}

/// Fits the samples of each recording, without those that took longer than `held_up`, where what is in the cache takes so long for each
/// sector.
fn fit_samples(
    mut each: Vec<Vec<Sample>>,
    held_up: f64,
    capacity: Sectors,
    per_sector: f64,
    further: Further,
) -> Option<FittedDisk> {
    each.iter_mut().for_each(|samples| samples.retain(|sample| sample.time <= held_up));
    let plain_reads =
        each.iter().flatten().filter(|sample| sample.operation == 0 && !sample.follows && sample.distance >= NEAR);
    let plain_reads: Vec<&Sample> = plain_reads.collect();
    let read = median(plain_reads.iter().map(|sample| sample.time)).unwrap_or(0.0);
    let known = ReadHits { most: read / 4.0, most_bare: 0.0, per_sector };
    let bare = median(plain_reads.iter().map(|sample| known.bare(sample))).unwrap_or(0.0);
    let known = ReadHits { most_bare: bare / 4.0, ..known };
    let of_vms: Vec<ReadHits> = each.iter().map(|samples| known.of_vm(samples)).collect();
    let part = |(samples, hits): (Vec<Sample>, &ReadHits)| samples.into_iter().partition(|sample| hits.is(sample));
    let each: Vec<(Vec<Sample>, Vec<Sample>)> = each.into_iter().zip(&of_vms).map(part).collect();
    let hits: Vec<Sample> = each.iter().flat_map(|(hits, _)| hits).copied().collect();
    let others: Vec<Sample> = each.iter().flat_map(|(_, others)| others).copied().collect();
    let far: Vec<Sample> = others.iter().copied().filter(|sample| sample.distance >= NEAR).collect();
    let far = if far.len() < FEW { others.clone() } else { far };
    let line = regression::line(&far, capacity, further)?;
    let least = others.iter().chain(&hits).map(|sample| sample.time).fold(f64::INFINITY, f64::min);
    let all = Residuals::of_all(&others, &hits, &line, &known);
    Some(FittedDisk {
        each: each.iter().map(|(hits, others)| Residuals::of(others, hits, &line, &known).or(&all)).collect(),
        all,
        least,
        read,
        hits: of_vms,
        hit_sector: per_sector,
        empties: None,
        delay: Nanos::from_ns((line.delay * 1e9) as u64),
        line,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use traces::{Lba, Operation, Timestamp};

    use super::*;
    use crate::isolated_trace::TracedRequest;

    /// A measured drive that is not among the shapes.
    pub(crate) fn known() -> Box<dyn drive_models::DriveModel> {
        drive_models::build(&"atlas-10k".parse().unwrap()).unwrap().drive
    }

    /// Reads at random within the first `part` of the drive: 1 ms, the drive's own seek, and a place in its turn of 6 ms.
    pub(crate) fn trace(part: f64) -> IsolatedTrace {
        let drive = known();
        let capacity = drive.capacity().count();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut unit = move || traces::random::unit(random.next_u64());
        let mut trace = IsolatedTrace::default();
        let (mut position, mut now) = (0u64, 0u64);
        for _ in 0..3000 {
            let lba = (unit() * part * capacity as f64) as u64 / 8 * 8;
            let took = 1e6
                + drive.cost().between(Lba::new(position), Lba::new(lba), Sectors::ZERO).as_ns() as f64
                + 6e6 * unit();
            let issued = Timestamp::from_ns(now);
            now += took as u64;
            trace.requests.push(TracedRequest {
                arrival: issued,
                issued,
                completed: Timestamp::from_ns(now),
                lba: Lba::new(lba),
                ..TracedRequest::sent(Operation::Read, 0, 0, 0)
            });
            position = lba + 8;
        }
        trace
    }

    #[test]
    fn long_seeks_are_told_from_short_ones_and_the_turn() {
        let drive = known();
        let capacity = drive.capacity();
        for part in [0.01, 0.1, 1.0] {
            let fitted = fit(&[trace(part)], capacity).unwrap();
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
        let mut trace = trace(0.1);
        // Every tenth request comes after a pause and has a hard time, as little as others may take.
        let mut later = Nanos::ZERO;
        for (n, request) in trace.requests.iter_mut().enumerate() {
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
        let fitted = fit(&[trace], known().capacity()).unwrap();
        assert!(fitted.delay < Nanos::from_ms(2), "{}", fitted.delay);
    }

    #[test]
    fn what_a_sector_takes_is_as_usual_where_all_requests_are_alike() {
        let capacity = known().capacity();
        let usual = regression::sector_s(6e-3, capacity);
        let fitted = fit(&[trace(0.3)], capacity).unwrap();
        assert!((fitted.line.base[0][1] / usual - 1.0).abs() < 0.5, "{} {usual}", fitted.line.base[0][1]);
        // Where they are not it is what was seen.
        let mut varied = trace(0.3);
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
        let mut odd = trace(0.3);
        for (n, request) in odd.requests.iter_mut().enumerate() {
            request.sectors = if n % 2 == 0 { 8 } else { 128 };
            if n % 2 == 0 {
                request.completed = request.completed.saturating_add(Nanos::from_ms(3));
            }
        }
        let fitted = fit(&[odd], capacity).unwrap();
        let least = regression::SECTORS_LEAST * regression::sector_s(fitted.line.turn.unwrap(), capacity);
        assert!((fitted.line.base[0][1] / least - 1.0).abs() < 1e-9, "{} {least}", fitted.line.base[0][1]);
    }

    /// Reads of three streams in turn at their own places, each 3 ms, among them `random` ones as [`trace`] has them.
    pub(crate) fn streams(random: usize) -> IsolatedTrace {
        let mut streams = trace(0.1);
        streams.requests.truncate(random);
        let mut now = streams.requests.last().map_or(Timestamp::ZERO, |last| last.completed);
        for n in 0..6000u64 {
            let done = now.saturating_add(Nanos::from_ms(3));
            let lba = Lba::new(n % 3 * 200_000 + n / 3 * 64);
            let sent = TracedRequest::sent(Operation::Read, 1, 0, 0);
            streams.requests.push(TracedRequest {
                arrival: now,
                issued: now,
                completed: done,
                lba,
                sectors: 64,
                ..sent
            });
            now = done;
        }
        streams
    }

    #[test]
    fn writes_that_a_cache_takes_move_no_arm() {
        let mut cached = trace(0.1);
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

    /// Two reads at random and a write, over and over with a pause now and then, of a drive that is done with a write after 1 ms and puts
    /// it on the platter later; else as [`trace`].
    pub(crate) fn behind_a_cache(empties: Empties) -> IsolatedTrace {
        let drive = known();
        let part = drive.capacity().count() / 10;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut unit = move || traces::random::unit(random.next_u64());
        let (mut arm, mut free, mut now) = (0u64, 0u64, 0u64);
        let mut waiting: Vec<(u64, u64)> = Vec::new();
        let mut trace = IsolatedTrace::default();
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
            trace.requests.push(TracedRequest {
                arrival: issued,
                issued,
                completed,
                lba,
                ..TracedRequest::sent(operation, 0, 0, 0)
            });
            now = done + if n % 50 == 0 { 300_000_000 } else { 0 };
        }
        trace
    }
}
