//! Shared parts of the formats of one request per line: lines of bounded length, their fields, and a
//! reader that turns a line parser into a [`TraceReader`].

use std::io::{self, BufRead, Read};
use std::path::Path;

use crate::error::{Place, Problem, ReadError};
use crate::formats::check::{Bad, Takes, TimesInOrder, check_times};
use crate::formats::order::Reorder;
use crate::formats::plausible::{self, Sample};
use crate::formats::scale::{Scale, Units};
use crate::input::{HEAD_BYTES, Input};
use crate::record::Record;
use crate::trace::{Layer, Losses, ReadOptions, TraceMeta, TraceReader};
use crate::units::{Nanos, Timestamp};

/// Longer lines are refused, so that a file without line ends does not fill the memory.
const LINE_BYTES_MAX: usize = 4096;

/// How many of the first lines must be of a format for a file to be recognised. One bad line is to be an error with its
/// place, many are another format.
const LINES_SNIFFED: usize = 8;

/// The facts that hold for every trace of a text format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextFormat {
    /// Its name in [`crate::formats::FORMATS`].
    pub(crate) name: &'static str,
    /// The layer, if a user gives none.
    pub(crate) layer: Layer,
    /// The name of its clock.
    pub(crate) clock: &'static str,
    /// The Unix time in seconds of the zero of its times, if they are dates. Such arrivals are made
    /// to begin at zero, and [`crate::Clock::zero_unix_ns`] says when that was.
    pub(crate) epoch_unix_s: Option<i64>,
    /// Its units.
    pub(crate) units: Units,
    /// The options that a user may set.
    pub(crate) takes: Takes,
    /// By how much its arrivals may be out of order ([`Reorder`]).
    pub(crate) reorder: Nanos,
}

/// Parses the lines of one format.
pub(crate) trait LineParser: Send {
    /// The record on a line (without its end); `None` if the line is header, or of a device that is
    /// not asked for. Arrivals of a format whose times are dates are nanoseconds since its epoch.
    fn parse(&mut self, line: &[u8], meta: &mut TraceMeta) -> Result<Option<Record>, Bad>;

    /// Gives the requests of all devices, whichever is asked for: units are judged by all of them.
    fn take_all_devices(&mut self) {}

    /// The missing thing if the input ends here.
    fn at_end(&self) -> Result<(), Problem> {
        Ok(())
    }
}

/// Streams a text format.
pub(crate) struct TextReader<P> {
    input: Input,
    line: Vec<u8>,
    line_number: u64,
    ended: bool,
    parser: P,
    meta: TraceMeta,
    losses: Losses,
    order: Reorder,
    times: TimesInOrder,
    epoch: Option<Epoch>,
    lenient: bool,
}

impl<P: LineParser> TextReader<P> {
    /// Opens `path`; `parser` makes a parser that reads in the units it is given. Doubts the units
    /// that `options` do not give ([`plausible`]).
    pub(crate) fn open(
        path: &Path,
        options: &ReadOptions,
        format: &TextFormat,
        parser: impl Fn(Scale) -> P,
    ) -> Result<Self, ReadError> {
        format.takes.check(path, format.name, options)?;
        let input = Input::open(path)?;
        if input.head().is_empty() {
            return Err(ReadError::new(path, Place::Whole, Problem::Empty));
        }
        let meta = TraceMeta::new(format.name, options.layer.unwrap_or(format.layer), format.clock);
        let scale = Scale::new(format.units, options.units);
        // A unit that cannot be changed need not be doubted.
        if format.takes.units {
            let sample = |scale| sample(input.head(), parser(scale), meta.clone());
            plausible::judge(path, &scale, format.epoch_unix_s, sample)?;
        }
        Ok(TextReader {
            input,
            line: Vec::with_capacity(LINE_BYTES_MAX + 1),
            line_number: 0,
            ended: false,
            parser: parser(scale),
            meta,
            losses: Losses::default(),
            order: Reorder::within(format.reorder),
            times: TimesInOrder::default(),
            epoch: format.epoch_unix_s.map(Epoch::new),
            lenient: options.lenient,
        })
    }

