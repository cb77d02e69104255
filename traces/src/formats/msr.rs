//! Block traces of 13 servers by Microsoft Research Cambridge (SNIA IOTTA 388, 2007): CSV without a
//! title, one request a line, one file per volume.
//!
//! ```text
//! 128500000012345678,left,1,Read,1048576,4096,1350
//! ```
//!
//! | column | unit, meaning |
//! |---|---|
//! | Timestamp | when it was issued: 100 ns since 1601 (Windows file time) |
//! | Hostname | the server |
//! | DiskNumber | the server's logical disk |
//! | Type | `Read` or `Write` |
//! | Offset | bytes from the beginning of the logical disk |
//! | Size | bytes |
//! | ResponseTime | until it completed, 100 ns |
//!
//! Source: the README of the distribution. Disk numbers repeat from host to host, so a device is
//! called `host.disk`. A title line, which some copies have, is passed over. The traces begin at
//! zero; the clock says when that was.
//!
//! *Order.* The README promises none. Requests up to 1 s out of order are put in order.

use std::path::Path;

use crate::formats::check::{Bad, Takes};
use crate::formats::number::integer;
use crate::formats::rows::{Row, Rows, operation};
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{TextFormat, by_comma, exactly};
use crate::formats::{Format, Opened};
use crate::trace::{Layer, ReadOptions, TimeUnit};
use crate::units::Nanos;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge CSV: file time, host, disk, Read|Write, offset, size, response time",
    units: "100 ns since 1601; bytes; response times in 100 ns",
    traps: "Times and response times in 100 ns, offset and size in bytes (the FIU and SPC traces have sectors). Disk \
            numbers repeat from host to host: the device is host.disk. Recorded below the servers' caches and above a \
            RAID.",
    layer: Layer::GuestIssued,
    recognises,
    open,
    ..Format::READ_ONLY
};

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "Windows file time",
    epoch_unix_s: Some(-11_644_473_600),
    units: Units { time: TimeUnit::HundredNanoseconds, address_bytes: 1, length_bytes: 1 },
    takes: Takes { device: true, operation: false, units: true, think_time: false },
    reorder: Nanos::from_s(1),
};

const ROWS: Rows = Rows {
    text: &TEXT,
    title: &["Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"],
    row,
};

fn recognises(_path: &Path, head: &[u8]) -> bool {
    ROWS.recognise(head, |_| true)
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    ROWS.open(path, options)
}

fn row<'a>(line: &'a [u8], scale: &Scale) -> Result<Row<'a>, Bad> {
    let [time, host, disk, direction, offset, size, response] = exactly(by_comma(line))?;
    integer("DiskNumber", disk)?;
    Ok(Row {
        device: [host, b".", disk],
        arrival_ns: scale.time("Timestamp", time)?,
        response_ns: Some(scale.time("ResponseTime", response)?),
        operation: operation(direction, "Read", "Write")?,
        address: integer("Offset", offset)?,
        length: integer("Size", size)?,
        process: None,
    })
}
