//! The figures of a run of a VM, and the errors of many.

use traces::results::cross::{CrossCase, CrossFigure, CrossSummary};
use traces::results::supports_percentile;
use traces::statistics::Distribution;
use traces::{Flags, Operation, Record, Timestamp};

use crate::validate::guest_requests::{AtDevice, Done, at_device, done};

/// The figures that are compared.
pub const NAMES: [&str; 13] = [
    "requests_per_s",
    "reads_per_s",
    "writes_per_s",
    "bytes_per_s",
    "read_response_mean_ns",
    "read_response_p50_ns",
    "read_response_p99_ns",
    "write_response_mean_ns",
    "write_response_p50_ns",
    "write_response_p99_ns",
    "outstanding_mean",
    "device_request_bytes",
    "write_back_share",
];

/// A run: what the guest's processes and kernel asked for, and what reached its disk.
pub struct Run {
    pub done: Vec<Done>,
    pub at_device: Vec<AtDevice>,
}

impl Run {
    /// A run as it was captured.
    pub fn captured(records: &[Record]) -> Run {
        Run { done: done(records), at_device: at_device(records) }
    }

    /// The values of [`NAMES`] over what arrived from `begin` to before `end`.
    pub fn figures(&self, begin: Timestamp, end: Timestamp) -> [Option<f64>; NAMES.len()] {
        let span = begin..end;
        let mut responses = [Distribution::default(), Distribution::default()];
        let (mut bytes, mut written, mut written_back, mut outstanding_ns) = (0, 0, 0, 0u128);
        for Done { request, response } in self.done.iter().filter(|done| span.contains(&done.request.arrival)) {
            let (of, is_write) = match request.operation {
                Operation::Read => (&mut responses[0], false),
                Operation::Write => (&mut responses[1], true),
                Operation::Flush | Operation::Discard => continue,
            };
            of.add(*response);
            outstanding_ns += u128::from(response.as_ns());
            let size = request.sectors().bytes();
            bytes += size;
            if is_write {
                written += size;
                written_back += if request.flags.contains(Flags::SYNC) { 0 } else { size };
            }
        }
        let seconds = end.saturating_since(begin).as_s_f64();
        let per_s = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        let [reads, writes] = &responses;
        let [read_mean, read_p50, read_p99] = times(reads);
        let [write_mean, write_p50, write_p99] = times(writes);
        let sent: Vec<&AtDevice> = self.at_device.iter().filter(|of| span.contains(&of.issued)).collect();
        let carried: u64 = sent.iter().map(|of| of.bytes).sum();
        [
            per_s(reads.count() + writes.count()),
            per_s(reads.count()),
            per_s(writes.count()),
            per_s(bytes),
            read_mean,
            read_p50,
            read_p99,
            write_mean,
            write_p50,
            write_p99,
            (seconds > 0.0).then(|| outstanding_ns as f64 / 1e9 / seconds),
            (!sent.is_empty()).then(|| carried as f64 / sent.len() as f64),
            (written > 0).then(|| written_back as f64 / written as f64),
        ]
    }
}

/// Mean, median and 99th percentile, where enough requests support it.
fn times(of: &Distribution) -> [Option<f64>; 3] {
    let percentile = |hundredths: u32, name: &str| {
        of.percentile_ns(hundredths).filter(|_| supports_percentile(of.count(), name)).map(|ns| ns as f64)
    };
    [of.moments().mean_ns, percentile(5_000, "p50"), percentile(9_900, "p99")]
}

/// The errors over all cases, by figure.
pub fn summary(cases: &[CrossCase]) -> Vec<CrossSummary> {
    NAMES.iter().filter_map(|name| summary_of(name, cases)).collect()
}

fn summary_of(name: &str, cases: &[CrossCase]) -> Option<CrossSummary> {
    let figures: Vec<&CrossFigure> = cases.iter().filter_map(|case| case.figures.get(name)).collect();
    let errors: Vec<f64> = figures.iter().filter_map(|figure| figure.error()).collect();
    let unchanged = amounts(&figures.iter().filter_map(|figure| figure.unchanged_error()).collect::<Vec<f64>>());
    let of = amounts(&errors);
    let mut signed = errors;
    signed.sort_by(f64::total_cmp);
    Some(CrossSummary {
        figure: name.to_owned(),
        cases: of.len() as u64,
        median: rank(&of, 0.5)?,
        p90: rank(&of, 0.9)?,
        bias: rank(&signed, 0.5)?,
        unchanged: [rank(&unchanged, 0.5)?, rank(&unchanged, 0.9)?],
    })
}

/// The amounts of errors, in order.
fn amounts(errors: &[f64]) -> Vec<f64> {
    let mut amounts: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    amounts.sort_by(f64::total_cmp);
    amounts
}

/// The value below which this share of them lies, itself among them.
fn rank(sorted: &[f64], share: f64) -> Option<f64> {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use traces::{Lba, Nanos, Request, Sectors};

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ns(ms * 1_000_000)
    }

    #[test]
    fn figures_are_of_what_arrived_in_the_window() {
        let one = |ms: u64, operation, is_sync: bool, sectors: u64, response_ms: u64| {
            let mut request = Request::new(at(ms), operation, Lba::new(0), Sectors::new(sectors));
            request.flags = if is_sync { Flags::SYNC } else { Flags::empty() };
            Done { request, response: Nanos::from_ms(response_ms) }
        };
        let run = Run {
            done: vec![
                one(500, Operation::Read, true, 8, 100),
                one(1_000, Operation::Read, true, 8, 4),
                one(1_500, Operation::Write, true, 8, 10),
                one(2_000, Operation::Write, false, 24, 20),
                one(2_500, Operation::Flush, true, 0, 30),
                one(3_000, Operation::Read, true, 8, 100),
            ],
            at_device: vec![AtDevice { bytes: 4096, issued: at(1_000) }, AtDevice { bytes: 16_384, issued: at(2_000) }],
        };
        let figures = run.figures(at(1_000), at(3_000));
        let expected = [
            Some(1.5),
            Some(0.5),
            Some(1.0),
            Some(10_240.0),
            Some(4e6),
            None,
            None,
            Some(15e6),
            None,
            None,
            Some(0.017),
            Some(10_240.0),
            Some(0.75),
        ];
        assert_eq!(figures, expected);
    }

    #[test]
    fn errors_are_summed_up_over_cases() {
        let case = |captured: f64, replayed: f64, truth: f64| CrossCase {
            vm: "web".to_owned(),
            figures: BTreeMap::from([(
                "reads_per_s".to_owned(),
                CrossFigure { captured: Some(captured), replayed: Some(replayed), truth: Some(truth) },
            )]),
            ..CrossCase::default()
        };
        let cases = [case(200.0, 90.0, 100.0), case(100.0, 103.0, 100.0), case(50.0, 98.0, 100.0), case(1.0, 1.0, 0.0)];
        let [found] = summary(&cases).try_into().unwrap();
        assert_eq!((found.cases, found.figure.as_str()), (3, "reads_per_s"));
        let percent = |share: f64| (share * 100.0).round();
        assert_eq!([found.median, found.p90, found.bias].map(percent), [3.0, 10.0, -2.0]);
        assert_eq!(found.unchanged.map(percent), [50.0, 100.0]);
    }
}
