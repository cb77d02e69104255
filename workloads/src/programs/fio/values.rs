//! The syntax of values in fio 3.33 (`parse.c`): sizes, times, percentages, and lists with one value for each
//! direction.

/// The family of unit prefixes that is binary (`kb_base`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefixes {
    /// `kb_base=1024`: `k`, `ki` and `kb` are 1024, `kib` is 1000.
    Compatible,
    /// `kb_base=1000`: `k`, `ki` and `kb` are 1000, `kib` is 1024.
    Standard,
}

/// A size, or a percentage of a size that is known later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    Bytes(u64),
    Percent(u64),
}

impl Amount {
    pub(super) fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
        }
    }
}

/// A whole number, decimal or hexadecimal, and the text after it.
fn number(text: &str) -> Option<(u64, &str)> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    Some((u64::from_str_radix(&digits[..end], radix).ok()?, &digits[end..]))
}

/// A whole number without a unit.
pub(super) fn count(text: &str) -> Result<u64, String> {
    match number(text.trim()) {
        Some((number, "")) => Ok(number),
        _ => Err(format!("`{text}` is not a whole number")),
    }
}

/// A size in bytes.
pub(super) fn size(text: &str, prefixes: Prefixes) -> Result<u64, String> {
    let error = || format!("`{text}` is not a size such as 512, 4k or 1g; fio takes whole numbers");
    let (number, unit) = number(text.trim()).ok_or_else(error)?;
    let unit = unit.to_ascii_lowercase();
    // The families differ in `kib`, `mib` … only: `ki` equals `k`.
    let (prefix, other_family) = match unit.strip_suffix("ib") {
        Some(prefix) => (prefix, true),
        None => (unit.strip_suffix(['b', 'i']).unwrap_or(&unit), false),
    };
    let power = match prefix {
        "" if unit.is_empty() || unit == "b" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(error()),
    };
    let base: u64 = if (prefixes == Prefixes::Standard) == other_family { 1024 } else { 1000 };
    number.checked_mul(base.pow(power)).ok_or_else(error)
}

/// A size, or a percentage.
pub(super) fn amount(text: &str, prefixes: Prefixes) -> Result<Amount, String> {
    let Some(percent) = text.trim().strip_suffix('%') else { return size(text, prefixes).map(Amount::Bytes) };
    match count(percent) {
        Ok(percent @ 0..=100) => Ok(Amount::Percent(percent)),
        _ => Err(format!("`{text}` is not a percentage from 0% to 100%")),
    }
}

/// The longest time that is accepted; the sum of a few hundred of them does not overflow.
const YEAR_US: u64 = 365 * 86_400_000_000;

/// A time in microseconds; without a unit it is a multiple of `unit_us`.
pub(super) fn micros(text: &str, unit_us: u64) -> Result<u64, String> {
    let error = || format!("`{text}` is not a time such as 10, 250us, 7ms, 30s, 5m or 1h");
    let (number, unit) = number(text.trim()).ok_or_else(error)?;
    let us = match unit.to_ascii_lowercase().as_str() {
        "" => unit_us,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(error()),
    };
    let longest = || format!("`{text}` is longer than a year");
    number.checked_mul(us).filter(|&us| us <= YEAR_US).ok_or_else(longest)
}

/// `0`, `1` or no value, which means 1.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.trim() {
        "" | "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(format!("`{text}` is not 0 or 1")),
    }
}

/// Values for reads, writes and trims: `a` is for all, `a,b` for reads and for the other two, `a,b,c` for each. An
/// empty value leaves the old one.
pub(super) fn directions<T: Copy>(
    text: &str,
    into: &mut [T; 3],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("`{text}` has more than three values: reads, writes, trims"));
    }
    for (direction, value) in into.iter_mut().enumerate() {
        // The last of two or three given values also holds for the remaining directions.
        let part = parts[direction.min(parts.len() - 1)].trim();
        if !part.is_empty() {
            *value = read(part)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_families_of_unit_prefixes() {
        for (text, compatible, standard) in [
            ("4096", 4096, 4096),
            ("4k", 4096, 4000),
            ("4KB", 4096, 4000),
            ("4ki", 4096, 4000),
            ("4KiB", 4000, 4096),
            ("2m", 2 << 20, 2_000_000),
            ("0x10k", 16 << 10, 16_000),
            ("1tib", 1_000_000_000_000, 1 << 40),
            ("7b", 7, 7),
        ] {
            assert_eq!(size(text, Prefixes::Compatible), Ok(compatible), "{text}");
            assert_eq!(size(text, Prefixes::Standard), Ok(standard), "{text}");
        }
        for text in ["", "k", "4i", "4ib", "4bb", "4kbb", "4x", "1.5k", "-1", "99999999t"] {
            assert!(size(text, Prefixes::Compatible).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_the_unit_of_the_option_unless_they_name_one() {
        for (text, us) in [("3", 3_000_000), ("3us", 3), ("3msec", 3000), ("2m", 120_000_000), ("1d", 86_400_000_000)] {
            assert_eq!(micros(text, 1_000_000), Ok(us), "{text}");
        }
        assert_eq!(micros("3", 1), Ok(3));
        for text in ["", "s", "3min", "1.5s", "999999999999d"] {
            assert!(micros(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_have_one_two_or_three_values_for_the_directions() {
        for (text, expected) in
            [("8", [8, 8, 8]), ("8,16", [8, 16, 16]), ("8,16,", [8, 16, 4]), (",16", [4, 16, 16]), (",16,", [4, 16, 4])]
        {
            let mut values = [4; 3];
            directions(text, &mut values, count).unwrap();
            assert_eq!(values, expected, "{text}");
        }
        assert!(directions("1,2,3,4", &mut [0; 3], count).is_err());
    }

    #[test]
    fn amounts_are_bytes_or_percentages() {
        assert_eq!(amount("1k", Prefixes::Compatible), Ok(Amount::Bytes(1024)));
        assert_eq!(amount("25%", Prefixes::Compatible).map(|share| share.of(2048)), Ok(512));
        assert!(amount("101%", Prefixes::Compatible).is_err());
    }
}
