//! Pages of the trace buffer of one CPU: bytes to events.
//!
//! A page begins with the time of its first event and the number of bytes in use (`commit`). The upper bits of that
//! number say whether events were lost before the page, and whether their number stands behind its last event. Each
//! event begins with a word of a type and the time since the event before. Types up to a maximum are the length of the
//! event in words (of 0 the length follows in bytes). The others are padding, a longer time since the event before, and
//! an absolute time. Source: Linux 6.1 and 6.18, `include/linux/ring_buffer.h` (`enum ring_buffer_type`),
//! `kernel/trace/ring_buffer.c` (`ring_buffer_read_page`, `rb_fix_abs_ts`); libtraceevent 1.7, `src/kbuffer-parse.c`,
//! which counts the time of discarded events as here.
//!
//! The pages do not hold the byte order of the machine; it is inferred from the first.

use std::io;
use std::path::Path;

use super::layout::{Field, Holds, Layout, Layouts, Page};
use super::pages::Pages;
use crate::error::{Place, Problem, ReadError};
use crate::events::{Event, Placed};
use crate::formats::blktrace::ByteOrder;
use crate::formats::capture::tracepoint::{self, EventFields};
use crate::formats::capture::{Batch, CPUS_MAX, EventFile, Findings};

/// Bits of `commit` that are a number of bytes; higher ones are flags, or copies of its sign.
const COMMIT_BYTES: u64 = (1 << 27) - 1;
/// Flag of `commit`: events before this page were lost.
const MISSED: u64 = 1 << 31;
/// Flag of `commit`: how many they were stands behind the last event.
const MISSED_STORED: u64 = 1 << 30;

/// The pages of one CPU.
pub(super) struct PageFile<P> {
    input: P,
    cpu: u32,
    layouts: Layouts,
    order: ByteOrder,
    kernel: Option<String>,
    /// Events that found the buffer full, until that has been said.
    dropped: u64,
    /// Where in the decompressed file the page begins.
    offset: u64,
    page: Vec<u8>,
    /// How much of the page was read, and where its events end; both count from the page's start.
    at: usize,
    end: usize,
    /// Time of the event before.
    time: u64,
}

impl<P: Pages> EventFile for PageFile<P> {
    const PER_CPU: bool = true;
    const NUMBERED: bool = false;
    const ZERO: &'static str = "zero_ns";

    fn read(&mut self, batch: &mut Batch, findings: &mut Findings) -> Result<bool, ReadError> {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let what = format!("of CPU {} that found its buffer full (dropped events in its stats)", self.cpu);
            findings.lost(self, 0, Some(dropped), &what)?;
        }
        while !batch.is_full() {
            if self.at >= self.end {
                if !self.next_page(findings)? {
                    return Ok(false);
                }
                continue;
            }
            let begin = self.at;
            let place = self.offset + begin as u64;
            match self.next_event(findings) {
                Ok(Some(event)) => batch.push(Placed { event, at: place }, self, findings)?,
                Ok(None) => {}
                Err(why) if self.at > begin => findings.malformed(self, place, why, "malformed event")?,
                Err(why) => {
                    // Where it ends is not known, so that the others cannot be found either.
                    findings.malformed(self, place, why, "rest of a page that is malformed")?;
                    self.at = self.end;
                }
            }
        }
        Ok(true)
    }

    fn path(&self) -> &Path {
        self.input.path()
    }

    fn place(at: u64) -> Place {
        Place::Byte(at)
    }

    fn consumed_bytes(&self) -> u64 {
        self.input.consumed_bytes()
    }

    fn describe(&self, add: &mut dyn FnMut(&str, String)) {
        add("byte_order", self.order.name().to_owned());
        add("page_bytes", self.page.len().to_string());
        if let Some(kernel) = &self.kernel {
            add("kernel", kernel.clone());
        }
    }
}

