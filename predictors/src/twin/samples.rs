//! Service times as a recording of a machine alone shows them.
//!
//! The request that completes next has been served from the completion before it, or from its own issue if that was later. Where a cache
//! acknowledges writes ([`super::destage`]), the arm may be busy with these then, or have been elsewhere: what it does is followed through
//! the recording, with the times that a first fit says it takes.

use traces::{Lba, Nanos, Operation, Timestamp, VmId};

use super::destage::{Destaging, Empties};
use super::line::{DESTAGED_MOST, Line, NEAR, Sample};
use super::recording::{Recorded, Recording};

/// A read that begins at most so many sectors behind a latest read may be in the cache.
const AHEAD: u64 = 512;
/// So many latest reads of each machine are remembered, as many as drives have segments.
const READS: usize = 64;

/// The service times of a machine alone on a device that is done with a write when it is on the platter.
pub(super) fn samples(recording: &Recording) -> Vec<Sample> {
    let mut latest = Reads::default();
    let each = |(before, request): (&Recorded, &Recorded)| {
        if before.operation == Operation::Read {
            latest.add(before.end());
        }
        sample(before, request, &latest)
    };
    served(recording).windows(2).map(|pair| (pair[0], pair[1])).map(each).collect()
}

/// Those that move data, as they were served.
fn served(recording: &Recording) -> Vec<&Recorded> {
    let mut served: Vec<&Recorded> = recording.moving().collect();
    served.sort_by_key(|request| (request.completed, request.issued, request.lba));
    served
}

fn sample(before: &Recorded, request: &Recorded, latest: &Reads) -> Sample {
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
pub(super) struct Caching<'a> {
    pub(super) line: &'a Line,
    /// A read behind a latest one that takes less is in the cache.
    pub(super) hit: f64,
    /// A write that takes so much longer than the line says had to wait for room.
    pub(super) stalled: f64,
    pub(super) empties: Empties,
    /// What a run takes that lies near to where the arm is, if that was seen; seconds.
    pub(super) near: Option<f64>,
}

/// What a recording shows of such a device; times are seconds.
pub(super) struct Seen {
    pub(super) samples: Vec<Sample>,
    /// What writes that were to be on the platter took longer than the line says.
    pub(super) durable: Vec<f64>,
    /// What single runs near to where the arm was took.
    pub(super) near: Vec<f64>,
}

/// What a recording shows of such a device.
pub(super) fn cached(recording: &Recording, caching: &Caching<'_>) -> Seen {
    let destaging = Destaging::new(caching.empties);
    let mut followed = Followed { destaging, began: Timestamp::ZERO, destaged: Vec::new(), known: false, caching };
    let mut latest = Reads::default();
    let mut seen = Seen { samples: Vec::new(), durable: Vec::new(), near: Vec::new() };
    for pair in served(recording).windows(2) {
        let (before, request) = (pair[0], pair[1]);
        if before.operation == Operation::Read {
            latest.add(before.end());
        }
        let sample = sample(before, request, &latest);
        let started = request.issued.max(before.completed);
        followed.until(started);
        match request.operation {
            Operation::Read if sample.follows && sample.time < caching.hit => seen.samples.push(sample),
            Operation::Write if request.durable => seen.durable.push(followed.durable(request, started)),
            Operation::Write => {
                let stalled = sample.time > caching.line.time(1, sample.sectors, 0) + caching.stalled;
                if stalled {
                    seen.near.extend(followed.made_room(request));
                } else {
                    seen.samples.push(sample);
                }
                followed.destaging.take(VmId(0), request.lba, request.end(), request.completed);
            }
            _ => match followed.read(sample, request, started) {
                Some(Sample { time, destaged: [Some((_, 0..NEAR)), None], sectors, distance, .. }) => {
                    seen.near.push(time - caching.line.time(0, sectors, distance));
                }
                told => {
                    seen.samples.extend(told.filter(|sample| sample.destaged.iter().flatten().all(|run| run.1 >= NEAR)))
                }
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
    /// Whether it has been free when that is thought, since that was seen.
    known: bool,
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
            self.known = false;
            let Caching { line, near, .. } = *self.caching;
            let near = near.filter(|_| distance < NEAR);
            self.destaging.put(at, nanos(near.unwrap_or_else(|| line.destage(run.sectors(), distance))));
        }
    }

    /// By how many seconds a write that is to be on the platter was there later than expected.
    fn durable(&mut self, request: &Recorded, started: Timestamp) -> f64 {
        self.until(Timestamp::from_ns(u64::MAX));
        let distance = self.destaging.arm.distance(request.lba).count();
        let expected = self.caching.line.time(0, f64::from(request.sectors), distance);
        let from = started.max(self.destaging.free);
        self.moved(request);
        (request.completed.as_ns() as f64 - from.as_ns() as f64) / 1e9 - expected
    }

    /// Gives the time of a read from when the arm was known to be where, if it is.
    fn read(&mut self, sample: Sample, request: &Recorded, started: Timestamp) -> Option<Sample> {
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

    fn moved(&mut self, request: &Recorded) {
        self.destaging.served(request.end(), request.completed);
        self.begin(self.destaging.free);
        self.known = true;
    }

    /// A write has waited until something was on the platter. Gives how many seconds that took, if the arm went to it at once and it was
    /// near.
    fn made_room(&mut self, request: &Recorded) -> Option<f64> {
        let (run, at) = self.destaging.oldest()?;
        let at_once = at == self.destaging.free && self.known;
        let near = self.destaging.arm.distance(run.start).count() < NEAR;
        let acknowledged = nanos(self.caching.line.time(1, f64::from(request.sectors), 0));
        let took = request.completed.saturating_since(at).saturating_sub(acknowledged);
        self.destaging.put(at, took);
        self.begin(self.destaging.free);
        self.known = true;
        (at_once && near).then(|| took.as_s_f64())
    }
}

/// Nothing of less than none.
pub(super) fn nanos(seconds: f64) -> Nanos {
    Nanos::from_ns((seconds.max(0.0) * 1e9) as u64)
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
