//! DiskSim's ASCII traces (its default format): one request a line,
//!
//! ```text
//! 128.512750 0 3962268 12 1
//! ```
//!
//! arrival in ms, device number, first block, length in blocks of 512 bytes, and flags in hexadecimal. Decimals beyond
//! the nanosecond are cut off. Bit 0 of the flags is a read; 0x80 (synchronous) and 0x2 (time critical) mean that a
//! process waits for the request. The others (0x100 asynchronous, 0x4 time limited …) are ignored. Source: DiskSim 4.0,
//! `src/disksim_iotrace.c` and `src/disksim_global.h`.
//!
//! DiskSim keeps times as floating point, and device, block and length in 32 bits with sign.
//!
//! *Writing.* Times are exact. Flushes and discards cannot be expressed, nor can blocks or lengths
//! beyond 32 bits with sign. The device is the VM's number where VMs are devices of their own, else 0.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use crate::error::Problem;
use crate::formats::check::{Bad, Takes};
use crate::formats::devices::Devices;
use crate::formats::number::integer;
use crate::formats::output::{Inexpressible, Ledger, LineEncoder, TextWriter};
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{LineParser, TextFormat, TextReader, by_blanks, exactly, first_lines};
use crate::formats::{Created, Format, Opened};
use crate::record::Record;
use crate::request::{Flags, Operation, Request};
use crate::trace::{AddressSpace, ReadOptions, TimeUnit, TraceMeta, UnitOverrides, WriteOptions};
use crate::units::{Nanos, Timestamp};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "disksim-ascii",
    summary: "DiskSim ASCII trace: arrival ms, device, block, blocks, flags in hexadecimal",
    units: "ms with decimals; 512-byte blocks",
    traps: "Bit 0 of the flags is a READ, so 0 is a write. It holds reads and writes only, and 32-bit addresses: no \
            flushes, no discards, no address from 1 TiB on.",
    recognises,
    extensions: &["disksim"],
    open,
    create: Some(create),
    ..Format::READ_ONLY
};

/// A read, where bit 0 of the flags is set.
const READ: u64 = 0x1;
/// A process waits: DiskSim's TIME_CRITICAL and SYNCHRONOUS.
const SOMEBODY_WAITS: u64 = 0x2 | SYNCHRONOUS;
const SYNCHRONOUS: u64 = 0x80;
/// Devices, blocks and lengths are C's `int`.
const INT_MAX: u64 = i32::MAX as u64;

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "DiskSim's",
    epoch_unix_s: None,
    units: Units { time: TimeUnit::Milliseconds, address_bytes: 512, length_bytes: 512 },
    takes: Takes { device: true, operation: false, units: true, think_time: false },
    reorder: Nanos::ZERO,
};

/// How many of the first lines must look right.
const LINES_SNIFFED: usize = 8;

fn recognises(_path: &Path, head: &[u8]) -> bool {
    let scale = Scale::new(TEXT.units, UnitOverrides::default());
    let mut lines = first_lines(head).take(LINES_SNIFFED).peekable();
    lines.peek().is_some() && lines.all(|line| parse_line(line, &scale).is_ok())
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    let devices = Devices::new(options);
    let parser = |scale| Parser { scale, devices: devices.clone() };
    Ok(Box::new(TextReader::open(path, options, &TEXT, parser)?))
}

fn create(path: &Path, options: &WriteOptions) -> Created {
    let ledger = Ledger::new(path, FORMAT.name, options);
    Ok(Box::new(TextWriter::create(path, ledger, Encoder { space: options.address_space })?))
}

struct Parser {
    scale: Scale,
    devices: Devices,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], meta: &mut TraceMeta) -> Result<Option<Record>, Bad> {
        let (device, mut request) = parse_line(line, &self.scale)?;
        let name = |name: &mut String| {
            let _ = write!(name, "{device}");
        };
        let Some(vm) = self.devices.vm(&device.to_le_bytes(), meta, name)? else { return Ok(None) };
        request.vm = vm;
        Ok(Some(Record::arrived(request)))
    }

    fn at_end(&self) -> Result<(), Problem> {
        self.devices.at_end()
    }
}

/// The device and the request on a line.
fn parse_line(line: &[u8], scale: &Scale) -> Result<(u64, Request), Bad> {
    let [arrival, device, block, blocks, flags] = exactly(by_blanks(line))?;
    let arrival = scale.time("arrival", cut_off(arrival, scale.units().time.decimals()))?;
    let device = integer("device", device)?;
    let (lba, sectors) = scale.extent(integer("block", block)?, integer("length", blocks)?)?;
    let flags = parse_flags(flags)?;
    let operation = if flags & READ == 0 { Operation::Write } else { Operation::Read };
    let mut request = Request::new(Timestamp::from_ns(arrival), operation, lba, sectors);
    if flags & SOMEBODY_WAITS != 0 {
        request.flags = Flags::SYNC;
    }
    Ok((device, request))
}

/// A number without the decimals beyond the nanosecond, which some generators of traces print.
fn cut_off(field: &[u8], decimals: u32) -> &[u8] {
    let Some(point) = field.iter().position(|&byte| byte == b'.') else { return field };
    let kept = if decimals == 0 { point } else { point + 1 + decimals as usize };
    let fraction = &field[point + 1..];
    if !fraction.iter().all(u8::is_ascii_digit) { field } else { &field[..kept.min(field.len())] }
}

fn parse_flags(field: &[u8]) -> Result<u64, Bad> {
    let text = String::from_utf8_lossy(field);
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = if hexadecimal { u32::from_str_radix(digits, 16).ok() } else { None };
    value.map(u64::from).ok_or_else(|| Bad::malformed(format!("flags `{text}` are no hexadecimal number")))
}

struct Encoder {
    space: AddressSpace,
}

impl LineEncoder for Encoder {
    fn record(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Inexpressible> {
        let request = &record.request;
        let direction = match request.operation {
            Operation::Read => READ,
            Operation::Write => 0,
            Operation::Flush => return Err(Inexpressible("flushes")),
            Operation::Discard => return Err(Inexpressible("discards")),
        };
        if request.end().sector() > INT_MAX {
            return Err(Inexpressible("addresses from 1 TiB on"));
        }
        let waits = if request.flags.contains(Flags::SYNC) { SYNCHRONOUS } else { 0 };
        let device = if self.space == AddressSpace::PerVm { request.vm.0 } else { 0 };
        let ns = request.arrival.as_ns();
        // Writing to memory does not fail.
        let _ = writeln!(
            out,
            "{}.{:06} {device} {} {} {:x}",
            ns / 1_000_000,
            ns % 1_000_000,
            request.lba.sector(),
            request.sectors().count(),
            direction | waits
        );
        Ok(())
    }
}
