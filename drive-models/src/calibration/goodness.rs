//! How well a profile predicts the half of the reads that it was not fitted on.

use traces::results::calibration::Goodness;
use traces::results::drive::Distance;
use traces::{Nanos, Request, RequestId, Timestamp};

use super::dependence::explained;
use super::reads::CalibrationReads;
use crate::drive::DriveModel;

/// A request and what a drive took for it.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// The request.
    pub request: Request,
    /// When it was issued.
    pub issued: Timestamp,
    /// From there to its completion.
    pub service: Nanos,
}

/// Judges `drive` on the reads that were held out. Single times are predicted as the drive's
/// [`between`](schedulers::AccessCost::between), the time to expect where the platter's position is not known.
/// Distributions are those of the held-out reads when the drive serves all of them closed loop.
pub fn goodness(reads: &CalibrationReads, drive: &mut dyn DriveModel) -> Goodness {
    let held = || reads.points.iter().filter(|point| !point.fitted);
    let times: Vec<f64> = held().map(|point| point.time.as_ns() as f64).collect();
    let expected = |point: &super::Point| {
        let request = reads.measurements[point.index].request;
        drive.cost().between(point.from, request.lba, request.sectors()).as_ns() as f64
    };
    let predicted: Vec<f64> = held().map(expected).collect();
    let count = times.len().max(1) as f64;
    let mean = times.iter().sum::<f64>() / count;
    let absolute: f64 = times.iter().zip(&predicted).map(|(time, guess)| (time - guess).abs()).sum();
    let served = closed_loop(&reads.measurements, drive);
    let served: Vec<Nanos> = held().map(|point| served[point.index]).collect();
    let measured: Vec<Nanos> = held().map(|point| point.time).collect();
    Goodness {
        reads: times.len() as u64,
        r_squared: explained(&times, &predicted),
        mean_abs_error_ns: absolute / count,
        distribution: distance(&measured, &served, mean),
    }
}

/// The service times of a drive that gets each request the measured think time after it completed the one before.
pub fn closed_loop(measurements: &[Measurement], drive: &mut dyn DriveModel) -> Vec<Nanos> {
    let mut completions = Vec::new();
    let mut at = Timestamp::ZERO;
    let mut services = Vec::with_capacity(measurements.len());
    for (index, measured) in measurements.iter().enumerate() {
        drive.submit(at, RequestId(0), &measured.request);
        while completions.is_empty() {
            let next = drive.next_event().expect("a drive completes what it was given");
            drive.advance(next, &mut completions);
        }
        let finished = completions.drain(..).map(|completion| completion.finished).max().unwrap_or(at);
        services.push(finished.saturating_since(at));
        let idle = measurements
            .get(index + 1)
            .map_or(Nanos::ZERO, |next| next.issued.saturating_since(measured.issued.saturating_add(measured.service)));
        at = finished.saturating_add(idle);
    }
    services
}

/// The distance between the distributions of as many times, relative to a mean in ns.
pub fn distance(measured: &[Nanos], ours: &[Nanos], mean: f64) -> Distance {
    let sorted = |times: &[Nanos]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let squares: f64 = sorted(measured)
        .iter()
        .zip(sorted(ours))
        .map(|(one, other)| (one.as_ns() as f64 - other.as_ns() as f64).powi(2))
        .sum();
    let rms_ns = (squares / measured.len() as f64).sqrt();
    Distance { rms_ns, relative_rms: rms_ns / mean }
}
