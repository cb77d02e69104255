//! Extracts service times from an isolated trace.
//!
//! A request's service time runs to its completion from the completion before it, or from its own issue if that is
//! later. With a write cache ([`super::destage`]) the arm may be busy with destaging at that time, or may have been
//! elsewhere. Its work is then followed through the trace, with the times that an earlier fit gives.
//!
//! With a write cache, requests for which the arm's position or work is uncertain yield no sample.

use traces::{Nanos, Operation, Timestamp, VmId};

use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::twin::device::disk::destage::{DestagePolicy, Destaging};
use crate::twin::device::disk::line::{DESTAGED_RUNS_MAX, Line, NEAR_SECTORS_BOUND, Sample};
use crate::twin::device::disk::read_hits::ReadHits;
use crate::twin::device::latest_reads::LatestReads;

/// The service times of a trace, if the device has no write cache.
pub(crate) fn samples(trace: &IsolatedTrace) -> Vec<Sample> {
    let mut latest = LatestReads::default();
    let each = |(before, request): (&TracedRequest, &TracedRequest)| {
        if before.operation == Operation::Read {
            latest.add(before.end());
        }
        sample(before, request, &latest)
    };
    served(trace).windows(2).map(|pair| (pair[0], pair[1])).map(each).collect()
}

/// The same, without the samples that unseen accesses may have disturbed. These began at the times `unseen`, and each
/// took at most the time `within`.
pub(crate) fn undisturbed(trace: &IsolatedTrace, unseen: &[Timestamp], within: Nanos) -> Vec<Sample> {
    let disturbed = |(before, request): (&TracedRequest, &TracedRequest)| {
        let from = request.issued.max(before.completed);
        let next = unseen.partition_point(|at| at.saturating_add(within) < from);
        unseen.get(next).is_some_and(|at| *at < request.completed)
    };
    let served = served(trace);
    let each = samples(trace).into_iter().zip(served.windows(2));
    each.filter(|(_, pair)| !disturbed((pair[0], pair[1]))).map(|(sample, _)| sample).collect()
}

/// The requests that move data, in order of service.
pub(super) fn served(trace: &IsolatedTrace) -> Vec<&TracedRequest> {
    let mut served: Vec<&TracedRequest> = trace.moving().collect();
    served.sort_by_key(|request| (request.completed, request.issued, request.lba));
    served
}

/// The sample of a request that was served after `before`.
fn sample(before: &TracedRequest, request: &TracedRequest, latest: &LatestReads) -> Sample {
    Sample {
        operation: request.operation as usize,
        sectors: f64::from(request.sectors),
        distance: before.end().distance(request.lba).count(),
        idle: request.issued > before.completed,
        sequential: request.operation == Operation::Read && latest.followed_by(request.lba),
        durable: request.durable,
        time: request.completed.saturating_since(request.issued.max(before.completed)).as_s_f64(),
        destaged: [None; DESTAGED_RUNS_MAX],
    }
}

/// The assumptions about a disk with a write cache, from an earlier fit.
pub(crate) struct CachedDisk<'a> {
    pub(crate) line: &'a Line,
    pub(crate) hits: ReadHits,
    /// A write that exceeds the line by more than this had to wait for free space in the cache; seconds.
    pub(crate) stalled: f64,
    pub(crate) policy: DestagePolicy,
    /// The time of a run near to the arm, if it was measured; seconds.
    pub(crate) near: Option<f64>,
}

/// The times that a trace shows of a disk with a write cache; seconds.
pub(crate) struct CachedSamples {
    pub(crate) samples: Vec<Sample>,
    /// The time of durable writes beyond the line.
    pub(crate) durable: Vec<f64>,
    /// Times of single runs near to the arm.
    pub(crate) near: Vec<f64>,
}

