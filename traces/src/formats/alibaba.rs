//! Alibaba's block traces (2020): `io_traces.csv` of 1,000 virtual disks of an elastic block storage
//! cluster, one request a line, the time last.
//!
//! ```text
//! 41,W,8000016384,16384,1577900000000033
//! ```
//!
//! | column | unit, meaning |
//! |---|---|
//! | device_id | number of the virtual disk |
//! | opcode | `R` or `W` |
//! | offset | bytes |
//! | length | bytes |
//! | timestamp | when the server received it: µs since 1970 |
//!
//! Source: the README of github.com/alibaba/block-traces. A title line is passed over. The traces
//! begin at zero; the clock says when that was.
//!
//! *Order.* Several servers have logged them, and the README promises none. Requests up to 1 s out
//! of order are put in order.

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
    name: "alibaba",
    summary: "Alibaba block traces CSV: device, R|W, offset, length, µs since 1970",
    units: "µs since 1970; bytes",
    traps: "The time is the last column, in µs. Offset and length are in bytes; the similar Tencent traces have \
            sectors. No completions.",
    layer: Layer::Wire,
    recognises,
    open,
    ..Format::READ_ONLY
};

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "Unix time",
    epoch_unix_s: Some(0),
    units: Units { time: TimeUnit::Microseconds, address_bytes: 1, length_bytes: 1 },
    takes: Takes { device: true, operation: false, units: true, think_time: false },
    reorder: Nanos::from_s(1),
};

const ROWS: Rows = Rows { text: &TEXT, title: &["device_id", "opcode", "offset", "length", "timestamp"], row };

fn recognises(_path: &Path, head: &[u8]) -> bool {
    ROWS.recognise(head, |_| true)
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    ROWS.open(path, options)
}

fn row<'a>(line: &'a [u8], scale: &Scale) -> Result<Row<'a>, Bad> {
    let [device, opcode, offset, length, time] = exactly(by_comma(line))?;
    integer("device_id", device)?;
    Ok(Row {
        device: [device, b"", b""],
        arrival_ns: scale.time("timestamp", time)?,
        response_ns: None,
        operation: operation(opcode, "R", "W")?,
        address: integer("offset", offset)?,
        length: integer("length", length)?,
        process: None,
    })
}
