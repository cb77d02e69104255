//! One per-CPU file of a capture: bytes to events, in blocks, in order of time.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead};
use std::path::Path;

use super::record::{ByteOrder, Header, MAGIC, RECORD_BYTES, VERSION, decode};
use crate::error::{Place, Problem, ReadError};
use crate::events::{Category, Event, action, notify};
use crate::input::Input;
use crate::trace::Losses;
use crate::units::SECTOR_BYTES;

/// How late an event may stand in its file, nanoseconds: one tick of a kernel at 100 Hz.
///
/// Linux 6.1 stamps events with interrupts off from one monotonic clock, so that its files are in
/// order. Old kernels used `sched_clock`, which may differ between CPUs, and jump when an
/// event's task moves, by as much as the time since it was last synchronised: a tick.
pub const REORDER_WINDOW_NS: u64 = 10_000_000;

/// How many events may stand between a late one and its place: as many are always looked ahead.
pub const REORDER_EVENTS: usize = 2048;

/// A second bound, so that garbage cannot let the table of what is counted per CPU grow.
const CPUS_MAX: u32 = 1 << 16;

/// The most of a process name, `TASK_COMM_LEN`.
const NAME_BYTES: usize = 16;

/// An event and where its record begins in the decompressed file.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub(super) event: Event,
    pub(super) offset: u64,
}

/// What all files of a capture add to.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) lenient: bool,
    pub(super) losses: Losses,
    /// Process names by process id.
    pub(super) names: BTreeMap<u32, String>,
    /// Time of a timestamp record and the wall clock (ns since 1970) at that time.
    pub(super) wall: Option<(u64, i64)>,
    /// Free-text messages; their text is not kept.
    pub(super) messages: u64,
    /// CPU and number of events left out, which are therefore not lost; the latest ones.
    pub(super) left_out: VecDeque<(u32, u32)>,
}

/// How many of [`Findings::left_out`] are kept, far more than a gap waits for.
const LEFT_OUT: usize = 4096;

pub(super) struct Stream {
    input: Input,
    order: ByteOrder,
    /// Where in the decompressed file the next record begins.
    offset: u64,
    /// What was taken out of the input of that record and perhaps of more; mostly empty.
    carry: Vec<u8>,
    /// An error of the input that the fast path met.
    failure: Option<io::Error>,
    ended: bool,
    /// Events in order of time, of which those before `next` were taken.
    ready: Vec<Placed>,
    next: usize,
    /// The events after them: what comes later than these cannot belong before `ready`'s end.
    ahead: Vec<Placed>,
    /// Latest time in the file so far.
    latest: u64,
    /// Time of the last event that was taken.
    released: u64,
    /// Whether `ahead` is out of order in itself or begins before `ready` ends.
    disordered: bool,
}

impl Stream {
    /// Opens one file. An empty file is a CPU without events.
    pub(super) fn open(path: &Path, findings: &mut Findings) -> Result<Stream, ReadError> {
        let input = Input::open(path)?;
        let order = ByteOrder::of(input.head()).unwrap_or_default();
        let mut stream = Stream {
            input,
            order,
            offset: 0,
            carry: Vec::new(),
            failure: None,
            ended: false,
            ready: Vec::with_capacity(REORDER_EVENTS),
            next: 0,
            ahead: Vec::with_capacity(REORDER_EVENTS),
            latest: 0,
            released: 0,
            disordered: false,
        };
        stream.fill_ahead(findings)?;
        stream.refill(findings)?;
        Ok(stream)
    }

    pub(super) fn path(&self) -> &Path {
        self.input.path()
    }

    pub(super) fn order(&self) -> ByteOrder {
        self.order
    }

    pub(super) fn consumed_bytes(&self) -> u64 {
        self.input.consumed_bytes()
    }

    /// The next event, `None` at the end of the file.
    pub(super) fn peek(&self) -> Option<&Placed> {
        self.ready.get(self.next)
    }

