//! The page cache's writes, which nobody waits for: their pace, and whether the drive held back their programs.

use traces::{Nanos, Timestamp};

/// The pace of a VM weighs each new request by 1 / 2^6. Set by judgement; not varied.
const PACE_DECAY_BITS: u32 = 6;
/// Shorter gaps lie within a burst of writes, whose times the kernel and the device make. Of 1 and 100 ms, which were
/// tried, this is better on the shipped mail server, whose bursts 1 ms pulled together, and as good on the suite's
/// training and validation parts.
const PACED_GAP_MIN: Nanos = Nanos::from_ms(100);
/// Gaps grow to no more than so many times the recorded ones.
const PACE_MAX: u64 = 64;

/// Fewest writes that nobody waits for, and share of the time in which some are outstanding, from which on the drive has
/// held back the programs that wrote. Set by judgement; not varied.
const HELD_BACK_WRITES_MIN: u64 = 100;
const HELD_BACK_SHARE: f64 = 0.9;

/// How fast the processes of a VM that write synchronously advance: time of the replay and time of the trace between
/// their requests, ns, decaying sums.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    replayed: u64,
    recorded: u64,
}

impl Pace {
    pub(super) fn add(&mut self, replayed: Nanos, recorded: Nanos) {
        let add = |sum: &mut u64, span: Nanos| *sum = (*sum - (*sum >> PACE_DECAY_BITS)).saturating_add(span.as_ns());
        add(&mut self.replayed, replayed);
        add(&mut self.recorded, recorded);
    }

    /// A recorded span of time at this pace.
    pub(super) fn of(self, span: Nanos) -> Nanos {
        if self.recorded == 0 || span < PACED_GAP_MIN {
            return span;
        }
        let ns = u128::from(span.as_ns()) * u128::from(self.replayed) / u128::from(self.recorded);
        Nanos::from_ns(u64::try_from(ns).unwrap_or(u64::MAX)).min(Nanos::from_ns(span.as_ns().saturating_mul(PACE_MAX)))
    }
}

/// The recorded writes of a VM that nobody waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteBack {
    writes: u64,
    /// How long some were outstanding.
    outstanding: Nanos,
    until: Timestamp,
}

impl WriteBack {
    pub(super) fn add(&mut self, arrival: Timestamp, completed: Timestamp) {
        self.writes += 1;
        self.outstanding += completed.saturating_since(self.until.max(arrival));
        self.until = self.until.max(completed);
    }

    /// Whether the drive has held back the programs whose writes these are.
    pub(super) fn is_held_back(self) -> bool {
        let share = self.outstanding.as_ns() as f64 / self.until.as_ns().max(1) as f64;
        self.writes >= HELD_BACK_WRITES_MIN && share >= HELD_BACK_SHARE
    }
}
