//! The paper's procedure: preliminary runs with a dynamic k to find a stable value, then a measured run with that value
//! fixed (Geist, Jones and Westall 2010, section 4).

use traces::Nanos;

use super::Throttle;
use super::report::Report;
use super::scale::ThrottleScale;
use super::settings::ThrottleSettings;
use crate::drive::DriveModel;

/// How a stable k is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// Most dynamic runs; each begins with the k that the one before has found, and one that finds the k it began with
    /// is the last. Without any, k is fixed at the settings' own.
    pub runs: u32,
    /// The stable k is the largest of a dynamic run's last 1/`last` by time.
    pub last: u64,
}

impl Default for Procedure {
    /// Four runs at most, the largest k of the last half: a choice, as the paper names no numbers.
    fn default() -> Procedure {
        Procedure { runs: 4, last: 2 }
    }
}

/// The result of the procedure.
#[derive(Clone, Debug)]
pub struct FoundScale<T> {
    /// The k of the measured run.
    pub k: ThrottleScale,
    /// The reports of the dynamic runs, in order.
    pub searches: Vec<Report>,
    /// The result of the measured run, on the clock of the virtual system.
    pub measured: T,
    /// The report of the measured run. If it has `late` completions, k was not large enough for all requests.
    pub report: Report,
}

impl<T> FoundScale<T> {
    /// A span of the measured run in the real disk's scale: divided by k.
    pub fn real_time(&self, span: Nanos) -> Nanos {
        self.k.real_time(span)
    }
}

/// Looks for a stable k and measures with it. `disk` makes the virtual disk, anew for every run; `run` puts the
/// workload through a throttle over it, which is a drive like any other, to its end.
///
/// ```
/// use iocast_drives::throttle::{Procedure, Throttle, ThrottleSettings, find_k};
/// use iocast_drives::{DriveError, DriveModel, build, build_throttle};
/// use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp};
///
/// let spec = "throttle:k=1,raise=1.5".parse()?;
/// let settings = build_throttle(&spec)?.expect("a throttle").settings().clone();
/// let disk = || Ok::<_, DriveError>(build(&"virtual-disk:service=1ms".parse()?)?.drive);
/// // One request after another, all near one another: 250 us each on the real disk.
/// let run = |throttle: &mut Throttle<_>| {
///     let (mut now, mut done) = (Timestamp::ZERO, Vec::new());
///     for nth in 0..100 {
///         let request = Request::new(now, Operation::Read, Lba::new(nth % 8), Sectors::new(1));
///         throttle.submit(now, RequestId(0), &request);
///         while let Some(next) = throttle.next_event() {
///             throttle.advance(next, &mut done);
///             now = next;
///         }
///     }
///     Ok(now)
/// };
/// let found = find_k(&settings, Procedure::default(), disk, run)?;
/// assert!(found.k.virtual_time(traces::Nanos::from_us(250)) >= traces::Nanos::from_ms(1));
/// assert_eq!(found.report.late, 0);
/// # Ok::<(), DriveError>(())
/// ```
///
/// # Errors
/// The first of `disk` or `run`.
pub fn find_k<D: DriveModel, T, E>(
    settings: &ThrottleSettings,
    procedure: Procedure,
    mut disk: impl FnMut() -> Result<D, E>,
    mut run: impl FnMut(&mut Throttle<D>) -> Result<T, E>,
) -> Result<FoundScale<T>, E> {
    let mut k = settings.k;
    let mut searches = Vec::new();
    for _ in 0..procedure.runs {
        let mut throttle = Throttle::new(disk()?, &settings.dynamic_from(k));
        run(&mut throttle)?;
        let began = k;
        k = throttle.report().stable_k(procedure.last);
        searches.push(throttle.into_report());
        if k == began {
            break;
        }
    }
    let mut throttle = Throttle::new(disk()?, &settings.fixed_at(k));
    let measured = run(&mut throttle)?;
    Ok(FoundScale { k, searches, measured, report: throttle.into_report() })
}
