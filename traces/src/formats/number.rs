//! Numbers in text, exactly: no sign, no exponent, nothing rounded.

use crate::formats::check::Bad;

/// A field that must be a whole number without sign.
pub(crate) fn integer(name: &str, field: &[u8]) -> Result<u64, Bad> {
    decimal(name, field, 0)
}

/// A field that must be a decimal number without sign or exponent, in units of 10^-`places`.
/// Digits beyond that are refused unless they are zero: nothing is rounded.
pub(crate) fn decimal(name: &str, field: &[u8], places: u32) -> Result<u64, Bad> {
    scaled(field, places).map_err(|why| {
        let text = String::from_utf8_lossy(&field[..field.len().min(40)]);
        if why == TOO_LARGE { too_large(name, &text) } else { Bad::malformed(format!("{name} `{text}` {why}")) }
    })
}

/// A number that cannot be counted.
#[cold]
pub(crate) fn too_large(name: &str, text: &str) -> Bad {
    Bad { reason: Bad::TOO_LARGE, ..Bad::malformed(format!("{name} `{text}` {TOO_LARGE}")) }
}

const NOT_A_NUMBER: &str = "is not a number";
const TOO_LARGE: &str = "is too large";
const TOO_PRECISE: &str = "has more decimals than are kept";

/// 10 to the power of the index, as far as there are units of time.
const POWERS_OF_TEN: [u64; 16] = {
    let mut powers = [1; 16];
    let mut power = 1;
    while power < powers.len() {
        powers[power] = powers[power - 1] * 10;
        power += 1;
    }
    powers
};

fn scaled(field: &[u8], places: u32) -> Result<u64, &'static str> {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let (whole, fraction) = (&field[..point], &field[(point + 1).min(field.len())..]);
    if whole.is_empty() || (point < field.len() && (fraction.is_empty() || places == 0)) {
        return Err(NOT_A_NUMBER);
    }
    let (kept, beyond) = fraction.split_at(fraction.len().min(places as usize));
    let mut value = 0u64;
    for &byte in whole.iter().chain(kept) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(NOT_A_NUMBER);
        }
        value = value.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit))).ok_or(TOO_LARGE)?;
    }
    if beyond.iter().any(|byte| !byte.is_ascii_digit()) {
        return Err(NOT_A_NUMBER);
    }
    if beyond.iter().any(|&byte| byte != b'0') {
        return Err(TOO_PRECISE);
    }
    value.checked_mul(POWERS_OF_TEN[places as usize - kept.len()]).ok_or(TOO_LARGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, places, value) in [
            ("0", 9, 0),
            ("0.0", 9, 0),
            ("12.5", 9, 12_500_000_000),
            ("3600.949630130", 9, 3_600_949_630_130),
            ("0.1234567890000", 9, 123_456_789),
            ("18446744073709551615", 0, u64::MAX),
            ("18446744073.709551615", 9, u64::MAX),
            ("007", 0, 7),
        ] {
            assert_eq!(scaled(text.as_bytes(), places), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_plain_decimal_is_refused() {
        for (text, places, why) in [
            ("", 9, "not a number"),
            (".5", 9, "not a number"),
            ("5.", 9, "not a number"),
            ("1.2.3", 9, "not a number"),
            ("-1", 9, "not a number"),
            ("+1", 9, "not a number"),
            ("1e3", 9, "not a number"),
            ("NaN", 9, "not a number"),
            ("inf", 9, "not a number"),
            ("1 2", 9, "not a number"),
            ("1.0", 0, "not a number"),
            ("0.000000000x", 9, "not a number"),
            ("0.0000000001", 9, "more decimals"),
            ("18446744073709551616", 0, "too large"),
            ("18446744073.709551616", 9, "too large"),
        ] {
            let refused = scaled(text.as_bytes(), places).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
