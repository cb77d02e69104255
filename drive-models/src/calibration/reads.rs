//! Reads for which the position of the read before is known: random reads of a device, or those reads of a trace that
//! had the device to themselves. Also their two halves.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Nanos, Operation, Record, Sectors, Timestamp};

use super::served::{IssueOrder, ServedRequest};
use super::{DeviceError, MeasuredDevice, Measurement};
use crate::empirical::EmpiricalFit;

/// Fewest reads that are fitted, so that each half can distinguish a line from chance.
pub const READS_MIN: usize = 200;
/// Bytes of a random read: the paper's page.
const PAGE_BYTES: u64 = 4096;

/// Why nothing can be fitted.
#[derive(Debug, thiserror::Error)]
pub enum ReadsError {
    /// Too few.
    #[error(
        "{usable} of {seen} requests are reads with a known time that had the device to themselves; a fit needs {READS_MIN}: \
         give a trace with issue or arrival and completion times and little queueing"
    )]
    TooFew {
        /// Reads that could be used.
        usable: usize,
        /// Requests seen.
        seen: u64,
    },
    /// The device is too small for random reads.
    #[error("it holds {sectors} sectors: too few for reads of {PAGE_BYTES} bytes at random places")]
    TooSmall {
        /// Its capacity.
        sectors: u64,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// One read that can be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its place among the measurements.
    pub index: usize,
    /// Where the one before ended.
    pub from: Lba,
    /// From there to its start.
    pub distance: Sectors,
    /// What it took.
    pub time: Nanos,
    /// Whether it is in the half that is fitted; the other half judges.
    pub fitted: bool,
}

/// Measurements in order, and those among them that can be fitted.
#[derive(Clone, Debug, Default)]
pub struct CalibrationReads {
    /// In the order of time; the ones between the points are there for where they leave the arm.
    pub measurements: Vec<Measurement>,
    /// What can be fitted.
    pub points: Vec<Point>,
    /// The times of the fitted half of all that was completed, queued or not.
    pub served: EmpiricalFit,
    /// Requests that were looked at.
    pub seen: u64,
}

impl CalibrationReads {
    /// The distances and times of one half.
    pub fn half(&self, fitted: bool) -> Vec<(Sectors, Nanos)> {
        let half = self.points.iter().filter(|point| point.fitted == fitted);
        half.map(|point| (point.distance, point.time)).collect()
    }

    /// The end of the furthest request.
    pub fn furthest(&self) -> Sectors {
        let ends = self.measurements.iter().map(|measured| measured.request.end().sector());
        Sectors::new(ends.max().unwrap_or(0))
    }

    fn add(&mut self, from: Lba, measured: Measurement) {
        let point = Point {
            index: self.measurements.len(),
            from,
            distance: from.distance(measured.request.lba),
            time: measured.service,
            fitted: false,
        };
        self.points.push(point);
        self.measurements.push(measured);
    }

    /// Puts half of the points, drawn with `seed`, into the half that is fitted.
    fn split(mut self, seed: u64) -> Result<CalibrationReads, ReadsError> {
        if self.points.len() < READS_MIN {
            return Err(ReadsError::TooFew { usable: self.points.len(), seen: self.seen });
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        shuffle(&mut order, &mut random);
        for &index in &order[..order.len() / 2] {
            self.points[index].fitted = true;
        }
        for point in self.points.iter().filter(|point| point.fitted) {
            self.served.add(&self.measurements[point.index].request, point.distance, point.time, 0);
        }
        Ok(self)
    }
}

/// Fisher and Yates: every order is as likely.
pub(super) fn shuffle<T>(items: &mut [T], random: &mut Xoshiro256PlusPlus) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.random_range(0..=last));
    }
}

/// Random page reads, as Geist et al. 2010 took them: one after another, each at a random page.
#[derive(Clone, Copy, Debug)]
pub struct RandomReads {
    /// How many, not counting a first one that only brings the arm to a known place.
    pub reads: u64,
    /// Seed of the places and of the halves.
    pub seed: u64,
}

