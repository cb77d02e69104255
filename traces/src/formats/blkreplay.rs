//! Load files of blkreplay (github.com/schoebel/blkreplay): text, one request a line,
//!
//! ```text
//! start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0
//!       0.449518165 ;     37766917 ;   14 ; W ; 0.0 ; 0.0
//! ```
//!
//! seconds since the capture began with up to nine decimals, first sector and length in sectors of 512 bytes,
//! blktrace's letters for the operation, and two spans in seconds. The first span is how late a replay sent the
//! request, the second how long it then took. Natural loads have zeros there unless their converter knew the
//! completions, which fills the second. Field meanings are those of blkreplay's own parser and of its `conv_*_to_load`
//! scripts.
//!
//! *Header.* Everything before the first line that begins with a number and a semicolon, and the
//! line `start ; …` must be in it. Text after that line is still header (converters put remarks
//! and repeated licence texts there); after the first request every line must be one. The header
//! is kept in the provenance, because the licence of such files asks for it.
//!
//! *Writing.* blkreplay 1.0 looks at the first letter of the operation only, and skips every line on
//! which it is neither `R` nor `W`, with a message. So flushes and discards cannot be expressed, and
//! a write that flushes first loses that (its `F` would come first, and the write be skipped).
//! Times are exact. Issue and completion become the two spans where they are known, come in that
//! order and take time; a span of zero means that they are not known.
//!
//! *Order.* blkreplay shifts requests that step back in time, to replay files one after another.
//! Here such a step is an error: the natural loads have none.

use std::io::Write as _;
use std::path::Path;

use crate::error::{Problem, ReadError};
use crate::formats::check::{Bad, Takes};
use crate::formats::number::integer;
use crate::formats::output::{Inexpressible, Ledger, LineEncoder, TextWriter};
use crate::formats::replayer::{Replay, Replayer, quoted};
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{LineParser, TextFormat, TextReader, exactly};
use crate::formats::{Created, Format};
use crate::record::{Observed, Record};
use crate::request::{Flags, Operation, Request};
use crate::trace::{ReadOptions, TimeUnit, TraceMeta, TraceReader, WriteOptions};
use crate::units::{Lba, Nanos, Sectors, Timestamp};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "blkreplay",
    summary: "blkreplay load file: start ; sector ; length ; op ; replay_delay ; replay_duration",
    units: "s with decimals; 512-byte sectors",
    traps: "Times in seconds, lengths in 512-byte sectors. The file does not name the blktrace event of its times: \
            converters take the most frequent one (usually Q). Early converters took both Q and D, so that each \
            request appears twice, some 10 µs apart. blkreplay knows reads and writes only: flushes and discards \
            cannot be written, and a write loses the flush that precedes it.",
    recognises,
    extensions: &["load"],
    open,
    create: Some(create),
    replayer: Some(Replayer { command, note: "--speedup=F changes the pace; --dry-run sends nothing" }),
    ..Format::READ_ONLY
};

fn command(replay: &Replay) -> Result<String, String> {
    let (device, file) = (replay.device_or_placeholder(), replay.file.display().to_string());
    Ok(format!("blkreplay {} < {}", quoted(device), quoted(&file)))
}

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "seconds since the capture began",
    epoch_unix_s: None,
    units: Units { time: TimeUnit::Seconds, address_bytes: 512, length_bytes: 512 },
    takes: Takes { device: false, operation: false, units: true, think_time: false },
    reorder: Nanos::ZERO,
};

/// How much of the header is kept as provenance.
const HEADER_BYTES_MAX: usize = 16 << 10;

fn recognises(_path: &Path, head: &[u8]) -> bool {
    head.split(|&byte| byte == b'\n').any(is_title)
}

fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, ReadError> {
    Ok(Box::new(TextReader::open(path, options, &TEXT, Parser::new)?))
}

fn create(path: &Path, options: &WriteOptions) -> Created {
    let ledger = Ledger::new(path, FORMAT.name, options).of_one_device();
    Ok(Box::new(TextWriter::create(path, ledger, Encoder)?))
}

/// The line that names the columns.
fn is_title(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    words.next() == Some(b"start") && words.next() == Some(b"sector")
}

/// Whether a line begins as a request does: a number, then a semicolon.
fn begins_like_a_request(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(line.len());
    end > 0 && line[0].is_ascii_digit() && line[end..].trim_ascii_start().starts_with(b";")
}

