//! Rotation as absolute phase: where the platter is at every point in time.
//!
//! An angle is a fraction of a turn in units of 2⁻³² turns (1 unit is below 4 fs of a 15 ms turn). A `u32` therefore
//! wraps at a full turn, and no angle is ever out of range. Time is turned into phase by one wrapping multiplication
//! with 2⁶⁴ / period: the integer turns overflow away.

use traces::{Nanos, Timestamp};

/// One turn in the units of an angle.
pub const TURN: u64 = 1 << 32;

/// An angle in units of 2⁻³² turns, in the direction in which sectors pass under the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Angle(pub u32);

impl Angle {
    /// How far the platter turns, less than one turn, until `self` has become `to`.
    #[inline]
    pub fn until(self, to: Angle) -> u64 {
        u64::from(to.0.wrapping_sub(self.0))
    }
}

/// A spindle at constant speed.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    period_ps: u64,
    /// Nanoseconds a turn, in units of 2⁻²² ns.
    turn_ns: u64,
    /// 2⁻⁶⁴ turns a nanosecond.
    per_ns: u64,
    /// The phase at time zero in 2⁻⁶⁴ turns.
    start: u64,
}

impl Rotation {
    /// The longest period in picoseconds that keeps every product in range: 1 s.
    pub const PERIOD_PS_MAX: u64 = 1_000_000_000_000;
    /// The shortest: 1 µs.
    pub const PERIOD_PS_MIN: u64 = 1_000_000;

    /// A spindle that turns once in `period_ps` picoseconds and stands at `start` at time zero. Periods outside of
    /// [`Rotation::PERIOD_PS_MIN`] and [`Rotation::PERIOD_PS_MAX`] are moved there.
    pub fn new(period_ps: u64, start: Angle) -> Rotation {
        let period_ps = period_ps.clamp(Rotation::PERIOD_PS_MIN, Rotation::PERIOD_PS_MAX);
        let per_ns = ((1000u128 << 64) + u128::from(period_ps) / 2) / u128::from(period_ps);
        let turn_ns = ((u128::from(period_ps) << 22) + 500) / 1000;
        Rotation { period_ps, turn_ns: turn_ns as u64, per_ns: per_ns as u64, start: u64::from(start.0) << 32 }
    }

    /// One turn in picoseconds.
    pub fn period_ps(&self) -> u64 {
        self.period_ps
    }

    /// The angle that passes under the heads at `at`.
    #[inline]
    pub fn phase(&self, at: Timestamp) -> Angle {
        Angle((at.as_ns().wrapping_mul(self.per_ns).wrapping_add(self.start) >> 32) as u32)
    }

    /// How long the platter takes to turn by `angle` (2⁻³² turns, whole turns above), to the nearest ns.
    #[inline]
    pub fn time(&self, angle: u64) -> Nanos {
        Nanos::from_ns(((u128::from(angle) * u128::from(self.turn_ns) + (1 << 53)) >> 54) as u64)
    }

    /// How far the platter turns in `span`, in 2⁻³² turns.
    pub fn angle(&self, span: Nanos) -> u64 {
        ((u128::from(span.as_ns()) * u128::from(self.per_ns)) >> 32) as u64
    }
}

#[cfg(test)]
mod tests;
