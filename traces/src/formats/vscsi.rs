//! VMware vscsi traces: little-endian records without a file header, one per SCSI command of a
//! virtual disk as its hypervisor received it. Fields as in libCacheSim's vscsi reader, which came
//! from CloudPhysics with the traces; no description by VMware is known.
//!
//! | version 1 (32 bytes) | version 2 (40 bytes) | meaning |
//! |---|---|---|
//! | 0 `sn` u32 | 4 | serial number; not used |
//! | 4 `len` u32 | 8 | length in bytes |
//! | 8 `nSG` u32 | 12 | scatter-gather elements; not used |
//! | 12 `cmd` u16 | 0 | SCSI operation code |
//! | 14 `ver` u16 | 2 | 0x0100 or 0x0200 |
//! | 16 `lbn` u64 | 16 | first block of 512 bytes |
//! | 24 `ts` u64 | 24 | when, µs; the first record becomes zero |
//! | | 32 `rt` u64 | response time, µs; zero stands for "not known" |
//!
//! No real sample of version 2 was at hand; it is read as that table says. That its records are in the order of `ts` is
//! an assumption whose failure is an error.

use std::path::Path;

use crate::error::{Place, Problem, ReadError};
use crate::formats::Format;
use crate::formats::check::{Bad, Takes, extent};
use crate::formats::fixed::{FixedReader, RecordParser, little_endian};
use crate::input::Input;
use crate::record::{Observed, Record};
use crate::request::{Operation, Request};
use crate::trace::{Layer, ReadOptions, TraceMeta, TraceReader};
use crate::units::{Lba, SECTOR_BYTES, Sectors, Timestamp};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "vscsi",
    summary: "VMware vscsi trace, version 1 (32-byte records) or 2 (40-byte records)",
    units: "µs; addresses in 512-byte blocks, lengths in bytes",
    traps: "Times in µs, lengths in bytes. Version 1 has no completions. No real sample of version 2 has been seen.",
    layer: Layer::Hypervisor,
    recognises,
    extensions: &["vscsi"],
    open,
    ..Format::READ_ONLY
};

/// How many records of a file's beginning must look right for it to be recognised.
const RECORDS_SNIFFED: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    const fn number(self) -> u16 {
        match self {
            Version::One => 0x0100,
            Version::Two => 0x0200,
        }
    }

    /// The version of which the whole records in `head` are.
    fn of(head: &[u8]) -> Option<Version> {
        [Version::Two, Version::One].into_iter().find(|version| {
            let mut records = head.chunks_exact(version.record_bytes()).take(RECORDS_SNIFFED).peekable();
            records.peek().is_some()
                && records.all(|record| {
                    let fields = version.fields(record);
                    fields.version == version.number() && operation(fields.command).is_some()
                })
        })
    }

    #[inline]
    fn fields(self, record: &[u8]) -> Fields {
        let two = |at| little_endian::<2>(record, at) as u16;
        let four = |at| little_endian::<4>(record, at);
        let eight = |at| little_endian::<8>(record, at);
        let (bytes, command, version, response_us) = match self {
            Version::One => (four(4), two(12), two(14), 0),
            Version::Two => (four(8), two(0), two(2), eight(32)),
        };
        Fields { bytes, command, version, lbn: eight(16), ts_us: eight(24), response_us }
    }
}

struct Fields {
    bytes: u64,
    command: u16,
    version: u16,
    lbn: u64,
    ts_us: u64,
    response_us: u64,
}

/// The operation of a SCSI operation code, of those that a trace can hold.
fn operation(command: u16) -> Option<Operation> {
    match command {
        // READ (6), (10), (12), (16)
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Operation::Read),
        // WRITE (6), (10), (12), (16) and WRITE AND VERIFY (10), (12), (16)
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Operation::Write),
        // SYNCHRONIZE CACHE (10), (16)
        0x35 | 0x91 => Some(Operation::Flush),
        // UNMAP. Should `len` be that of its parameter list, it is no whole number of sectors, and refused.
        0x42 => Some(Operation::Discard),
        _ => None,
    }
}

fn recognises(_path: &Path, head: &[u8]) -> bool {
    Version::of(head).is_some()
}

fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, ReadError> {
    Takes::default().check(path, FORMAT.name, options)?;
    let input = Input::open(path)?;
    let version = version_of(&input, options.lenient)?;
    let mut meta = TraceMeta::new(FORMAT.name, options.layer.unwrap_or(FORMAT.layer), "vscsi ts");
    meta.provenance.insert("vscsi_version".to_owned(), format!("{:#06x}", version.number()));
    let parser = Parser { version, zero_us: None };
    Ok(Box::new(FixedReader::new(input, parser, meta, options.lenient)))
}

