//! iocast's own table as text: one request a line, for pandas, polars, spreadsheets and awk. The
//! columns are those of [`crate::formats::parquet`], in another order, and named in the first line:
//!
//! | column | unit, meaning |
//! |---|---|
//! | `arrival_ns` | ns since the zero of the trace's clock; never decreases |
//! | `operation` | `read`, `write`, `flush` or `discard` |
//! | `lba_sectors` | first sector of 512 bytes; 0 for a flush |
//! | `sectors` | length in sectors of 512 bytes; 0 for a flush |
//! | `flags` | names joined by a bar, of `sync`, `fua`, `preflush`, `meta`, `ahead`; empty for none |
//! | `priority` | I/O priority as in Linux: class (0 none, 1 real time, 2 best effort, 3 idle) · 8 + level |
//! | `vm` or `device` | its number, from 0; `device` if each has addresses of its own |
//! | `stream` | number of the process or cgroup |
//! | `cpu` | processor it was queued on |
//! | `inserted_ns`, `issued_ns`, `completed_ns` | same clock; empty where not known |
//! | `error` | error number it completed with, 0 for success |
//!
//! Layer, clock, provenance and the names of VMs and streams are not there: Parquet keeps them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use crate::error::Problem;
use crate::formats::check::{Bad, Takes, extent};
use crate::formats::devices::Devices;
use crate::formats::number::integer;
use crate::formats::output::{Inexpressible, Ledger, LineEncoder, TextWriter};
use crate::formats::scale::Units;
use crate::formats::text::{LineParser, TextFormat, TextReader, by_comma, exactly};
use crate::formats::{Created, Format, Opened};
use crate::record::{Observed, Record};
use crate::request::{Flags, Operation, Priority, Request, StreamId, VmId};
use crate::trace::{AddressSpace, ReadOptions, TimeUnit, TraceMeta, UnitOverrides, WriteOptions};
use crate::units::{Lba, Nanos, Sectors, Timestamp};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "csv",
    summary: "iocast's own format as text: the columns of its Parquet files, named in the first line",
    units: "ns, 512-byte sectors",
    traps: "Layer, clock and all names are lost: VMs and streams are numbers. Columns where a time is not known \
            become floating point in pandas unless read as Int64.",
    recognises,
    extensions: &["csv"],
    open,
    create: Some(create),
    ..Format::READ_ONLY
};

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "not recorded",
    epoch_unix_s: None,
    units: Units { time: TimeUnit::Nanoseconds, address_bytes: 512, length_bytes: 512 },
    takes: Takes { device: true, operation: false, units: false, think_time: false },
    reorder: Nanos::ZERO,
};

const COLUMNS: [&str; 13] = [
    "arrival_ns",
    "operation",
    "lba_sectors",
    "sectors",
    "flags",
    "priority",
    "vm",
    "stream",
    "cpu",
    "inserted_ns",
    "issued_ns",
    "completed_ns",
    "error",
];
/// The column of the VM, and its name where VMs are devices of their own.
const VM_COLUMN: usize = 6;
const DEVICE: &str = "device";

const FLAGS: [(Flags, &str); 5] = [
    (Flags::SYNC, "sync"),
    (Flags::FUA, "fua"),
    (Flags::PREFLUSH, "preflush"),
    (Flags::META, "meta"),
    (Flags::AHEAD, "ahead"),
];

fn header(space: AddressSpace) -> String {
    let mut columns = COLUMNS;
    if space == AddressSpace::PerVm {
        columns[VM_COLUMN] = DEVICE;
    }
    columns.join(",")
}

/// The address space of the addresses, if the line is a header.
fn parse_header(line: &[u8]) -> Option<AddressSpace> {
    [AddressSpace::Shared, AddressSpace::PerVm].into_iter().find(|&space| header(space).as_bytes() == line)
}

fn recognises(_path: &Path, head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    parse_header(line.trim_ascii_end()).is_some()
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    TEXT.takes.check(path, FORMAT.name, options)?;
    // Its units are known for certain, and nothing about them is to be doubted.
    let Units { time, address_bytes, length_bytes } = TEXT.units;
    let units =
        UnitOverrides { time: Some(time), address_bytes: Some(address_bytes), length_bytes: Some(length_bytes) };
    let certain = ReadOptions { units, ..options.clone() };
    let text = TextFormat { takes: Takes { units: true, ..TEXT.takes }, ..TEXT };
    let (only, devices) = (options.device.is_some(), Devices::new(options));
    let parser = |_| Parser { only, devices: devices.clone(), space: None };
    Ok(Box::new(TextReader::open(path, &certain, &text, parser)?))
}

fn create(path: &Path, options: &WriteOptions) -> Created {
    let ledger = Ledger::new(path, FORMAT.name, options);
    Ok(Box::new(TextWriter::create(path, ledger, Encoder { space: options.address_space })?))
}

