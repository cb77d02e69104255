//! Traces in the format of the Storage Performance Council (revision 1.0.1), among them UMass's
//! Financial and WebSearch: one request a line,
//!
//! ```text
//! 3,77777,15872,W,1.250000,any,further,fields
//! ```
//!
//! | field | unit, meaning |
//! |---|---|
//! | ASU | number of the application storage unit: a device, with addresses from 0 |
//! | LBA | block; the size of a block is said in the trace's description: 512 bytes unless a user knows better |
//! | Size | bytes |
//! | Opcode | `R` or `W`, upper or lower case |
//! | Timestamp | s since the trace began, with decimals; never decreases |
//! | more | not used |
//!
//! Source: "SPC Trace File Format Specification", 2002. Blanks around fields are accepted. The
//! specification lets a size be zero or end within a sector; a trace of sectors cannot say that, and
//! such a request is refused. ASU 3 is the device `asu3`.

use std::path::Path;

use crate::formats::check::{Bad, Takes};
use crate::formats::number::integer;
use crate::formats::rows::{Row, Rows, operation};
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{TextFormat, at_least, by_comma};
use crate::formats::{Format, Opened};
use crate::request::Operation;
use crate::trace::{Layer, ReadOptions, TimeUnit};
use crate::units::Nanos;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "spc",
    summary: "SPC trace (UMass Financial, WebSearch): ASU, LBA, size, r|w, s since the start",
    units: "s with decimals; addresses in 512-byte blocks, lengths in bytes",
    traps: "Addresses in blocks, lengths in bytes. A block need not be 512 bytes: the trace's description says \
            (--address-unit 4k). The format allows requests of zero or partial sectors; iocast refuses them. No \
            completions.",
    layer: Layer::GuestIssued,
    recognises,
    extensions: &["spc"],
    open,
    ..Format::READ_ONLY
};

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "seconds since the trace began",
    epoch_unix_s: None,
    units: Units { time: TimeUnit::Seconds, address_bytes: 512, length_bytes: 1 },
    takes: Takes { device: true, operation: false, units: true, think_time: false },
    reorder: Nanos::ZERO,
};

const ROWS: Rows = Rows { text: &TEXT, title: &[], row };

fn recognises(_path: &Path, head: &[u8]) -> bool {
    ROWS.recognise(head, |_| true)
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    ROWS.open(path, options)
}

fn row<'a>(line: &'a [u8], scale: &Scale) -> Result<Row<'a>, Bad> {
    let [asu, lba, size, opcode, time] = at_least(&mut by_comma(line))?;
    integer("ASU", asu)?;
    Ok(Row {
        device: [b"asu", asu, b""],
        arrival_ns: scale.time("Timestamp", time)?,
        response_ns: None,
        operation: match opcode {
            b"r" => Operation::Read,
            b"w" => Operation::Write,
            upper => operation(upper, "R", "W")?,
        },
        address: integer("LBA", lba)?,
        length: integer("Size", size)?,
        process: None,
    })
}
