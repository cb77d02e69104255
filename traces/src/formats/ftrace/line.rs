//! One line of the trace buffer's text.

use crate::events::Event;
use crate::formats::capture::lines::{Cursor, Line, Lines};
use crate::formats::capture::tracepoint::{self, EventFields, Shape, Tracepoint};
use crate::formats::capture::{CPUS_MAX, Findings};
use crate::request::Priority;

/// Numbers of decimals that times have: the kernel's and those of `trace-cmd report -t`.
const DECIMALS: [usize; 2] = [6, 9];

/// Parses the lines, and keeps the facts of the header.
#[derive(Default)]
pub(super) struct Text {
    tracer: Option<String>,
    /// The finest decimals seen.
    nanoseconds: bool,
}

impl Lines for Text {
    const NUMBERED: bool = false;

    #[inline]
    fn parse(&mut self, line: &[u8], findings: &mut Findings) -> Result<Line, String> {
        match self.event(line, findings) {
            Ok(parsed) => Ok(parsed),
            Err(expected) => self.beside_the_events(line, expected, findings),
        }
    }

    fn describe(&self, add: &mut dyn FnMut(&str, String)) {
        if let Some(tracer) = &self.tracer {
            add("tracer", tracer.clone());
        }
        add("resolution", if self.nanoseconds { "1 ns" } else { "1 us" }.to_owned());
    }
}

/// Whether a line is an event of a tracepoint of the block layer.
pub(super) fn is_block_event(line: &[u8]) -> bool {
    let head = Head::parse(line.strip_suffix(b"\r").unwrap_or(line));
    head.is_ok_and(|head| split_name(head.rest).is_some_and(|(name, _)| tracepoint::named(name).is_some()))
}

/// The text before the name of every event.
struct Head<'a> {
    pid: u32,
    cpu: u32,
    time: u64,
    /// Whether the time has nine decimals.
    nanoseconds: bool,
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    #[inline]
    fn parse(line: &'a [u8]) -> Result<Head<'a>, &'static str> {
        const TASK: &str = "a task, its process id and [CPU]";
        let mut from = 0;
        // The name of a task may hold anything, even brackets.
        let (pid, cpu, mut rest) = loop {
            let bracket = line[from..].iter().position(|byte| *byte == b'[').ok_or(TASK)? + from;
            if let Some((cpu, rest)) = bracketed_number(&line[bracket..])
                && let Some(pid) = pid_before(&line[..bracket])
            {
                break (pid, cpu, Cursor::new(rest));
            }
            from = bracket + 1;
        };
        let cpu = u32::try_from(cpu).ok().filter(|cpu| *cpu < CPUS_MAX).ok_or("a CPU below 65536")?;
        rest.skip_spaces();
        let mut ahead = rest;
        if !ahead.word().ends_with(b":") {
            // The state of the CPU: interrupts off, need to reschedule, …
            rest.word();
            rest.skip_spaces();
        }
        let before = rest.rest().len();
        let time = rest.seconds(&DECIMALS).filter(|_| rest.rest().starts_with(b":"));
        let time = time.ok_or("seconds with six or nine decimals, and a colon")?;
        let decimals = line[line.len() - before..line.len() - rest.rest().len()].iter().rev();
        let nanoseconds = decimals.take_while(|byte| **byte != b'.').count() == 9;
        rest.take(b':');
        rest.skip_spaces();
        Ok(Head { pid, cpu, time, nanoseconds, rest: rest.rest() })
    }
}

/// `[007]` and the text behind it.
#[inline]
fn bracketed_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut rest = Cursor::new(text.strip_prefix(b"[")?);
    let (number, digits) = rest.digits()?;
    (digits > 0 && rest.take(b']')).then_some((number, rest.rest()))
}

/// The process id at the end of `fio-4690`, or of the same with a thread group: `fio-4690 ( 4690)`.
#[inline]
fn pid_before(text: &[u8]) -> Option<u32> {
    let mut text = text.trim_ascii_end();
    if let Some(inner) = text.strip_suffix(b")") {
        let open = inner.iter().rposition(|byte| *byte == b'(')?;
        text = inner[..open].trim_ascii_end();
    }
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (task, pid) = text.split_at(text.len() - digits);
    let (pid, _) = Cursor::new(pid).digits().filter(|_| digits > 0 && task.ends_with(b"-"))?;
    u32::try_from(pid).ok()
}