    /// Reads the next line into `self.line`, without its end; false at the end of the input.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        self.line_number += 1;
        let limit = LINE_BYTES_MAX as u64 + 1;
        match (&mut self.input).take(limit).read_until(b'\n', &mut self.line) {
            Ok(0) => Ok(false),
            Ok(_) => {
                self.line.truncate(without_end(&self.line).len());
                Ok(true)
            }
            // All that could be decompressed has been read; the size of the rest is unknown.
            Err(error) if self.lenient && error.kind() == io::ErrorKind::UnexpectedEof => {
                self.losses.skip("the rest of a truncated input");
                Ok(false)
            }
            Err(error) => Err(ReadError::io(self.input.path(), Place::Line(self.line_number), error)),
        }
    }

    /// The record on the line, if it holds one that need not wait for others.
    fn parse_line(&mut self) -> Result<Option<Record>, Bad> {
        if self.line.len() > LINE_BYTES_MAX {
            return Err(Bad::malformed(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        let Some(record) = self.parser.parse(&self.line, &mut self.meta)? else { return Ok(None) };
        let zero = self.epoch.as_ref().map_or(Timestamp::ZERO, |epoch| epoch.first.unwrap_or(record.request.arrival));
        check_times(&record, zero)?;
        let is_next = self.order.admit(&record)?;
        self.times.look(&record, Place::Line(self.line_number), &mut self.losses);
        Ok(is_next.then_some(record))
    }

    #[inline]
    fn begin_at_zero(&mut self, mut record: Record) -> Record {
        if let Some(epoch) = &mut self.epoch {
            epoch.begin_at_zero(&mut record, &mut self.meta);
        }
        record
    }

    /// Counts a bad line, or makes an error of it.
    #[cold]
    fn refuse(&mut self, bad: Bad) -> Result<(), ReadError> {
        let place = Place::Line(self.line_number);
        if !self.lenient {
            let error = ReadError::new(self.input.path(), place, bad.problem);
            return Err(error.remedy("--lenient counts and skips such lines"));
        }
        self.losses.skip(bad.reason);
        while self.line.len() > LINE_BYTES_MAX {
            self.line.clear();
            let rest = (&mut self.input).take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line);
            rest.map_err(|error| ReadError::io(self.input.path(), place, error))?;
            if self.line.last() == Some(&b'\n') {
                break;
            }
        }
        Ok(())
    }
}

impl<P: LineParser> TraceReader for TextReader<P> {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            if let Some(record) = self.order.next(self.ended) {
                return Ok(Some(self.begin_at_zero(record)));
            }
            if self.ended {
                self.times.at_end(self.input.path(), self.lenient, &self.losses)?;
                return Ok(None);
            }
            if self.read_line()? {
                match self.parse_line() {
                    Ok(Some(record)) => return Ok(Some(self.begin_at_zero(record))),
                    Ok(None) => {}
                    Err(bad) => self.refuse(bad)?,
                }
                continue;
            }
            self.ended = true;
            let place = Place::Line(self.line_number);
            self.parser.at_end().map_err(|problem| ReadError::new(self.input.path(), place, problem))?;
        }
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn position_bytes(&self) -> u64 {
        self.input.consumed_bytes()
    }
}

/// Makes dates begin at zero.
struct Epoch {
    unix_s: i64,
    /// The date of the first record.
    first: Option<Timestamp>,
}

impl Epoch {
    fn new(unix_s: i64) -> Epoch {
        Epoch { unix_s, first: None }
    }

    #[inline]
    fn begin_at_zero(&mut self, record: &mut Record, meta: &mut TraceMeta) {
        let first = *self.first.get_or_insert_with(|| {
            let unix_ns = i128::from(record.request.arrival.as_ns()) + i128::from(self.unix_s) * 1_000_000_000;
            meta.clock.zero_unix_ns = i64::try_from(unix_ns).ok();
            record.request.arrival
        });
        // Nothing happens to a request before it arrives, and none arrives before the first.
        let Record { request, observed } = record;
        let later = [&mut observed.inserted, &mut observed.issued, &mut observed.completed];
        for time in later.into_iter().flatten().chain([&mut request.arrival]) {
            *time = Timestamp::from_ns(time.saturating_since(first).as_ns());
        }
    }
}

/// The evidence for the units in the first bytes of an input.
fn sample(head: &[u8], mut parser: impl LineParser, mut meta: TraceMeta) -> Sample {
    let mut sample = Sample::default();
    parser.take_all_devices();
    for line in first_lines(head) {
        sample.add(&parser.parse(line, &mut meta));
    }
    sample
}

/// The whole lines, without their ends, in the first bytes of an input.
pub(crate) fn first_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    // The last line is whole only if the input ends there.
    let whole = if head.len() < HEAD_BYTES { head.len() } else { ended_lines(head) };
    head[..whole].split_inclusive(|&byte| byte == b'\n').map(without_end)
}

/// Whether there are lines and the first of them are all of a format.
pub(crate) fn first_lines_are(head: &[u8], is: impl FnMut(&[u8]) -> bool) -> bool {
    // A file that is cut in its last line is still of its format.
    let ended = ended_lines(head);
    let mut lines = first_lines(if ended > 0 { &head[..ended] } else { head }).take(LINES_SNIFFED).peekable();
    lines.peek().is_some() && lines.all(is)
}

/// Bytes of the lines that have an end.
fn ended_lines(head: &[u8]) -> usize {
    head.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The `N` fields of a line, and no more.
pub(crate) fn exactly<'a, const N: usize>(mut fields: impl Iterator<Item = &'a [u8]>) -> Result<[&'a [u8]; N], Bad> {
    let columns = at_least(&mut fields)?;
    match fields.count() {
        0 => Ok(columns),
        more => Err(Bad::malformed(format!("expected {N} fields, found {}", N + more))),
    }
}

/// The first `N` fields of a line.
pub(crate) fn at_least<'a, const N: usize>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Result<[&'a [u8]; N], Bad> {
    let mut columns = [&b""[..]; N];
    for (at, column) in columns.iter_mut().enumerate() {
        *column = fields.next().ok_or_else(|| Bad::malformed(format!("expected {N} fields, found {at}")))?;
    }
    Ok(columns)
}

/// Whether a line holds just the names of the columns.
pub(crate) fn is_title(line: &[u8], columns: &[&str]) -> bool {
    by_comma(line).map(<[u8]>::to_ascii_lowercase).eq(columns.iter().map(|name| name.to_ascii_lowercase().into_bytes()))
}

/// The fields between commas, without the blanks around them.
pub(crate) fn by_comma(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// The fields between blanks.
pub(crate) fn by_blanks(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}