impl RandomReads {
    /// Reads.
    ///
    /// # Errors
    /// A device that fails or is too small.
    pub fn measure(self, device: &mut dyn MeasuredDevice) -> Result<CalibrationReads, ReadsError> {
        let page = Sectors::holding(PAGE_BYTES).count().next_multiple_of(device.granule().count().max(1));
        let pages = device.capacity().count() / page;
        if pages < 2 * READS_MIN as u64 {
            return Err(ReadsError::TooSmall { sectors: device.capacity().count() });
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut reads = CalibrationReads::default();
        let mut from = None;
        for _ in 0..=self.reads {
            let lba = Lba::new(random.random_range(0..pages) * page);
            let measured = device.read(Timestamp::ZERO, lba, Sectors::new(page))?;
            match from {
                Some(from) => reads.add(from, measured),
                None => reads.measurements.push(measured),
            }
            from = Some(measured.request.end());
            reads.seen += 1;
        }
        reads.split(self.seed)
    }
}

/// Takes the requests of a trace in the order of their arrival and keeps the reads that had the device to themselves.
/// These were issued when nothing else was there, and completed before anything else was issued. Only of those is it
/// known how long they were served and from where the arm came. A trace without issue times counts from arrival.
///
/// Of all other completed requests half are drawn for [`CalibrationReads::served`].
#[derive(Debug)]
pub struct TraceReads {
    reads: CalibrationReads,
    seed: u64,
    /// Which of the other requests are fitted.
    random: Xoshiro256PlusPlus,
    order: IssueOrder,
    /// Until when the device had something to do.
    busy_until: Timestamp,
    /// The one that completed last, and whether it is among the measurements.
    last: Option<(Measurement, bool)>,
    /// One that has had the device to itself so far, with the one before.
    candidate: Option<ReadCandidate>,
    untimed: u64,
}

#[derive(Clone, Copy, Debug)]
struct ReadCandidate {
    nth: u64,
    measured: Measurement,
    before: (Measurement, bool),
    /// The same once it was issued, in case that it is none.
    served: Option<ServedRequest>,
}

impl TraceReads {
    /// Nothing taken yet; `seed` is that of the halves.
    pub fn new(seed: u64) -> TraceReads {
        TraceReads {
            reads: CalibrationReads::default(),
            seed,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            order: IssueOrder::default(),
            busy_until: Timestamp::ZERO,
            last: None,
            candidate: None,
            untimed: 0,
        }
    }

    /// Takes one more request.
    pub fn push(&mut self, record: &Record) {
        self.reads.seen += 1;
        let request = record.request;
        self.issue(request.arrival);
        let issued = record.observed.issued.unwrap_or(request.arrival);
        if let Some(candidate) = self.candidate {
            let completed = candidate.measured.issued.saturating_add(candidate.measured.service);
            if issued < completed {
                self.refute();
            } else if request.arrival >= completed {
                self.confirm();
            }
        }
        let Some(service) = record.observed.completed.and_then(|completed| completed.checked_since(issued)) else {
            // Nobody knows until when it was served, so nothing is known of the arm either.
            (self.untimed, self.last) = (self.untimed + 1, None);
            self.refute();
            return;
        };
        let nth = self.reads.seen;
        let measured = Measurement { request, issued, service };
        self.order.push(nth, measured);
        let alone = issued >= self.busy_until && self.candidate.is_none();
        let before = self.last;
        if issued.saturating_add(service) >= self.busy_until && request.operation != Operation::Flush {
            self.last = Some((measured, false));
        }
        self.busy_until = self.busy_until.max(issued.saturating_add(service));
        if let Some(before) = before.filter(|_| alone && request.operation == Operation::Read) {
            self.candidate = Some(ReadCandidate { nth, measured, before, served: None });
        }
    }

    /// How many reads can be used so far.
    pub fn usable(&self) -> usize {
        self.reads.points.len()
    }

    /// How many requests had no completion time.
    pub fn untimed(&self) -> u64 {
        self.untimed
    }

    /// Deals with what is issued up to `now`, but for a candidate, which must be known to be none.
    fn issue(&mut self, now: Timestamp) {
        while let Some((nth, served)) = self.order.pop(now) {
            match &mut self.candidate {
                Some(candidate) if candidate.nth == nth => candidate.served = Some(served),
                _ => self.draw(served),
            }
        }
    }

    /// Takes every other request on average.
    fn draw(&mut self, ServedRequest { measured, distance, queue_length }: ServedRequest) {
        if self.random.random::<bool>() {
            self.reads.served.add(&measured.request, distance, measured.service, queue_length);
        }
    }

    /// The candidate was not alone.
    fn refute(&mut self) {
        if let Some(served) = self.candidate.take().and_then(|candidate| candidate.served) {
            self.draw(served);
        }
    }

    fn confirm(&mut self) {
        let Some(ReadCandidate { measured, before: (before, kept), .. }) = self.candidate.take() else { return };
        if !kept {
            self.reads.measurements.push(before);
        }
        self.reads.add(before.request.end(), measured);
        if let Some((last, kept)) = &mut self.last
            && last.issued == measured.issued
            && last.request.lba == measured.request.lba
        {
            *kept = true;
        }
    }

    /// All of it, in two halves.
    ///
    /// # Errors
    /// Too few reads that can be used.
    pub fn finish(mut self) -> Result<CalibrationReads, ReadsError> {
        self.issue(Timestamp::MAX);
        self.confirm();
        self.reads.split(self.seed)
    }
}