    /// What is ready to be taken, and where in it the next event stands.
    #[inline]
    pub(super) fn ready(&self) -> (&[Placed], usize) {
        (&self.ready, self.next)
    }

    /// Goes past the ready events before `end`.
    pub(super) fn go_to(&mut self, end: usize, findings: &mut Findings) -> Result<(), ReadError> {
        self.next = end;
        if self.next == self.ready.len() { self.refill(findings) } else { Ok(()) }
    }

    /// Makes what was looked ahead ready and looks further ahead.
    #[cold]
    fn refill(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        if let Some(last) = self.ready.last() {
            self.released = last.event.time;
        }
        std::mem::swap(&mut self.ready, &mut self.ahead);
        self.ahead.clear();
        self.next = 0;
        self.fill_ahead(findings)?;
        if self.disordered {
            self.disordered = false;
            self.put_in_order(findings)?;
        }
        Ok(())
    }

    /// Sorts `ready` and `ahead` together and leaves as many ahead as there were.
    fn put_in_order(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        let split = self.ready.len();
        self.ready.append(&mut self.ahead);
        // Stable: events of one time stay in the order of their file.
        self.ready.sort_by_key(|placed| placed.event.time);
        self.ahead.extend(self.ready.drain(split..));
        let late = self.ready.iter().take_while(|placed| placed.event.time < self.released).count();
        for placed in &self.ready[..late] {
            let by = self.released - placed.event.time;
            let why = format!("an event comes {by} ns late, more than {REORDER_EVENTS} events after its place");
            out_of_order(self.input.path(), placed, why, findings)?;
        }
        self.ready.drain(..late);
        if self.ready.is_empty() && !self.ahead.is_empty() {
            return self.refill(findings);
        }
        Ok(())
    }

    /// Reads events until [`REORDER_EVENTS`] are ahead or the file ends.
    fn fill_ahead(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        while self.ahead.len() < REORDER_EVENTS && !self.ended {
            if self.carry.is_empty() {
                self.take_plain_events();
                if self.ahead.len() == REORDER_EVENTS {
                    break;
                }
            }
            self.take_one_record(findings)?;
        }
        Ok(())
    }

    /// The fast path: takes what lies in the input's buffer up to the first record that is not
    /// plain, which is left to [`Stream::take_one_record`].
    fn take_plain_events(&mut self) {
        match self.input.fill_buf() {
            Ok(buffer) => {
                let (ahead, latest) = (&mut self.ahead, &mut self.latest);
                // Two calls with constants: the byte order is not looked up at every field.
                let taken = match self.order {
                    ByteOrder::Little => plain_events(buffer, ByteOrder::Little, self.offset, latest, ahead),
                    ByteOrder::Big => plain_events(buffer, ByteOrder::Big, self.offset, latest, ahead),
                };
                self.input.consume(taken);
                self.offset += taken as u64;
            }
            Err(error) => self.failure = Some(error),
        }
    }

    /// Takes one record, whatever is in it and however it lies in the input's buffers.
    fn take_one_record(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        if !self.gather(RECORD_BYTES, findings)? {
            return self.cut_short("a record", findings);
        }
        let record = self.carry.first_chunk().expect("a whole record was gathered");
        let header = Header::decode(record, self.order);
        let mut event = decode(record, self.order);
        if header.magic != MAGIC | u32::from(VERSION) {
            return self.no_record(header.magic, findings);
        }
        let length = RECORD_BYTES + header.payload;
        if !self.gather(length, findings)? {
            self.cut_short("a record's payload", findings)?;
            // It may be the length that is wrong.
            self.ended = false;
            return self.find_record(findings);
        }
        let payload = &self.carry[RECORD_BYTES..length];
        if event.is(Category::NOTIFY) {
            note(&event, payload, self.order, findings);
        } else if event.cpu >= CPUS_MAX {
            let why = format!("an event of CPU {}, expected a number below {CPUS_MAX}", event.cpu);
            self.malformed(why, "event of an impossible CPU", findings)?;
        } else if event.time < self.latest && self.latest - event.time > REORDER_WINDOW_NS {
            let by = self.latest - event.time;
            let why = format!("an event comes {by} ns late, by more than {REORDER_WINDOW_NS} ns");
            out_of_order(self.input.path(), &Placed { event, offset: self.offset }, why, findings)?;
        } else {
            event.cgroup = cgroup(&event, payload, self.order);
            if event.code() == action::SPLIT {
                split_length(&mut event, payload);
            }
            self.disordered |= event.time < self.latest;
            self.latest = self.latest.max(event.time);
            self.ahead.push(Placed { event, offset: self.offset });
        }
        self.carry.drain(..length);
        self.offset += length as u64;
        Ok(())
    }

