//! Decides whether a replay on a device is faithful: it sent all requests, punctually and without errors, within bounds
//! that were set before any measurement.

use drive_models::throttle::Report;
use traces::Nanos;
use traces::results::live::PunctualityFigures;
use traces::statistics::Distribution;

use super::punctuality::LATE;
use super::{End, Failure, LiveEnded, Punctuality};

/// The largest 99th percentile of the issue-time error.
pub const ERROR_P99_MAX: Nanos = LATE;
/// The largest drift, as a share of the time from the first arrival to the last.
pub const DRIFT_SHARE_MAX: f64 = 0.001;
/// The largest share of arrivals that fail.
pub const FAILED_SHARE_MAX: f64 = 0.01;

/// The bounds, in words.
pub const BOUNDS: &str = "A faithful replay is complete, has an issue-time error of at most 1 ms at p99 and a drift of \
                          at most 0.1 % of the span or 1 ms, holds no arrival back by --max-queue, and has at most 1 % \
                          of failed requests.";

/// The largest share of a throttled device's completions that come after the modelled disk's.
pub const LATE_COMPLETIONS_SHARE_MAX: f64 = 0.001;

/// The bound of a throttled device, in words.
pub const THROTTLE_BOUND: &str =
    "Of a throttled device, at most 1 in 1,000 completions comes after the modelled disk's.";

/// The bound that a throttle has broken, if it has.
pub fn broken_by_throttle(report: &Report) -> Option<String> {
    let Report { completions, late, .. } = *report;
    (late as f64 > completions as f64 * LATE_COMPLETIONS_SHARE_MAX).then(|| {
        format!("{late} of {completions} completions came after the modelled disk's, so k is too small for the device")
    })
}

/// The 99th percentile of the errors, in ns.
fn p99(error: &Distribution) -> Option<u64> {
    error.percentile_ns(9_900)
}

/// Whether a drift, in ns and as a share of the span, breaks its bound: errors that shrink are as bad as errors that grow.
fn is_drift_too_large(ns: f64, share: f64) -> bool {
    share.abs() > DRIFT_SHARE_MAX && ns.abs() > LATE.as_ns() as f64
}

impl<Src, Obs, Drv> LiveEnded<Src, Obs, Drv> {
    /// The bounds that the replay has broken; none if it is faithful. `asked`: the arrivals that its sources have.
    pub fn broken_bounds(&self, asked: u64) -> Vec<String> {
        let punctuality = &self.punctuality;
        let mut broken = Vec::new();
        if self.end != End::Complete {
            broken.push(format!("it ended after {} of {asked} arrivals", punctuality.error.count()));
        }
        if let Some(p99) = p99(&punctuality.error).filter(|&p99| p99 > ERROR_P99_MAX.as_ns()) {
            broken.push(format!("the issue-time error is {:.2} ms at p99", p99 as f64 / 1e6));
        }
        let drift = punctuality.drift_ns().zip(punctuality.drift_share());
        if let Some((ns, share)) = drift.filter(|&(ns, share)| is_drift_too_large(ns, share)) {
            let (ms, percent) = (ns / 1e6, share * 100.0);
            broken.push(format!("the issue-time error drifted by {ms:.2} ms, {percent:.2} % of the span"));
        }
        if self.held_back > 0 {
            broken
                .push(format!("{} arrivals were held back by --max-queue, so the device was too slow", self.held_back));
        }
        let failed: u64 = self.failures.values().sum();
        if failed as f64 > punctuality.error.count() as f64 * FAILED_SHARE_MAX {
            broken.push(format!("{failed} requests failed"));
        }
        broken
    }

    /// The figures of its punctuality.
    pub fn punctuality_figures(&self) -> PunctualityFigures {
        let Punctuality { error, late_by_device, late_by_host, .. } = &self.punctuality;
        PunctualityFigures {
            issue_time_error: error.figures(),
            drift_ns: self.punctuality.drift_ns(),
            drift_share: self.punctuality.drift_share(),
            late_above_ns: LATE,
            late_by_device: *late_by_device,
            late_by_host: *late_by_host,
            held_back: self.held_back,
        }
    }
}

/// The names of error numbers that block devices give (`blk_status_to_errno` of Linux, and what file systems add).
const NAMES: &[(i32, &str)] = &[
    (1, "EPERM"),
    (5, "EIO"),
    (6, "ENXIO"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (16, "EBUSY"),
    (19, "ENODEV"),
    (22, "EINVAL"),
    (28, "ENOSPC"),
    (30, "EROFS"),
    (52, "EBADE"),
    (61, "ENODATA"),
    (67, "ENOLINK"),
    (84, "EILSEQ"),
    (95, "EOPNOTSUPP"),
    (110, "ETIMEDOUT"),
    (121, "EREMOTEIO"),
    (125, "ECANCELED"),
];

impl Failure {
    /// The name of the error, as the manual pages have it.
    pub fn name(self) -> String {
        match self {
            Failure::Short => "short".to_owned(),
            Failure::Errno(number) => {
                let known = NAMES.iter().find(|(known, _)| *known == number);
                known.map_or_else(|| format!("errno {number}"), |(_, name)| (*name).to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_breaks_its_bound_in_both_directions_and_only_if_it_is_large_in_time_and_share() {
        for sign in [1.0, -1.0] {
            assert!(is_drift_too_large(sign * 2e6, sign * 0.002));
            assert!(!is_drift_too_large(sign * 2e6, sign * 0.0005), "a long replay");
            assert!(!is_drift_too_large(sign * 5e5, sign * 0.002), "a short replay");
        }
    }
}