struct Parser {
    /// Whether one device is asked for.
    only: bool,
    devices: Devices,
    /// The facts of the header.
    space: Option<AddressSpace>,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], meta: &mut TraceMeta) -> Result<Option<Record>, Bad> {
        let Some(space) = self.space else {
            self.begin(line, meta)?;
            return Ok(None);
        };
        let mut record = parse_record(line)?;
        let number = record.request.vm.0;
        if space == AddressSpace::Shared {
            name_vms(meta, number);
            return Ok(Some(record));
        }
        let name = |name: &mut String| {
            let _ = write!(name, "vm{number}");
        };
        let Some(vm) = self.devices.vm(&number.to_le_bytes(), meta, name)? else { return Ok(None) };
        record.request.vm = vm;
        Ok(Some(record))
    }

    fn at_end(&self) -> Result<(), Problem> {
        match self.space {
            Some(_) => self.devices.at_end(),
            None => Err(Problem::Truncated("the header".to_owned())),
        }
    }
}

impl Parser {
    fn begin(&mut self, line: &[u8], meta: &mut TraceMeta) -> Result<(), Bad> {
        let space = parse_header(line)
            .ok_or_else(|| Bad::malformed(format!("expected the header `{}`", header(AddressSpace::Shared))))?;
        if self.only && space == AddressSpace::Shared {
            return Err(Bad::malformed("there is no column `device`, so --device has no meaning"));
        }
        meta.address_space = space;
        self.space = Some(space);
        Ok(())
    }
}

/// Gives every VM up to this one a name.
fn name_vms(meta: &mut TraceMeta, last: u16) {
    for number in meta.vms.len()..=usize::from(last) {
        meta.vms.push(format!("vm{number}"));
    }
}

fn parse_record(line: &[u8]) -> Result<Record, Bad> {
    let fields: [&[u8]; COLUMNS.len()] = exactly(by_comma(line))?;
    let number = |at: usize| integer(COLUMNS[at], fields[at]);
    let time = |at: usize| match fields[at] {
        b"" => Ok(None),
        _ => number(at).map(|ns| Some(Timestamp::from_ns(ns))),
    };
    let operation = parse_operation(fields[1])?;
    let (lba, sectors) = match (operation, number(2)?, number(3)?) {
        (Operation::Flush, 0, 0) => (Lba::ZERO, Sectors::ZERO),
        (Operation::Flush, ..) => return Err(Bad::malformed("a flush with an address or a length")),
        (_, lba, sectors) => extent(lba, sectors)?,
    };
    let mut request = Request::new(Timestamp::from_ns(number(0)?), operation, lba, sectors);
    request.flags = parse_flags(fields[4])?;
    request.priority = parse_priority(number(5)?)?;
    request.vm = VmId(narrow(COLUMNS[6], number(6)?)?);
    request.stream = StreamId(narrow(COLUMNS[7], number(7)?)?);
    request.cpu = narrow(COLUMNS[8], number(8)?)?;
    let observed =
        Observed { inserted: time(9)?, issued: time(10)?, completed: time(11)?, error: parse_error(fields[12])? };
    Ok(Record { request, observed })
}

fn parse_operation(field: &[u8]) -> Result<Operation, Bad> {
    let operation = Operation::ALL.into_iter().find(|operation| operation.name().as_bytes() == field);
    operation.ok_or_else(|| Bad::unsupported(format!("unknown operation `{}`", String::from_utf8_lossy(field))))
}

fn parse_flags(field: &[u8]) -> Result<Flags, Bad> {
    let mut flags = Flags::empty();
    for name in field.split(|&byte| byte == b'|').filter(|_| !field.is_empty()) {
        let known = FLAGS.iter().find(|(_, known)| known.as_bytes() == name);
        let unknown = || Bad::malformed(format!("unknown flag `{}`", String::from_utf8_lossy(name)));
        flags |= known.ok_or_else(unknown)?.0;
    }
    Ok(flags)
}

fn parse_priority(number: u64) -> Result<Priority, Bad> {
    let priority = u8::try_from(number).ok().and_then(Priority::from_byte);
    priority.ok_or_else(|| Bad::malformed(format!("priority `{number}` is above 31")))
}

fn narrow<T: TryFrom<u64>>(name: &str, number: u64) -> Result<T, Bad> {
    T::try_from(number).map_err(|_| Bad::malformed(format!("{name} `{number}` is too large")))
}

fn parse_error(field: &[u8]) -> Result<i32, Bad> {
    let text = String::from_utf8_lossy(field);
    text.parse().map_err(|_| Bad::malformed(format!("error `{text}` is not an error number")))
}

struct Encoder {
    space: AddressSpace,
}

impl LineEncoder for Encoder {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(header(self.space).as_bytes());
        out.push(b'\n');
    }

    fn record(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Inexpressible> {
        let Record { request, observed } = record;
        let time = |time: Option<Timestamp>| time.map_or_else(String::new, |time| time.as_ns().to_string());
        let names = FLAGS.iter().filter(|(flag, _)| request.flags.contains(*flag)).map(|(_, name)| *name);
        let flags = names.collect::<Vec<_>>().join("|");
        // Writing to memory does not fail.
        let _ = writeln!(
            out,
            "{},{},{},{},{flags},{},{},{},{},{},{},{},{}",
            request.arrival.as_ns(),
            request.operation,
            request.lba,
            request.sectors(),
            request.priority.as_byte(),
            request.vm.0,
            request.stream.0,
            request.cpu,
            time(observed.inserted),
            time(observed.issued),
            time(observed.completed),
            observed.error,
        );
        Ok(())
    }
}
