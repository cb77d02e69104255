//! fio's latency logs (`write_lat_log`), one request a line, e.g. `NAME_lat.1.log`:
//!
//! ```text
//! 559, 3838001, 1, 4096, 40960, 0
//! ```
//!
//! time in ms, latency in ns (µs before fio 3.0: `--time-unit us`), direction (0 read, 1 write,
//! 2 trim), length and offset in bytes, and priority. Only logs made with `log_offset=1` have the
//! places of requests. Priority is 1 for the real-time class and 0 for any other, or with `log_prio=1` in
//! hexadecimal as Linux has it; older logs have none. With `log_issue_time=1` (newer than the fio
//! 3.33 that was at hand; from its source) the time of issue follows, in ns since the start.
//!
//! *Times.* The time is that of the completion, cut off to ms: fio logs a request when it is done.
//! So it arrived a latency earlier, which is known to 1 ms, and not before the log's zero. The meaning
//! of a latency depends on the file: `_lat` from fio's taking up the request to its completion, `_clat`
//! from its issue to its completion, `_slat` from taking up to issue, logged at the issue.
//!
//! *Order.* Arrivals are put in order within a minute.

use std::path::Path;

use crate::error::{Place, Problem, ReadError};
use crate::formats::check::{Bad, Takes};
use crate::formats::number::{decimal, integer};
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{LineParser, TextFormat, TextReader, by_comma, first_lines};
use crate::formats::{Format, Opened};
use crate::input::look_at;
use crate::record::{Observed, Record};
use crate::request::{Operation, Priority, Request};
use crate::trace::{ReadOptions, TimeUnit, TraceMeta};
use crate::units::{Nanos, Timestamp};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "fio-latency",
    summary: "fio latency log with log_offset=1: ms, latency ns, direction, length, offset[, priority]",
    units: "ms; latencies in ns (µs before fio 3.0); bytes",
    traps: "The time is that of completion, in whole ms: arrivals are known to 1 ms only. Without log_offset=1 it \
            holds no addresses, with log_avg_msec no single requests. Bandwidth and IOPS logs look \
            the same. Flushes are not logged. With log_unix_epoch=1 times are dates. Jobs that share one log \
            (per_job_logs=0) follow one another in it.",
    recognises,
    open,
    ..Format::READ_ONLY
};

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "fio, since the job began",
    epoch_unix_s: None,
    units: Units { time: TimeUnit::Nanoseconds, address_bytes: 1, length_bytes: 1 },
    takes: Takes { device: false, operation: false, units: true, think_time: false },
    reorder: Nanos::from_s(60),
};

/// Times from here on, in ms, are dates: 1973. No job takes three years.
const DATES_FROM_MS: u64 = 100_000_000_000;
/// Columns of a log that has all: the last is the time of issue.
const ALL_COLUMNS: usize = 7;
/// How many of the first lines must look right.
const LINES_SNIFFED: usize = 8;
/// The level of a real-time request where only the class was logged: Linux's middle.
const LEVEL_UNKNOWN: u8 = 4;

/// The two events between which a latency lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Latency {
    Total,
    Completion,
    Submission,
}

impl Latency {
    fn of(path: &Path) -> Latency {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        if name.contains("_slat.") {
            Latency::Submission
        } else if name.contains("_clat.") {
            Latency::Completion
        } else {
            Latency::Total
        }
    }
}

fn recognises(_path: &Path, head: &[u8]) -> bool {
    let mut lines = first_lines(head).take(LINES_SNIFFED).peekable();
    lines.peek().is_some() && lines.all(looks_right)
}

/// Whether a line has the first four columns of fio's logs, which a comma and a blank part.
fn looks_right(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let fields: Vec<&str> = text.split(", ").collect();
    (4..=ALL_COLUMNS).contains(&fields.len())
        && fields[..4].iter().all(|field| field.bytes().all(|byte| byte.is_ascii_digit()) && !field.is_empty())
        && matches!(fields[2], "0" | "1" | "2")
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    for (part, what) in [("_bw.", "bandwidth"), ("_iops.", "IOPS")] {
        if name.contains(part) {
            let missing = Problem::Missing(format!("this is a log of {what}, which holds no requests"));
            return Err(ReadError::new(path, Place::Whole, missing).remedy("read the latency log beside it"));
        }
    }
    let head = look_at(path)?;
    let columns = columns(&head).ok_or_else(|| {
        let missing = Problem::Missing("the log does not say where requests went".to_owned());
        ReadError::new(path, Place::Whole, missing).remedy("fio logs it with log_offset=1")
    })?;
    // Times of issue count from the start even where the others are dates.
    let dates = columns < ALL_COLUMNS
        && first_lines(&head).next().is_some_and(|line| {
            let time = by_comma(line).next().unwrap_or_default();
            integer("time", time).is_ok_and(|ms| ms >= DATES_FROM_MS)
        });
    let text = TextFormat {
        epoch_unix_s: dates.then_some(0),
        clock: if dates { "fio, Unix time" } else { TEXT.clock },
        ..TEXT
    };
    let latency = Latency::of(path);
    Ok(Box::new(TextReader::open(path, options, &text, |scale| Parser { scale, latency, columns })?))
}