fn version_of(input: &Input, lenient: bool) -> Result<Version, ReadError> {
    let head = input.head();
    let fail = |problem| Err(ReadError::new(input.path(), Place::Byte(0), problem));
    if head.is_empty() {
        return Err(ReadError::new(input.path(), Place::Whole, Problem::Empty));
    }
    if let Some(version) = Version::of(head) {
        return Ok(version);
    }
    // A bad record among the first must not hide the version: the reader will name its place.
    let numbered = |version: Version| {
        let mut records = head.chunks_exact(version.record_bytes());
        let is = |record: &[u8]| version.fields(record).version == version.number();
        if lenient { records.any(is) } else { records.next().is_some_and(is) }
    };
    if let Some(version) = [Version::One, Version::Two].into_iter().find(|&version| numbered(version)) {
        return Ok(version);
    }
    if head.len() < Version::One.record_bytes() {
        return fail(Problem::Truncated("the first record".to_owned()));
    }
    fail(Problem::Version(format!(
        "expected 0x0100 in bytes 14-15 or 0x0200 in bytes 2-3 of the first record, found {:#06x} and {:#06x}",
        Version::One.fields(head).version,
        u16::from_le_bytes([head[2], head[3]])
    )))
}

struct Parser {
    version: Version,
    /// `ts` of the first record.
    zero_us: Option<u64>,
}

impl RecordParser for Parser {
    fn record_bytes(&self) -> usize {
        self.version.record_bytes()
    }

    #[inline]
    fn parse(&mut self, record: &[u8]) -> Result<Record, Bad> {
        let fields = self.version.fields(record);
        if fields.version != self.version.number() {
            let expected = self.version.number();
            return Err(Bad::malformed(format!("version {:#06x} after {expected:#06x}", fields.version)));
        }
        let Some(operation) = operation(fields.command) else {
            return Err(Bad::unsupported(format!("unknown SCSI operation code {:#04x}", fields.command)));
        };
        let (lba, sectors) = match operation {
            Operation::Flush => (Lba::ZERO, Sectors::ZERO),
            _ if !fields.bytes.is_multiple_of(SECTOR_BYTES) => {
                return Err(Bad::malformed(format!("a length of {} bytes, no whole sectors", fields.bytes)));
            }
            _ => extent(fields.lbn, fields.bytes / SECTOR_BYTES)?,
        };
        let too_late = || Bad::malformed("a time that is too large");
        let zero_us = *self.zero_us.get_or_insert(fields.ts_us);
        let Some(since_us) = fields.ts_us.checked_sub(zero_us) else {
            let what = format!("ts {} before the first, {zero_us}", fields.ts_us);
            return Err(Bad { problem: Problem::OutOfOrder(what), reason: "out of order" });
        };
        let arrival = Timestamp::from_ns(since_us.checked_mul(1_000).ok_or_else(too_late)?);
        let response_ns = fields.response_us.checked_mul(1_000).ok_or_else(too_late)?;
        let completed = arrival.as_ns().checked_add(response_ns).ok_or_else(too_late)?;
        let completed = (response_ns > 0).then_some(Timestamp::from_ns(completed));
        let observed = Observed { completed, ..Observed::default() };
        Ok(Record { request: Request::new(arrival, operation, lba, sectors), observed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(command: u16, version: u16) -> Vec<u8> {
        let mut record = vec![0; 32];
        record[12..14].copy_from_slice(&command.to_le_bytes());
        record[14..16].copy_from_slice(&version.to_le_bytes());
        record
    }

    #[test]
    fn the_version_shows_in_every_record_of_the_beginning() {
        assert_eq!(Version::of(&one(0x28, 0x0100)), Some(Version::One));
        assert_eq!(Version::of(&one(0x28, 0x0100)[..31]), None);
        assert_eq!(Version::of(&[one(0x28, 0x0100), one(0x2a, 0x0300)].concat()), None);
        assert_eq!(Version::of(&[one(0x28, 0x0100), one(0xff, 0x0100)].concat()), None);
        let mut two = vec![0; 40];
        two[..4].copy_from_slice(&[0x2a, 0, 0, 2]);
        assert_eq!(Version::of(&two), Some(Version::Two));
    }

    #[test]
    fn an_unmap_of_a_parameter_list_is_no_whole_number_of_sectors() {
        assert!((0..4096u64).all(|descriptors| (8 + 16 * descriptors) % SECTOR_BYTES != 0));
    }
}
