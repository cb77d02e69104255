//! Sizes and times as people write them: `4k`, `1m`, `64g` (binary), `250us`, `7ms`, `1.5s`.

use crate::units::{Nanos, Sectors};

/// Why a quantity could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct QuantityError {
    /// What was given.
    pub text: String,
    /// What would have been understood.
    pub expected: &'static str,
}

const SIZE: &str = "a size in bytes such as 512, 4k, 1m, 64g or 2t (binary units)";
const TIME: &str = "a time such as 250us, 7ms, 1.5s, 2min or 1h";
const FRACTION: &str = "a positive decimal number such as 0.5 or 2";

/// Parses a size in bytes with an optional binary suffix `k m g t`, upper or lower case, with or
/// without `i` and `b` (`64GiB` is `64g`).
///
/// # Errors
/// Text that is not such a size, or one of 2^64 bytes and more.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let error = || QuantityError { text: text.to_owned(), expected: SIZE };
    let (digits, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(error()),
    };
    scaled(digits, 1 << shift).ok_or_else(error)
}

/// Parses a size in bytes that is a whole number of sectors.
///
/// # Errors
/// As [`parse_bytes`]; a size that is not a multiple of 512.
pub fn parse_sectors(text: &str) -> Result<Sectors, QuantityError> {
    let bytes = parse_bytes(text)?;
    let sectors = Sectors::holding(bytes);
    if sectors.bytes() == bytes {
        Ok(sectors)
    } else {
        Err(QuantityError { text: text.to_owned(), expected: "a whole number of 512-byte sectors" })
    }
}

/// Parses a span of time. The unit is required but for `0`.
///
/// # Errors
/// Text that is not such a span, or one of 2^64 nanoseconds and more.
pub fn parse_nanos(text: &str) -> Result<Nanos, QuantityError> {
    let error = || QuantityError { text: text.to_owned(), expected: TIME };
    let (digits, unit) = split(text);
    let ns = match unit {
        "" if digits == "0" => 1,
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(error()),
    };
    scaled(digits, ns).map(Nanos::from_ns).ok_or_else(error)
}

/// Parses a decimal number of at most three places, zero included, as a count of thousandths.
///
/// # Errors
/// Text that is not such a number, or one of 2^64 thousandths and more.
pub fn parse_thousandths(text: &str) -> Result<u64, QuantityError> {
    let expected = "a decimal number of at most three places such as 0.2";
    scaled(text, 1000).ok_or_else(|| QuantityError { text: text.to_owned(), expected })
}

/// A positive decimal number kept exact, as `numerator / denominator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    /// Above the line, at least 1.
    pub numerator: u64,
    /// Below the line, a power of ten.
    pub denominator: u64,
}

impl Fraction {
    /// `span` times this fraction, rounded down; `None` if it does not fit.
    pub fn of(self, span: Nanos) -> Option<Nanos> {
        let scaled = u128::from(span.as_ns()) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(scaled).ok().map(Nanos::from_ns)
    }
}

impl std::str::FromStr for Fraction {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Fraction, QuantityError> {
        let error = || QuantityError { text: text.to_owned(), expected: FRACTION };
        let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let denominator = u32::try_from(decimals).ok().and_then(|d| 10u64.checked_pow(d)).ok_or_else(error)?;
        let numerator = scaled(text, denominator).filter(|&n| n > 0).ok_or_else(error)?;
        Ok(Fraction { numerator, denominator })
    }
}

/// The number at the start of `text` and the unit after it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// A decimal number times `unit`, if it is one and the product is a whole number below 2^64.
/// Digits beyond the unit's resolution are refused rather than rounded.
fn scaled(decimal: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    if whole.is_empty() || (decimal.contains('.') && fraction.is_empty()) {
        return None;
    }
    if !decimal.bytes().all(|b| b.is_ascii_digit() || b == b'.') || fraction.contains('.') {
        return None;
    }
    let mut product = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if !fraction.is_empty() {
        let denominator = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit);
        if part % denominator != 0 {
            return None;
        }
        product = product.checked_add(u64::try_from(part / denominator).ok()?)?;
    }
    Some(product)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("4k", 4096), ("1m", 1 << 20), ("64GiB", 64 << 30), ("1.5K", 1536)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "4x", "1e3", "99999999t", ".5k", "1.k", "1.2.3k", "0.3", " 4k"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!(parse_sectors("1k"), Ok(Sectors::new(2)));
        assert!(parse_sectors("700").is_err());
    }

    #[test]
    fn thousandths_are_exact() {
        for (text, thousandths) in [("0", 0), ("0.2", 200), ("1", 1000), ("12.345", 12_345)] {
            assert_eq!(parse_thousandths(text), Ok(thousandths), "{text}");
        }
        for text in ["", "0.0001", "-1", "1.", ".5", "1e3", "0,2"] {
            assert!(parse_thousandths(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        for (text, ns) in
            [("0", 0), ("250us", 250_000), ("7ms", 7_000_000), ("1.5s", 1_500_000_000), ("2min", 120_000_000_000)]
        {
            assert_eq!(parse_nanos(text), Ok(Nanos::from_ns(ns)), "{text}");
        }
        for text in ["", "7", "ms", "0.1ns", "7 ms", "7MS", "999999999h"] {
            assert!(parse_nanos(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_span_prints_as_parses_back() {
        for ns in [0, 1, 999, 250_000, 7_000_000, 1_500_000_000, 60_000_000_000] {
            let span = Nanos::from_ns(ns);
            assert_eq!(parse_nanos(&span.to_string()), Ok(span));
        }
    }

    #[test]
    fn a_fraction_is_exact() {
        let third: Fraction = "0.75".parse().unwrap();
        assert_eq!(third.of(Nanos::from_ns(1_000_001)), Some(Nanos::from_ns(750_000)));
        assert_eq!("2".parse::<Fraction>().unwrap().of(Nanos::from_ns(u64::MAX)), None);
        for text in ["0", "0.0", "-1", "x", "1e3", "", "1."] {
            assert!(text.parse::<Fraction>().is_err(), "{text}");
        }
    }
}
