//! Limits that end a capture, and limits that it keeps while it lasts.

use std::path::Path;
use std::time::Duration;

use super::output::free_bytes;
use super::summary::StopReason;

/// Limits that end a capture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StopLimits {
    pub(super) seconds: Option<Duration>,
    pub(super) size_bytes: Option<u64>,
    /// Free bytes in the output's file system below which the capture ends.
    pub(super) free_bytes: u64,
}

impl StopLimits {
    /// Why the capture must end now, if it must.
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

/// Limits events per second; further events are counted and dropped.
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

    /// Whether an event at this time (in nanoseconds) may pass.
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

    /// Events dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The pause after which `worked`, the CPU time of all threads since the last pause began, is at most `percent` of the
/// time. `awake` has passed since the last pause ended; `usual` is the shortest pause.
pub(super) fn pause(worked: Duration, awake: Duration, percent: Option<f64>, usual: Duration) -> Duration {
    let share = percent.filter(|percent| *percent > 0.0);
    share.map_or(usual, |percent| usual.max(worked.mul_f64(100.0 / percent).saturating_sub(awake)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_above_the_rate_are_dropped_and_counted() {
        let mut rate = RateLimit::new(Some(2));
        let admitted: Vec<bool> =
            [0, 1, 2, 999_999_999, 1_000_000_000, 3_000_000_000].into_iter().map(|time| rate.admits(time)).collect();
        assert_eq!(admitted, [true, true, false, false, true, true]);
        assert_eq!(rate.dropped(), 2);
        assert!((0..100).all(|_| RateLimit::new(None).admits(0)));
    }

    #[test]
    fn pause_keeps_the_cpu_share() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(30), ms(30), None, ms(100)), ms(100));
        assert_eq!(pause(ms(30), ms(30), Some(10.0), ms(100)), ms(270));
        assert_eq!(pause(ms(1), ms(1), Some(50.0), ms(100)), ms(100));
        // The store's thread did most of the work while the reading thread paused.
        assert_eq!(pause(ms(100), ms(10), Some(50.0), ms(100)), ms(190));
        assert_eq!(pause(ms(10), ms(900), Some(50.0), ms(100)), ms(100));
    }

    #[test]
    fn capture_ends_by_time_by_size_and_by_free_space() {
        let limits = StopLimits { seconds: Some(Duration::from_secs(2)), size_bytes: Some(100), free_bytes: 0 };
        assert_eq!(limits.reached(Duration::from_secs(1), 99, None), None);
        assert_eq!(limits.reached(Duration::from_secs(2), 0, None), Some(StopReason::Time));
        assert_eq!(limits.reached(Duration::ZERO, 100, None), Some(StopReason::Size));
        let full = StopLimits { free_bytes: u64::MAX, ..StopLimits::default() };
        assert_eq!(full.reached(Duration::ZERO, 0, Some(Path::new("/tmp/x"))), Some(StopReason::FreeSpace));
    }
}
