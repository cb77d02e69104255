//! blktrace's binary format: one file per CPU, `STEM.blktrace.N`, as `blktrace` writes it and
//! `blkparse` reads it. Linux 6.1, `include/uapi/linux/blktrace_api.h` and
//! `kernel/trace/blktrace.c`; version 7.
//!
//! The files are read in blocks and merged by time into one sequence of events.
//!
//! Times are nanoseconds since the earliest event, as blkparse prints them, of the kernel's
//! monotonic clock (`ktime_get`; `sched_clock` in old kernels).

mod file;
mod live;
mod record;

use std::path::{Path, PathBuf};

pub use live::LiveRecords;
pub use record::{ByteOrder, MAGIC, RECORD_BYTES, VERSION, encode};

pub use super::capture::{REORDER_EVENTS, REORDER_WINDOW_NS};

use crate::error::ReadError;
use crate::events::PairedReader;
use crate::formats::capture::Capture;
use crate::formats::check::Takes;
use crate::formats::{EventsOpened, Format, Opened, per_cpu};
use crate::trace::ReadOptions;
use file::BinaryFile;

/// blktrace's per-CPU binary files.
pub const FORMAT: Format = Format {
    name: "blktrace",
    summary: "Linux blktrace binary capture: STEM.blktrace.N of all CPUs, by stem or any member",
    units: "ns; addresses in 512-byte sectors, lengths in bytes",
    traps: "Times in ns of the monotonic clock, zero at the first event; lengths in bytes, addresses in 512-byte \
            sectors. Arrivals are Q events (bios before merging and splitting), or D events with --at issued. The pid \
            is that of the running process, which for D and C is often another one. A flush is several events: D FN \
            and C FN are the kernel's own. Zeroing (WRITE_ZEROES) looks like a write. blkparse counts flushes as \
            reads.",
    holds_issues: true,
    recognises,
    open,
    open_events: Some(open_events),
    members: files,
    ..Format::READ_ONLY
};

/// The part of a file's name between the stem and the number of the CPU.
const INFIX: &str = ".blktrace.";

fn recognises(path: &Path, head: &[u8]) -> bool {
    if head.is_empty() {
        per_cpu::files(path, INFIX).is_ok_and(|files| !files.is_empty())
    } else {
        ByteOrder::of(head).is_some()
    }
}

/// The files of the capture that `path` is the stem or a member of, in the order of their CPUs. A file with a name of
/// its own is a capture by itself.
fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let files = per_cpu::files(path, INFIX)?;
    Ok(if files.is_empty() { vec![path.to_owned()] } else { files.into_values().collect() })
}

fn paired(path: &Path, options: &ReadOptions) -> Result<PairedReader<Capture<BinaryFile>>, ReadError> {
    Takes { device: true, ..Takes::default() }.check(path, FORMAT.name, options)?;
    let files = files(path)?;
    let capture = Capture::new(FORMAT.name, path, options, files.iter().map(|file| BinaryFile::open(file)))?;
    Ok(PairedReader::new(capture, FORMAT.name, "monotonic", options))
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    Ok(Box::new(paired(path, options)?))
}

fn open_events(path: &Path, options: &ReadOptions) -> EventsOpened {
    Ok(Box::new(paired(path, options)?))
}