/// The name of a tracepoint and its text.
#[inline]
fn split_name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    Some((&text[..colon], &text[colon + 1..]))
}

impl Text {
    #[inline]
    fn event(&mut self, line: &[u8], findings: &mut Findings) -> Result<Line, &'static str> {
        let head = Head::parse(line)?;
        let point = split_name(head.rest).and_then(|(name, rest)| Some((tracepoint::named(name)?, rest)));
        let Some((point, rest)) = point else {
            findings.count("other_events");
            return Ok(Line::Nothing);
        };
        self.nanoseconds |= head.nanoseconds;
        let mut rest = Cursor::new(rest);
        let (fields, name) = fields(point, &mut rest)?;
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            findings.name(head.pid, name);
        }
        match point.event(&fields)? {
            Some(event) => Ok(Line::Event(Event { time: head.time, pid: head.pid, cpu: head.cpu, ..event })),
            None => {
                findings.count("zone_commands");
                Ok(Line::Nothing)
            }
        }
    }

    /// Headers, lost events, stack traces; or a line that is none of the format.
    #[cold]
    fn beside_the_events(&mut self, line: &[u8], expected: &str, findings: &mut Findings) -> Result<Line, String> {
        if let Some(comment) = line.strip_prefix(b"#") {
            return Ok(self.comment(comment));
        }
        if let Some(lost) = lost(line) {
            return Ok(lost);
        }
        let trimmed = line.trim_ascii();
        if trimmed.starts_with(b"=> ") || trimmed == b"<stack trace>" {
            findings.count("stack_trace_lines");
            return Ok(Line::Nothing);
        }
        // The header of trace-cmd.
        let is_header = trimmed.is_empty()
            || trimmed.starts_with(b"version = ")
            || trimmed.starts_with(b"cpus=")
            || (trimmed.starts_with(b"CPU ") && trimmed.ends_with(b" is empty"));
        if is_header {
            return Ok(Line::Nothing);
        }
        let shown = String::from_utf8_lossy(&trimmed[..trimmed.len().min(120)]);
        Err(format!("`{shown}` is no line of a trace buffer: expected {expected}"))
    }

    /// A line of tracefs's header, without its `#`.
    fn comment(&mut self, comment: &[u8]) -> Line {
        let text = String::from_utf8_lossy(comment);
        if let Some(tracer) = text.strip_prefix(" tracer: ") {
            self.tracer = Some(tracer.trim().chars().take(64).collect());
        } else if let Some(counts) = text.strip_prefix(" entries-in-buffer/entries-written: ") {
            let counts = counts.split_whitespace().next().and_then(|counts| counts.split_once('/'));
            let counts = counts.and_then(|(kept, written)| Some((kept.parse().ok()?, written.parse().ok()?)));
            if let Some((kept, written)) = counts.filter(|(kept, written): &(u64, u64)| written > kept) {
                return Line::Lost(None, Some(written - kept));
            }
        }
        Line::Nothing
    }
}

/// `CPU:1 [LOST 5 EVENTS]`, or trace-cmd's `CPU:1 [5 EVENTS DROPPED]`, with or without a number.
fn lost(line: &[u8]) -> Option<Line> {
    let mut rest = Cursor::new(line.trim_ascii().strip_prefix(b"CPU:")?);
    let cpu = u32::try_from(rest.number()?).ok()?;
    let mut inner = Cursor::new(rest.bracketed()?);
    let events = match inner.rest().strip_prefix(b"LOST") {
        Some(rest) => {
            inner = Cursor::new(rest);
            let number = inner.number();
            (inner.word() == b"EVENTS").then_some(number)?
        }
        None => {
            let number = inner.number();
            (inner.word() == b"EVENTS" && inner.word() == b"DROPPED").then_some(number)?
        }
    };
    Some(Line::Lost(Some(cpu), events))
}

