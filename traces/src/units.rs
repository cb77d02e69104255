//! Integer units. A point in time, a span of time, an address and a length are four types, with
//! only the operators that mean something between them. There is no floating-point time. Sums and multiples saturate:
//! what comes after the last point in time never happens, and no sum is smaller than its parts.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize};

/// Bytes in a sector, the unit of [`Lba`] and [`Sectors`] whatever the device's own block size.
pub const SECTOR_BYTES: u64 = 512;

/// A point in time: nanoseconds since the zero of the clock it was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(u64);

/// A logical block address in 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lba(u64);

/// A number of 512-byte sectors: a length, a distance or a capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sectors(u64);

impl Timestamp {
    /// The clock's zero.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The last point in time that can be expressed; stands for "never".
    pub const MAX: Timestamp = Timestamp(u64::MAX);
    /// The last time that a trace may hold: 2^62 − 1 ns, 146 years after the clock's zero. Three times as much is left
    /// above it for the times that a replay adds.
    pub const TRACE_MAX: Timestamp = Timestamp(u64::MAX >> 2);
    /// [`Timestamp::TRACE_MAX`] as messages have it.
    pub const TRACE_MAX_TEXT: &str = "146 years (2^62 ns)";

    /// The point `ns` nanoseconds after the clock's zero.
    pub const fn from_ns(ns: u64) -> Self {
        Timestamp(ns)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The span since `earlier`.
    ///
    /// # Panics
    /// If `earlier` is later than `self`: a request that ends before it begins is a broken
    /// invariant, not data. Readers use [`Timestamp::checked_since`].
    #[track_caller]
    pub const fn since(self, earlier: Timestamp) -> Nanos {
        match self.0.checked_sub(earlier.0) {
            Some(ns) => Nanos(ns),
            None => panic!("time went backwards"),
        }
    }

    /// The span since `earlier`, or `None` if that is later.
    pub fn checked_since(self, earlier: Timestamp) -> Option<Nanos> {
        self.0.checked_sub(earlier.0).map(Nanos)
    }

    /// The span since `earlier`, zero if that is later.
    pub const fn saturating_since(self, earlier: Timestamp) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point `span` later, at most [`Timestamp::MAX`].
    pub const fn saturating_add(self, span: Nanos) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }
}

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Nanos(ns)
    }

    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Nanos(us * 1_000)
    }

    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Nanos(ms * 1_000_000)
    }

    /// A span of `s` seconds.
    pub const fn from_s(s: u64) -> Self {
        Nanos(s * 1_000_000_000)
    }

    /// The span in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The span in milliseconds, for printing only.
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span in seconds, for printing only.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span less `other`, zero if that is longer.
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Lba {
    /// The first sector.
    pub const ZERO: Lba = Lba(0);

    /// The sector with number `sector`.
    pub const fn new(sector: u64) -> Self {
        Lba(sector)
    }

    /// The sector's number.
    pub const fn sector(self) -> u64 {
        self.0
    }

    /// Seek distance between two addresses, in sectors, whichever is the larger.
    pub const fn distance(self, other: Lba) -> Sectors {
        Sectors(self.0.abs_diff(other.0))
    }

    /// The address `sectors` further on, at most the largest that can be expressed.
    pub const fn saturating_add(self, sectors: Sectors) -> Lba {
        Lba(self.0.saturating_add(sectors.0))
    }
}

impl Sectors {
    /// No sectors.
    pub const ZERO: Sectors = Sectors(0);

    /// A count of 512-byte sectors.
    pub const fn new(count: u64) -> Self {
        Sectors(count)
    }

    /// The smallest number of sectors that holds `bytes`.
    pub const fn holding(bytes: u64) -> Self {
        Sectors(bytes.div_ceil(SECTOR_BYTES))
    }

    /// The count.
    pub const fn count(self) -> u64 {
        self.0
    }

    /// The same length in bytes; saturates.
    pub const fn bytes(self) -> u64 {
        self.0.saturating_mul(SECTOR_BYTES)
    }
}

impl Add<Nanos> for Timestamp {
    type Output = Timestamp;
    fn add(self, span: Nanos) -> Timestamp {
        self.saturating_add(span)
    }
}

