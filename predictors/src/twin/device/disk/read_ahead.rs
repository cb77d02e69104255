//! How far a disk has read ahead of sequential streams, which tells whether their next reads are likely hits.
//!
//! After a read from the platter a disk reads on, a little in any case, and further for as long as nothing else is to be
//! done, up to a part of its cache. So a stream has many hits while its VM is alone, and few beside a VM that leaves the
//! disk no pause. Both amounts are those under which the measured hits are most likely.
//!
//! Left out: the number of segments in the cache, and a read that meets what is just being read ahead.

use traces::{Lba, Operation, Sectors};

use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::twin::device::disk::line::Sample;
use crate::twin::device::disk::read_hits::ReadHits;
use crate::twin::device::disk::regression::SAMPLES_MIN;
use crate::twin::device::disk::samples::{samples, served};
use crate::twin::device::latest_reads::LatestReads;

/// Candidates of what is read ahead in any case, in sectors.
const LEAST_SECTORS: [f64; 7] = [0.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
/// Candidates of the most that is read ahead, in sectors: quarter steps to a factor of two.
const MOST_SECTORS: [f64; 29] = [
    32.0, 38.0, 45.0, 54.0, 64.0, 76.0, 91.0, 108.0, 128.0, 152.0, 181.0, 215.0, 256.0, 304.0, 362.0, 431.0, 512.0,
    609.0, 724.0, 861.0, 1024.0, 1218.0, 1448.0, 1722.0, 2048.0, 2435.0, 2896.0, 3444.0, 4096.0,
];
/// By how much the logarithm of the likelihood has to exceed that of hits after pauses. Set by judgement; not varied.
const LOG_LIKELIHOOD_GAIN_MIN: f64 = 10.0;

/// Whether a sequential read is expected to be a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Hit,
    Miss,
}

impl Expected {
    pub(crate) fn hit_if(condition: bool) -> Expected {
        if condition { Expected::Hit } else { Expected::Miss }
    }
}

/// The number of expectations.
pub(crate) const EXPECTATIONS: usize = 2;

/// What a disk reads ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadAhead {
    /// In any case; sectors.
    least: f64,
    /// At most; sectors.
    most: f64,
    /// Sectors in a second.
    rate: f64,
}

impl ReadAhead {
    /// Whether a read of `sectors` was read ahead, and what lies ahead behind it. It begins `gap` sectors behind the end of
    /// the read that it continues, from where so much lay `ahead`; `None` if it continues none.
    fn read(&self, ahead: Option<f64>, gap: f64, sectors: f64) -> (bool, f64) {
        let left = ahead.map_or(f64::NEG_INFINITY, |ahead| ahead - gap - sectors);
        if left < 0.0 { (false, self.least) } else { (true, left) }
    }

    /// What lies ahead after a pause that began with so much; seconds.
    fn after_pause(&self, ahead: f64, pause: f64) -> f64 {
        ahead.max((ahead + pause * self.rate).min(self.most))
    }

    /// The read-ahead under which the measured hits of `traces` are most likely. `hits` are the bounds of each trace's
    /// hits, and a sector is read in `sector_s` seconds. `None` if pauses before reads tell as much.
    pub(crate) fn of(traces: &[IsolatedTrace], hits: &[ReadHits], sector_s: f64) -> Option<ReadAhead> {
        let reads: Vec<Vec<SequentialRead>> = traces.iter().zip(hits).map(|(trace, hits)| reads(trace, hits)).collect();
        let following = || reads.iter().flatten().filter(|read| read.from.is_some());
        if sector_s <= 0.0 || following().filter(|read| read.hit).count() < SAMPLES_MIN {
            return None;
        }
        let mut after_pause = HitCounts::default();
        following().for_each(|read| after_pause.add(Expected::hit_if(read.after_pause), read.hit));
        let candidates = LEAST_SECTORS.into_iter().flat_map(|least| {
            let mosts = MOST_SECTORS.into_iter().filter(move |most| *most >= least);
            mosts.map(move |most| ReadAhead { least, most, rate: 1.0 / sector_s })
        });
        let with_likelihood = candidates.map(|candidate| {
            let mut counts = HitCounts::default();
            reads.iter().for_each(|reads| candidate.count(reads, &mut counts));
            (candidate, counts.log_likelihood())
        });
        // The first of equally likely ones.
        let best = with_likelihood.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        (best.1 > after_pause.log_likelihood() + LOG_LIKELIHOOD_GAIN_MIN).then_some(best.0)
    }

    /// The hits in a trace's sequential reads.
    pub(crate) fn hit_counts(&self, trace: &IsolatedTrace, hits: &ReadHits) -> HitCounts {
        let mut counts = HitCounts::default();
        self.count(&reads(trace, hits), &mut counts);
        counts
    }

