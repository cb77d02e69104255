//! `CLOCK_MONOTONIC`, which all programs of the host share. The log can therefore be aligned with other captures.

use rustix::time::{ClockId, clock_gettime};
use traces::Timestamp;

/// Reads `CLOCK_MONOTONIC`.
pub fn monotonic() -> Timestamp {
    let time = clock_gettime(ClockId::Monotonic);
    Timestamp::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The wall-clock time of `CLOCK_MONOTONIC`'s zero, in ns since 1970, from one reading of each clock.
pub fn zero_unix_ns() -> i64 {
    let wall = clock_gettime(ClockId::Realtime);
    wall.tv_sec * 1_000_000_000 + wall.tv_nsec - monotonic().as_ns() as i64
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn zero_plus_monotonic_reading_is_the_wall_clock_time() {
        let before = monotonic();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        assert!(before <= monotonic());
        assert!((zero_unix_ns() + before.as_ns() as i64).abs_diff(now) < 1_000_000_000);
    }
}
