//! Service times as a recording of a machine alone shows them.
//!
//! The request that completes next has been served from the completion before it, or from its own issue if that was later. Where a cache
//! acknowledges writes ([`super::destage`]), the arm may be busy with these then, or have been elsewhere: what it does is followed through
//! the recording, with the times that a first fit says it takes.

use traces::{Nanos, Operation, Timestamp, VmId};

use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::twin::device::disk::destage::{Destaging, Empties};
use crate::twin::device::disk::read_hits::ReadHits;
use crate::twin::device::disk::regression::{DESTAGED_MOST, Line, NEAR, Sample};
use crate::twin::device::latest_reads::LatestReads;

/// The service times of a machine alone on a device that is done with a write when it is on the platter.
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

/// The same, without those that others may have been served before or instead: some that the recording does not show were sent at these
/// times, none longer than so long before it was done.
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

/// Those that move data, as they were served.
fn served(trace: &IsolatedTrace) -> Vec<&TracedRequest> {
    let mut served: Vec<&TracedRequest> = trace.moving().collect();
    served.sort_by_key(|request| (request.completed, request.issued, request.lba));
    served
}

fn sample(before: &TracedRequest, request: &TracedRequest, latest: &LatestReads) -> Sample {
    Sample {
        operation: request.operation as usize,
        sectors: f64::from(request.sectors),
        distance: before.end().distance(request.lba).count(),
        idle: request.issued > before.completed,
        follows: request.operation == Operation::Read && latest.followed_by(request.lba),
        durable: request.durable,
        time: request.completed.saturating_since(request.issued.max(before.completed)).as_s_f64(),
        destaged: [None; DESTAGED_MOST],
    }
}

/// A device whose cache acknowledges writes, as it was fitted first.
pub(crate) struct Caching<'a> {
    pub(crate) line: &'a Line,
    pub(crate) hits: ReadHits,
    /// A write that takes so much longer than the line says had to wait for room.
    pub(crate) stalled: f64,
    pub(crate) empties: Empties,
    /// What a run takes that lies near to where the arm is, if that was seen; seconds.
    pub(crate) near: Option<f64>,
}

/// What a recording shows of such a device; times are seconds.
pub(crate) struct Seen {
    pub(crate) samples: Vec<Sample>,
    /// What writes that were to be on the platter took longer than the line says.
    pub(crate) durable: Vec<f64>,
    /// What single runs near to where the arm was took.
    pub(crate) near: Vec<f64>,
}

/// What a recording shows of such a device.
pub(crate) fn cached(trace: &IsolatedTrace, caching: &Caching<'_>) -> Seen {
    let destaging = Destaging::new(caching.empties);
    let mut followed = Followed { destaging, began: Timestamp::ZERO, destaged: Vec::new(), caching };
    let mut latest = LatestReads::default();
    let mut seen = Seen { samples: Vec::new(), durable: Vec::new(), near: Vec::new() };
    for pair in served(trace).windows(2) {
        let (before, request) = (pair[0], pair[1]);
        if before.operation == Operation::Read {
            latest.add(before.end());
        }
        let sample = sample(before, request, &latest);
        let started = request.issued.max(before.completed);
        followed.until(started);
        match request.operation {
            Operation::Read if caching.hits.is(&sample) => seen.samples.push(sample),
            Operation::Write if request.durable => seen.durable.push(followed.durable(request, started)),
            Operation::Write => {
                let stalled = sample.time > caching.line.time(1, sample.sectors, 0) + caching.stalled;
                if stalled {
                    followed.made_room(request);
                } else {
                    seen.samples.push(sample);
                }
                followed.destaging.take(VmId(0), request.lba, request.end(), request.completed);
            }
            _ => match followed.read(sample, request, started) {
                Some(Sample { time, destaged: [Some((_, 0..NEAR)), None], sectors, distance, .. }) => {
                    seen.near.push(time - caching.line.time(0, sectors, distance));
                }
                Some(sample) if sample.destaged.iter().flatten().all(|run| run.1 >= NEAR) => seen.samples.push(sample),
                _ => {}
            },
        }
    }
    seen
}

/// What the arm does in the course of a recording.
struct Followed<'a> {
    destaging: Destaging,
    /// When it was idle last, or done with a request.
    began: Timestamp,
    /// What it has put on the platter since.
    destaged: Vec<(f64, u64)>,
    caching: &'a Caching<'a>,
}

