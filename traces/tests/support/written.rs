//! Writing traces and reading them back, and the part of a record that each format keeps.

use std::path::Path;

use iocast_traces::formats::FORMATS;
use iocast_traces::trace::{ReadOptions, TimeUnit, UnitOverrides, WriteOptions, Written};
use iocast_traces::{Flags, Layer, Observed, Operation, Record, Request, Timestamp, TraceMeta, WriteError};

use super::{Whole, format, read_as};

/// Writes a trace of up to three VMs.
pub(crate) fn write(
    format_name: &str,
    path: &Path,
    records: &[Record],
    options: &WriteOptions,
) -> Result<Written, WriteError> {
    let mut writer = (format(format_name).create.unwrap())(path, options)?;
    for record in records {
        writer.write(record)?;
    }
    let mut meta = TraceMeta::new(format_name, Layer::GuestQueue, "test");
    meta.vms = (0..3).map(|number| format!("vm{number}")).collect();
    writer.finish(&meta)
}

/// Writes and reads back.
pub(crate) fn through(format_name: &str, records: &[Record], options: &WriteOptions) -> (Written, Whole) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    let written = write(format_name, &path, records, options).unwrap();
    (
        written,
        read_as(format_name, &path, &ReadOptions { units: units(format_name), ..ReadOptions::default() }).unwrap(),
    )
}

/// A format's own units, given so that they are not doubted: arbitrary records look odd.
fn units(format_name: &str) -> UnitOverrides {
    let units = |time, bytes| UnitOverrides { time: Some(time), address_bytes: Some(bytes), length_bytes: Some(bytes) };
    match format_name {
        "blkreplay" => units(TimeUnit::Seconds, 512),
        "disksim-ascii" => units(TimeUnit::Milliseconds, 512),
        "fio-iolog" => units(TimeUnit::Microseconds, 1),
        _ => UnitOverrides::default(),
    }
}

/// The same request with nothing but the fields that move data.
fn bare(request: &Request) -> Request {
    Request::new(request.arrival, request.operation, request.lba, request.sectors())
}

/// The part of a record that a format keeps, in a trace that begins with `first`; `None` if it cannot express it.
pub(crate) fn kept(format_name: &str, record: &Record, first: &Record) -> Option<Record> {
    let Record { request, observed } = record;
    let mut kept = bare(request);
    let data = request.operation.moves_data();
    match format_name {
        "csv" | "parquet" => Some(*record),
        "blkreplay" if data => {
            kept.flags = request.flags - Flags::PREFLUSH;
            let issued = observed.issued.filter(|&issued| issued > request.arrival);
            let begun = issued.unwrap_or(request.arrival);
            let completed = observed.completed.filter(|&completed| completed > begun);
            Some(Record { request: kept, observed: Observed { issued, completed, ..Observed::default() } })
        }
        "disksim-ascii" if data && request.end().sector() < 1 << 31 => {
            kept.flags = request.flags & Flags::SYNC;
            Some(Record::arrived(kept))
        }
        "fio-iolog" if request.sectors().bytes() < 1 << 32 => {
            let late = if first.request.arrival.as_ns() < 1_000 { 1 } else { 0 };
            kept.arrival = Timestamp::from_ns((request.arrival.as_ns() / 1_000 + late) * 1_000);
            Some(Record::arrived(kept))
        }
        "btreplay" if request.operation != Operation::Discard && request.sectors().bytes() <= 0x7fff_f000 => {
            Some(Record::arrived(kept))
        }
        _ => None,
    }
}

/// The formats that are written.
pub(crate) fn written_formats() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().filter(|format| format.create.is_some()).map(|format| format.name)
}
