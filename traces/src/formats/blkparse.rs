//! The text that blkparse prints of a blktrace capture by default: one event a line,
//!
//! ```text
//!   8,0    1       14     0.004211380   145  G   R 298984 + 16 [fio]
//! ```
//!
//! device, CPU, number of the event on that CPU, seconds since the first event, process id, action,
//! operation with properties, then the fields of the action. Source: blktrace 1.2.0, `blkparse.c`
//! and `blkparse_fmt.c` (`HEADER`, `process_default`), and the manual page blkparse(1).
//!
//! *Missing in the text*, compared with the binary capture: parts of a sector, the address of requests without length
//! (they have none), cgroups and the wall clock. Names of processes that no event but completions mentions are missing,
//! too. None of it changes a record but the cgroup, which records do not hold.
//!
//! *Around the events* there may be lines `Input file … added` before, and the summary (`CPU0 (…):`
//! and so on) behind; both are passed over. Messages (`m`) are counted.
//!
//! *Remaps.* For `A` blkparse prints the device that the bio goes to. In old kernels that may be a partition and not
//! the traced device; the number shows whose event it is.

use std::path::Path;

use crate::error::ReadError;
use crate::events::{Category, Event, PairedReader, action};
use crate::formats::capture::devices::NO_DEVICE;
use crate::formats::capture::lines::{Cursor, Line, LineFile, Lines};
use crate::formats::capture::rwbs;
use crate::formats::capture::{CPUS_MAX, Capture, Findings, category_of, first_part_bytes};
use crate::formats::check::Takes;
use crate::formats::{EventsOpened, Format, Opened};
use crate::trace::ReadOptions;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "blkparse",
    summary: "blkparse's default text of a blktrace capture, with or without its summary",
    units: "s with nine decimals; 512-byte sectors",
    traps: "Times in seconds since the first event. Only the default output is read, not that of -f or -F. Arrivals \
            are Q events (bios before merging and splitting), or D events with --at issued. Lengths are whole sectors: \
            blkparse does not print the rest. The binary capture holds more (cgroups, the wall clock) and reads \
            faster.",
    holds_issues: true,
    recognises,
    open,
    open_events: Some(open_events),
    ..Format::READ_ONLY
};

fn paired(path: &Path, options: &ReadOptions) -> Result<PairedReader<Capture<LineFile<Text>>>, ReadError> {
    Takes { device: true, ..Takes::default() }.check(path, FORMAT.name, options)?;
    let files = [LineFile::open(path, Text::default())];
    let capture = Capture::new(FORMAT.name, path, options, files)?;
    Ok(PairedReader::new(capture, FORMAT.name, "monotonic", options))
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    Ok(Box::new(paired(path, options)?))
}

fn open_events(path: &Path, options: &ReadOptions) -> EventsOpened {
    Ok(Box::new(paired(path, options)?))
}

/// Whether the first line that must be one is an event.
fn recognises(_path: &Path, head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.find(|line| !is_input_file(line)).unwrap_or_default();
    let mut fields = Cursor::new(first.strip_suffix(b"\r").unwrap_or(first));
    fields.device().is_some() && Fields::parse(&mut fields).is_ok_and(|fields| fields.code().is_ok())
}

/// How far the text has come.
#[derive(Clone, Copy, Default, PartialEq)]
enum Part {
    #[default]
    Events,
    Summary,
}

#[derive(Default)]
struct Text {
    part: Part,
}

impl Lines for Text {
    const NUMBERED: bool = true;

    #[inline]
    fn parse(&mut self, line: &[u8], findings: &mut Findings) -> Result<Line, String> {
        let parsed = event(line, findings);
        if parsed.is_ok() && self.part == Part::Events {
            return parsed;
        }
        self.beside_the_events(line, parsed)
    }
}

impl Text {
    #[cold]
    fn beside_the_events(&mut self, line: &[u8], parsed: Result<Line, String>) -> Result<Line, String> {
        if self.part == Part::Summary {
            if parsed.is_err() {
                return Ok(Line::Nothing);
            }
            self.part = Part::Events;
            return Err("an event behind blkparse's summary: is this the text of two captures?".to_owned());
        }
        if begins_summary(line) {
            self.part = Part::Summary;
        } else if !is_input_file(line) {
            return parsed;
        }
        Ok(Line::Nothing)
    }
}

/// The line that blkparse prints for each file it reads.
fn is_input_file(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.starts_with(b"Input file ") && line.ends_with(b" added")
}