impl Followed<'_> {
    fn begin(&mut self, at: Timestamp) {
        self.began = at;
        self.destaged.clear();
    }

    /// What it does by itself before a request is served.
    fn until(&mut self, started: Timestamp) {
        while let Some((run, at)) = self.destaging.oldest()
            && at < started
        {
            if at > self.destaging.free {
                self.begin(at);
            }
            let distance = self.destaging.arm.distance(run.start).count();
            self.destaged.push((run.sectors(), distance));
            let Caching { line, near, .. } = *self.caching;
            let near = near.filter(|_| distance < NEAR);
            self.destaging.put(at, nanos(near.unwrap_or_else(|| line.destage(run.sectors(), distance))));
        }
    }

    /// By how many seconds a write that is to be on the platter was there later than expected.
    fn durable(&mut self, request: &TracedRequest, started: Timestamp) -> f64 {
        self.until(Timestamp::from_ns(u64::MAX));
        let distance = self.destaging.arm.distance(request.lba).count();
        let expected = self.caching.line.time(0, f64::from(request.sectors), distance);
        let from = started.max(self.destaging.free);
        self.moved(request);
        (request.completed.as_ns() as f64 - from.as_ns() as f64) / 1e9 - expected
    }

    /// Gives the time of a read from when the arm was known to be where, if it is.
    fn read(&mut self, sample: Sample, request: &TracedRequest, started: Timestamp) -> Option<Sample> {
        let margin = nanos(self.caching.line.turn.unwrap_or(0.0) / 2.0);
        let free = self.destaging.free;
        let distance = self.destaging.arm.distance(request.lba).count();
        let sample = Sample { distance, ..sample };
        let told = if self.destaged.is_empty() || free.saturating_add(margin) < started {
            Some(sample)
        } else if free > started.saturating_add(margin) && self.destaged.len() <= DESTAGED_MOST {
            let time = request.completed.saturating_since(self.began).as_s_f64();
            let destaged = std::array::from_fn(|index| self.destaged.get(index).copied());
            Some(Sample { time, destaged, idle: false, ..sample })
        } else {
            None
        };
        self.moved(request);
        told
    }

    fn moved(&mut self, request: &TracedRequest) {
        self.destaging.served(request.end(), request.completed);
        self.begin(self.destaging.free);
    }

    /// A write has waited until something was on the platter.
    fn made_room(&mut self, request: &TracedRequest) {
        if let Some((_, at)) = self.destaging.oldest() {
            let acknowledged = nanos(self.caching.line.time(1, f64::from(request.sectors), 0));
            self.destaging.put(at, request.completed.saturating_since(at).saturating_sub(acknowledged));
            self.begin(self.destaging.free);
        }
    }
}

