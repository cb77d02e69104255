//! Readings of the clocks, by which a trace can be aligned with traces of other hosts.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// A change of the wall clock against the monotonic clock between two readings, in nanoseconds, above which the user is
/// notified.
pub(super) const CLOCK_STEP_MIN_NS: i64 = 10_000_000;

/// The clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockReading {
    /// The monotonic clock.
    pub monotonic_ns: u64,
    /// The wall clock, since 1970 UTC.
    pub realtime_ns: i64,
    /// The clock of the trace, if it can be read.
    pub trace_ns: Option<u64>,
}

impl ClockReading {
    /// Reads the clocks; `trace` reads the trace's own.
    pub(super) fn take(trace: impl FnOnce() -> Option<u64>) -> ClockReading {
        let before = monotonic();
        let realtime_ns = wall();
        let after = monotonic();
        // The wall clock was read between the two.
        ClockReading { monotonic_ns: before + (after - before) / 2, realtime_ns, trace_ns: trace() }
    }

    /// How far the wall clock is ahead of the monotonic one.
    pub(super) fn offset_ns(&self) -> i64 {
        self.realtime_ns.saturating_sub_unsigned(self.monotonic_ns)
    }
}

/// The monotonic clock, which the kernel's tracing also uses.
pub(super) fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic).unsigned_abs()
}

fn wall() -> i64 {
    nanoseconds(ClockId::Realtime)
}

/// The CPU time of this process.
pub(super) fn cpu_time() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime).unsigned_abs()
}

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// The readings of a capture and the number of clock steps between them.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockReadings {
    readings: Vec<ClockReading>,
    steps: u64,
}

impl ClockReadings {
    /// Adds a reading. Returns by how many nanoseconds the wall clock was set since the previous one, if it was.
    pub(super) fn add(&mut self, reading: ClockReading) -> Option<i64> {
        let moved = self.readings.last().map(|last| reading.offset_ns() - last.offset_ns());
        self.readings.push(reading);
        let step = moved.filter(|moved| moved.abs() > CLOCK_STEP_MIN_NS);
        self.steps += u64::from(step.is_some());
        step
    }

    pub(super) fn last(&self) -> Option<&ClockReading> {
        self.readings.last()
    }

    pub(super) fn first(&self) -> Option<&ClockReading> {
        self.readings.first()
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The readings as JSON: all, or the first and the last `latest`.
    pub(super) fn json(&self, latest: usize) -> String {
        let skipped = self.readings.len().saturating_sub(latest).max(1);
        let some: Vec<&ClockReading> =
            self.readings.first().into_iter().chain(self.readings.get(skipped..).unwrap_or_default()).collect();
        serde_json::to_string(&some).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_step_is_distinguished_from_drift() {
        let at = |monotonic_ns: u64, realtime_ns: i64| ClockReading { monotonic_ns, realtime_ns, trace_ns: None };
        let mut clocks = ClockReadings::default();
        assert_eq!(clocks.add(at(1_000_000_000, 50_000_000_000)), None);
        // 10 ms in a minute is drift.
        assert_eq!(clocks.add(at(61_000_000_000, 110_010_000_000)), None);
        assert_eq!(clocks.add(at(62_000_000_000, 111_020_000_001)), Some(10_000_001));
        assert_eq!(clocks.add(at(63_000_000_000, 100_000_000_000)), Some(-12_020_000_001));
        assert_eq!(clocks.steps(), 2);
        assert_eq!(clocks.json(usize::MAX).matches("monotonic_ns").count(), 4);
        assert_eq!(clocks.json(1).matches("monotonic_ns").count(), 2);
        assert!(clocks.json(1).contains("63000000000") && clocks.json(1).contains("\"monotonic_ns\":1000000000"));
    }

    #[test]
    fn reading_shows_the_current_time() {
        let reading = ClockReading::take(|| Some(7));
        assert!(reading.monotonic_ns <= monotonic() && reading.trace_ns == Some(7));
        // Later than 2020.
        assert!(reading.realtime_ns > 1_577_836_800_000_000_000);
        assert!(cpu_time() > 0);
    }
}