/// The text of a tracepoint, and the name of the process if that is in it.
#[inline]
fn fields<'a>(point: Tracepoint, rest: &mut Cursor<'a>) -> Result<(EventFields<'a>, Option<&'a [u8]>), &'static str> {
    let mut fields = EventFields::default();
    match point.shape {
        Shape::Plug => return Ok((fields, Some(process(rest)?))),
        Shape::Unplug => {
            let text = rest.rest();
            let end = text.iter().rposition(|byte| *byte == b' ').ok_or("[process] and a number of requests")?;
            Cursor::new(&text[end..]).signed().ok_or("a number of requests")?;
            return Ok((fields, Some(process(&mut Cursor::new(&text[..end]))?)));
        }
        _ => {}
    }
    fields.device = rest.device().ok_or("a device, MAJOR,MINOR")?;
    fields.rwbs = rest.word();
    if point.shape == Shape::Request {
        fields.bytes = rest.number().ok_or("a length in bytes")?;
    }
    if matches!(point.shape, Shape::Request | Shape::Completion) {
        fields.has_command = command(rest)?;
    }
    fields.sector = rest.number().ok_or("a sector")?;
    if point.shape == Shape::Split {
        (rest.word() == b"/").then_some(()).ok_or("/ and the sector of the second part")?;
        fields.second = rest.number().ok_or("the sector of the second part")?;
        return Ok((fields, Some(process(rest)?)));
    }
    (rest.word() == b"+").then_some(()).ok_or("+ and a length")?;
    fields.sectors = rest.number().ok_or("a length in sectors")?;
    if matches!(point.shape, Shape::Request | Shape::Completion) {
        fields.priority = priority(rest)?;
    }
    match point.shape {
        Shape::Remap => (rest.word() == b"<-").then_some(()).ok_or("<- and where it came from")?,
        Shape::Completion | Shape::BioCompletion => {
            let mut error = Cursor::new(rest.bracketed().ok_or("[error] at the end")?);
            fields.error = error.signed().filter(|_| error.rest().is_empty()).ok_or("a number in [error]")?;
        }
        _ => return Ok((fields, Some(process(rest)?))),
    }
    Ok((fields, None))
}

/// `[process]` at the end of the line.
#[inline]
fn process<'a>(rest: &mut Cursor<'a>) -> Result<&'a [u8], &'static str> {
    rest.bracketed().ok_or("[process] at the end")
}

/// `(…)`, the command of a passed-through request; says whether there is anything in it.
#[inline]
fn command(rest: &mut Cursor) -> Result<bool, &'static str> {
    const COMMAND: &str = "(command)";
    rest.skip_spaces();
    let text = rest.rest().strip_prefix(b"(").ok_or(COMMAND)?;
    let end = text.iter().position(|byte| *byte == b')').ok_or(COMMAND)?;
    *rest = Cursor::new(&text[end + 1..]);
    Ok(end > 0)
}

/// `be,0,4`: class, hint and level of the I/O priority, where they come next.
#[inline]
fn priority(rest: &mut Cursor) -> Result<Priority, &'static str> {
    rest.skip_spaces();
    if rest.rest().starts_with(b"[") {
        return Ok(Priority::NONE);
    }
    let word = rest.word();
    let mut parts = word.split(|byte| *byte == b',');
    let (class, _hint, level) = (parts.next(), parts.next(), parts.next());
    let class = match class {
        Some(b"none") => 0,
        Some(b"rt") => 1,
        Some(b"be") => 2,
        Some(b"idle") => 3,
        // A value without a name in the kernel prints as a number in hexadecimal.
        Some(class) if class == b"invalid" || class.starts_with(b"0x") => return Ok(Priority::NONE),
        _ => return Err("[…] or an I/O priority such as be,0,4"),
    };
    let level = level.and_then(|level| Cursor::new(level).number());
    let level = level.filter(|_| parts.next().is_none()).ok_or("class, hint and level of an I/O priority")?;
    Ok(tracepoint::priority(class, level))
}
