//! The checks that every reader makes of a record, and the errors for bad ones.

use std::path::Path;

use crate::error::{Place, Problem, ReadError};
use crate::record::{Observed, Record};
use crate::request::Request;
use crate::trace::{Losses, ReadOptions};
use crate::units::{Lba, Sectors, Timestamp};

/// Why one record cannot be used: an error, or in a lenient read a skipped record.
#[derive(Debug)]
pub(crate) struct Bad {
    /// The fault.
    pub(crate) problem: Problem,
    /// The reason under which a lenient read counts it; one of a few, so that counts add up.
    pub(crate) reason: &'static str,
}

impl Bad {
    /// The reason of a record whose address or length is no whole number of sectors, which most
    /// often means that its unit is not the assumed one.
    pub(crate) const NO_SECTORS: &str = "no whole sectors";
    /// The reason of a record whose time cannot be counted in nanoseconds, likewise.
    pub(crate) const NO_TIME: &str = "time too large";

    /// The reason of a number that cannot be counted.
    pub(crate) const TOO_LARGE: &str = "number too large";

    /// A record that contradicts the format.
    #[cold]
    pub(crate) fn malformed(what: impl Into<String>) -> Bad {
        Bad { problem: Problem::Malformed(what.into()), reason: "malformed" }
    }

    /// A well-formed record of something that a trace cannot hold.
    #[cold]
    pub(crate) fn unsupported(what: impl Into<String>) -> Bad {
        Bad { problem: Problem::Malformed(what.into()), reason: "unsupported operation" }
    }
}

/// The address and length of a request that moves or discards data.
pub(crate) fn extent(lba: u64, sectors: u64) -> Result<(Lba, Sectors), Bad> {
    let length = Sectors::new(sectors);
    if length == Sectors::ZERO {
        return Err(Bad::malformed("a length of zero sectors"));
    }
    if length > Request::SECTORS_MAX {
        return Err(Bad::malformed(format!("a length of {sectors} sectors, more than {}", Request::SECTORS_MAX)));
    }
    if lba.checked_add(sectors).is_none() {
        return Err(Bad::malformed(format!("sector {lba} and {sectors} sectors reach beyond the last address")));
    }
    Ok((Lba::new(lba), length))
}

/// Refuses a record with a time after [`Timestamp::TRACE_MAX`], counted from `zero`.
#[inline]
pub(crate) fn check_times(record: &Record, zero: Timestamp) -> Result<(), Bad> {
    let Observed { inserted, issued, completed, .. } = record.observed;
    let times = [inserted, issued, completed].into_iter().flatten().chain([record.request.arrival]);
    let latest = times.fold(Timestamp::ZERO, Timestamp::max);
    if latest.saturating_since(zero) > Timestamp::TRACE_MAX.since(Timestamp::ZERO) {
        Err(too_late(latest))
    } else {
        Ok(())
    }
}

/// The fault of a time that no sum of times could hold.
#[cold]
pub(crate) fn too_late(time: Timestamp) -> Bad {
    let what = format!("a time of {time}, more than {} after the zero of the trace", Timestamp::TRACE_MAX_TEXT);
    Bad { reason: Bad::NO_TIME, ..Bad::malformed(what) }
}

/// The most of a trace's requests, in percent, whose times may be in an impossible order. A few are a matter of clocks
/// that differ between processors; more mean that columns or units are not the assumed ones.
pub const IMPOSSIBLE_PERCENT_MAX: u64 = 1;

/// Counts the requests whose times are in an impossible order, which is: arrival (Q), insertion (I), issue (D),
/// completion (C).
#[derive(Debug, Default)]
pub(crate) struct TimesInOrder {
    requests: u64,
    impossible: u64,
    /// The place of the first of them.
    first: Option<Place>,
}

impl TimesInOrder {
    /// Looks at the next request, which stands at `place`.
    #[inline]
    pub(crate) fn look(&mut self, record: &Record, place: Place, losses: &mut Losses) {
        self.requests += 1;
        let Observed { inserted, issued, completed, .. } = record.observed;
        let times = [inserted, issued, completed].into_iter().flatten();
        let mut last = record.request.arrival;
        if !times.map(|time| std::mem::replace(&mut last, time) <= time).fold(true, |all, one| all & one) {
            self.count(record, place, losses);
        }
    }