/// Whether a line is the first of the summary: of a CPU or a process (`-s`), or the next line where
/// there is neither.
fn begins_summary(line: &[u8]) -> bool {
    let of_process = || {
        let inner = line.strip_suffix(b", ...)").or_else(|| line.strip_suffix(b")")).unwrap_or_default();
        let digits = inner.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && inner[..inner.len() - digits].ends_with(b" (")
    };
    let of_cpu = || {
        let rest = line.strip_prefix(b"CPU").unwrap_or_default();
        rest.first().is_some_and(u8::is_ascii_digit) && line.ends_with(b"):")
    };
    line.is_empty() || line.starts_with(b"Throughput (R/W):") || of_cpu() || of_process()
}

/// The columns that every event has, but for the device.
struct Fields<'a> {
    cpu: u64,
    sequence: i64,
    time: u64,
    pid: u64,
    action: &'a [u8],
    rwbs: &'a [u8],
}

impl<'a> Fields<'a> {
    #[inline]
    fn parse(line: &mut Cursor<'a>) -> Result<Fields<'a>, &'static str> {
        Ok(Fields {
            cpu: line.number().ok_or("a CPU")?,
            sequence: line.signed().ok_or("a number of the event")?,
            time: line.seconds(&[9]).ok_or("seconds with nine decimals")?,
            pid: line.number().ok_or("a process id")?,
            action: line.word(),
            rwbs: line.word(),
        })
    }

    /// The action's number, `None` for a message.
    #[inline]
    fn code(&self) -> Result<Option<u8>, &'static str> {
        Ok(Some(match self.action {
            b"Q" => action::QUEUE,
            b"G" => action::GET_REQUEST,
            b"I" => action::INSERT,
            b"D" => action::ISSUE,
            b"C" => action::COMPLETE,
            b"P" => action::PLUG,
            b"U" => action::UNPLUG,
            b"UT" => action::UNPLUG_TIMER,
            b"M" => action::BACK_MERGE,
            b"F" => action::FRONT_MERGE,
            b"S" => action::SLEEP,
            b"R" => action::REQUEUE,
            b"X" => action::SPLIT,
            b"B" => action::BOUNCE,
            b"A" => action::REMAP,
            b"m" => return Ok(None),
            _ => return Err("an action (A B C D F G I M P Q R S U UT X m)"),
        }))
    }
}

/// Parses a line of an event.
#[inline]
fn event(line: &[u8], findings: &mut Findings) -> Result<Line, String> {
    parse_event(line, findings).map_err(|expected| malformed(line, expected))
}

#[cold]
fn malformed(line: &[u8], expected: &str) -> String {
    let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
    format!("`{}` is no event as blkparse prints it by default: expected {expected}", shown.trim())
}

#[inline]
fn parse_event(line: &[u8], findings: &mut Findings) -> Result<Line, &'static str> {
    let mut rest = Cursor::new(line);
    let device = rest.device().ok_or("a device, MAJOR,MINOR")?;
    let fields = Fields::parse(&mut rest)?;
    let Some(code) = fields.code()? else {
        findings.messages += 1;
        return Ok(Line::Nothing);
    };
    let (_, category) = rwbs::parse(fields.rwbs).ok_or("letters of an operation")?;
    let mut event = Event {
        // Printed as a signed number of 32 bits.
        sequence: fields.sequence as u32,
        time: fields.time,
        pid: u32::try_from(fields.pid).map_err(|_| "a process id below 2^32")?,
        cpu: u32::try_from(fields.cpu).ok().filter(|cpu| *cpu < CPUS_MAX).ok_or("a CPU below 65536")?,
        device: if code == action::REMAP { NO_DEVICE } else { device },
        ..Event::default()
    };
    let mut is_passthrough = false;
    match code {
        action::COMPLETE | action::REQUEUE => is_passthrough = completion(&mut rest, &mut event)?,
        action::REMAP => remap(&mut rest, &mut event)?,
        action::UNPLUG | action::UNPLUG_TIMER => {
            let end = rest.rest().iter().rposition(|byte| *byte == b' ').ok_or("[process] and a number")?;
            let (mut name, mut count) = (Cursor::new(&rest.rest()[..end]), Cursor::new(&rest.rest()[end..]));
            note_name(&mut name, event.pid, findings)?;
            at_end(count.number(), &count).ok_or("a number of requests at the end")?;
        }
        action::SPLIT => {
            split(&mut rest, &mut event)?;
            note_name(&mut rest, event.pid, findings)?;
        }
        _ => {
            is_passthrough = request(&mut rest, &mut event)?;
            note_name(&mut rest, event.pid, findings)?;
        }
    }
    let side = if is_passthrough { Category::PASSTHROUGH } else { Category::FS };
    event.action = u32::from(code) | category.union(category_of(code)).union(side).in_action();
    Ok(Line::Event(event))
}

