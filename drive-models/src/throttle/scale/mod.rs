//! The scale factor k between the time of the virtual system and that of the real disk.

use std::fmt;

use traces::Nanos;

/// One, in millionths.
const ONE: u64 = 1_000_000;

/// The factor k, in millionths; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThrottleScale(u64);

impl ThrottleScale {
    /// Both clocks run alike.
    pub const ONE: ThrottleScale = ThrottleScale(ONE);

    /// A factor in millionths, at least one.
    pub const fn from_millionths(millionths: u64) -> ThrottleScale {
        ThrottleScale(if millionths == 0 { 1 } else { millionths })
    }

    /// The factor in millionths.
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// A span of the real disk's time as the virtual system is to take it, k·span, rounded down.
    pub fn virtual_time(self, real: Nanos) -> Nanos {
        ratio(real, self.0, ONE)
    }

    /// A span of the virtual system's time in the real disk's scale, span/k, rounded down. The paper prints its columns
    /// in this scale without saying so.
    pub fn real_time(self, span: Nanos) -> Nanos {
        ratio(span, ONE, self.0)
    }

    /// k times `thousandths`, rounded up.
    pub(super) fn raised(self, thousandths: u64) -> ThrottleScale {
        let raised = (u128::from(self.0) * u128::from(thousandths)).div_ceil(1000);
        ThrottleScale::from_millionths(u64::try_from(raised).unwrap_or(u64::MAX))
    }

    /// k times `thousandths`, rounded down.
    pub(super) fn lowered(self, thousandths: u64) -> ThrottleScale {
        let lowered = u128::from(self.0) * u128::from(thousandths) / 1000;
        ThrottleScale::from_millionths(u64::try_from(lowered).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for ThrottleScale {
    /// As a decimal without zeros behind it: `8`, `1.1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{}.{:06}", self.0 / ONE, self.0 % ONE);
        f.write_str(digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// `span`·`times`/`by`, rounded down; what is too long for a span is the longest one.
pub(super) fn ratio(span: Nanos, times: u64, by: u64) -> Nanos {
    let product = u128::from(span.as_ns()) * u128::from(times) / u128::from(by);
    Nanos::from_ns(u64::try_from(product).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