    #[cold]
    fn count(&mut self, record: &Record, place: Place, losses: &mut Losses) {
        self.impossible += 1;
        self.first.get_or_insert(place);
        let Observed { inserted, issued, completed, .. } = record.observed;
        let mut before = ("Q", record.request.arrival);
        for (event, time) in [("I", inserted), ("D", issued), ("C", completed)] {
            let Some(time) = time else { continue };
            if time < before.1 {
                losses.impossible(&format!("{event} before {}", before.0));
            }
            before = (event, time);
        }
    }

    /// Refuses a trace of which too many requests are so, at its end.
    pub(crate) fn at_end(&self, path: &Path, lenient: bool, losses: &Losses) -> Result<(), ReadError> {
        let TimesInOrder { requests, impossible, first } = *self;
        let Some(first) = first else { return Ok(()) };
        if lenient || u128::from(impossible) * 100 <= u128::from(requests) * u128::from(IMPOSSIBLE_PERCENT_MAX) {
            return Ok(());
        }
        let kinds: Vec<String> = losses.impossible.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        let what = format!(
            "{impossible} of {requests} requests have times in an impossible order, more than \
             {IMPOSSIBLE_PERCENT_MAX} % ({}); this is the first",
            kinds.join(", ")
        );
        let error = ReadError::new(path, first, Problem::Malformed(what));
        Err(error.remedy("--lenient counts them and leaves such times out"))
    }
}

/// The [`ReadOptions`] that a format uses; the others must not be given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Takes {
    /// A device, out of several.
    pub(crate) device: bool,
    /// The operation, which its records do not hold.
    pub(crate) operation: bool,
    /// Units other than its own.
    pub(crate) units: bool,
    /// Which pause a think time is.
    pub(crate) think_time: bool,
}

impl Takes {
    /// Refuses `options` that have no effect.
    pub(crate) fn check(self, path: &Path, format: &str, options: &ReadOptions) -> Result<(), ReadError> {
        let units = &options.units;
        for (given, taken, option, why) in [
            (options.device.is_some(), self.device, "--device", "names no devices"),
            (options.operation.is_some(), self.operation, "--op", "states the operation of each request"),
            (units.time.is_some(), self.units, "--time-unit", "is in units of its own"),
            (units.address_bytes.is_some(), self.units, "--address-unit", "is in units of its own"),
            (units.length_bytes.is_some(), self.units, "--length-unit", "is in units of its own"),
            (options.think_time.is_some(), self.think_time, "--think-time", "holds no think times"),
        ] {
            if given && !taken {
                let what = format!("a {format} trace {why}, so {option} has no meaning");
                return Err(ReadError::new(path, Place::Whole, Problem::Missing(what)).remedy("leave it out"));
            }
        }
        Ok(())
    }
}

/// Sees to it that arrivals never decrease.
#[derive(Debug, Default)]
pub(crate) struct Order {
    last: Timestamp,
}

impl Order {
    /// Admits the next record by its times.
    pub(crate) fn admit(&mut self, record: &Record) -> Result<(), Bad> {
        check_times(record, Timestamp::ZERO)?;
        let arrival = record.request.arrival;
        if arrival < self.last {
            return Err(self.out_of_order(arrival));
        }
        self.last = arrival;
        Ok(())
    }

