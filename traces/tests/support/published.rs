//! Writers of the formats of published traces, which iocast only reads, and the facts about them.

use std::fmt::Write as _;

use iocast_traces::trace::{ReadOptions, TimeUnit, UnitOverrides};
use iocast_traces::{Lba, Operation, ReadError, Record, Request, Sectors, Timestamp, VmId};

use super::{Whole, read_as};

/// A format of published traces, its fixture, and its own units.
pub(crate) struct Published {
    pub(crate) format: &'static str,
    pub(crate) fixture: &'static str,
    pub(crate) time: TimeUnit,
    pub(crate) address_bytes: u32,
    pub(crate) length_bytes: u32,
    /// Nanoseconds from the zero of its times to that of Unix time, if they are dates.
    pub(crate) zero_to_unix_ns: Option<u64>,
    pub(crate) has_devices: bool,
}

const fn published(
    format: &'static str,
    fixture: &'static str,
    time: TimeUnit,
    (address_bytes, length_bytes): (u32, u32),
    zero_to_unix_ns: Option<u64>,
) -> Published {
    Published { format, fixture, time, address_bytes, length_bytes, zero_to_unix_ns, has_devices: true }
}

pub(crate) const PUBLISHED: [Published; 6] = [
    published(
        "msr",
        "small-msr.csv",
        TimeUnit::HundredNanoseconds,
        (1, 1),
        // From 1601 to 1970 there are 134,774 days.
        Some(134_774 * 86_400_000_000_000),
    ),
    published("spc", "small.spc", TimeUnit::Seconds, (512, 1), None),
    published("fiu", "small.fiu", TimeUnit::Nanoseconds, (512, 512), None),
    published("alibaba", "small-alibaba.csv", TimeUnit::Microseconds, (1, 1), Some(0)),
    published("tencent", "small-tencent.csv", TimeUnit::Seconds, (512, 512), Some(0)),
    Published {
        has_devices: false,
        ..published("oracle-general", "small.oracleGeneral", TimeUnit::Seconds, (1, 1), None)
    },
];

impl Published {
    /// Its own units, as a user would give them.
    pub(crate) fn units(&self) -> UnitOverrides {
        UnitOverrides {
            time: Some(self.time),
            address_bytes: Some(self.address_bytes),
            length_bytes: Some(self.length_bytes),
        }
    }

    /// The finest step of its times.
    pub(crate) fn tick_ns(&self) -> u64 {
        if self.format == "spc" { 1 } else { 10u64.pow(self.time.decimals()) }
    }

    /// The name of a VM.
    pub(crate) fn device(&self, vm: u16) -> String {
        match self.format {
            "msr" => format!("host{}.{}", vm / 2, vm % 2),
            "spc" => format!("asu{vm}"),
            "fiu" => format!("8:{vm}"),
            _ => vm.to_string(),
        }
    }

    /// A trace of these reads and writes, the earliest of which is at `zero_unix_ns`.
    pub(crate) fn write(&self, records: &[Record], zero_unix_ns: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for record in records {
            bytes.extend(self.line(record, self.zero_to_unix_ns.map_or(0, |to_unix| to_unix + zero_unix_ns)));
        }
        bytes
    }

    /// One record whose zero is `zero_ns` behind that of the format's times.
    fn line(&self, Record { request, observed }: &Record, zero_ns: u64) -> Vec<u8> {
        let in_ticks = |ns: u64| ns / 10u64.pow(self.time.decimals());
        let ns = zero_ns + request.arrival.as_ns();
        let time = in_ticks(ns);
        let response = observed.completed.map_or(0, |completed| in_ticks(completed.since(request.arrival).as_ns()));
        let address = request.lba.sector() * u64::from(512 / self.address_bytes);
        let length = request.sectors().count() * u64::from(512 / self.length_bytes);
        let is_write = request.operation == Operation::Write;
        let letter = if is_write { "W" } else { "R" };
        let vm = request.vm.0;
        let mut line = String::new();
        let _ = match self.format {
            "msr" => {
                let word = if is_write { "Write" } else { "Read" };
                let (host, disk) = (vm / 2, vm % 2);
                writeln!(line, "{time},host{host},{disk},{word},{address},{length},{response}")
            }
            "spc" => {
                let (s, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
                writeln!(line, "{vm},{address},{length},{letter},{s}.{ns:09}")
            }
            "fiu" => {
                let pid = request.stream.0;
                writeln!(line, "{time} {pid} process-{pid} {address} {length} {letter} 8 {vm}")
            }
            "alibaba" => writeln!(line, "{vm},{letter},{address},{length},{time}"),
            "tencent" => writeln!(line, "{time},{address},{length},{},{vm}", u8::from(is_write)),
            "oracle-general" => {
                let small = |number: u64| u32::try_from(number).expect("a number of 32 bits").to_le_bytes();
                let (time, length) = (small(time), small(length));
                return [&time[..], &address.to_le_bytes(), &length, &(-1i64).to_le_bytes()].concat();
            }
            other => panic!("there is no writer of {other}"),
        };
        line.into_bytes()
    }
}

/// 1 January 2020.
pub(crate) const ZERO_UNIX_NS: u64 = 1_577_836_800_000_000_000;

pub(crate) fn of(format: &str) -> &'static Published {
    PUBLISHED.iter().find(|published| published.format == format).expect("a published format")
}

pub(crate) fn read(format: &str, bytes: &[u8], options: &ReadOptions) -> Result<Whole, ReadError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("input");
    std::fs::write(&path, bytes).expect("a temporary file");
    read_as(format, &path, options)
}

pub(crate) fn device(name: &str) -> ReadOptions {
    ReadOptions { device: Some(name.to_owned()), ..ReadOptions::default() }
}

/// Reads of 4 KiB, `step_ns` apart.
pub(crate) fn regular(count: u64, step_ns: u64) -> Vec<Record> {
    let request = |at: u64| {
        let arrival = Timestamp::from_ns(at * step_ns);
        let mut request = Request::new(arrival, Operation::Read, Lba::new(at * 80), Sectors::new(8));
        request.vm = VmId((at % 3) as u16);
        request
    };
    (0..count).map(|at| Record::arrived(request(at))).collect()
}