struct Parser {
    scale: Scale,
    seen_title: bool,
    seen_request: bool,
    header: Vec<u8>,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], meta: &mut TraceMeta) -> Result<Option<Record>, Bad> {
        if !self.seen_request {
            if !begins_like_a_request(line) {
                self.keep_header(line);
                return Ok(None);
            }
            self.end_header(meta)?;
        }
        parse_request(line, &self.scale).map(Some)
    }

    fn at_end(&self) -> Result<(), Problem> {
        if self.seen_title {
            return Ok(());
        }
        Err(Problem::Truncated("the header: there is no line `start ; sector; length ; op ; …`".to_owned()))
    }
}

impl Parser {
    fn new(scale: Scale) -> Parser {
        Parser { scale, seen_title: false, seen_request: false, header: Vec::new() }
    }

    fn keep_header(&mut self, line: &[u8]) {
        self.seen_title |= is_title(line);
        let room = HEADER_BYTES_MAX.saturating_sub(self.header.len() + 1);
        self.header.extend_from_slice(&line[..line.len().min(room)]);
        if room > 0 {
            self.header.push(b'\n');
        }
    }

    fn end_header(&mut self, meta: &mut TraceMeta) -> Result<(), Bad> {
        if !self.seen_title {
            return Err(Bad::malformed("a request before the line `start ; sector; length ; op ; …`"));
        }
        self.seen_request = true;
        let header = std::mem::take(&mut self.header);
        meta.provenance.insert("header".to_owned(), String::from_utf8_lossy(header.trim_ascii()).into_owned());
        Ok(())
    }
}

fn parse_request(line: &[u8], scale: &Scale) -> Result<Record, Bad> {
    let fields = line.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let [start, sector, length, op, delay, duration] = exactly(fields)?;
    let arrival = Timestamp::from_ns(scale.time("start", start)?);
    let sector = integer("sector", sector)?;
    let length = integer("length", length)?;
    let (operation, flags) = parse_operation(op, length)?;
    let (lba, sectors) = match operation {
        Operation::Flush => (Lba::ZERO, Sectors::ZERO),
        _ => scale.extent(sector, length)?,
    };
    let mut request = Request::new(arrival, operation, lba, sectors);
    request.flags = flags;
    let delay = Nanos::from_ns(scale.time("replay_delay", delay)?);
    let duration = Nanos::from_ns(scale.time("replay_duration", duration)?);
    Ok(Record { request, observed: observe(arrival, delay, duration)? })
}

/// Zero stands for "not known" in both fields.
fn observe(arrival: Timestamp, delay: Nanos, duration: Nanos) -> Result<Observed, Bad> {
    let later = |point: Timestamp, span: Nanos| {
        let ns = point.as_ns().checked_add(span.as_ns());
        ns.map(Timestamp::from_ns).ok_or_else(|| Bad::malformed("a time that is too large"))
    };
    let issued = later(arrival, delay)?;
    let completed = later(issued, duration)?;
    Ok(Observed {
        issued: (delay > Nanos::ZERO).then_some(issued),
        completed: (duration > Nanos::ZERO).then_some(completed),
        ..Observed::default()
    })
}

/// blktrace's letters: an optional `F` (flush first), the operation, then `F` (forced unit access), `A` (read-ahead),
/// `S` (synchronous) and `M` (metadata). The `B` of old kernels is a barrier: both a flush before and forced unit
/// access.
fn parse_operation(letters: &[u8], length: u64) -> Result<(Operation, Flags), Bad> {
    let unknown = || Bad::unsupported(format!("unknown operation `{}`", String::from_utf8_lossy(letters)));
    let (mut flags, rest) = match letters {
        [b'F', rest @ ..] => (Flags::PREFLUSH, rest),
        rest => (Flags::empty(), rest),
    };
    let (operation, rest) = match rest {
        [b'R', rest @ ..] => (Operation::Read, rest),
        [b'W', rest @ ..] => (Operation::Write, rest),
        [b'D', rest @ ..] => (Operation::Discard, rest),
        [b'N', rest @ ..] if flags == Flags::PREFLUSH => (Operation::Flush, rest),
        [] if flags == Flags::PREFLUSH => (Operation::Flush, rest),
        _ => return Err(unknown()),
    };
    for letter in rest {
        flags |= match letter {
            b'F' => Flags::FUA,
            b'A' => Flags::AHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            b'B' => Flags::PREFLUSH | Flags::FUA,
            _ => return Err(unknown()),
        };
    }
    // A write that only flushes carries no data.
    if operation == Operation::Flush || (flags.contains(Flags::PREFLUSH) && length == 0) {
        return Ok((Operation::Flush, flags - Flags::PREFLUSH));
    }
    Ok((operation, flags))
}

