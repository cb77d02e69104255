//! Compares a mechanical drive with the measurements on the measured time line. Only the rotation period and the start
//! phase are fitted to the judged trace. The fit has two steps. The first searches the period at which the completions
//! of all requests on the medium agree best on one phase. The second refines both around these values by the errors of
//! the service times.

use drive_models::mechanical::{Angle, Mechanical};
use drive_models::single_server::ServiceModel;
use traces::Nanos;
use traces::results::drive::PerRequest;

use super::Measurement;

/// The number of classes of phases.
const BINS: usize = 256;
/// The search range around the period of the profile, in parts per million.
const PERIOD_PPM: u64 = 500;
/// The rounds of refinement; each halves the step width.
const ROUNDS: u32 = 9;

/// The errors of single requests.
pub(super) struct Errors {
    pub mean_abs: f64,
    pub within_250us: f64,
    pub within_250us_or_5pct: f64,
    pub within_1ms: f64,
    pub over_half_turn: f64,
}

impl Errors {
    /// The errors between the times of the same requests. An error above `half_turn` ns counts as a missed rotation.
    pub(super) fn between(measured: &[Nanos], ours: &[Nanos], mean: f64, half_turn: u64) -> Errors {
        let offs: Vec<u64> = measured.iter().zip(ours).map(|(a, b)| a.as_ns().abs_diff(b.as_ns())).collect();
        let share = |limit: u64| offs.iter().filter(|&&off| off <= limit).count() as f64 / offs.len() as f64;
        Errors {
            mean_abs: offs.iter().map(|&off| off as f64).sum::<f64>() / offs.len() as f64,
            within_250us: share(250_000),
            within_250us_or_5pct: share(250_000.max((mean * 0.05) as u64)),
            within_1ms: share(1_000_000),
            over_half_turn: 1.0 - share(half_turn),
        }
    }
}

/// Fits the period and the phase and judges the drive. Also returns the service times of the model.
pub(super) fn fit(measured: &[Measurement], drive: &Mechanical, mean: f64) -> (PerRequest, Vec<Nanos>) {
    let (mut period, mut start) = coarse(measured, drive);
    let span = measured.last().map_or(0, |last| last.issued.as_ns()).max(1);
    let turns = (span * 1000 / period).max(1);
    // The first step of the period moves the last phase by 1/32 turn; the first step of the phase is as large.
    let (mut period_step, mut start_step) = ((period / turns / 32).max(1), 1u32 << 27);
    let mut best = total_error(measured, drive, period, start);
    for _ in 0..ROUNDS {
        let mut improved = true;
        while improved {
            improved = false;
            for (by, turn) in [(1i64, 0i64), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)] {
                let period_there = period.saturating_add_signed(by * period_step as i64);
                let start_there = start.wrapping_add((turn * i64::from(start_step)) as u32);
                let error = total_error(measured, drive, period_there, start_there);
                if error < best {
                    (best, period, start, improved) = (error, period_there, start_there, true);
                }
            }
        }
        (period_step, start_step) = ((period_step / 2).max(1), start_step / 2);
    }
    let services: Vec<Nanos> = measured.iter().map(|measured| measured.service).collect();
    let ours = services_at(measured, drive, period, start);
    let errors = Errors::between(&services, &ours, mean, period / 2000);
    let result = PerRequest {
        mean_abs_error_ns: errors.mean_abs,
        within_250us: errors.within_250us,
        within_250us_or_5pct: errors.within_250us_or_5pct,
        within_1ms: errors.within_1ms,
        missed_rotations: errors.over_half_turn,
        period_ns: period as f64 / 1000.0,
        offset_ns: f64::from(start) / f64::from(u32::MAX) * period as f64 / 1000.0,
    };
    (result, ours)
}

/// The period in ps, near that of the drive, at which the phases of all completions agree best, and its start phase.
fn coarse(measured: &[Measurement], drive: &Mechanical) -> (u64, u32) {
    let nominal = drive.rotation().period_ps();
    let span = measured.last().map_or(0, |last| last.issued.as_ns()).max(1);
    let turns = (span * 1000 / nominal).max(1);
    let step = (nominal / turns / 16).max(1);
    let steps = (nominal / 1_000_000 * PERIOD_PPM / step) as i64;
    let score = |period: u64| {
        let rotation = drive.rotation_of(period, Angle(0));
        let mut bins = [0u64; BINS];
        for measured in measured {
            let ends = measured.issued.saturating_add(measured.service);
            // The difference between the phase of the platter at the measured completion and the phase at which the
            // request must complete.
            let Some(completes) = drive.completes_at(&rotation, &measured.request) else { continue };
            let phase = completes.until(rotation.phase(ends)) as u32;
            bins[phase as usize / (1 << 24)] += 1;
        }
        let at = (0..BINS).max_by_key(|&bin| pair(&bins, bin)).unwrap_or(0);
        (pair(&bins, at), at)
    };
    let candidates = (-steps..=steps).map(|by| nominal.saturating_add_signed(by * step as i64));
    let (period, (_, bin)) = candidates
        .map(|period| (period, score(period)))
        .max_by_key(|(period, (score, _))| (*score, std::cmp::Reverse(period.abs_diff(nominal))))
        .unwrap_or((nominal, (0, 0)));
    (period, ((bin as u32 + 1) << 24).wrapping_neg())
}

/// The requests in a class of phases and in the next one, so that a cluster at the border of two classes counts.
fn pair(bins: &[u64; BINS], bin: usize) -> u64 {
    bins[bin] + bins[(bin + 1) % BINS]
}

fn services_at(measured: &[Measurement], drive: &Mechanical, period: u64, start: u32) -> Vec<Nanos> {
    let mut drive = drive.clone();
    drive.turn_at(drive.rotation_of(period, Angle(start)));
    measured.iter().map(|measured| drive.serve(measured.issued, &measured.request).time).collect()
}

fn total_error(measured: &[Measurement], drive: &Mechanical, period: u64, start: u32) -> u64 {
    let ours = services_at(measured, drive, period, start);
    ours.iter().zip(measured).map(|(ours, theirs)| ours.as_ns().abs_diff(theirs.service.as_ns())).sum()
}
