//! Quantiles in two passes of bounded memory, exact to the nanosecond.
//!
//! The quantile of a share p of n values is the least value that at least p·n of them do not exceed: the one of rank
//! ⌈p·n⌉ (inverse of the distribution function; numpy `inverted_cdf`, DuckDB `quantile_disc`, polars `equiprobable`). The
//! first pass counts the values in buckets 1 % wide, the second the single values of the buckets in which ranks lie.

use std::collections::BTreeMap;
use std::str::FromStr;

/// A share of all values, as a decimal fraction, so that ranks are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    numerator: u64,
    /// The number of digits behind the point.
    digits: u32,
}

/// The most digits behind the point.
const DIGITS_MAX: usize = 9;

impl Share {
    /// A share in thousandths.
    pub const fn thousandths(numerator: u64) -> Share {
        Share { numerator, digits: 3 }
    }

    /// The rank of the quantile among `count` values, from 1.
    pub fn rank(self, count: u64) -> u64 {
        let exact = u128::from(self.numerator) * u128::from(count);
        u64::try_from(exact.div_ceil(10_u128.pow(self.digits))).unwrap_or(u64::MAX).max(1)
    }

    /// As it is called in percent: `p99.9`.
    pub fn name(self) -> String {
        let percent = self.numerator as f64 * 100.0 / 10_f64.powi(self.digits as i32);
        format!("p{}", (percent * 1e7).round() / 1e7)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wrong = || format!("`{text}` is no share between 0 and 1, such as 0.99, with at most {DIGITS_MAX} digits");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() != 1 || !plain(whole) || !plain(fraction) || fraction.len() > DIGITS_MAX {
            return Err(wrong());
        }
        let numerator: u64 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        let share = Share { numerator, digits: fraction.len() as u32 };
        if numerator == 0 || numerator > 10_u64.pow(share.digits) { Err(wrong()) } else { Ok(share) }
    }
}

/// Where a quantile of a group lies: in this bucket, at this rank in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub bucket: u32,
    pub rank: u64,
}

/// The place of the value of `rank`, where `buckets` has the number of values in each; `None` without values.
pub fn place(buckets: &BTreeMap<u32, u64>, rank: u64) -> Option<Place> {
    let mut before = 0;
    for (&bucket, &count) in buckets {
        if rank <= before + count {
            return Some(Place { bucket, rank: rank - before });
        }
        before += count;
    }
    None
}

/// The value of `rank`, where `values` has the number of times that each occurs.
pub fn value_of(values: &BTreeMap<u64, u64>, rank: u64) -> Option<u64> {
    let mut before = 0;
    values.iter().find_map(|(&value, &count)| {
        before += count;
        (rank <= before).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_inverted_distribution_function() {
        let share = |text: &str| text.parse::<Share>().unwrap();
        // 0.07 · 100 is above 7 in floating point.
        for (text, count, rank) in [
            ("0.07", 100, 7),
            ("0.5", 1, 1),
            ("0.5", 4, 2),
            ("0.5", 5, 3),
            ("0.999", 1000, 999),
            ("0.999", 1001, 1000),
            ("1", 7, 7),
            ("1.0", 7, 7),
            ("0.000000001", 7, 1),
            ("0.99", u64::MAX, 18_262_276_632_972_456_099),
        ] {
            assert_eq!(share(text).rank(count), rank, "{text} of {count}");
        }
        for (text, name) in [("0.5", "p50"), ("0.999", "p99.9"), ("0.9999", "p99.99"), ("1", "p100"), ("0.07", "p7")] {
            assert_eq!(share(text).name(), name);
        }
        for wrong in ["", "0", "0.0", "1.01", "2", "99", "-0.5", "0,5", "p99", ".5", "NaN", "0.12345678901", "1e-3"] {
            assert!(wrong.parse::<Share>().unwrap_err().contains("is no share"), "{wrong}");
        }
    }

    #[test]
    fn a_value_is_found_by_its_bucket_and_its_rank_there() {
        let values = [3_u64, 3, 5, 8, 8, 8, 13, 200];
        let bucket = |value: u64| (value / 5) as u32;
        let mut buckets: BTreeMap<u32, u64> = BTreeMap::new();
        values.iter().for_each(|&value| *buckets.entry(bucket(value)).or_default() += 1);
        for (index, value) in values.into_iter().enumerate() {
            let found = place(&buckets, index as u64 + 1).unwrap();
            let mut within: BTreeMap<u64, u64> = BTreeMap::new();
            let of_bucket = values.iter().filter(|&&value| bucket(value) == found.bucket);
            of_bucket.for_each(|&value| *within.entry(value).or_default() += 1);
            assert_eq!(value_of(&within, found.rank), Some(value));
        }
        assert_eq!(place(&buckets, 9), None);
        assert_eq!(place(&BTreeMap::new(), 1), None);
    }
}