/// `value` if nothing follows it.
fn at_end<T>(value: Option<T>, rest: &Cursor) -> Option<T> {
    value.filter(|_| rest.rest().is_empty())
}

/// `[process]` at the end of the line.
#[inline]
fn note_name(rest: &mut Cursor, pid: u32, findings: &mut Findings) -> Result<(), &'static str> {
    let name = rest.bracketed().ok_or("[process] at the end")?;
    // The text that the C library prints for an unknown name.
    if name != b"(null)" && !name.is_empty() {
        findings.name(pid, name);
    }
    Ok(())
}

/// `+ sectors`, if that comes next, as bytes.
#[inline]
fn length(rest: &mut Cursor) -> Result<Option<u32>, &'static str> {
    rest.skip_spaces();
    if !rest.take(b'+') {
        return Ok(None);
    }
    let sectors = rest.number().ok_or("a length in sectors")?;
    let bytes = u32::try_from(sectors).ok().and_then(|sectors| sectors.checked_mul(512));
    bytes.map(Some).ok_or("a length below 2^23 sectors")
}

/// `(…)`: the time since an earlier event (`-t`), or the command of a passed-through request.
#[inline]
fn skip_parenthesis(rest: &mut Cursor) -> Result<(), &'static str> {
    rest.skip_spaces();
    if rest.take(b'(') {
        while !rest.take(b')') {
            let next = *rest.rest().first().ok_or("a closing parenthesis")?;
            rest.take(next);
        }
    }
    Ok(())
}

/// Q, I, D, B: `sector + sectors`, nothing if there is no length, or the bytes and the command of
/// one that is passed through. M, F, G, S: the same but for the last. Says whether it is passed
/// through.
#[inline]
fn request(rest: &mut Cursor, event: &mut Event) -> Result<bool, &'static str> {
    rest.skip_spaces();
    let mut is_passthrough = false;
    if rest.rest().first().is_some_and(u8::is_ascii_digit) {
        let number = rest.number().ok_or("a sector below 2^64")?;
        match length(rest)? {
            Some(bytes) => (event.sector, event.bytes) = (number, bytes),
            None => {
                event.bytes = u32::try_from(number).map_err(|_| "a length below 2^32 bytes")?;
                is_passthrough = true;
            }
        }
    }
    skip_parenthesis(rest)?;
    Ok(is_passthrough)
}

/// C and R: `sector + sectors [error]`, `sector [error]`, or without a sector if it was passed
/// through.
#[inline]
fn completion(rest: &mut Cursor, event: &mut Event) -> Result<bool, &'static str> {
    rest.skip_spaces();
    let is_passthrough = !rest.rest().first().is_some_and(u8::is_ascii_digit);
    if !is_passthrough {
        event.sector = rest.number().ok_or("a sector below 2^64")?;
        event.bytes = length(rest)?.unwrap_or(0);
    }
    skip_parenthesis(rest)?;
    let mut error = Cursor::new(rest.bracketed().ok_or("[error] at the end")?);
    let value = error.signed();
    let value = at_end(value, &error).ok_or("a number in [error]")?;
    // Printed as an unsigned number of 16 bits.
    event.error = match value {
        -32_768..=65_535 => value as u16,
        _ => return Err("an error number of 16 bits"),
    };
    Ok(is_passthrough)
}

/// `sector + sectors <- (major,minor) sector`.
fn remap(rest: &mut Cursor, event: &mut Event) -> Result<(), &'static str> {
    event.sector = rest.number().ok_or("a sector")?;
    event.bytes = length(rest)?.ok_or("+ and a length")?;
    let from = "<- (MAJOR,MINOR) and a sector";
    if rest.word() != b"<-" {
        return Err(from);
    }
    rest.skip_spaces();
    let is_device = rest.take(b'(') && rest.device().is_some() && rest.take(b')');
    let sector = rest.number();
    at_end(sector, rest).filter(|_| is_device).map(|_| ()).ok_or(from)
}

/// `sector / sector`.
fn split(rest: &mut Cursor, event: &mut Event) -> Result<(), &'static str> {
    event.sector = rest.number().ok_or("a sector")?;
    if rest.word() != b"/" {
        return Err("/ and the sector of the second part");
    }
    let second = rest.number().ok_or("the sector of the second part")?;
    event.bytes = first_part_bytes(event.sector, second);
    Ok(())
}