impl<P: Pages> PageFile<P> {
    /// Reads the pages of a CPU of which the kernel dropped `dropped` events.
    pub(super) fn new(
        input: P,
        cpu: u32,
        layouts: &Layouts,
        dropped: u64,
        kernel: Option<&str>,
    ) -> Result<PageFile<P>, ReadError> {
        if cpu >= CPUS_MAX {
            let why = format!("a file of CPU {cpu}, expected a number below {CPUS_MAX}");
            return Err(ReadError::malformed(input.path(), Place::Whole, why));
        }
        let page = layouts.page;
        let order = input.byte_order(&page);
        Ok(PageFile {
            input,
            cpu,
            layouts: layouts.clone(),
            order,
            kernel: kernel.map(|kernel| kernel.chars().take(128).collect()),
            dropped,
            offset: 0,
            page: vec![0; page.bytes()],
            at: 0,
            end: 0,
            time: 0,
        })
    }

    /// The source of the pages.
    pub(super) fn input_mut(&mut self) -> &mut P {
        &mut self.input
    }

    /// Notes more events that found the buffer full.
    pub(super) fn add_dropped(&mut self, events: u64) {
        self.dropped += events;
    }

    /// Reads the next page; false at the end of the file.
    fn next_page(&mut self, findings: &mut Findings) -> Result<bool, ReadError> {
        if self.end > 0 {
            self.offset += self.page.len() as u64;
        }
        (self.at, self.end) = (0, 0);
        let filled = match self.input.fill(&mut self.page) {
            Ok(filled) => filled,
            Err(error) if findings.lenient && error.kind() == io::ErrorKind::UnexpectedEof => {
                findings.losses.skip("the rest of a truncated input");
                return Ok(false);
            }
            Err(error) => return Err(ReadError::io(self.input.path(), Place::Byte(self.offset), error)),
        };
        if filled == 0 {
            return Ok(false);
        }
        if filled < self.page.len() {
            if findings.lenient {
                findings.losses.skip("page cut short by the end of its file");
                // There may be another file.
                self.end = 0;
                return self.next_page(findings);
            }
            return Err(ReadError::new(
                self.input.path(),
                Place::Byte(self.offset),
                Problem::Truncated(format!("a page of {} bytes", self.page.len())),
            )
            .remedy("--lenient leaves it out and counts it"));
        }
        self.begin_page(findings)?;
        Ok(true)
    }

    /// Reads the header of the page.
    fn begin_page(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        let layout = self.layouts.page;
        let header = |field: Field| integer(&self.page[field.offset..field.offset + field.size], self.order);
        let (time, commit) = (header(layout.timestamp), header(layout.commit));
        // The page has been read, even if the rest is an error.
        (self.at, self.end, self.time) = (self.page.len(), self.page.len(), time);
        let Some(bytes) = in_use(commit, layout.commit.size).filter(|bytes| *bytes <= layout.data.size) else {
            let why = format!(
                "{commit:#x} as the number of bytes in use of a page of {}: the pages are of another size, or none",
                layout.data.size
            );
            return findings.malformed(self, self.offset, why, "page that is none");
        };
        (self.at, self.end) = (layout.data.offset, layout.data.offset + bytes);
        if commit & MISSED != 0 {
            // A `long`, as `commit` itself.
            let stored = self.page.get(self.end..self.end + layout.commit.size).filter(|_| commit & MISSED_STORED != 0);
            let count = stored.map(|bytes| integer(bytes, self.order));
            findings.lost(self, self.offset, count, &format!("of CPU {} before this page", self.cpu))?;
        }
        if bytes == 0 {
            (self.at, self.end) = (self.page.len(), self.page.len());
        }
        Ok(())
    }