    fn count(&self, reads: &[SequentialRead], counts: &mut HitCounts) {
        let mut ahead: Vec<f64> = Vec::with_capacity(reads.len());
        for read in reads {
            let (was_ahead, left) = self.read(read.from.map(|from| ahead[from]), read.gap, read.sectors);
            if read.from.is_some() {
                counts.add(Expected::hit_if(was_ahead), read.hit);
            }
            ahead.push(self.after_pause(left, read.pause_behind));
        }
    }
}

/// Hits and reads in all, by expectation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HitCounts([(usize, usize); EXPECTATIONS]);

impl HitCounts {
    pub(crate) fn add(&mut self, expected: Expected, hit: bool) {
        let (hits, all) = &mut self.0[expected as usize];
        (*hits, *all) = (*hits + usize::from(hit), *all + 1);
    }

    pub(crate) fn plus(self, other: HitCounts) -> HitCounts {
        HitCounts([0, 1].map(|kind: usize| (self.0[kind].0 + other.0[kind].0, self.0[kind].1 + other.0[kind].1)))
    }

    /// The shares of hits; `None` with too few reads.
    pub(crate) fn shares(self) -> [Option<f64>; EXPECTATIONS] {
        self.0.map(|(hits, all)| (all >= SAMPLES_MIN).then(|| hits as f64 / all as f64))
    }

    /// The logarithm of the likelihood of these hits, if each kind has one share.
    fn log_likelihood(self) -> f64 {
        let of = |(hits, all): (usize, usize)| {
            let term =
                |count: usize| if count == 0 { 0.0 } else { count as f64 * libm::log(count as f64 / all as f64) };
            term(hits) + term(all - hits)
        };
        self.0.into_iter().map(of).sum()
    }
}

/// A read of a trace.
struct SequentialRead {
    /// The number of the read that it continues.
    from: Option<usize>,
    /// Sectors from the end of that read.
    gap: f64,
    sectors: f64,
    /// Whether the disk was idle before it.
    after_pause: bool,
    /// For how long the disk was idle behind it; seconds.
    pause_behind: f64,
    hit: bool,
}

/// The reads of a trace's streams in order of service, but for the first request.
fn reads(trace: &IsolatedTrace, hits: &ReadHits) -> Vec<SequentialRead> {
    let served = served(trace);
    let samples = samples(trace);
    let mut latest = LatestReads::default();
    // By place in `latest`.
    let mut numbers: Vec<usize> = Vec::new();
    let mut reads = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let (request, next) = (served[index + 1], served.get(index + 2));
        if request.operation != Operation::Read {
            continue;
        }
        let place = latest.place_followed_by(request.lba);
        let pause = |next: &&TracedRequest| next.issued.saturating_since(request.completed).as_s_f64();
        reads.push(SequentialRead {
            from: place.map(|(place, _)| numbers[place]),
            gap: place.map_or(0.0, |(_, gap)| gap.count() as f64),
            sectors: sample.sectors,
            after_pause: sample.idle,
            pause_behind: next.map_or(0.0, pause),
            hit: hits.is_hit(&Sample { sequential: place.is_some(), ..*sample }),
        });
        put(&mut numbers, latest.add(request.end()), reads.len() - 1);
    }
    in_streams(reads)
}

/// The reads that continue others, and those that others continue.
fn in_streams(mut reads: Vec<SequentialRead>) -> Vec<SequentialRead> {
    let mut kept: Vec<bool> = reads.iter().map(|read| read.from.is_some()).collect();
    reads.iter().filter_map(|read| read.from).for_each(|from| kept[from] = true);
    let mut before = 0;
    let mut number = |kept: &bool| {
        before += usize::from(*kept);
        before - usize::from(*kept)
    };
    let numbers: Vec<usize> = kept.iter().map(&mut number).collect();
    reads.iter_mut().for_each(|read| read.from = read.from.map(|from| numbers[from]));
    let mut kept = kept.into_iter();
    reads.retain(|_| kept.next() == Some(true));
    reads
}

/// Puts a value at a place of a vector that has it already, or that ends before it.
fn put<T>(values: &mut Vec<T>, place: usize, value: T) {
    match values.get_mut(place) {
        Some(old) => *old = value,
        None => values.push(value),
    }
}

/// The streams of a VM in a simulation, and what the disk has read ahead of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    latest: LatestReads,
    /// By place in `latest`; sectors.
    ahead: Vec<f64>,
    /// What lies ahead of the read that was begun last; sectors.
    left: f64,
    /// The place of the read that was served last, if no other request was served since.
    last: Option<usize>,
}

