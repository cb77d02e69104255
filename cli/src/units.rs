//! Quantities as people read them: three significant digits, and a unit that fits.

use std::collections::BTreeMap;

use traces::results::supports_percentile;

/// What a table prints where there is no value.
pub const ABSENT: &str = "–";

/// The span of time, or [`ABSENT`].
pub fn span_or_absent(ns: Option<f64>) -> String {
    ns.map_or_else(|| ABSENT.to_owned(), span)
}

/// A percentile of times, or [`ABSENT`] where too few samples support it.
pub fn percentile(percentiles_ns: &BTreeMap<String, u64>, samples: u64, name: &str) -> String {
    span_or_absent(supported(percentiles_ns, samples, name))
}

/// A percentile of times in ns; `None` where too few samples support it.
pub fn supported(percentiles_ns: &BTreeMap<String, u64>, samples: u64, name: &str) -> Option<f64> {
    percentiles_ns.get(name).filter(|_| supports_percentile(samples, name)).map(|&ns| ns as f64)
}

/// A span of time to three digits.
pub fn span(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    format!("{}{unit}", three_digits(value))
}

/// An amount of data, in binary units, to three digits.
pub fn data(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

/// A number to three digits; whole numbers as they are.
pub fn three_digits(value: f64) -> String {
    let decimals = if value >= 100.0 || value.fract() == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

/// A ratio to three digits, however small.
pub fn ratio(value: f64) -> String {
    let decimals = if value > 0.0 { (2.0 - value.log10().floor()).clamp(0.0, 9.0) as usize } else { 2 };
    format!("{value:.*}", if value >= 1.0 { decimals } else { decimals.saturating_sub(usize::from(value >= 0.01)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_show_three_digits() {
        assert_eq!(span(999.0), "999ns");
        assert_eq!(span(24_921.0), "24.9µs");
        assert_eq!(span(1_041_388.0), "1.04ms");
        assert_eq!(span(51_222_195_000.0), "51.2s");
        assert_eq!(data(512), "512 B");
        assert_eq!(data(12_595), "12.3 KiB");
        assert_eq!(data(4 << 20), "4 MiB");
    }

    #[test]
    fn small_ratios_keep_their_digits() {
        let said = [15.93, 1.0, 0.741, 0.0169, 0.00012, 0.0].map(ratio);
        assert_eq!(said, ["15.9", "1.00", "0.74", "0.017", "0.000120", "0.00"]);
    }
}