    /// Brings `carry` to `length` bytes; false if the file ends before.
    fn gather(&mut self, length: usize, findings: &mut Findings) -> Result<bool, ReadError> {
        while self.carry.len() < length {
            let filled = match self.failure.take() {
                Some(error) => Err(error),
                None => self.input.fill_buf(),
            };
            match filled {
                Ok([]) => return Ok(false),
                Ok(buffer) => {
                    let taken = buffer.len().min(length - self.carry.len());
                    self.carry.extend_from_slice(&buffer[..taken]);
                    self.input.consume(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if findings.lenient && error.kind() == io::ErrorKind::UnexpectedEof => {
                    findings.losses.skip("end of a compressed file that was cut short");
                    self.carry.clear();
                    return Ok(false);
                }
                Err(error) => return Err(ReadError::io(self.path(), Place::Byte(self.offset), error)),
            }
        }
        Ok(true)
    }

    /// The file ends, and perhaps in the middle of something.
    fn cut_short(&mut self, what: &str, findings: &mut Findings) -> Result<(), ReadError> {
        self.ended = true;
        if self.carry.is_empty() {
            return Ok(());
        }
        if findings.lenient {
            findings.losses.skip("record cut short by the end of its file");
            return Ok(());
        }
        let problem = Problem::Truncated(what.to_owned());
        Err(ReadError::new(self.path(), Place::Byte(self.offset), problem)
            .remedy("--lenient leaves out the incomplete record and counts it"))
    }

    /// What stands where a record should begin is none.
    fn no_record(&mut self, magic: u32, findings: &mut Findings) -> Result<(), ReadError> {
        if magic & 0xffff_ff00 == MAGIC && !findings.lenient {
            let problem = Problem::Version(format!("blktrace {}, expected {VERSION}", magic & 0xff));
            return Err(ReadError::new(self.path(), Place::Byte(self.offset), problem));
        }
        let expected = MAGIC | u32::from(VERSION);
        let why = format!("found {magic:#010x} where a record with the magic number {expected:#010x} should begin");
        self.malformed(why, "run of bytes that are no record", findings)?;
        self.find_record(findings)
    }

    /// Goes to where the next record seems to begin, behind the first carried byte.
    fn find_record(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        let expected = MAGIC | u32::from(VERSION);
        self.drop_carried(self.carry.len().min(1));
        let begin = if self.order == ByteOrder::Big { expected.to_be_bytes() } else { expected.to_le_bytes() };
        loop {
            if let Some(at) = self.carry.windows(begin.len()).position(|bytes| bytes == begin) {
                self.drop_carried(at);
                return Ok(());
            }
            self.drop_carried(self.carry.len().saturating_sub(begin.len() - 1));
            let before = self.carry.len();
            if !self.gather(before + RESYNC_BYTES, findings)? && self.carry.len() <= before {
                self.drop_carried(self.carry.len());
                self.ended = true;
                return Ok(());
            }
        }
    }

    fn drop_carried(&mut self, bytes: usize) {
        self.carry.drain(..bytes);
        self.offset += bytes as u64;
    }

    fn malformed(&self, why: String, reason: &str, findings: &mut Findings) -> Result<(), ReadError> {
        if findings.lenient {
            findings.losses.skip(reason);
            return Ok(());
        }
        Err(ReadError::malformed(self.path(), Place::Byte(self.offset), why)
            .remedy("--lenient leaves it out and counts it"))
    }
}

/// How much is read at a time when the next record is searched for.
const RESYNC_BYTES: usize = 4096;

/// Decodes plain events: whole, of this version, in order, with nothing to look up in the payload.
/// Gives the bytes taken.
#[inline(always)]
fn plain_events(buffer: &[u8], order: ByteOrder, offset: u64, latest: &mut u64, events: &mut Vec<Placed>) -> usize {
    let mut at = 0;
    while events.len() < REORDER_EVENTS
        && let Some(record) = buffer[at..].first_chunk()
    {
        let header = Header::decode(record, order);
        let mut event = decode(record, order);
        let end = at + RECORD_BYTES + header.payload;
        if end <= buffer.len() {
            event.cgroup = cgroup(&event, &buffer[at + RECORD_BYTES..end], order);
        }
        let plain = header.magic == MAGIC | u32::from(VERSION)
            && end <= buffer.len()
            && event.time >= *latest
            && event.cpu < CPUS_MAX
            && event.code() != action::SPLIT
            && !event.is(Category::NOTIFY);
        if !plain {
            break;
        }
        *latest = event.time;
        events.push(Placed { event, offset: offset + at as u64 });
        at = end;
    }
    at
}

/// An event that comes too late: an error, or left out.
fn out_of_order(path: &Path, late: &Placed, why: String, findings: &mut Findings) -> Result<(), ReadError> {
    if findings.lenient {
        findings.losses.skip("event out of order");
        findings.left_out.truncate(LEFT_OUT - 1);
        findings.left_out.push_front((late.event.cpu, late.event.sequence));
        return Ok(());
    }
    Err(ReadError::new(path, Place::Byte(late.offset), Problem::OutOfOrder(why))
        .remedy("--lenient leaves such events out and counts them"))
}

/// The payload of an event without the number of a cgroup before it.
fn own_payload<'a>(event: &Event, payload: &'a [u8]) -> &'a [u8] {
    let skip = if event.action & action::CGROUP != 0 { 8 } else { 0 };
    payload.get(skip..).unwrap_or_default()
}

