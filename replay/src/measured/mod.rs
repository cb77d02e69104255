//! Judges a drive model against the service times that a real drive was measured with, request by request. The model is
//! run as a closed loop, as in DiskSim's validation, and on the measured time line, where the phase of every request is
//! known.

mod timeline;

use drive_models::DriveError;
use drive_models::calibration::Measurement;
use drive_models::calibration::goodness::{closed_loop, distance};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::SCHEMA_VERSION;
use traces::results::drive::{Distance, DriveValidation, Empirical};
use traces::spec::Spec;
use traces::trace::ThinkTime;
use traces::{Nanos, Record};

use timeline::Errors;

/// The number of repetitions of everything that depends on chance.
const DRAWS: u32 = 20;
/// Seed of the random draws.
const SEED: u64 = 0x1994_0301;

/// Why a drive cannot be judged by a trace.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// The drive cannot be built.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The trace holds no request.
    #[error("the trace holds no request: give one with issue and completion times, such as a disksim-validate file")]
    Empty,
    /// A request has no issue or no completion time.
    #[error(
        "request {nth} has no issue or completion time: a drive is judged against measured service times, such as \
         those of a disksim-validate file"
    )]
    NotMeasured {
        /// The number of the request, from 1.
        nth: u64,
    },
    /// Requests overlap.
    #[error(
        "request {nth} was issued before the one ahead had completed: service times can only be \
         measured with one request at a time"
    )]
    Overlap {
        /// The number of the request, from 1.
        nth: u64,
    },
    /// The trace reaches beyond the drive.
    #[error("request {nth} ends at sector {end}, but the drive has {capacity}: is it the right profile?")]
    Beyond {
        /// The number of the request, from 1.
        nth: u64,
        /// The sector at which the request ends.
        end: u64,
        /// The drive's capacity.
        capacity: u64,
    },
}

/// A judgement and the times that it is based on.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The judgement.
    pub result: DriveValidation,
    /// The measurements that the drive was judged against.
    pub measured: Measurements,
    /// The service times of the model in the closed loop.
    pub closed_loop: Vec<Nanos>,
    /// The service times of the model on the measured time line, for a drive with a phase.
    pub time_line: Option<Vec<Nanos>>,
}

impl Judged {
    /// Of two readings of one trace, returns the one on whose time line the model is nearer to the measurements.
    /// Without a phase it returns this one.
    #[must_use]
    pub fn or_nearer(self, other: Judged) -> Judged {
        let error = |judged: &Judged| judged.result.per_request.map(|one| one.mean_abs_error_ns);
        match (error(&self), error(&other)) {
            (Some(here), Some(there)) if there < here => other,
            _ => self,
        }
    }
}

/// The measurements of a trace, one request after the other.
#[derive(Clone, Debug, Default)]
pub struct Measurements(Vec<Measurement>);

impl Measurements {
    /// Adds one request.
    ///
    /// # Errors
    /// The request has no issue or completion time, or it overlaps with the one before.
    pub fn push(&mut self, record: &Record) -> Result<(), MeasuredError> {
        let nth = self.0.len() as u64 + 1;
        let (Some(issued), Some(completed)) = (record.observed.issued, record.observed.completed) else {
            return Err(MeasuredError::NotMeasured { nth });
        };
        let service = completed.checked_since(issued).ok_or(MeasuredError::NotMeasured { nth })?;
        if self.0.last().is_some_and(|last| last.issued.saturating_add(last.service) > issued) {
            return Err(MeasuredError::Overlap { nth });
        }
        self.0.push(Measurement { request: record.request, issued, service });
        Ok(())
    }

    /// The measurements, in the order of the trace.
    pub fn all(&self) -> &[Measurement] {
        &self.0
    }

    fn services(&self) -> Vec<Nanos> {
        self.0.iter().map(|measured| measured.service).collect()
    }

