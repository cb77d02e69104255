//! Text with an event on a line.

use std::io::{self, BufRead, Read};
use std::path::Path;

use super::{Batch, EventFile, Findings, Placed};
use crate::error::{Place, Problem, ReadError};
use crate::events::Event;
use crate::input::Input;

/// Longer lines are refused, so that a file without line ends does not fill the memory.
const LINE_BYTES_MAX: usize = 4096;

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::formats) enum Line {
    /// An event.
    Event(Event),
    /// Nothing about the device's requests.
    Nothing,
    /// The capture lost events of a CPU, where it knows which, in a number, where it knows.
    Lost(Option<u32>, Option<u64>),
}

/// Parses the lines of one format.
pub(in crate::formats) trait Lines: Send {
    /// Whether its events have numbers.
    const NUMBERED: bool;

    /// The meaning of a line (without its end), or the reason why it is none of the format.
    fn parse(&mut self, line: &[u8], findings: &mut Findings) -> Result<Line, String>;

    /// Adds the facts beside the events, as key and value.
    fn describe(&self, _add: &mut dyn FnMut(&str, String)) {}
}

/// A text as a file of a capture.
pub(in crate::formats) struct LineFile<L> {
    input: Input,
    lines: L,
    line: Vec<u8>,
    number: u64,
}

impl<L: Lines> EventFile for LineFile<L> {
    const PER_CPU: bool = false;
    const NUMBERED: bool = L::NUMBERED;
    const ZERO: &'static str = "zero_ns";

    fn read(&mut self, batch: &mut Batch, findings: &mut Findings) -> Result<bool, ReadError> {
        while !batch.is_full() {
            let Some(terminated) = self.read_line(findings)? else { return Ok(false) };
            let parsed = if self.line.len() > LINE_BYTES_MAX {
                Err(format!("a line of more than {LINE_BYTES_MAX} bytes"))
            } else {
                self.lines.parse(&self.line, findings)
            };
            match parsed {
                Ok(Line::Event(event)) => batch.push(Placed { event, at: self.number }, self, findings)?,
                Ok(Line::Nothing) => {}
                Ok(Line::Lost(cpu, events)) => {
                    let what =
                        cpu.map_or("before this line".to_owned(), |cpu| format!("of CPU {cpu} before this line"));
                    findings.lost(self, self.number, events, &what)?;
                }
                Err(why) => self.refuse(why, terminated, findings)?,
            }
        }
        Ok(true)
    }

    fn path(&self) -> &Path {
        self.input.path()
    }

    fn place(at: u64) -> Place {
        Place::Line(at)
    }

    fn consumed_bytes(&self) -> u64 {
        self.input.consumed_bytes()
    }

    fn describe(&self, add: &mut dyn FnMut(&str, String)) {
        self.lines.describe(add);
    }
}

impl<L: Lines> LineFile<L> {
    /// Opens a text.
    ///
    /// # Errors
    /// An error of the operating system; an empty input.
    pub(in crate::formats) fn open(path: &Path, lines: L) -> Result<LineFile<L>, ReadError> {
        let input = Input::open(path)?;
        if input.head().is_empty() {
            return Err(ReadError::new(path, Place::Whole, Problem::Empty));
        }
        Ok(LineFile { input, lines, line: Vec::with_capacity(LINE_BYTES_MAX + 1), number: 0 })
    }