/// How many columns a log has; `None` if that of the offset is not among them.
fn columns(head: &[u8]) -> Option<usize> {
    let count = first_lines(head).map(|line| by_comma(line).count()).find(|&count| count >= 4);
    match count.unwrap_or(6) {
        4 => None,
        // Offset without priority (fio before 3.20), or the reverse. A priority is 0, 1 or hexadecimal,
        // and of the offsets at least one will be larger than that.
        5 => {
            let fifth = |line| by_comma(line).nth(4).and_then(|field| integer("offset", field).ok());
            first_lines(head).any(|line| fifth(line).is_some_and(|offset| offset > 1)).then_some(5)
        }
        count => Some(count.min(ALL_COLUMNS)),
    }
}

struct Parser {
    scale: Scale,
    latency: Latency,
    columns: usize,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], _meta: &mut TraceMeta) -> Result<Option<Record>, Bad> {
        let mut fields = [&b""[..]; ALL_COLUMNS];
        let mut found = 0;
        for field in by_comma(line) {
            if let Some(place) = fields.get_mut(found) {
                *place = field;
            }
            found += 1;
        }
        if found != self.columns {
            return Err(Bad::malformed(format!("expected {} fields, found {found}", self.columns)));
        }
        let [time, latency, direction, length, offset, priority, issue] = fields;
        let operation = match direction {
            b"0" => Operation::Read,
            b"1" => Operation::Write,
            b"2" => Operation::Discard,
            _ => {
                let shown = String::from_utf8_lossy(&direction[..direction.len().min(40)]);
                return Err(Bad::unsupported(format!("a direction of `{shown}`, expected 0, 1 or 2")));
            }
        };
        let length = integer("length", length)?;
        if length == 0 {
            return Err(Bad::unsupported("a length of zero: what log_avg_msec has averaged is no request"));
        }
        let (lba, sectors) = self.scale.extent(integer("offset", offset)?, length)?;
        // Six decimals lie between the millisecond and the nanosecond.
        let logged = decimal("time", time, 6)?;
        let latency = self.scale.time("latency", latency)?;
        let issue = if self.columns == ALL_COLUMNS { Some(integer("issue time", issue)?) } else { None };
        let (arrival, observed) = self.times(logged, latency, issue)?;
        let mut request = Request::new(arrival, operation, lba, sectors);
        request.priority = if self.columns > 5 { parse_priority(priority)? } else { Priority::NONE };
        Ok(Some(Record { request, observed }))
    }
}

impl Parser {
    /// Arrival and observed times, from nanoseconds of the logged time, the latency and the issue.
    fn times(&self, logged: u64, latency: u64, issue: Option<u64>) -> Result<(Timestamp, Observed), Bad> {
        let arrival = match (issue, self.latency) {
            (Some(issue), Latency::Total | Latency::Completion) => issue,
            (Some(issue), Latency::Submission) => issue.saturating_sub(latency),
            (None, _) => logged.saturating_sub(latency),
        };
        let end = arrival.checked_add(latency).ok_or_else(|| Bad::malformed("a time that is too large"))?;
        let (arrival, end) = (Timestamp::from_ns(arrival), Some(Timestamp::from_ns(end)));
        let observed = match self.latency {
            Latency::Total => Observed { completed: end, ..Observed::default() },
            Latency::Completion => Observed { issued: Some(arrival), completed: end, ..Observed::default() },
            Latency::Submission => Observed { issued: end, ..Observed::default() },
        };
        Ok((arrival, observed))
    }
}

/// `0`, `1` for real time, or Linux's value in hexadecimal: class << 13 | hints | level.
fn parse_priority(field: &[u8]) -> Result<Priority, Bad> {
    let text = String::from_utf8_lossy(field);
    let known = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok().and_then(|value| {
            let (class, level) = (value >> 13, value & 7);
            Priority::new(class as u8, level as u8)
        }),
        None if text == "0" => Some(Priority::NONE),
        None if text == "1" => Priority::new(1, LEVEL_UNKNOWN),
        None => None,
    };
    known.ok_or_else(|| Bad::malformed(format!("priority `{text}` is neither 0, 1 nor hexadecimal")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::UnitOverrides;

    /// Arrival, issue and completion of a latency of 300 ns logged at 5 ms.
    fn times(latency: Latency, issue: Option<u64>) -> [Option<u64>; 3] {
        let scale = Scale::new(TEXT.units, UnitOverrides::default());
        let parser = Parser { scale, latency, columns: ALL_COLUMNS };
        let (arrival, observed) = parser.times(5_000_000, 300, issue).unwrap();
        [Some(arrival), observed.issued, observed.completed].map(|time| time.map(Timestamp::as_ns))
    }

    #[test]
    fn total_completion_and_submission_latencies_give_different_times() {
        let (early, late) = (Some(4_999_700), Some(5_000_000));
        assert_eq!(times(Latency::Total, None), [early, None, late]);
        assert_eq!(times(Latency::Completion, None), [early, early, late]);
        assert_eq!(times(Latency::Submission, None), [early, late, None]);
    }

    #[test]
    fn a_time_of_issue_is_exact() {
        let issue = Some(4_800_000);
        assert_eq!(times(Latency::Total, issue), [issue, None, Some(4_800_300)]);
        assert_eq!(times(Latency::Completion, issue), [issue, issue, Some(4_800_300)]);
        assert_eq!(times(Latency::Submission, issue), [Some(4_799_700), issue, None]);
    }

    #[test]
    fn priorities_are_a_class_or_linuxs_value() {
        let of = |text: &str| parse_priority(text.as_bytes()).unwrap();
        assert_eq!(of("0"), Priority::NONE);
        assert_eq!(of("1"), Priority::new(1, LEVEL_UNKNOWN).unwrap());
        // Class 2, some hints, level 7.
        assert_eq!(of("0x4057"), Priority::new(2, 7).unwrap());
    }
}