    /// The 32-bit word at `at`.
    fn word(&self, at: usize) -> Result<u32, &'static str> {
        let bytes = self.page[..self.end].get(at..at + 4).ok_or("an event that reaches beyond its page")?;
        Ok(integer(bytes, self.order) as u32)
    }

    /// The event at `self.at`, which goes past it; `None` if it is none of a request.
    fn next_event(&mut self, findings: &mut Findings) -> Result<Option<Event>, String> {
        let header = self.layouts.header;
        let word = self.word(self.at)?;
        // The fields of a word begin at its lowest bit, or at its highest.
        let (kind, delta) = match self.order {
            ByteOrder::Little => (word & mask(header.type_bits), word >> header.type_bits),
            ByteOrder::Big => (word >> header.delta_bits, word & mask(header.delta_bits)),
        };
        let body = self.at + 4;
        if kind == header.padding {
            if delta == 0 {
                // Nothing more in this page.
                self.at = self.end;
                return Ok(None);
            }
            self.at = self.behind(body, self.word(body)? as usize)?;
            self.time = self.time.wrapping_add(u64::from(delta));
            return Ok(None);
        }
        if kind == header.time_extend || Some(kind) == header.time_stamp {
            let time = u64::from(self.word(body)?) << header.delta_bits | u64::from(delta);
            let time = if kind == header.time_extend {
                self.time.wrapping_add(time)
            } else {
                absolute(time, self.time, header.delta_bits + u32::BITS)
            };
            (self.time, self.at) = (time, body + 4);
            return Ok(None);
        }
        if kind > header.data_max {
            return Err(format!("an event of the unknown type {kind}"));
        }
        let (data, length) = match kind {
            // The length counts its own word.
            0 => (body + 4, (self.word(body)? as usize).checked_sub(4).ok_or("an event shorter than its length")?),
            words => (body, words as usize * 4),
        };
        let end = self.behind(data, length)?;
        (self.time, self.at) = (self.time.wrapping_add(u64::from(delta)), end);
        decode(&self.layouts, &self.page[data..data + length], self.order, findings)
            .map(|event| event.map(|event| Event { time: self.time, cpu: self.cpu, ..event }))
            .map_err(str::to_owned)
    }

    /// The end of `length` bytes from `at`, in whole words.
    fn behind(&self, at: usize, length: usize) -> Result<usize, String> {
        let end = length.checked_next_multiple_of(4).and_then(|length| at.checked_add(length));
        end.filter(|end| *end <= self.end && length > 0)
            .ok_or_else(|| format!("an event of {length} bytes, which reaches beyond its page"))
    }
}

fn mask(bits: u32) -> u32 {
    u32::MAX.checked_shr(u32::BITS - bits).unwrap_or(0)
}

/// The byte order of pages, from the first: the one in which `commit` is one. If it is one in both orders, the one with
/// the earlier time counts, of which the upper bytes are zero.
pub(super) fn byte_order(head: &[u8], page: &Page) -> ByteOrder {
    let field =
        |field: Field, order| head.get(field.offset..field.offset + field.size).map(|bytes| integer(bytes, order));
    let time = |order: ByteOrder| {
        let bytes = in_use(field(page.commit, order)?, page.commit.size)?;
        field(page.timestamp, order).filter(|_| bytes <= page.data.size)
    };
    match (time(ByteOrder::Little), time(ByteOrder::Big)) {
        (Some(little), Some(big)) if big < little => ByteOrder::Big,
        (None, Some(_)) => ByteOrder::Big,
        _ => ByteOrder::Little,
    }
}

/// The number of bytes in use by `commit`, whose field has a number of bytes; `None` if it is no value of that field.
fn in_use(commit: u64, size: usize) -> Option<usize> {
    // Its flags are in the lower half, of which the upper is the sign.
    let extension = if size == 8 { commit >> 32 } else { 0 };
    let between = (commit & (MISSED_STORED - 1)) >> COMMIT_BYTES.count_ones();
    let plausible = (extension == 0 || extension == u64::from(u32::MAX)) && between == 0;
    plausible.then_some((commit & COMMIT_BYTES) as usize)
}