impl Streams {
    /// What is expected of a read; `None` if it continues no stream.
    pub(crate) fn begin(&mut self, read_ahead: Option<&ReadAhead>, lba: Lba, sectors: Sectors) -> Option<Expected> {
        let from = self.latest.place_followed_by(lba);
        let ahead = from.map(|(place, _)| self.ahead[place]);
        let gap = from.map_or(0.0, |(_, gap)| gap.count() as f64);
        let (was_ahead, left) = read_ahead.map_or((false, 0.0), |disk| disk.read(ahead, gap, sectors.count() as f64));
        self.left = left;
        from.map(|_| Expected::hit_if(was_ahead))
    }

    /// The read that was begun last ended there.
    pub(crate) fn end(&mut self, end: Lba) {
        let place = self.latest.add(end);
        put(&mut self.ahead, place, self.left);
        self.last = Some(place);
    }

    /// The disk was idle since the last request that it served, for so many seconds.
    pub(crate) fn pause(&mut self, read_ahead: &ReadAhead, seconds: f64) {
        if let Some(last) = self.last {
            self.ahead[last] = read_ahead.after_pause(self.ahead[last], seconds);
        }
    }

    /// Another request was served.
    pub(crate) fn interrupt(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use drive_models::{Completion, DriveModel};
    use traces::{Nanos, Request, RequestId, Timestamp, VmId};

    use super::Expected::{Hit, Miss};
    use super::*;
    use crate::twin::device::disk::{DiskModel, fit};

    const DISK: ReadAhead = ReadAhead { least: 64.0, most: 200.0, rate: 1e5 };

    #[test]
    fn pauses_fill_what_lies_ahead_and_reads_empty_it() {
        assert_eq!(DISK.read(None, 0.0, 8.0), (false, 64.0), "a stream begins");
        assert_eq!(DISK.read(Some(64.0), 0.0, 64.0), (true, 0.0));
        assert_eq!(DISK.read(Some(64.0), 10.0, 54.0), (true, 0.0));
        assert_eq!(DISK.read(Some(64.0), 10.0, 55.0), (false, 64.0));
        assert_eq!(DISK.after_pause(64.0, 1e-3), 164.0);
        assert_eq!(DISK.after_pause(64.0, 1.0), 200.0);
        let little = ReadAhead { most: 64.0, least: 128.0, ..DISK };
        assert_eq!(little.after_pause(128.0, 1.0), 128.0, "a pause takes nothing away");
    }

    #[test]
    fn streams_of_a_vm_are_followed_one_by_one() {
        let mut streams = Streams::default();
        let read = |streams: &mut Streams, lba: u64| {
            let found = streams.begin(Some(&DISK), Lba::new(lba), Sectors::new(64));
            streams.interrupt();
            streams.end(Lba::new(lba + 64));
            found
        };
        assert_eq!(read(&mut streams, 0), None);
        assert_eq!(read(&mut streams, 64), Some(Hit), "read ahead in any case");
        assert_eq!(read(&mut streams, 128), Some(Miss), "nothing is left");
        assert_eq!(read(&mut streams, 10_000), None);
        // The pause is that of the second stream.
        streams.pause(&DISK, 1.0);
        assert_eq!(read(&mut streams, 192), Some(Hit));
        assert_eq!(read(&mut streams, 256), Some(Miss));
        assert_eq!(
            [10_064, 10_128, 10_192, 10_256].map(|lba| read(&mut streams, lba)),
            [Hit, Hit, Hit, Miss].map(Some)
        );
        // Another request came between.
        streams.interrupt();
        streams.pause(&DISK, 1.0);
        assert_eq!([10_320, 10_384].map(|lba| read(&mut streams, lba)), [Hit, Miss].map(Some));
        // Without a known read-ahead no hit is expected.
        assert_eq!(streams.begin(None, Lba::new(10_448), Sectors::new(8)), Some(Miss));
    }

    /// Serves a request on a drive that is idle. Returns when it was done.
    fn serve(drive: &mut dyn DriveModel, now: Timestamp, request: &Request) -> Timestamp {
        let mut done: Vec<Completion> = Vec::new();
        drive.advance(now, &mut done);
        drive.submit(now, RequestId(0), request);
        done.clear();
        while done.is_empty() {
            let next = drive.next_event().unwrap();
            drive.advance(next, &mut done);
        }
        done[0].finished
    }

    /// Number `n` of a series of values from 0 to below `range`; each `salt` has its own.
    fn drawn(range: u64, salt: u64, n: u64) -> u64 {
        ((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt.wrapping_mul(0xD6E8_FEB8_6659_FD93))
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            .rotate_left(17)
            % range
    }

    /// Reads of 16 to 96 sectors, one behind the other in a file. One of three is elsewhere.
    fn reading(n: u64, now: Timestamp) -> Request {
        if n % 3 == 2 {
            return Request::new(now, Operation::Read, Lba::new(20_000_000 + drawn(9_000_000, 7, n)), Sectors::new(16));
        }
        let n = n / 3 * 2 + n % 3;
        let sectors = |n: u64| [16, 96, 32, 64, 48][n as usize % 5];
        let begin = n / 5 * 256 + (n / 5 * 5..n).map(sectors).sum::<u64>();
        Request::new(now, Operation::Read, Lba::new(begin), Sectors::new(sectors(n)))
    }

    /// None in half of the cases, else up to `most`.
    fn pause(most: u64, salt: u64, n: u64) -> Nanos {
        Nanos::from_us(if drawn(2, salt, n) == 0 { 0 } else { drawn(most + 1, salt + 1, n) })
    }

    /// Reads at random places.
    fn scattered(n: u64, now: Timestamp) -> Request {
        let mut request =
            Request::new(now, Operation::Read, Lba::new(1_000_000 + drawn(50_000_000, 1, n)), Sectors::new(8));
        request.vm = VmId(1);
        request
    }

    /// The trace of requests that a drive serves, each a pause after the one before.
    fn alone(drive: &str, request: fn(u64, Timestamp) -> Request, pause_us: u64) -> IsolatedTrace {
        let mut drive = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
        let mut trace = IsolatedTrace { device: Some(drive.capacity()), ..IsolatedTrace::default() };
        let mut now = Timestamp::ZERO;
        for n in 0..4000 {
            let request = request(n, now);
            let done = serve(drive.as_mut(), now, &request);
            let sent = TracedRequest::sent(request.operation, 0, 0, 0);
            let (lba, sectors) = (request.lba, request.sectors().count() as u32);
            trace.requests.push(TracedRequest { arrival: now, issued: now, completed: done, lba, sectors, ..sent });
            now = done + pause(pause_us, 2, n);
        }
        trace
    }

    #[test]
    fn streams_take_as_long_beside_another_vm_as_on_the_drive_itself() {
        for name in ["cheetah-15k4-mechanical", "atlas-10k"] {
            let traces = [alone(name, reading, 600), alone(name, scattered, 0)];
            let mut drive = drive_models::build(&name.parse().unwrap()).unwrap().drive;
            let fitted = fit(&traces, drive.capacity()).unwrap();
            assert!(fitted.read_ahead.is_some(), "{name}");
            let mut twin = drive_models::SingleServer::new(DiskModel::new(fitted, 0..2, 1));
            // Reads of the first VM, and behind each of them so many others without a pause.
            // A call goes on where the one before ended.
            let mean_ms = |drive: &mut dyn DriveModel, now: &mut Timestamp, others: u64| {
                let mut sum = Nanos::ZERO;
                for n in 0..2000 {
                    let done = serve(drive, *now, &reading(n, *now));
                    sum += done.since(*now);
                    *now = if others == 0 { done + pause(600, 4, n) } else { done };
                    for other in 0..others {
                        *now = serve(drive, *now, &scattered(n * others + other, *now));
                    }
                }
                sum.as_ms_f64() / 2000.0
            };
            let [mut on_drive, mut on_twin] = [Timestamp::ZERO; 2];
            for others in [0, 1, 3] {
                let real = mean_ms(drive.as_mut(), &mut on_drive, others);
                let found = mean_ms(&mut twin, &mut on_twin, others);
                assert!(
                    (found / real - 1.0).abs() < 0.15,
                    "{name}: {others} others, {real} ms, {found} ms by the twin"
                );
            }
        }
    }

    #[test]
    fn drive_that_reads_nothing_ahead_has_no_read_ahead() {
        let reads = alone("cheetah-15k4-mechanical:read_ahead_sectors=0,read_ahead_least=0", reading, 600);
        let fitted = fit(&[reads, alone("cheetah-15k4-mechanical", scattered, 0)], Sectors::new(280_000_000)).unwrap();
        assert_eq!(fitted.read_ahead, None);
    }

    #[test]
    fn shares_are_those_of_each_expectation() {
        let counts = HitCounts;
        let (few, many) = (SAMPLES_MIN - 1, 2 * SAMPLES_MIN);
        assert_eq!(counts([(SAMPLES_MIN, many), (0, few)]).shares(), [Some(0.5), None]);
        assert_eq!(counts([(1, 2), (3, 4)]).plus(counts([(10, 20), (30, 40)])), counts([(11, 22), (33, 44)]));
        let likelihood = |hits| counts(hits).log_likelihood();
        assert_eq!(likelihood([(0, 9), (9, 9)]), 0.0);
        assert!(likelihood([(1, 9), (8, 9)]) > likelihood([(4, 9), (5, 9)]));
        let mut counts = HitCounts::default();
        [(Hit, true), (Hit, false), (Miss, false)].into_iter().for_each(|(expected, hit)| counts.add(expected, hit));
        assert_eq!(counts, HitCounts([(1, 2), (0, 1)]));
    }
}