    #[cold]
    fn out_of_order(&self, arrival: Timestamp) -> Bad {
        let what = format!("an arrival at {arrival} after one at {}", self.last);
        Bad { problem: Problem::OutOfOrder(what), reason: "out of order" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Operation;
    use crate::units::Nanos;

    #[test]
    fn an_extent_is_neither_empty_nor_too_long_nor_beyond_the_last_address() {
        assert!(extent(0, u64::from(u32::MAX)).is_ok());
        assert!(extent(u64::MAX - 8, 8).is_ok());
        for (lba, sectors) in [(0, 0), (0, 1 << 32), (u64::MAX - 7, 8)] {
            assert!(extent(lba, sectors).is_err(), "{lba} {sectors}");
        }
    }

    #[test]
    fn equal_arrivals_are_in_order_and_a_refused_one_does_not_count() {
        let mut order = Order::default();
        for (ns, admitted) in [(5, true), (5, true), (4, false), (5, true), (9, true)] {
            assert_eq!(order.admit(&arrived(ns)).is_ok(), admitted, "{ns}");
        }
    }

    fn arrived(ns: u64) -> Record {
        Record::arrived(Request::new(Timestamp::from_ns(ns), Operation::Read, Lba::ZERO, Sectors::new(8)))
    }

    #[test]
    fn times_in_an_impossible_order_are_counted_by_kind_and_refused_above_a_hundredth() {
        let at = |ns: Option<u64>| ns.map(Timestamp::from_ns);
        let record = |[inserted, issued, completed]: [Option<u64>; 3]| Record {
            observed: Observed { inserted: at(inserted), issued: at(issued), completed: at(completed), error: 0 },
            ..arrived(10)
        };
        let look = |times: &[[Option<u64>; 3]]| {
            let (mut order, mut losses) = (TimesInOrder::default(), Losses::default());
            for (line, times) in (1..).zip(times) {
                order.look(&record(*times), Place::Line(line), &mut losses);
            }
            (order, losses)
        };
        let possible = [[None; 3], [Some(10); 3], [Some(11), Some(12), Some(13)], [None, Some(10), None]];
        let (order, losses) = look(&possible);
        assert!(losses.impossible.is_empty() && order.at_end(Path::new("x"), false, &losses).is_ok());
        let impossible = [
            [Some(9), None, None],
            [Some(11), Some(10), None],
            [None, Some(12), Some(11)],
            [None, None, Some(9)],
            [Some(9), Some(8), Some(12)],
        ];
        let (order, losses) = look(&[&possible[..], &impossible].concat());
        let kinds: Vec<(&str, u64)> = losses.impossible.iter().map(|(kind, &count)| (kind.as_str(), count)).collect();
        assert_eq!(kinds, [("C before D", 1), ("C before Q", 1), ("D before I", 2), ("I before Q", 2)]);
        assert_eq!(losses.total(), 0, "they are read");
        let error = order.at_end(Path::new("x"), false, &losses).unwrap_err();
        assert_eq!(error.place, Place::Line(5));
        assert!(error.to_string().contains("5 of 9 requests have times in an impossible order"), "{error}");
        assert!(order.at_end(Path::new("x"), true, &losses).is_ok());
        for (requests, is_refused) in [(100, false), (99, true)] {
            let mut times = vec![[None, Some(12), Some(11)]];
            times.resize(requests, [None; 3]);
            let (order, losses) = look(&times);
            assert_eq!(order.at_end(Path::new("x"), false, &losses).is_err(), is_refused, "1 of {requests}");
        }
    }

    #[test]
    fn every_time_of_a_record_lies_within_the_range_of_times() {
        let last = Timestamp::TRACE_MAX;
        let after = last.saturating_add(Nanos::from_ns(1));
        let set: [fn(&mut Record, Timestamp); 4] = [
            |record, time| record.request.arrival = time,
            |record, time| record.observed.inserted = Some(time),
            |record, time| record.observed.issued = Some(time),
            |record, time| record.observed.completed = Some(time),
        ];
        for (number, set) in set.into_iter().enumerate() {
            let mut record = arrived(0);
            set(&mut record, last);
            assert!(Order::default().admit(&record).is_ok(), "{number}");
            set(&mut record, after);
            let bad = Order::default().admit(&record).unwrap_err();
            assert_eq!(bad.reason, Bad::NO_TIME, "{number}");
            assert!(bad.problem.to_string().contains("146 years"), "{}", bad.problem);
            assert!(check_times(&record, Timestamp::from_ns(1)).is_ok(), "{number}: dates count from the first");
        }
    }
}