impl AddAssign<Nanos> for Timestamp {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, times: u64) -> Nanos {
        Nanos(self.0.saturating_mul(times))
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(spans: I) -> Nanos {
        spans.fold(Nanos::ZERO, Add::add)
    }
}

impl Add<Sectors> for Lba {
    type Output = Lba;
    fn add(self, sectors: Sectors) -> Lba {
        self.saturating_add(sectors)
    }
}

impl Add for Sectors {
    type Output = Sectors;
    fn add(self, other: Sectors) -> Sectors {
        Sectors(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Sectors {
    fn add_assign(&mut self, other: Sectors) {
        *self = *self + other;
    }
}

impl Sub for Sectors {
    type Output = Sectors;
    fn sub(self, other: Sectors) -> Sectors {
        Sectors(self.0 - other.0)
    }
}

impl fmt::Display for Timestamp {
    /// Seconds with nine decimals, as blkparse prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Nanos {
    /// The largest unit (s, ms, us, ns) that shows the span exactly; it parses back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
            if ns != 0 && ns.is_multiple_of(unit) {
                return write!(f, "{}{name}", ns / unit);
            }
        }
        write!(f, "{ns}ns")
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_and_a_span_combine_only_as_they_should() {
        let start = Timestamp::from_ns(5);
        assert_eq!(start + Nanos::from_us(1), Timestamp::from_ns(1_005));
        assert_eq!(Timestamp::from_ns(1_005).since(start), Nanos::from_us(1));
        assert_eq!(start.checked_since(Timestamp::from_ns(6)), None);
        assert_eq!(start.saturating_since(Timestamp::from_ns(6)), Nanos::ZERO);
    }

    #[test]
    fn last_time_of_a_trace_is_described_as_it_is() {
        let years = Timestamp::TRACE_MAX.as_ns() / (365 * 86_400 + 86_400 / 4) / 1_000_000_000;
        let bits = u64::BITS - Timestamp::TRACE_MAX.as_ns().leading_zeros();
        assert_eq!(Timestamp::TRACE_MAX_TEXT, format!("{years} years (2^{bits} ns)"));
    }

    #[test]
    fn sums_and_multiples_are_never_smaller_than_their_parts() {
        let late = Timestamp::from_ns(u64::MAX - 1);
        assert_eq!(late + Nanos::from_ns(2), Timestamp::MAX);
        let mut never = late;
        never += Nanos::from_ns(2);
        assert_eq!(never, Timestamp::MAX);
        let long = Nanos::from_ns(u64::MAX - 1);
        assert_eq!([long + long, long * 2, [long, long].into_iter().sum()], [Nanos::from_ns(u64::MAX); 3]);
        assert_eq!(Lba::new(u64::MAX - 1) + Sectors::new(2), Lba::new(u64::MAX));
        assert_eq!(Sectors::new(u64::MAX - 1) + Sectors::new(2), Sectors::new(u64::MAX));
    }

    #[test]
    #[should_panic(expected = "time went backwards")]
    fn a_negative_span_is_a_broken_invariant() {
        let _ = Timestamp::from_ns(1).since(Timestamp::from_ns(2));
    }

    #[test]
    fn distance_does_not_depend_on_the_direction() {
        assert_eq!(Lba::new(100).distance(Lba::new(82)), Sectors::new(18));
        assert_eq!(Lba::new(82).distance(Lba::new(100)), Sectors::new(18));
    }

    #[test]
    fn sectors_hold_bytes_rounded_up() {
        assert_eq!(Sectors::holding(0).count(), 0);
        assert_eq!(Sectors::holding(1).count(), 1);
        assert_eq!(Sectors::holding(4096).count(), 8);
        assert_eq!(Sectors::new(8).bytes(), 4096);
    }

    #[test]
    fn spans_print_in_the_largest_exact_unit() {
        for (ns, text) in [(0, "0ns"), (999, "999ns"), (250_000, "250us"), (7_000_000, "7ms"), (5_000_000_000, "5s")] {
            assert_eq!(Nanos::from_ns(ns).to_string(), text);
        }
    }
}
