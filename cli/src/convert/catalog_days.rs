//! On which days each device of a trace has requests. A trace's time of day is known only at its end, and its days with
//! it.

use traces::Timestamp;

use crate::catalog::{self, Day};

/// The most files of one trace, so that a damaged time makes no folder for each day of a century.
pub const FILES_MAX: usize = 10_000;
/// The most spans that are kept. Two spans may share their only day, so more of them are more files than the most.
const SPANS_MAX: usize = 2 * FILES_MAX;

/// When the requests of each device arrive: the first and last of each 24 hours of the trace's clock that have any.
/// Such a span holds one midnight at most, so all its days are those of these two.
#[derive(Debug, Default)]
pub struct Arrivals {
    by_device: Vec<Vec<(Timestamp, Timestamp)>>,
    spans: usize,
}

impl Arrivals {
    /// Adds a request. Arrivals never decrease.
    pub fn add(&mut self, device: usize, arrival: Timestamp) {
        if self.by_device.len() <= device {
            self.by_device.resize_with(device + 1, Vec::new);
        }
        let spans = &mut self.by_device[device];
        match spans.last_mut() {
            Some((first, last)) if span_of(*first) == span_of(arrival) => *last = arrival,
            Some(_) if self.spans > SPANS_MAX => {}
            _ => {
                spans.push((arrival, arrival));
                self.spans += 1;
            }
        }
    }

    /// The days of each device in their order; none of a device without requests, and the unknown one of a trace whose
    /// time of day is not known. They are complete if there are no more than [`FILES_MAX`].
    pub fn days(self, zero_unix_ns: Option<i64>) -> Vec<Vec<Option<Day>>> {
        let days = |spans: Vec<(Timestamp, Timestamp)>| {
            let arrivals = spans.into_iter().flat_map(|(first, last)| [first, last]);
            let mut days: Vec<Option<Day>> = arrivals.map(|arrival| day(zero_unix_ns, arrival)).collect();
            days.dedup();
            days
        };
        self.by_device.into_iter().map(days).collect()
    }
}

/// The day of an arrival, if the time of day is known.
pub fn day(zero_unix_ns: Option<i64>, arrival: Timestamp) -> Option<Day> {
    Some(catalog::day(zero_unix_ns?, arrival.as_ns()))
}

/// The 24 hours of the trace's clock in which an arrival lies.
fn span_of(arrival: Timestamp) -> Day {
    catalog::day(0, arrival.as_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn days(hours: &[u64], zero_hours: i64) -> Vec<Day> {
        let mut arrivals = Arrivals::default();
        hours.iter().for_each(|hour| arrivals.add(1, Timestamp::from_ns(hour * HOUR_NS)));
        let found = arrivals.days(Some(zero_hours * HOUR_NS as i64));
        assert_eq!((found.len(), found[0].len()), (2, 0), "there is no request of device 0");
        found[1].iter().flatten().copied().collect()
    }

    #[test]
    fn days_are_those_of_requests_whenever_the_clock_begins() {
        let hours = [0, 1, 30, 47, 48, 100, 2400];
        for zero in [0, 1, 12, 18, 23, -1, -100] {
            let mut expected: Vec<Day> = hours.iter().map(|hour| (*hour as i64 + zero).div_euclid(24)).collect();
            expected.dedup();
            assert_eq!(days(&hours, zero), expected, "a clock that begins {zero} hours after 1970");
        }
    }

    #[test]
    fn more_spans_than_files_allow_are_not_kept() {
        let every_day: Vec<u64> = (0..100_000).map(|day| day * 24).collect();
        assert_eq!(days(&every_day[..FILES_MAX], 0).len(), FILES_MAX);
        assert_eq!(days(&every_day, 0).len(), SPANS_MAX + 1);
        // Two spans around each midnight that has requests are one day.
        let pairs: Vec<u64> = (0..100_000).flat_map(|pair| [pair * 48 + 23, pair * 48 + 24]).collect();
        assert_eq!(days(&pairs, 12).len(), FILES_MAX + 1);
        // Without a time of day there is one file for each device, however long the trace is.
        let mut arrivals = Arrivals::default();
        every_day.iter().for_each(|hour| arrivals.add(0, Timestamp::from_ns(hour * HOUR_NS)));
        arrivals.add(1, Timestamp::from_ns(u64::MAX));
        assert_eq!(arrivals.days(None), [[None], [None]]);
        // Requests of one day are one span, however many.
        let mut arrivals = Arrivals::default();
        (0..1000).for_each(|second| arrivals.add(0, Timestamp::from_ns(second * 1_000_000_000)));
        assert_eq!(arrivals.spans, 1);
    }
}