/// The samples of a trace of a disk with a write cache.
pub(crate) fn cached(trace: &IsolatedTrace, disk: &CachedDisk<'_>) -> CachedSamples {
    let destaging = Destaging::new(disk.policy);
    let mut arm = ArmTracker { destaging, since: Timestamp::ZERO, destaged: Vec::new(), disk };
    let mut latest = LatestReads::default();
    let mut seen = CachedSamples { samples: Vec::new(), durable: Vec::new(), near: Vec::new() };
    for pair in served(trace).windows(2) {
        let (before, request) = (pair[0], pair[1]);
        if before.operation == Operation::Read {
            latest.add(before.end());
        }
        let sample = sample(before, request, &latest);
        let started = request.issued.max(before.completed);
        arm.destage_until(started);
        match request.operation {
            Operation::Read if disk.hits.is_hit(&sample) => seen.samples.push(sample),
            Operation::Write if request.durable => seen.durable.push(arm.durable_write(request, started)),
            Operation::Write => {
                let stalled = sample.time > disk.line.time(1, sample.sectors, 0) + disk.stalled;
                if stalled {
                    arm.stalled_write(request);
                } else {
                    seen.samples.push(sample);
                }
                arm.destaging.add(VmId(0), request.lba, request.end(), request.completed);
            }
            _ => match arm.read(sample, request, started) {
                Some(Sample {
                    time, destaged: [Some((_, 0..NEAR_SECTORS_BOUND)), None], sectors, distance, ..
                }) => {
                    seen.near.push(time - disk.line.time(0, sectors, distance));
                }
                Some(sample) if sample.destaged.iter().flatten().all(|run| run.1 >= NEAR_SECTORS_BOUND) => {
                    seen.samples.push(sample);
                }
                _ => {}
            },
        }
    }
    seen
}

/// The arm's position and work, followed through a trace.
struct ArmTracker<'a> {
    destaging: Destaging,
    /// The end of the arm's last idle time or request.
    since: Timestamp,
    /// The runs destaged since then: sectors and seek distance.
    destaged: Vec<(f64, u64)>,
    disk: &'a CachedDisk<'a>,
}

impl ArmTracker<'_> {
    fn begin(&mut self, at: Timestamp) {
        self.since = at;
        self.destaged.clear();
    }

    /// Destages the runs that the arm starts for before a request is served.
    fn destage_until(&mut self, started: Timestamp) {
        while let Some((run, at)) = self.destaging.oldest()
            && at < started
        {
            if at > self.destaging.free {
                self.begin(at);
            }
            let distance = self.destaging.arm.distance(run.start).count();
            self.destaged.push((run.sectors(), distance));
            let CachedDisk { line, near, .. } = *self.disk;
            let near = near.filter(|_| distance < NEAR_SECTORS_BOUND);
            self.destaging.destaged(at, nanos(near.unwrap_or_else(|| line.destage(run.sectors(), distance))));
        }
    }

    /// Serves a durable write. Returns the seconds by which it took longer than the line says.
    fn durable_write(&mut self, request: &TracedRequest, started: Timestamp) -> f64 {
        self.destage_until(Timestamp::from_ns(u64::MAX));
        let distance = self.destaging.arm.distance(request.lba).count();
        let expected = self.disk.line.time(0, f64::from(request.sectors), distance);
        let from = started.max(self.destaging.free);
        self.served(request);
        (request.completed.as_ns() as f64 - from.as_ns() as f64) / 1e9 - expected
    }

    /// Serves a read. Returns its sample with the real seek distance and the runs destaged before it; `None` if it is
    /// uncertain whether the arm was still destaging.
    fn read(&mut self, sample: Sample, request: &TracedRequest, started: Timestamp) -> Option<Sample> {
        let margin = nanos(self.disk.line.turn.unwrap_or(0.0) / 2.0);
        let free = self.destaging.free;
        let distance = self.destaging.arm.distance(request.lba).count();
        let sample = Sample { distance, ..sample };
        let known = if self.destaged.is_empty() || free.saturating_add(margin) < started {
            Some(sample)
        } else if free > started.saturating_add(margin) && self.destaged.len() <= DESTAGED_RUNS_MAX {
            let time = request.completed.saturating_since(self.since).as_s_f64();
            let destaged = std::array::from_fn(|index| self.destaged.get(index).copied());
            Some(Sample { time, destaged, idle: false, ..sample })
        } else {
            None
        };
        self.served(request);
        known
    }

    /// The arm has served a request.
    fn served(&mut self, request: &TracedRequest) {
        self.destaging.served(request.end(), request.completed);
        self.begin(self.destaging.free);
    }

    /// Serves a write that waited until a run was destaged and left free space in the cache.
    fn stalled_write(&mut self, request: &TracedRequest) {
        if let Some((_, at)) = self.destaging.oldest() {
            let acknowledged = nanos(self.disk.line.time(1, f64::from(request.sectors), 0));
            self.destaging.destaged(at, request.completed.saturating_since(at).saturating_sub(acknowledged));
            self.begin(self.destaging.free);
        }
    }
}