/// Nothing of less than none.
pub(crate) fn nanos(seconds: f64) -> Nanos {
    Nanos::from_ns((seconds.max(0.0) * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Sectors};

    use super::*;
    use crate::twin::device::disk::regression::{Further, line};

    #[test]
    fn what_something_unseen_may_have_disturbed_tells_nothing() {
        // Reads of 4 ms every 10 ms, the third of which waits for the second.
        let mut reads = trace(&[(Operation::Read, 0, 0.0, 4.0, false); 1]);
        for n in 1..6u64 {
            let (at, took) = if n == 3 { (22_000, 6000) } else { (n * 10_000, 4000) };
            reads
                .requests
                .push(TracedRequest { lba: Lba::new(n * 1000), ..TracedRequest::sent(Operation::Read, 0, at, took) });
        }
        let told = |unseen: &[f64], within: u64| {
            let at = |ms: &f64| Timestamp::from_ns((ms * 1e6) as u64);
            let unseen: Vec<Timestamp> = unseen.iter().map(at).collect();
            let samples = undisturbed(&reads, &unseen, Nanos::from_ms(within));
            samples.iter().map(|sample| sample.distance / 1000).collect::<Vec<_>>().len()
        };
        assert_eq!(told(&[], 5), 5);
        // IdMap while the one at 40 ms is served, 3 ms before it, and 7 ms before it; and after the last.
        assert_eq!((told(&[42.0], 5), told(&[37.0], 5), told(&[33.0], 5), told(&[55.0], 5)), (4, 4, 5, 5));
        // The third is served from 24 ms on, when the second is done, which one sent then disturbs no more.
        assert_eq!((told(&[25.0], 0), told(&[23.0], 5)), (4, 3));
    }

    /// One request after another, at milliseconds, of so many.
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
    fn what_the_arm_does_between_requests_is_in_their_times() {
        let (read, write) = (Operation::Read, Operation::Write);
        // Reads of 6 to 10 ms, and writes of 1 ms.
        let plain = |n: u32| {
            let (operation, ms) = if n.is_multiple_of(2) { (read, 6.0 + f64::from(n % 5)) } else { (write, 1.0) };
            Sample { operation: operation as usize, ..Sample::read(100_000, ms) }
        };
        let samples: Vec<Sample> = (0..1000).map(plain).collect();
        let line = line(&samples, Sectors::new(17_000_000), Further::AsShort).unwrap();
        assert!(line.caches());
        let seen = |empties: Empties, requests: &[(Operation, u64, f64, f64, bool)]| {
            let caching = Caching {
                line: &line,
                hits: ReadHits { most: 1e-3, most_bare: 1e-3, per_sector: 0.0 },
                stalled: 4e-3,
                empties,
                near: None,
            };
            cached(&trace(requests), &caching)
        };
        // The first is where all begins. A write, a read, and at once another, before which the write comes to the platter.
        let begin = [(read, 0, 0.0, 8.0, false), (write, 500_000, 8.0, 1.0, false), (read, 100_000, 9.0, 8.0, false)];
        let requests = [&begin[..], &[(read, 200_000, 17.0, 16.0, false)]].concat();
        let samples = seen(Empties::AfterReads, &requests).samples;
        let runs = [Some((8.0, 500_000 - 100_008)), None];
        assert_eq!(samples.len(), 3);
        assert_eq!((samples[2].distance, samples[2].destaged), (500_008 - 200_000, runs));
        assert!((samples[2].time - 16e-3).abs() < 1e-8, "{}", samples[2].time);
        let samples = seen(Empties::WhenIdle, &requests).samples;
        assert_eq!((samples[2].distance, samples[2].destaged), (200_000 - 100_008, [None; DESTAGED_MOST]));
        // After a pause the arm is where the write was; shortly after it, nobody knows.
        let later = |ms: f64| [&begin[..], &[(read, 200_000, 17.0 + ms, 8.0, false)]].concat();
        let samples = seen(Empties::WhenIdle, &later(100.0)).samples;
        assert_eq!((samples[2].distance, samples[2].destaged), (500_008 - 200_000, [None; DESTAGED_MOST]));
        assert_eq!(seen(Empties::WhenIdle, &later(line.destage(8.0, 399_992) * 1e3)).samples.len(), 2);
        // A write that is to be on the platter goes behind the other, and is no sample of what the cache takes.
        let durable = [&begin[..], &[(write, 600_000, 17.0, 30.0, true)]].concat();
        let seen_durable = seen(Empties::AfterReads, &durable);
        let expected = line.destage(8.0, 399_992) + line.time(0, 8.0, 600_000 - 500_008);
        assert_eq!((seen_durable.samples.len(), seen_durable.durable.len()), (2, 1));
        assert!((seen_durable.durable[0] - (30e-3 - expected)).abs() < 1e-6, "{:?}", seen_durable.durable);
        // Nor is one that has to wait for room, until one before it is on the platter.
        let full = |n: u32| (write, 500_100 + 100 * u64::from(n), 9.0 + 8.0 * f64::from(n), 8.0, false);
        let stalled = [&begin[..2], &[full(0), full(1), (read, 200_000, 25.0, 8.0, false)]].concat();
        let stalled = seen(Empties::AfterReads, &stalled);
        let of = |sample: &Sample| (sample.operation, sample.distance);
        assert_eq!(stalled.samples.iter().map(of).collect::<Vec<_>>(), [(1, 499_992), (0, 500_108 - 200_000)]);
        // A single run near to where the arm was tells what such take.
        let near = [&begin[..1], &[(read, 1000, 8.0, 8.0, false), (write, 1100, 16.0, 1.0, false)]].concat();
        let near = [&near[..], &[(read, 1200, 17.0, 8.0, false), (read, 300_000, 25.0, 12.0, false)]].concat();
        let near = seen(Empties::AfterReads, &near);
        assert_eq!((near.samples.len(), near.near.len()), (3, 1));
        assert!((near.near[0] - (12e-3 - line.time(0, 8.0, 300_000 - 1108))).abs() < 1e-6, "{:?}", near.near);
    }
}