    /// Judges the drive that `spec` names; `think_time` is the way in which the trace was read.
    ///
    /// # Errors
    /// The drive cannot be built, or the trace is empty or reaches beyond the drive.
    pub fn judge(self, spec: &Spec, think_time: Option<ThinkTime>) -> Result<Judged, MeasuredError> {
        let measured = self.services();
        let mut drive = drive_models::build(spec)?.drive;
        let capacity = drive.capacity().count();
        if let Some(nth) = self.0.iter().position(|m| m.request.end().sector() > capacity) {
            let end = self.0[nth].request.end().sector();
            return Err(MeasuredError::Beyond { nth: nth as u64 + 1, end, capacity });
        }
        let mean = mean(&measured).ok_or(MeasuredError::Empty)?;
        let ours = closed_loop(&self.0, &mut *drive);
        let mechanical = drive_models::build_mechanical(spec)?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let floor = match &mechanical {
            Some(drive) => Some(self.floor(spec, drive.rotation().period_ps() / 1000, mean, &mut random)?),
            None => None,
        };
        let (per_request, time_line) = match mechanical.map(|drive| timeline::fit(&self.0, &drive, mean)) {
            Some((per_request, times)) => (Some(per_request), Some(times)),
            None => (None, None),
        };
        let result = DriveValidation {
            schema_version: SCHEMA_VERSION,
            drive: spec.without_folders().to_string(),
            think_time,
            requests: measured.len() as u64,
            measured_mean_ns: Nanos::from_ns(mean.round() as u64),
            model_mean_ns: Nanos::from_ns(self::mean(&ours).unwrap_or(0.0).round() as u64),
            closed_loop: distance(&measured, &ours, mean),
            floor,
            per_request,
            empirical: empirical(&measured, mean, &mut random),
        };
        Ok(Judged { result, measured: self, closed_loop: ours, time_line })
    }

    fn floor(
        &self,
        spec: &Spec,
        period_ns: u64,
        mean: f64,
        random: &mut Xoshiro256PlusPlus,
    ) -> Result<Distance, MeasuredError> {
        let mut total = 0.0;
        for _ in 0..DRAWS {
            let mut run = || -> Result<Vec<Nanos>, MeasuredError> {
                let mut started = spec.clone();
                started.given.retain(|(key, _)| key != "phase");
                started.given.push(("phase".to_owned(), format!("{}ns", random.random_range(0..period_ns))));
                Ok(closed_loop(&self.0, &mut *drive_models::build(&started)?.drive))
            };
            let (one, other) = (run()?, run()?);
            total += distance(&one, &other, mean).rms_ns;
        }
        let rms_ns = total / f64::from(DRAWS);
        Ok(Distance { rms_ns, relative_rms: rms_ns / mean })
    }
}

/// The mean in ns; `None` if there are no times or all are zero.
fn mean(times: &[Nanos]) -> Option<f64> {
    let total: u64 = times.iter().fold(0, |sum, time| sum.saturating_add(time.as_ns()));
    (total > 0).then(|| total as f64 / times.len() as f64)
}

fn empirical(measured: &[Nanos], mean: f64, random: &mut Xoshiro256PlusPlus) -> Empirical {
    let mut total = Empirical {
        distance: Distance { rms_ns: 0.0, relative_rms: 0.0 },
        mean_abs_error_ns: 0.0,
        within_250us: 0.0,
        within_250us_or_5pct: 0.0,
        within_1ms: 0.0,
    };
    for _ in 0..DRAWS {
        let drawn: Vec<Nanos> = measured.iter().map(|_| measured[random.random_range(0..measured.len())]).collect();
        let off = distance(measured, &drawn, mean);
        let errors = Errors::between(measured, &drawn, mean, u64::MAX);
        total.distance.rms_ns += off.rms_ns / f64::from(DRAWS);
        total.distance.relative_rms += off.relative_rms / f64::from(DRAWS);
        total.mean_abs_error_ns += errors.mean_abs / f64::from(DRAWS);
        total.within_250us += errors.within_250us / f64::from(DRAWS);
        total.within_250us_or_5pct += errors.within_250us_or_5pct / f64::from(DRAWS);
        total.within_1ms += errors.within_1ms / f64::from(DRAWS);
    }
    total
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