/// Seconds as a duration; negative ones are 0.
pub(crate) fn nanos(seconds: f64) -> Nanos {
    Nanos::from_ns((seconds.max(0.0) * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Sectors};

    use super::*;
    use crate::twin::device::disk::regression::{FarSeeks, line};

    #[test]
    fn samples_that_unseen_accesses_may_have_disturbed_are_left_out() {
        // Reads of 4 ms every 10 ms, the third of which waits for the second.
        let mut reads = trace(&[(Operation::Read, 0, 0.0, 4.0, false); 1]);
        for n in 1..6u64 {
            let (at, took) = if n == 3 { (22_000, 6000) } else { (n * 10_000, 4000) };
            reads
                .requests
                .push(TracedRequest { lba: Lba::new(n * 1000), ..TracedRequest::sent(Operation::Read, 0, at, took) });
        }
        let remaining = |unseen: &[f64], within: u64| {
            let at = |ms: &f64| Timestamp::from_ns((ms * 1e6) as u64);
            let unseen: Vec<Timestamp> = unseen.iter().map(at).collect();
            let samples = undisturbed(&reads, &unseen, Nanos::from_ms(within));
            samples.iter().map(|sample| sample.distance / 1000).collect::<Vec<_>>().len()
        };
        assert_eq!(remaining(&[], 5), 5);
        // An unseen access begins while the read at 40 ms is served, 3 ms before it, 7 ms before it, and after the last
        // read.
        let each = [42.0, 37.0, 33.0, 55.0].map(|ms| remaining(&[ms], 5));
        assert_eq!(each, [4, 4, 5, 5]);
        // The third read is served from 24 ms on, when the second completes. An access at 23 ms may disturb both, one
        // at 25 ms only the third.
        assert_eq!((remaining(&[25.0], 0), remaining(&[23.0], 5)), (4, 3));
    }

    /// A trace of requests: operation, address, issue and time in ms, and whether it is durable.
    fn trace(requests: &[(Operation, u64, f64, f64, bool)]) -> IsolatedTrace {
        let at = |ms: f64| Timestamp::from_ns((ms * 1e6) as u64);
        let each = |&(operation, lba, issued, took, durable): &(Operation, u64, f64, f64, bool)| TracedRequest {
            arrival: at(issued),
            issued: at(issued),
            completed: at(issued + took),
            lba: Lba::new(lba),
            durable,
            ..TracedRequest::sent(operation, 0, 0, 0)
        };
        IsolatedTrace { requests: requests.iter().map(each).collect(), ..IsolatedTrace::default() }
    }

    #[test]
    fn destaging_between_requests_is_part_of_their_samples() {
        let (read, write) = (Operation::Read, Operation::Write);
        // Reads of 6 to 10 ms, and writes of 1 ms.
        let plain = |n: u32| {
            let (operation, ms) = if n.is_multiple_of(2) { (read, 6.0 + f64::from(n % 5)) } else { (write, 1.0) };
            Sample { operation: operation as usize, ..Sample::read(100_000, ms) }
        };
        let samples: Vec<Sample> = (0..1000).map(plain).collect();
        let line = line(&samples, Sectors::new(17_000_000), FarSeeks::FromShortSeeks).unwrap();
        assert!(line.caches());
        let seen = |policy: DestagePolicy, requests: &[(Operation, u64, f64, f64, bool)]| {
            let disk = CachedDisk {
                line: &line,
                hits: ReadHits { bound: 1e-3, bare_bound: 1e-3, per_sector: 0.0 },
                stalled: 4e-3,
                policy,
                near: None,
            };
            cached(&trace(requests), &disk)
        };
        // The first read sets the position. Then come a write, a read, and at once another read, before which the write
        // is destaged.
        let begin = [(read, 0, 0.0, 8.0, false), (write, 500_000, 8.0, 1.0, false), (read, 100_000, 9.0, 8.0, false)];
        let requests = [&begin[..], &[(read, 200_000, 17.0, 16.0, false)]].concat();
        let samples = seen(DestagePolicy::AfterReads, &requests).samples;
        let runs = [Some((8.0, 500_000 - 100_008)), None];
        assert_eq!(samples.len(), 3);
        assert_eq!((samples[2].distance, samples[2].destaged), (500_008 - 200_000, runs));
        assert!((samples[2].time - 16e-3).abs() < 1e-8, "{}", samples[2].time);
        let samples = seen(DestagePolicy::WhenIdle, &requests).samples;
        assert_eq!((samples[2].distance, samples[2].destaged), (200_000 - 100_008, [None; DESTAGED_RUNS_MAX]));
        // After a long pause the arm is at the write's address. After a short pause its position is uncertain.
        let later = |ms: f64| [&begin[..], &[(read, 200_000, 17.0 + ms, 8.0, false)]].concat();
        let samples = seen(DestagePolicy::WhenIdle, &later(100.0)).samples;
        assert_eq!((samples[2].distance, samples[2].destaged), (500_008 - 200_000, [None; DESTAGED_RUNS_MAX]));
        assert_eq!(seen(DestagePolicy::WhenIdle, &later(line.destage(8.0, 399_992) * 1e3)).samples.len(), 2);
        // A durable write is served after the cached one and is no sample of the cache's time.
        let durable = [&begin[..], &[(write, 600_000, 17.0, 30.0, true)]].concat();
        let seen_durable = seen(DestagePolicy::AfterReads, &durable);
        let expected = line.destage(8.0, 399_992) + line.time(0, 8.0, 600_000 - 500_008);
        assert_eq!((seen_durable.samples.len(), seen_durable.durable.len()), (2, 1));
        assert!((seen_durable.durable[0] - (30e-3 - expected)).abs() < 1e-6, "{:?}", seen_durable.durable);
        // A write that waits for free space is no sample either; one run before it is destaged.
        let full = |n: u32| (write, 500_100 + 100 * u64::from(n), 9.0 + 8.0 * f64::from(n), 8.0, false);
        let stalled = [&begin[..2], &[full(0), full(1), (read, 200_000, 25.0, 8.0, false)]].concat();
        let stalled = seen(DestagePolicy::AfterReads, &stalled);
        let of = |sample: &Sample| (sample.operation, sample.distance);
        assert_eq!(stalled.samples.iter().map(of).collect::<Vec<_>>(), [(1, 499_992), (0, 500_108 - 200_000)]);
        // A single run near to the arm gives the time of near runs.
        let near = [&begin[..1], &[(read, 1000, 8.0, 8.0, false), (write, 1100, 16.0, 1.0, false)]].concat();
        let near = [&near[..], &[(read, 1200, 17.0, 8.0, false), (read, 300_000, 25.0, 12.0, false)]].concat();
        let near = seen(DestagePolicy::AfterReads, &near);
        assert_eq!((near.samples.len(), near.near.len()), (3, 1));
        assert!((near.near[0] - (12e-3 - line.time(0, 8.0, 300_000 - 1108))).abs() < 1e-6, "{:?}", near.near);
    }
}
