//! One file of a capture: bytes to events.

use std::io::{self, BufRead};
use std::path::Path;

use super::record::{ByteOrder, Header, MAGIC, RECORD_BYTES, VERSION, decode};
use crate::error::{Place, Problem, ReadError};
use crate::events::{Category, Event, Placed, action, notify};
use crate::formats::capture::{Batch, CPUS_MAX, EventFile, Findings, first_part_bytes};
use crate::input::Input;

/// The most of a process name, `TASK_COMM_LEN`.
const NAME_BYTES: usize = 16;

/// One file; a CPU without events has an empty one.
pub(super) struct BinaryFile {
    input: Input,
    order: ByteOrder,
    /// Where in the decompressed file the next record begins.
    offset: u64,
    /// The bytes taken out of the input for that record and perhaps for more; mostly empty.
    carry: Vec<u8>,
    /// An error of the input that the fast path met.
    failure: Option<io::Error>,
    ended: bool,
}

impl EventFile for BinaryFile {
    const PER_CPU: bool = true;
    const NUMBERED: bool = true;
    const ZERO: &'static str = "zero_monotonic_ns";

    fn read(&mut self, batch: &mut Batch, findings: &mut Findings) -> Result<bool, ReadError> {
        while !batch.is_full() && !self.ended {
            if self.carry.is_empty() {
                self.take_plain_events(batch);
                if batch.is_full() {
                    break;
                }
            }
            self.take_one_record(batch, findings)?;
        }
        Ok(!self.ended)
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
    }
}

impl BinaryFile {
    pub(super) fn open(path: &Path) -> Result<BinaryFile, ReadError> {
        let input = Input::open(path)?;
        let order = ByteOrder::of(input.head()).unwrap_or_default();
        Ok(BinaryFile { input, order, offset: 0, carry: Vec::new(), failure: None, ended: false })
    }

    /// The fast path: takes the records in the input's buffer up to the first one that is not
    /// plain, which is left to [`BinaryFile::take_one_record`].
    fn take_plain_events(&mut self, batch: &mut Batch) {
        match self.input.fill_buf() {
            Ok(buffer) => {
                let taken = match self.order {
                    ByteOrder::Little => plain_events::<false>(buffer, self.offset, batch),
                    ByteOrder::Big => plain_events::<true>(buffer, self.offset, batch),
                };
                self.input.consume(taken);
                self.offset += taken as u64;
            }
            Err(error) => self.failure = Some(error),
        }
    }

    /// Takes one record of any kind, wherever it lies in the input's buffers.
    fn take_one_record(&mut self, batch: &mut Batch, findings: &mut Findings) -> Result<(), ReadError> {
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
            findings.malformed(self, self.offset, why, IMPOSSIBLE_CPU)?;
        } else {
            complete(&mut event, payload, self.order);
            batch.push(Placed { event, at: self.offset }, self, findings)?;
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
                Err(error) => return Err(ReadError::io(self.input.path(), Place::Byte(self.offset), error)),
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
        Err(ReadError::new(self.input.path(), Place::Byte(self.offset), problem)
            .remedy("--lenient leaves out the incomplete record and counts it"))
    }

    /// The bytes at the place of a record are none.
    fn no_record(&mut self, magic: u32, findings: &mut Findings) -> Result<(), ReadError> {
        if magic & 0xffff_ff00 == MAGIC && !findings.lenient {
            let problem = Problem::Version(format!("blktrace {}, expected {VERSION}", magic & 0xff));
            return Err(ReadError::new(self.input.path(), Place::Byte(self.offset), problem));
        }
        let expected = MAGIC | u32::from(VERSION);
        let why = format!("found {magic:#010x} where a record with the magic number {expected:#010x} should begin");
        findings.malformed(self, self.offset, why, "run of bytes that are no record")?;
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
}

/// Why an event is left out.
pub(super) const IMPOSSIBLE_CPU: &str = "event of an impossible CPU";

/// Adds the facts of an event's payload.
pub(super) fn complete(event: &mut Event, payload: &[u8], order: ByteOrder) {
    event.cgroup = cgroup(event, payload, order);
    if event.code() == action::SPLIT {
        split_length(event, payload);
    }
}

/// How much is read at a time when the next record is searched for.
const RESYNC_BYTES: usize = 4096;

/// Decodes plain events: whole, of this version, in order, with nothing to look up in the payload.
/// Gives the bytes taken.
// On its own, one for each byte order, so that the loop has the processor's registers to itself.
#[inline(never)]
fn plain_events<const BIG: bool>(buffer: &[u8], offset: u64, batch: &mut Batch) -> usize {
    let order = if BIG { ByteOrder::Big } else { ByteOrder::Little };
    let mut left = buffer;
    while !batch.is_full()
        && let Some((record, rest)) = left.split_first_chunk()
    {
        let header = Header::decode(record, order);
        let Some((payload, rest)) = rest.split_at_checked(header.payload) else { break };
        let mut event = decode(record, order);
        let plain = header.magic == MAGIC | u32::from(VERSION)
            && event.cpu < CPUS_MAX
            && event.code() != action::SPLIT
            && !event.is(Category::NOTIFY);
        if !plain {
            break;
        }
        if event.action & action::CGROUP != 0 {
            event.cgroup = cgroup(&event, payload, order);
        }
        let at = offset + (buffer.len() - left.len()) as u64;
        if !batch.push_in_order(Placed { event, at }) {
            break;
        }
        left = rest;
    }
    buffer.len() - left.len()
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

/// Sets the length of a split to that of its first part, which most kernels give but not all. The payload is the sector
/// of the second part, big-endian on every host.
fn split_length(event: &mut Event, payload: &[u8]) {
    let Some(second) = own_payload(event, payload).first_chunk() else { return };
    event.bytes = first_part_bytes(event.sector, u64::from_be_bytes(*second));
}

/// Takes in a notify record.
pub(super) fn note(event: &Event, payload: &[u8], order: ByteOrder, findings: &mut Findings) {
    let payload = own_payload(event, payload);
    match event.code() {
        notify::PROCESS => {
            let name = &payload[..payload.len().min(NAME_BYTES)];
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            findings.name(event.pid, name);
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
        // Messages, and records that newer kernels may add.
        _ => findings.messages += 1,
    }
}