/// An absolute time of which only the lower `bits` were stored; the others are those of the time
/// before it, which is not later.
fn absolute(time: u64, before: u64, bits: u32) -> u64 {
    let Some(unit) = 1u64.checked_shl(bits) else { return time };
    let time = time | before & !(unit - 1);
    if time < before { time.wrapping_add(unit) } else { time }
}

/// An unsigned integer of at most 8 bytes.
#[inline]
fn integer(bytes: &[u8], order: ByteOrder) -> u64 {
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    match (order, bytes) {
        // The sizes that occur, as single loads.
        (ByteOrder::Little, &[a, b]) => u64::from(u16::from_le_bytes([a, b])),
        (ByteOrder::Little, &[a, b, c, d]) => u64::from(u32::from_le_bytes([a, b, c, d])),
        (ByteOrder::Little, &[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        (ByteOrder::Little, other) => other.iter().rev().fold(0, fold),
        (ByteOrder::Big, all) => all.iter().fold(0, fold),
    }
}

const TOO_SHORT: &str = "an event that is shorter than its format says";

/// The integer in a field.
#[inline]
fn number(data: &[u8], field: Field, order: ByteOrder) -> Result<u64, &'static str> {
    let value = integer(data.get(field.offset..field.offset + field.size).ok_or(TOO_SHORT)?, order);
    Ok(match field.holds {
        Holds::Integer { signed: true } => {
            let unused = 64 - 8 * field.size as u32;
            ((value << unused) as i64 >> unused) as u64
        }
        _ => value,
    })
}

/// The text in a field, or where it points, up to a zero.
#[inline]
fn text(data: &[u8], field: Field, order: ByteOrder) -> Result<&[u8], &'static str> {
    let own = data.get(field.offset..field.offset + field.size).ok_or(TOO_SHORT)?;
    let bytes = match field.holds {
        Holds::Bytes | Holds::Integer { .. } => own,
        Holds::At | Holds::AtFromHere => {
            let location = integer(own, order) as usize;
            let base = if field.holds == Holds::At { 0 } else { field.offset + field.size };
            let start = base + (location & 0xffff);
            data.get(start..start + (location >> 16 & 0xffff)).ok_or("a text that reaches beyond its event")?
        }
    };
    Ok(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// Decodes the fields of an event; `None` if it is of another tracepoint.
#[inline]
fn decode(
    layouts: &Layouts,
    data: &[u8],
    order: ByteOrder,
    findings: &mut Findings,
) -> Result<Option<Event>, &'static str> {
    let id = number(data, layouts.id, order)? as usize;
    let Some(Some(layout)) = layouts.events.get(id) else {
        findings.count("other_events");
        return Ok(None);
    };
    let optional = |field: Option<Field>| field.map_or(Ok(0), |field| number(data, field, order));
    let read_text = |field: Option<Field>| field.map_or(Ok(&[][..]), |field| text(data, field, order));
    let Layout { pid, device, sector, sectors, bytes, second, error, priority, rwbs, command, process, .. } = *layout;
    let ioprio = optional(priority)?;
    let fields = EventFields {
        device: optional(device)? as u32,
        rwbs: read_text(rwbs)?,
        sector: optional(sector)?,
        sectors: optional(sectors)?,
        bytes: optional(bytes)?,
        has_command: !read_text(command)?.is_empty(),
        second: optional(second)?,
        error: optional(error)? as i64,
        // Linux 6.1, `include/uapi/linux/ioprio.h`: class from bit 13, hint from bit 3, level.
        priority: tracepoint::priority(ioprio >> 13 & 7, ioprio & 7),
    };
    let pid = number(data, pid, order)? as u32;
    let name = read_text(process)?;
    if !name.is_empty() {
        findings.name(pid, name);
    }
    let event = layout.point.event(&fields)?;
    if event.is_none() {
        findings.count("zone_commands");
    }
    Ok(event.map(|event| Event { pid, ..event }))
}