/// The number of the cgroup before an event's own payload, 0 if there is none.
#[inline(always)]
fn cgroup(event: &Event, payload: &[u8], order: ByteOrder) -> u64 {
    if event.action & action::CGROUP == 0 {
        return 0;
    }
    payload.first_chunk().map_or(0, |bytes| match order {
        ByteOrder::Little => u64::from_le_bytes(*bytes),
        ByteOrder::Big => u64::from_be_bytes(*bytes),
    })
}

/// Sets the length of a split to that of its first part, which is what most kernels say but not
/// all; the payload is the sector of the second part, big-endian on every machine.
fn split_length(event: &mut Event, payload: &[u8]) {
    let Some(second) = own_payload(event, payload).first_chunk() else { return };
    let second = u64::from_be_bytes(*second);
    let bytes = second.saturating_sub(event.sector).saturating_mul(SECTOR_BYTES);
    event.bytes = u32::try_from(bytes).unwrap_or(0);
}

fn note(event: &Event, payload: &[u8], order: ByteOrder, findings: &mut Findings) {
    let payload = own_payload(event, payload);
    match event.code() {
        notify::PROCESS => {
            let name = &payload[..payload.len().min(NAME_BYTES)];
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            findings.names.insert(event.pid, String::from_utf8_lossy(name).into_owned());
        }
        notify::TIMESTAMP => {
            let word = |at: usize| {
                let bytes = payload.get(at..at + 4)?.first_chunk().copied()?;
                Some(if order == ByteOrder::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
            };
            if let (Some(seconds), Some(nanoseconds), None) = (word(0), word(4), findings.wall) {
                let unix_ns = i64::from(seconds) * 1_000_000_000 + i64::from(nanoseconds);
                findings.wall = Some((event.time, unix_ns));
            }
        }
        // Messages, and what newer kernels may add.
        _ => findings.messages += 1,
    }
}
