//! Block traces of Tencent's cloud block storage (SNIA IOTTA 27917, 2018): CSV without a title, one
//! request a line, one file per hour, 5,584 volumes.
//!
//! ```text
//! 1538400001,105000008,24,1,15
//! ```
//!
//! | column | unit, meaning |
//! |---|---|
//! | Timestamp | when it was issued: s since 1970 |
//! | Offset | sectors of 512 bytes from the beginning of the volume |
//! | Size | sectors |
//! | IOType | 0 read, 1 write |
//! | VolumeID | number of the volume |
//!
//! Source: the README of the distribution. A title line is passed over. The traces begin at zero;
//! the clock says when that was.
//!
//! *Recognised* by values, for five columns of whole numbers say nothing: a date of this century, a
//! size of up to 32 MiB, 0 or 1.
//!
//! *Order.* Many servers have logged them, and the README promises none. Requests up to 1 s out of
//! order are put in order, those of the same second stay in the order of the file.

use std::path::Path;

use crate::formats::check::{Bad, Takes};
use crate::formats::number::integer;
use crate::formats::plausible::DATES_S;
use crate::formats::rows::{Row, Rows, operation};
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{TextFormat, by_comma, exactly};
use crate::formats::{Format, Opened};
use crate::trace::{Layer, ReadOptions, TimeUnit};
use crate::units::Nanos;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "tencent",
    summary: "Tencent block storage CSV: s since 1970, offset, size, 0 read | 1 write, volume",
    units: "whole s since 1970; 512-byte sectors",
    traps: "Times in whole seconds: all requests of a second arrive at once. Offset and size are in sectors; the \
            similar Alibaba traces have bytes, and copies for libCacheSim have offsets in bytes. 0 is a read. \
            iocast recognises it by the ranges of its values; if in doubt, name it with --input-format.",
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
    units: Units { time: TimeUnit::Seconds, address_bytes: 512, length_bytes: 512 },
    takes: Takes { device: true, operation: false, units: true, think_time: false },
    reorder: Nanos::from_s(1),
};

const ROWS: Rows = Rows { text: &TEXT, title: &["Timestamp", "Offset", "Size", "IOType", "VolumeID"], row };

/// The longest request by which the format is recognised, 32 MiB.
const RECOGNISED_SECTORS_MAX: u64 = (32 << 20) / 512;

fn recognises(_path: &Path, head: &[u8]) -> bool {
    ROWS.recognise(head, |row| {
        DATES_S.contains(&i128::from(row.arrival_ns / 1_000_000_000))
            && (1..=RECOGNISED_SECTORS_MAX).contains(&row.length)
    })
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    ROWS.open(path, options)
}

fn row<'a>(line: &'a [u8], scale: &Scale) -> Result<Row<'a>, Bad> {
    let [time, offset, size, direction, volume] = exactly(by_comma(line))?;
    integer("VolumeID", volume)?;
    Ok(Row {
        device: [volume, b"", b""],
        arrival_ns: scale.time("Timestamp", time)?,
        response_ns: None,
        operation: operation(direction, "0", "1")?,
        address: integer("Offset", offset)?,
        length: integer("Size", size)?,
        process: None,
    })
}