    /// Reads the next line into `self.line`, without its end; says whether it had one, `None` at the
    /// end of the input.
    fn read_line(&mut self, findings: &mut Findings) -> Result<Option<bool>, ReadError> {
        self.line.clear();
        self.number += 1;
        match (&mut self.input).take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line) {
            Ok(0) => Ok(None),
            Ok(_) => {
                let terminated = self.line.pop_if(|byte| *byte == b'\n').is_some();
                self.line.pop_if(|byte| *byte == b'\r');
                Ok(Some(terminated))
            }
            // All that could be decompressed has been read; the size of the rest is unknown.
            Err(error) if findings.lenient && error.kind() == io::ErrorKind::UnexpectedEof => {
                findings.losses.skip("the rest of a truncated input");
                Ok(None)
            }
            Err(error) => Err(ReadError::io(self.input.path(), Place::Line(self.number), error)),
        }
    }

    /// Counts a bad line, or makes an error of it.
    #[cold]
    fn refuse(&mut self, why: String, terminated: bool, findings: &mut Findings) -> Result<(), ReadError> {
        if terminated || self.line.len() > LINE_BYTES_MAX {
            findings.malformed(self, self.number, why, "malformed")?;
        } else if findings.lenient {
            findings.losses.skip("line cut short by the end of its file");
        } else {
            let problem = Problem::Truncated("a line".to_owned());
            return Err(ReadError::new(self.input.path(), Place::Line(self.number), problem)
                .remedy("--lenient leaves the incomplete line out and counts it"));
        }
        // The rest of a line that is too long.
        while self.line.len() > LINE_BYTES_MAX {
            self.line.clear();
            let rest = (&mut self.input).take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line);
            rest.map_err(|error| ReadError::io(self.input.path(), Place::Line(self.number), error))?;
            if self.line.last() == Some(&b'\n') {
                break;
            }
        }
        Ok(())
    }
}

/// A line that is taken apart from its beginning.
#[derive(Clone, Copy)]
pub(in crate::formats) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(in crate::formats) fn new(line: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: line }
    }

    /// The text that was not taken yet.
    pub(in crate::formats) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Passes over spaces.
    #[inline]
    pub(in crate::formats) fn skip_spaces(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes `byte`, if that comes next.
    #[inline]
    pub(in crate::formats) fn take(&mut self, byte: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// The bytes up to the next space, after any spaces before them.
    #[inline]
    pub(in crate::formats) fn word(&mut self) -> &'a [u8] {
        self.skip_spaces();
        let end = self.rest.iter().position(|byte| *byte == b' ').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A decimal number without sign, after any spaces; `None` if there is none or it is too large.
    #[inline]
    pub(in crate::formats) fn number(&mut self) -> Option<u64> {
        self.skip_spaces();
        let (value, digits) = self.digits()?;
        (digits > 0).then_some(value)
    }

    /// A decimal number that may have a minus sign, after any spaces.
    #[inline]
    pub(in crate::formats) fn signed(&mut self) -> Option<i64> {
        self.skip_spaces();
        let negative = self.take(b'-');
        let value = i64::try_from(self.number()?).ok()?;
        Some(if negative { -value } else { value })
    }

    /// The digits that come and how many they are; `None` if they make too large a number.
    #[inline]
    pub(in crate::formats) fn digits(&mut self) -> Option<(u64, usize)> {
        let mut value = 0u64;
        let mut digits = 0;
        while let [byte @ b'0'..=b'9', rest @ ..] = self.rest {
            let digit = u64::from(byte - b'0');
            // Nineteen digits cannot overflow.
            value = if digits < 19 { value * 10 + digit } else { value.checked_mul(10)?.checked_add(digit)? };
            digits += 1;
            self.rest = rest;
        }
        Some((value, digits))
    }

    /// Seconds with decimals, whose number must be among `decimals`, in nanoseconds.
    #[inline]
    pub(in crate::formats) fn seconds(&mut self, decimals: &[usize]) -> Option<u64> {
        const POWERS: [u64; 10] =
            [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
        let seconds = self.number()?;
        if !self.take(b'.') {
            return None;
        }
        let (fraction, digits) = self.digits()?;
        let unit = POWERS.get(digits).filter(|_| decimals.contains(&digits))?;
        seconds.checked_mul(1_000_000_000)?.checked_add(fraction * unit)
    }

    /// `major,minor`, after any spaces, as the kernel's number.
    #[inline]
    pub(in crate::formats) fn device(&mut self) -> Option<u32> {
        let major = self.number()?;
        if !self.take(b',') {
            return None;
        }
        let (minor, digits) = self.digits()?;
        super::devices::number(major, minor).filter(|_| digits > 0)
    }

    /// The text in brackets from here to the end of the line.
    #[inline]
    pub(in crate::formats) fn bracketed(&mut self) -> Option<&'a [u8]> {
        self.skip_spaces();
        let inner = self.rest.strip_prefix(b"[")?.strip_suffix(b"]")?;
        self.rest = &[];
        Some(inner)
    }
}
