//! blktrace's binary format: one file per CPU, `STEM.blktrace.N`, as `blktrace` writes it and
//! `blkparse` reads it. Linux 6.1, `include/uapi/linux/blktrace_api.h` and
//! `kernel/trace/blktrace.c`; version 7.
//!
//! The files are read in blocks and merged by time into one sequence of events.
//!
//! Times are nanoseconds since the earliest event, as blkparse prints them, of the kernel's
//! monotonic clock (`ktime_get`; `sched_clock` in old kernels).

mod merge;
mod record;
mod stream;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use record::{ByteOrder, MAGIC, RECORD_BYTES, VERSION, encode};
pub use stream::{REORDER_EVENTS, REORDER_WINDOW_NS};

use crate::error::{Place, ReadError};
use crate::events::{Event, EventSource, PairedReader};
use crate::formats::{EventsOpened, Format, Opened};
use crate::trace::{Layer, Losses, ReadOptions, TraceMeta};
use merge::{Merge, device_name};
use stream::{Findings, Stream};

/// blktrace's per-CPU binary files.
pub const FORMAT: Format = Format {
    name: "blktrace",
    summary: "Linux blktrace binary capture: STEM.blktrace.N of all CPUs, by stem or any member",
    units: "ns; addresses in 512-byte sectors, lengths in bytes",
    traps: "Times in ns of the monotonic clock, zero at the first event; lengths in bytes, addresses in 512-byte \
            sectors. Arrivals are Q events (bios before merging and splitting), or D events with --at issued. The pid is \
            that of whoever ran, which for D and C is often another process. A flush is several events: D FN and C FN are \
            the kernel's own. Zeroing (WRITE_ZEROES) looks like a write. blkparse counts flushes as reads.",
    layer: Layer::GuestQueue,
    holds_issues: true,
    recognises,
    extensions: &[],
    open,
    open_events: Some(open_events),
    members,
    create: None,
};

const INFIX: &str = ".blktrace.";
const COMPRESSED: [&str; 2] = [".gz", ".zst"];

fn recognises(path: &Path, head: &[u8]) -> bool {
    if head.is_empty() {
        per_cpu_files(path).is_ok_and(|files| !files.is_empty())
    } else {
        ByteOrder::of(head).is_some()
    }
}

/// The stem and CPU of a per-CPU file's name; `None` if it is not named like one.
fn parse_name(name: &str) -> Option<(&str, u32)> {
    let plain = COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let (stem, cpu) = plain.rsplit_once(INFIX)?;
    if !cpu.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((stem, cpu.parse().ok()?))
}

/// The per-CPU files of the capture that `path` is the stem or a member of, by CPU. Empty if there
/// are none, and if `path` is a file with a name of its own.
fn per_cpu_files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let stem = match parse_name(name) {
        Some((stem, _)) => stem,
        None if path.is_file() => return Ok(Vec::new()),
        None => name,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |error| ReadError::io(folder, Place::Whole, error);
    let mut by_cpu: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let file_name = entry.map_err(fail)?.file_name();
        let Some((of, cpu)) = file_name.to_str().and_then(parse_name) else { continue };
        if of != stem {
            continue;
        }
        // Not the entry's path: that would add a `./` nobody wrote.
        let file = path.with_file_name(&file_name);
        if let Some(other) = by_cpu.insert(cpu, file.clone()) {
            let [first, second] = if other < file { [other, file] } else { [file, other] };
            let why = format!("CPU {cpu} is there twice, as {} and {}", first.display(), second.display());
            return Err(ReadError::malformed(path, Place::Whole, why).remedy("keep one of them"));
        }
    }
    Ok(by_cpu.into_values().collect())
}

/// The files of the capture that `path` is the stem or a member of, in the order of their CPUs; a
/// file with a name of its own is a capture by itself.
fn members(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let files = per_cpu_files(path)?;
    Ok(if files.is_empty() { vec![path.to_owned()] } else { files })
}

fn paired(path: &Path, options: &ReadOptions) -> Result<PairedReader<Capture>, ReadError> {
    Ok(PairedReader::new(Capture::open(path, options)?, FORMAT.name, "monotonic", options))
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    Ok(Box::new(paired(path, options)?))
}

fn open_events(path: &Path, options: &ReadOptions) -> EventsOpened {
    Ok(Box::new(paired(path, options)?))
}

/// The events of a capture.
struct Capture {
    merge: Merge,
    findings: Findings,
    files: usize,
}

impl Capture {
    fn open(path: &Path, options: &ReadOptions) -> Result<Capture, ReadError> {
        let mut findings = Findings { lenient: options.lenient, ..Findings::default() };
        let files = members(path)?;
        let merge = Merge::open(&files, path, &mut findings)?;
        Ok(Capture { merge, findings, files: files.len() })
    }

    /// The wall-clock time of timestamp zero, if a timestamp record tells.
    fn zero_unix_ns(&self) -> Option<i64> {
        let zero = self.merge.zero();
        let (time, unix_ns) = self.findings.wall?;
        // In blkparse's own dumps (`-d`) events count from zero but timestamp records do not.
        if time > zero.saturating_add(REORDER_WINDOW_NS) {
            return None;
        }
        let since = i64::try_from(i128::from(zero) - i128::from(time)).ok()?;
        unix_ns.checked_add(since)
    }
}

impl EventSource for Capture {
    #[inline]
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.merge.next(&mut self.findings)
    }

    #[inline]
    fn current(&mut self) -> (&Event, &mut Losses) {
        (self.merge.event(), &mut self.findings.losses)
    }

    fn zero(&self) -> u64 {
        self.merge.zero()
    }

    fn place(&self) -> (&Path, Place) {
        self.merge.place()
    }

    fn lenient(&self) -> bool {
        self.findings.lenient
    }

    fn losses(&self) -> &Losses {
        &self.findings.losses
    }

    fn losses_mut(&mut self) -> &mut Losses {
        &mut self.findings.losses
    }

    fn describe(&mut self, meta: &mut TraceMeta, ended: bool) {
        let order = self.merge.streams().first().map_or_else(ByteOrder::default, Stream::order);
        let mut add = |key: &str, value: String| meta.provenance.insert(format!("blktrace.{key}"), value);
        add("device", device_name(self.merge.device()));
        add("files", self.files.to_string());
        add("byte_order", order.name().to_owned());
        add("zero_monotonic_ns", self.merge.zero().to_string());
        if ended {
            let cpus: Vec<String> = self.merge.cpus().map(|cpu| cpu.to_string()).collect();
            add("cpus", cpus.join(","));
            if self.findings.messages > 0 {
                add("messages", self.findings.messages.to_string());
            }
            meta.streams = std::mem::take(&mut self.findings.names);
        }
        meta.clock.zero_unix_ns = self.zero_unix_ns();
    }

    fn position_bytes(&self) -> u64 {
        self.merge.streams().iter().map(Stream::consumed_bytes).sum()
    }
}
