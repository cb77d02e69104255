//! What ends a capture, and what it must not exceed while it lasts.

use std::path::Path;
use std::time::Duration;

use super::output::free_bytes;
use super::summary::StopReason;

/// What ends a capture by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StopLimits {
    pub(super) seconds: Option<Duration>,
    pub(super) size_bytes: Option<u64>,
    /// Free space on the output's file system below which it ends.
    pub(super) free_bytes: u64,
}

impl StopLimits {
    /// Why the capture is to end now, if it is.
    pub(super) fn reached(&self, lasted: Duration, written: u64, output: Option<&Path>) -> Option<StopReason> {
        if self.seconds.is_some_and(|most| lasted >= most) {
            return Some(StopReason::Time);
        }
        if self.size_bytes.is_some_and(|most| written >= most) {
            return Some(StopReason::Size);
        }
        let free = output.and_then(free_bytes);
        free.filter(|free| *free < self.free_bytes).map(|_| StopReason::FreeSpace)
    }
}

/// Events that may pass in every second; the others are counted and dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimit {
    per_second: Option<u64>,
    second: u64,
    passed: u64,
    dropped: u64,
}

impl RateLimit {
    pub(super) fn new(per_second: Option<u64>) -> RateLimit {
        RateLimit { per_second, second: 0, passed: 0, dropped: 0 }
    }

    /// Whether an event of that time (nanoseconds) may pass.
    pub(super) fn admits(&mut self, time: u64) -> bool {
        let Some(most) = self.per_second else { return true };
        let second = time / 1_000_000_000;
        if second != self.second {
            (self.second, self.passed) = (second, 0);
        }
        let admitted = self.passed < most;
        if admitted {
            self.passed += 1;
        } else {
            self.dropped += 1;
        }
        admitted
    }

    /// Events that were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// How long to rest so that `worked` of CPU time, of all threads since the last rest began, is at most that share of the
/// time; `awake` of it has passed since that rest ended.
pub(super) fn rest(worked: Duration, awake: Duration, percent: Option<f64>, usual: Duration) -> Duration {
    let share = percent.filter(|percent| *percent > 0.0);
    share.map_or(usual, |percent| usual.max(worked.mul_f64(100.0 / percent).saturating_sub(awake)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_above_the_rate_are_counted() {
        let mut rate = RateLimit::new(Some(2));
        let admitted: Vec<bool> =
            [0, 1, 2, 999_999_999, 1_000_000_000, 3_000_000_000].into_iter().map(|time| rate.admits(time)).collect();
        assert_eq!(admitted, [true, true, false, false, true, true]);
        assert_eq!(rate.dropped(), 2);
        assert!((0..100).all(|_| RateLimit::new(None).admits(0)));
    }

    #[test]
    fn a_share_of_the_time_is_kept() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(30), ms(30), None, ms(100)), ms(100));
        assert_eq!(rest(ms(30), ms(30), Some(10.0), ms(100)), ms(270));
        assert_eq!(rest(ms(1), ms(1), Some(50.0), ms(100)), ms(100));
        // Most of it was worked by the thread that stores, while the one that reads was resting.
        assert_eq!(rest(ms(100), ms(10), Some(50.0), ms(100)), ms(190));
        assert_eq!(rest(ms(10), ms(900), Some(50.0), ms(100)), ms(100));
    }

    #[test]
    fn a_capture_ends_by_time_and_by_size() {
        let limits = StopLimits { seconds: Some(Duration::from_secs(2)), size_bytes: Some(100), free_bytes: 0 };
        assert_eq!(limits.reached(Duration::from_secs(1), 99, None), None);
        assert_eq!(limits.reached(Duration::from_secs(2), 0, None), Some(StopReason::Time));
        assert_eq!(limits.reached(Duration::ZERO, 100, None), Some(StopReason::Size));
        let full = StopLimits { free_bytes: u64::MAX, ..StopLimits::default() };
        assert_eq!(full.reached(Duration::ZERO, 0, Some(Path::new("/tmp/x"))), Some(StopReason::FreeSpace));
    }
}
