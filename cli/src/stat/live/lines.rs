//! A second of a device as a line of text, where there is no screen.

use chrono::{DateTime, Local};
use traces::printable::printable;

use super::recent::{OfVm, Second};
use crate::screen::{Requests, rate};
use crate::units::span_or_absent;

/// Seconds between two headings.
pub const SECONDS_PER_HEADING: u64 = 20;

/// The heading, which names the figures of [`line()`].
pub fn heading() -> String {
    let of = |operation: &str| format!("{:>9} {:>7} {:>8} {:>8}", format!("{operation}/s"), "MB/s", "p50", "p99");
    format!("{:<8} {} {} {:>9}  most requests per s\n", "time", of("reads"), of("writes"), "in flight")
}

/// A second: its begin, reads and writes each with their rate, throughput and D2C, the mean number in flight, and the
/// three VMs or processes with the most requests.
pub fn line(second: &Second, width: Option<u16>) -> String {
    let length_ns = second.length_ns;
    let of = |requests: &Requests| {
        format!(
            "{:>9} {:>7} {:>8} {:>8}",
            rate(requests.count, length_ns),
            rate(requests.bytes, length_ns.saturating_mul(1_000_000)),
            span_or_absent(requests.percentile(5_000)),
            span_or_absent(requests.percentile(9_900))
        )
    };
    let mut vms: Vec<&OfVm> = second.vms.iter().collect();
    vms.sort_by(|a, b| b.requests().cmp(&a.requests()).then_with(|| a.name.cmp(&b.name)));
    let top = vms.iter().take(3).map(|vm| format!("{} {}", printable(&vm.name), rate(vm.requests(), length_ns)));
    let line = format!(
        "{} {} {} {:>9.1}  {}",
        DateTime::from_timestamp_nanos(second.start_unix_ns).with_timezone(&Local).format("%H:%M:%S"),
        of(&second.all.reads),
        of(&second.all.writes),
        second.in_flight_mean(),
        top.collect::<Vec<String>>().join(", ")
    );
    let line: String = line.chars().take(width.map_or(usize::MAX, usize::from)).collect();
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::super::recent::tests::{line as captured, recent};
    use super::*;

    #[test]
    fn figures_stand_below_their_names() {
        let hostile = captured(0, "m\x1b[2Jail", &[2_000_000; 400], &[8_000_000; 30]);
        let recent = recent(vec![captured(0, "web", &[500_000; 800], &[]), hostile, captured(1, "", &[], &[])]);
        let text: String = recent.seconds.iter().map(|second| line(second, None)[9..].to_owned()).collect();
        assert_eq!(
            format!("{}{text}", &heading()[9..]),
            "  reads/s    MB/s      p50      p99  writes/s    MB/s      p50      p99 in flight  most requests per s\n     \
             1200    4.92    500µs   2.00ms        30    31.5   8.00ms   8.00ms       0.2  web 800, m\\u{1b}[2Jail 430\n        \
             0       0        –        –         0       0        –        –       0.2\n"
        );
        assert!(line(&recent.seconds[0], Some(20)).chars().count() <= 21);
    }
}