struct Encoder;

impl LineEncoder for Encoder {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
    }

    fn record(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Inexpressible> {
        let Record { request, observed } = record;
        let mut letters = String::from(match request.operation {
            Operation::Read => "R",
            Operation::Write => "W",
            Operation::Flush => return Err(Inexpressible("flushes")),
            Operation::Discard => return Err(Inexpressible("discards")),
        });
        for (flag, letter) in [(Flags::FUA, 'F'), (Flags::AHEAD, 'A'), (Flags::SYNC, 'S'), (Flags::META, 'M')] {
            if request.flags.contains(flag) {
                letters.push(letter);
            }
        }
        let issued = observed.issued.filter(|&issued| issued >= request.arrival);
        let delay = issued.map_or(Nanos::ZERO, |issued| issued.since(request.arrival));
        let begun = issued.unwrap_or(request.arrival);
        let duration = observed.completed.and_then(|completed| completed.checked_since(begun)).unwrap_or(Nanos::ZERO);
        // Writing to memory does not fail.
        let _ = writeln!(
            out,
            "{:>15} ; {:>12} ; {:>4} ; {letters} ; {} ; {}",
            seconds(request.arrival.as_ns()),
            request.lba.sector(),
            request.sectors().count(),
            seconds(delay.as_ns()),
            seconds(duration.as_ns()),
        );
        Ok(())
    }
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::UnitOverrides;

    #[test]
    fn a_line_begins_like_a_request_only_with_a_number_and_a_semicolon() {
        for line in ["0.0;1", "  12.5 ; 8", "7 ;"] {
            assert!(begins_like_a_request(line.as_bytes()), "{line}");
        }
        for line in ["", ";", "2012 was the year; really", "start ; sector", "INFO: 1 ; 2", ".5 ; 1", "# 1 ; 2"] {
            assert!(!begins_like_a_request(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn letters_are_those_of_blktrace() {
        let of = |letters: &str, length| parse_operation(letters.as_bytes(), length).unwrap();
        assert_eq!(of("R", 8), (Operation::Read, Flags::empty()));
        assert_eq!(of("RA", 8), (Operation::Read, Flags::AHEAD));
        assert_eq!(of("WS", 8), (Operation::Write, Flags::SYNC));
        assert_eq!(of("WFSM", 8), (Operation::Write, Flags::FUA | Flags::SYNC | Flags::META));
        assert_eq!(of("FWS", 8), (Operation::Write, Flags::PREFLUSH | Flags::SYNC));
        assert_eq!(of("FWS", 0), (Operation::Flush, Flags::SYNC));
        assert_eq!(of("F", 0), (Operation::Flush, Flags::empty()));
        assert_eq!(of("FN", 0), (Operation::Flush, Flags::empty()));
        assert_eq!(of("D", 8), (Operation::Discard, Flags::empty()));
        assert_eq!(of("WB", 8), (Operation::Write, Flags::PREFLUSH | Flags::FUA));
        for letters in ["", "N", "X", "r", "RX", "SR"] {
            assert!(parse_operation(letters.as_bytes(), 8).is_err(), "{letters}");
        }
    }

    #[test]
    fn a_completion_is_known_only_from_a_duration() {
        let scale = Scale::new(TEXT.units, UnitOverrides::default());
        let record = parse_request(b"1.5 ; 8 ; 8 ; R ; 0.0 ; 0.0", &scale).unwrap();
        assert_eq!(record.observed, Observed::default());
        let record = parse_request(b"1.5 ; 8 ; 8 ; R ; 0.25 ; 0.5", &scale).unwrap();
        assert_eq!(record.observed.issued, Some(Timestamp::from_ns(1_750_000_000)));
        assert_eq!(record.observed.completed, Some(Timestamp::from_ns(2_250_000_000)));
    }

    #[test]
    fn the_kept_header_is_bounded() {
        let mut parser = Parser::new(Scale::new(TEXT.units, UnitOverrides::default()));
        for _ in 0..1_000 {
            parser.keep_header(&[b'x'; 1_000]);
        }
        assert!(parser.header.len() <= HEADER_BYTES_MAX + 1);
    }
}
