//! Validation traces of DiskSim 4.0 (its `valid/*.trace` files): requests that were sent to a real
//! drive one after another, one a line,
//!
//! ```text
//! R Hit    3962268  12   6657.00000  64047.00000
//! ```
//!
//! read or write, a remark by the authors of the trace, first sector, length in sectors, the measured service time in
//! µs, and the think time in µs. The remark is often meaningless: only its form is checked. DiskSim takes the think
//! time for the pause from this completion to the next request. In some of its traces it is the pause from the
//! completion before to this request. Only the phase of the platter shows which, so the user has to set it
//! ([`ThinkTime`]).
//!
//! Times of day are not recorded. The first request arrives at zero, or after its think time, each is
//! issued as it arrives and completes after its service time, and think time passes. Sums are kept in picoseconds, the
//! six decimals of the files, so that cutting off to whole nanoseconds does not add up. A device time may thus differ
//! from the file's service time by less than 1 ns.

use std::path::Path;

use crate::error::ReadError;
use crate::formats::Format;
use crate::formats::check::{Bad, Takes};
use crate::formats::number::integer;
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{LineParser, TextFormat, TextReader, by_blanks, exactly};
use crate::record::{Observed, Record};
use crate::request::{Operation, Request};
use crate::trace::{Layer, ReadOptions, ThinkTime, TimeUnit, TraceMeta, TraceReader, UnitOverrides};
use crate::units::{Nanos, Timestamp};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "disksim-validate",
    summary: "DiskSim validation trace: R|W, remark, first sector, sectors, service µs, think µs",
    units: "µs with decimals; 512-byte blocks",
    traps: "One request at a time: the arrivals show the drive's speed, not a workload's. The remark (Hit, Miss) is \
            meaningless in most files. The think time is the pause after the request or before it; --think-time \
            chooses.",
    layer: Layer::Wire,
    recognises,
    open,
    ..Format::READ_ONLY
};

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "sum of service and think times",
    epoch_unix_s: None,
    units: Units { time: TimeUnit::Microseconds, address_bytes: 512, length_bytes: 512 },
    takes: Takes { device: false, operation: false, units: true, think_time: true },
    reorder: Nanos::ZERO,
};

/// Decimals of a nanosecond that are kept: picoseconds.
const PICO: u32 = 3;
/// Longest remark that is taken for one.
const REMARK_BYTES_MAX: usize = 16;

fn recognises(_path: &Path, head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    parse_line(line, &Scale::new(TEXT.units, UnitOverrides::default())).is_ok()
}

fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, ReadError> {
    Ok(Box::new(TextReader::open(path, options, &TEXT, |scale| Parser {
        scale,
        think_time: options.think_time.unwrap_or_default(),
        next: Instant::default(),
    })?))
}

/// A point in time to the picosecond.
#[derive(Clone, Copy, Default)]
struct Instant {
    ns: u64,
    ps: u64,
}

impl Instant {
    fn after_ps(self, ps: u64) -> Option<Instant> {
        let sum = self.ps.checked_add(ps)?;
        Some(Instant { ns: self.ns.checked_add(sum / 1_000)?, ps: sum % 1_000 })
    }

    fn timestamp(self) -> Timestamp {
        Timestamp::from_ns(self.ns)
    }
}

struct Parser {
    scale: Scale,
    think_time: ThinkTime,
    /// When the next request arrives, or without its think time would.
    next: Instant,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], _meta: &mut TraceMeta) -> Result<Option<Record>, Bad> {
        let fields = parse_line(line, &self.scale)?;
        let (lba, sectors) = self.scale.extent(fields.sector, fields.sectors)?;
        let too_late = || Bad::malformed("a time that is too large");
        let (before_ps, after_ps) = match self.think_time {
            ThinkTime::Before => (fields.think_ps, 0),
            ThinkTime::After => (0, fields.think_ps),
        };
        let arrived = self.next.after_ps(before_ps).ok_or_else(too_late)?;
        let completed = arrived.after_ps(fields.service_ps).ok_or_else(too_late)?;
        self.next = completed.after_ps(after_ps).ok_or_else(too_late)?;
        let arrival = arrived.timestamp();
        let observed =
            Observed { issued: Some(arrival), completed: Some(completed.timestamp()), ..Observed::default() };
        Ok(Some(Record { request: Request::new(arrival, fields.operation, lba, sectors), observed }))
    }
}

struct Fields {
    operation: Operation,
    sector: u64,
    sectors: u64,
    service_ps: u64,
    think_ps: u64,
}

fn parse_line(line: &[u8], scale: &Scale) -> Result<Fields, Bad> {
    let [direction, remark, sector, sectors, service, think] = exactly(by_blanks(line))?;
    let operation = match direction {
        b"R" => Operation::Read,
        b"W" => Operation::Write,
        _ => return Err(Bad::malformed(format!("expected R or W, found `{}`", String::from_utf8_lossy(direction)))),
    };
    if remark.len() > REMARK_BYTES_MAX || !remark.iter().all(u8::is_ascii_alphabetic) {
        let remark = String::from_utf8_lossy(remark);
        return Err(Bad::malformed(format!("expected a word such as Hit or Miss, found `{remark}`")));
    }
    Ok(Fields {
        operation,
        sector: integer("sector", sector)?,
        sectors: integer("length", sectors)?,
        service_ps: scale.fine_time("service time", service, PICO)?,
        think_ps: scale.fine_time("think time", think, PICO)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_off_to_nanoseconds_does_not_add_up() {
        let scale = Scale::new(TEXT.units, UnitOverrides::default());
        let mut parser = Parser { scale, think_time: ThinkTime::After, next: Instant::default() };
        let mut meta = TraceMeta::new(FORMAT.name, FORMAT.layer, "test");
        let mut arrivals = Vec::new();
        for _ in 0..4 {
            let record = parser.parse(b"R Hit 8 8 0.000400 0.000100", &mut meta).unwrap().unwrap();
            arrivals.push(record.request.arrival.as_ns());
        }
        assert_eq!(arrivals, [0, 0, 1, 1]);
    }

    #[test]
    fn the_think_time_is_the_pause_behind_or_before_the_request() {
        for (think_time, expected) in [(ThinkTime::After, [0, 7_000]), (ThinkTime::Before, [2_000, 9_000])] {
            let scale = Scale::new(TEXT.units, UnitOverrides::default());
            let mut parser = Parser { scale, think_time, next: Instant::default() };
            let mut meta = TraceMeta::new(FORMAT.name, FORMAT.layer, "test");
            for arrival in expected {
                let record = parser.parse(b"R Hit 8 8 5.0 2.0", &mut meta).unwrap().unwrap();
                assert_eq!(record.request.arrival.as_ns(), arrival);
                assert_eq!(record.observed.completed.unwrap().as_ns(), arrival + 5_000);
            }
        }
    }
}
