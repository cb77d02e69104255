//! The period of the platter, from reads of one sector after random pauses. On a disk without a cache that answers,
//! completions lie whole turns apart, whatever the pauses. On any other device they do not.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Nanos, Sectors, Timestamp};

use crate::calibration::{DeviceError, FitError, MeasuredDevice};

/// Reads without a pause, whose median time is about one turn.
const FIRST: usize = 32;
/// Reads after pauses of up to two turns each.
const PAUSED: usize = 256;
/// Periods in ns that a disk can have: 60,000 to 1,000 turns a minute.
const PERIOD_NS: (f64, f64) = (1_000_000.0, 60_000_000.0);
/// Completions must be this close to whole turns, in turns rms. Uniform phases would have 0.29.
const RESIDUAL_MAX: f64 = 0.05;

/// A platter's turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct FittedTurn {
    /// One turn in ns.
    pub period_ns: f64,
    /// Rms distance of completions from whole turns, in ns.
    pub residual_ns: f64,
    /// Reads that it was found by.
    pub reads: usize,
}

/// Finds it.
///
/// # Errors
/// [`FitError::NotFitted`] for what does not turn or answers from a cache.
pub(super) fn find(device: &mut dyn MeasuredDevice, random: &mut Xoshiro256PlusPlus) -> Result<FittedTurn, FitError> {
    let granule = device.granule();
    let lba = Lba::new(device.capacity().count() / 2 / granule.count().max(1) * granule.count());
    let mut completions = read_again(device, lba, granule, FIRST, || Nanos::ZERO)?;
    let mut gaps: Vec<u64> = completions.windows(2).map(|pair| pair[1].saturating_since(pair[0]).as_ns()).collect();
    gaps.sort_unstable();
    let mut guess = gaps[gaps.len() / 2] as f64;
    if !(PERIOD_NS.0..=PERIOD_NS.1).contains(&guess) {
        return Err(no_rotation(&format!("one sector read again and again takes {:.3} ms each", guess / 1e6)));
    }
    let longest = (2.0 * guess) as u64;
    completions = read_again(device, lba, granule, PAUSED, || Nanos::from_ns(random.random_range(0..=longest)))?;
    let mut turn = regress(&completions, guess);
    // Where every pause cost two turns at least, half the guess explains the completions as well.
    let half = regress(&completions, guess / 2.0);
    if turn.residual_ns > RESIDUAL_MAX * guess && half.residual_ns <= RESIDUAL_MAX * guess / 2.0 {
        guess /= 2.0;
        turn = half;
    }
    if turn.residual_ns > RESIDUAL_MAX * guess {
        return Err(no_rotation(&format!(
            "after pauses, completions of one sector are not whole turns apart (rms {:.3} of {:.3} ms)",
            turn.residual_ns / 1e6,
            guess / 1e6
        )));
    }
    Ok(turn)
}

fn no_rotation(seen: &str) -> FitError {
    FitError::NotFitted(format!("no rotation found: {seen}. It is not a disk, or a cache answers (--drive-cache off)"))
}

fn read_again(
    device: &mut dyn MeasuredDevice,
    lba: Lba,
    sectors: Sectors,
    reads: usize,
    mut pause: impl FnMut() -> Nanos,
) -> Result<Vec<Timestamp>, DeviceError> {
    let mut completions = Vec::with_capacity(reads);
    for _ in 0..reads {
        let at = device.now().saturating_add(pause());
        let measured = device.read(at, lba, sectors)?;
        completions.push(measured.issued.saturating_add(measured.service));
    }
    Ok(completions)
}

/// The least-squares period of completions that are whole numbers of turns apart, of about `guess` ns each. Every gap
/// is a few turns, so rounding it by the guess is safe.
fn regress(completions: &[Timestamp], guess: f64) -> FittedTurn {
    let begin = completions[0];
    let times: Vec<f64> = completions.iter().map(|at| at.saturating_since(begin).as_ns() as f64).collect();
    let mut turns = vec![0.0];
    for pair in times.windows(2) {
        turns.push(turns[turns.len() - 1] + ((pair[1] - pair[0]) / guess).round());
    }
    let line = crate::calibration::DistanceLine::through(turns.iter().copied().zip(times.iter().copied()));
    let off = |(turn, time): (&f64, &f64)| (time - line.at_zero_ns - line.ns_per_sector * turn).powi(2);
    let squares: f64 = turns.iter().zip(&times).map(off).sum();
    FittedTurn {
        period_ns: line.ns_per_sector,
        residual_ns: (squares / times.len() as f64).sqrt(),
        reads: completions.len(),
    }
}
