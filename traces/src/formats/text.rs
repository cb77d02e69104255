//! What the formats of one request per line share: lines of bounded length, exact decimals, and a
//! reader that turns a line parser into a [`TraceReader`].

use std::io::{self, BufRead, Read};
use std::path::Path;

use crate::error::{Place, Problem, ReadError};
use crate::formats::check::{Bad, Order};
use crate::input::Input;
use crate::record::Record;
use crate::trace::{Losses, ReadOptions, TraceMeta, TraceReader};

/// Longer lines are refused, so that a file without line ends does not fill the memory.
const LINE_BYTES_MAX: usize = 4096;

/// Parses the lines of one format.
pub(crate) trait LineParser: Send {
    /// The record on a line (without its end), `None` if the line is header.
    fn parse(&mut self, line: &[u8], meta: &mut TraceMeta) -> Result<Option<Record>, Bad>;

    /// What is missing if the input ends here.
    fn at_end(&self) -> Result<(), Problem> {
        Ok(())
    }
}

/// Streams a text format.
pub(crate) struct TextReader<P> {
    input: Input,
    line: Vec<u8>,
    line_number: u64,
    parser: P,
    meta: TraceMeta,
    losses: Losses,
    order: Order,
    lenient: bool,
}

impl<P: LineParser> TextReader<P> {
    /// Opens `path`; `meta` is what is known of every trace of the format.
    pub(crate) fn open(path: &Path, options: &ReadOptions, meta: TraceMeta, parser: P) -> Result<Self, ReadError> {
        let input = Input::open(path)?;
        if input.head().is_empty() {
            return Err(ReadError::new(path, Place::Whole, Problem::Empty));
        }
        let line = Vec::with_capacity(LINE_BYTES_MAX + 1);
        let order = Order::default();
        let losses = Losses::default();
        Ok(TextReader { input, line, line_number: 0, parser, meta, losses, order, lenient: options.lenient })
    }

    /// Reads the next line into `self.line`, without its end; false at the end of the input.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        self.line_number += 1;
        let limit = LINE_BYTES_MAX as u64 + 1;
        match (&mut self.input).take(limit).read_until(b'\n', &mut self.line) {
            Ok(0) => Ok(false),
            Ok(_) => {
                if self.line.last() == Some(&b'\n') {
                    self.line.pop();
                }
                if self.line.last() == Some(&b'\r') {
                    self.line.pop();
                }
                Ok(true)
            }
            // What could be decompressed has been read; how much is missing nobody knows.
            Err(error) if self.lenient && error.kind() == io::ErrorKind::UnexpectedEof => {
                self.losses.skip("the rest of a truncated input");
                Ok(false)
            }
            Err(error) => Err(ReadError::io(self.input.path(), Place::Line(self.line_number), error)),
        }
    }

    fn parse_line(&mut self) -> Result<Option<Record>, Bad> {
        if self.line.len() > LINE_BYTES_MAX {
            return Err(Bad::malformed(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        let record = self.parser.parse(&self.line, &mut self.meta)?;
        if let Some(record) = &record {
            self.order.admit(record.request.arrival)?;
        }
        Ok(record)
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
        while self.read_line()? {
            match self.parse_line() {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(bad) => self.refuse(bad)?,
            }
        }
        match self.parser.at_end() {
            Ok(()) => Ok(None),
            Err(problem) => Err(ReadError::new(self.input.path(), Place::Line(self.line_number), problem)),
        }
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn position_bytes(&self) -> u64 {
        self.input.consumed_bytes()
    }
}

/// A field that must be a whole number without sign.
pub(crate) fn integer(name: &str, field: &[u8]) -> Result<u64, Bad> {
    decimal(name, field, 0)
}

/// A field that must be a decimal number without sign or exponent, in units of 10^-`places`.
/// Digits beyond that are refused unless they are zero: nothing is rounded.
pub(crate) fn decimal(name: &str, field: &[u8], places: u32) -> Result<u64, Bad> {
    scaled(field, places).map_err(|why| {
        let text = String::from_utf8_lossy(&field[..field.len().min(40)]);
        Bad::malformed(format!("{name} `{text}` {why}"))
    })
}

fn scaled(field: &[u8], places: u32) -> Result<u64, &'static str> {
    const NOT_A_NUMBER: &str = "is not a number";
    const TOO_LARGE: &str = "is too large";
    const TOO_PRECISE: &str = "has more decimals than are kept";
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let (whole, fraction) = (&field[..point], &field[(point + 1).min(field.len())..]);
    if whole.is_empty() || (point < field.len() && (fraction.is_empty() || places == 0)) {
        return Err(NOT_A_NUMBER);
    }
    let (kept, beyond) = fraction.split_at(fraction.len().min(places as usize));
    let mut value = 0u64;
    for &byte in whole.iter().chain(kept) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(NOT_A_NUMBER);
        }
        value = value.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit))).ok_or(TOO_LARGE)?;
    }
    if beyond.iter().any(|byte| !byte.is_ascii_digit()) {
        return Err(NOT_A_NUMBER);
    }
    if beyond.iter().any(|&byte| byte != b'0') {
        return Err(TOO_PRECISE);
    }
    value.checked_mul(10u64.pow(places - kept.len() as u32)).ok_or(TOO_LARGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, places, value) in [
            ("0", 9, 0),
            ("0.0", 9, 0),
            ("12.5", 9, 12_500_000_000),
            ("3600.949630130", 9, 3_600_949_630_130),
            ("0.1234567890000", 9, 123_456_789),
            ("18446744073709551615", 0, u64::MAX),
            ("18446744073.709551615", 9, u64::MAX),
            ("007", 0, 7),
        ] {
            assert_eq!(scaled(text.as_bytes(), places), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_plain_decimal_is_refused() {
        for (text, places, why) in [
            ("", 9, "not a number"),
            (".5", 9, "not a number"),
            ("5.", 9, "not a number"),
            ("1.2.3", 9, "not a number"),
            ("-1", 9, "not a number"),
            ("+1", 9, "not a number"),
            ("1e3", 9, "not a number"),
            ("NaN", 9, "not a number"),
            ("inf", 9, "not a number"),
            ("1 2", 9, "not a number"),
            ("1.0", 0, "not a number"),
            ("0.000000000x", 9, "not a number"),
            ("0.0000000001", 9, "more decimals"),
            ("18446744073709551616", 0, "too large"),
            ("18446744073.709551616", 9, "too large"),
        ] {
            let refused = scaled(text.as_bytes(), places).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
