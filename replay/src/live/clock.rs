//! The clock of a live replay.

use rustix::time::{ClockId, clock_gettime};
use traces::Timestamp;

/// A clock that starts at zero and never goes backwards.
pub trait Clock {
    /// Sets the zero of the clock to now.
    fn start(&mut self);

    /// The time since the start.
    fn now(&self) -> Timestamp;
}

/// `CLOCK_MONOTONIC`, which steps of the wall clock do not move.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    zero: Timestamp,
}

impl MonotonicClock {
    /// A clock whose zero is now.
    pub fn new() -> MonotonicClock {
        MonotonicClock { zero: monotonic() }
    }
}

impl Default for MonotonicClock {
    fn default() -> MonotonicClock {
        MonotonicClock::new()
    }
}

impl Clock for MonotonicClock {
    fn start(&mut self) {
        self.zero = monotonic();
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + monotonic().saturating_since(self.zero)
    }
}

impl<C: Clock + ?Sized> Clock for &mut C {
    fn start(&mut self) {
        (**self).start();
    }

    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

fn monotonic() -> Timestamp {
    let time = clock_gettime(ClockId::Monotonic);
    Timestamp::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_from_its_start() {
        let mut clock = MonotonicClock::new();
        let before = monotonic();
        clock.start();
        assert!(before <= clock.zero && clock.zero <= monotonic());
        let (first, second) = (clock.now(), clock.now());
        assert!(first <= second && second <= Timestamp::ZERO + monotonic().since(clock.zero));
    }

    /// A wall clock may be stepped. It counts from 1970, and `CLOCK_MONOTONIC` from the start of the system.
    #[test]
    fn it_is_not_the_wall_clock() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let read = monotonic().as_ns() as f64 / 1e9;
        // Time in suspension counts for the uptime only.
        assert!(read > 0.0 && read < uptime + 60.0, "{read} s, {uptime} s since the start of the system");
    }
}
