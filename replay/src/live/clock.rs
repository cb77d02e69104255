//! The clock of a live replay.

use drive_models::throttle::ThrottleScale;
use rustix::time::{ClockId, clock_gettime};
use traces::{Nanos, Timestamp};

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

/// A clock that runs k times slower than another one. k may change; the time goes on from where it is.
#[derive(Debug)]
pub(crate) struct SlowedClock<C> {
    clock: C,
    k: ThrottleScale,
    /// The times of both clocks when k was set.
    since: Timestamp,
    slowed_since: Timestamp,
}

impl<C: Clock> SlowedClock<C> {
    /// The clock itself.
    pub(crate) fn new(clock: C) -> SlowedClock<C> {
        SlowedClock { clock, k: ThrottleScale::ONE, since: Timestamp::ZERO, slowed_since: Timestamp::ZERO }
    }

    /// Runs `k` times slower than the clock from now on.
    pub(crate) fn slow(&mut self, k: ThrottleScale) {
        if k != self.k {
            (self.since, self.slowed_since) = self.both();
            self.k = k;
        }
    }

    /// How long this span of the slowed clock takes on the clock; zero only if it is zero.
    pub(crate) fn real(&self, span: Nanos) -> Nanos {
        self.k.virtual_time(span).max(span.min(Nanos::from_ns(1)))
    }

    /// The time of the slowed clock that passes in this span of the clock.
    pub(crate) fn slowed(&self, span: Nanos) -> Nanos {
        self.k.real_time(span)
    }

    fn both(&self) -> (Timestamp, Timestamp) {
        let real = self.clock.now();
        (real, self.slowed_since + self.slowed(real.saturating_since(self.since)))
    }
}

impl<C: Clock> Clock for SlowedClock<C> {
    fn start(&mut self) {
        self.clock.start();
        (self.since, self.slowed_since) = (Timestamp::ZERO, Timestamp::ZERO);
    }

    fn now(&self) -> Timestamp {
        if self.k == ThrottleScale::ONE && self.since == self.slowed_since { self.clock.now() } else { self.both().1 }
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

    #[test]
    fn slowed_clock_never_jumps_when_its_pace_changes() {
        struct Set(std::rc::Rc<std::cell::Cell<u64>>);
        impl Clock for Set {
            fn start(&mut self) {
                self.0.set(0);
            }
            fn now(&self) -> Timestamp {
                Timestamp::from_ns(self.0.get())
            }
        }
        let k = |thousandths: u64| ThrottleScale::from_millionths(thousandths * 1000);
        let time = std::rc::Rc::default();
        let mut clock = SlowedClock::new(Set(std::rc::Rc::clone(&time)));
        clock.start();
        // Real times at which k changes, and what the slowed clock says there: 1000, + 8000/8, + 300/1.5, + 700.
        for (real, k, slowed) in [(1000, k(8000), 1000), (9000, k(1500), 2000), (9300, k(1000), 2200)] {
            time.set(real);
            assert_eq!(clock.now().as_ns(), slowed);
            clock.slow(k);
            assert_eq!(clock.now().as_ns(), slowed);
            assert_eq!(clock.slowed(clock.real(Nanos::from_ns(6000))), Nanos::from_ns(6000));
        }
        time.set(10_000);
        assert_eq!(clock.now().as_ns(), 2900);
        // Both begin anew.
        clock.start();
        time.set(50);
        assert_eq!(clock.now().as_ns(), 50);
    }

    /// A wall clock may be stepped. It counts from 1970, and `CLOCK_MONOTONIC` from the start of the system.
    #[test]
    fn monotonic_clock_counts_from_the_start_of_the_system() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let read = monotonic().as_ns() as f64 / 1e9;
        // Time in suspension counts for the uptime only.
        assert!(read > 0.0 && read < uptime + 60.0, "{read} s, {uptime} s since the start of the system");
    }
}
