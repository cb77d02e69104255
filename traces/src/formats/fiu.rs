//! Block traces by Florida International University (SyLab, "IODedup": homes, mail, web-vm; in the SNIA
//! IOTTA repository; 2008–2009): one request a line, one file per day,
//!
//! ```text
//! 80000000000000 101 logger 1000000 8 W 6 0 00112233445566778899aabbccddeeff
//! ```
//!
//! | field | unit, meaning |
//! |---|---|
//! | ts | ns, of a clock that the README does not name |
//! | pid, process | number and name of the process |
//! | lba | first sector of 512 bytes |
//! | size | sectors of 512 bytes |
//! | `W` or `R` | write or read |
//! | major, minor | number of the device, as in Linux: the device `6:0` |
//! | MD5 | of the content, per 4096 or (homes) 512 bytes; may be missing; not used |
//!
//! Source: the README of the distribution, whose fields are separated by blanks. Each process is a
//! stream; the first name that goes with a number is kept.
//!
//! *Order.* The README promises none. Requests up to 1 s out of order are put in order.

use std::path::Path;

use crate::formats::check::{Bad, Takes};
use crate::formats::number::integer;
use crate::formats::rows::{Row, Rows, operation};
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{TextFormat, at_least, by_blanks};
use crate::formats::{Format, Opened};
use crate::trace::{ReadOptions, TimeUnit};
use crate::units::Nanos;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "fiu",
    summary: "FIU trace (IODedup homes, mail, web-vm): ns, pid, process, lba, size, W|R, major, minor, MD5",
    units: "ns; 512-byte sectors",
    traps: "Times in ns, address and size in 512-byte sectors (the MSR traces have bytes). One file may hold several \
            devices. No completions; the contents' digests are not used.",
    recognises,
    open,
    ..Format::READ_ONLY
};

const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "FIU ts",
    epoch_unix_s: None,
    units: Units { time: TimeUnit::Nanoseconds, address_bytes: 512, length_bytes: 512 },
    takes: Takes { device: true, operation: false, units: true, think_time: false },
    reorder: Nanos::from_s(1),
};

/// The largest number of a process in Linux (`PID_MAX_LIMIT`), which bounds the names that are kept.
const PID_MAX: u32 = 4 << 20;
/// The longest name of a process in Linux (`TASK_COMM_LEN`, less its end), or of a path.
const PROCESS_BYTES_MAX: usize = 64;
/// Hexadecimal digits of an MD5.
const MD5_DIGITS: usize = 32;

const ROWS: Rows = Rows { text: &TEXT, title: &[], row };

fn recognises(_path: &Path, head: &[u8]) -> bool {
    ROWS.recognise(head, |_| true)
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    ROWS.open(path, options)
}

fn row<'a>(line: &'a [u8], scale: &Scale) -> Result<Row<'a>, Bad> {
    let mut fields = by_blanks(line);
    let [time, pid, process, lba, size, direction, major, minor] = at_least(&mut fields)?;
    check_rest(fields)?;
    integer("major number", major)?;
    integer("minor number", minor)?;
    if process.len() > PROCESS_BYTES_MAX {
        return Err(Bad::malformed(format!("a process name of {} bytes", process.len())));
    }
    let pid = integer("pid", pid)?;
    let small_pid = u32::try_from(pid).ok().filter(|&pid| pid <= PID_MAX);
    let pid = small_pid.ok_or_else(|| Bad::malformed(format!("pid {pid} is above {PID_MAX}")))?;
    Ok(Row {
        device: [major, b":", minor],
        arrival_ns: scale.time("ts", time)?,
        response_ns: None,
        operation: operation(direction, "R", "W")?,
        address: integer("lba", lba)?,
        length: integer("size", size)?,
        process: Some((pid, process)),
    })
}

/// The end of the line behind the device: nothing, or the digests in one field.
fn check_rest<'a>(mut fields: impl Iterator<Item = &'a [u8]>) -> Result<(), Bad> {
    let Some(digest) = fields.next() else { return Ok(()) };
    let first = &digest[..digest.len().min(MD5_DIGITS)];
    if first.len() == MD5_DIGITS && first.iter().all(u8::is_ascii_hexdigit) && fields.next().is_none() {
        return Ok(());
    }
    let found = String::from_utf8_lossy(first);
    Err(Bad::malformed(format!("expected an MD5 or nothing behind the device, found `{found}`")))
}
