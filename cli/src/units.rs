//! Quantities as people read them: three significant digits, and a unit that fits.

/// What a table prints where there is no value.
pub const ABSENT: &str = "–";

/// The span of time, or [`ABSENT`].
pub fn span_or_absent(ns: Option<f64>) -> String {
    ns.map_or_else(|| ABSENT.to_owned(), span)
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

/// A number to three digits.
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
}
