//! blktrace's binary format: one file per CPU, `STEM.blktrace.N`, as `blktrace` writes it and
//! `blkparse` reads it. Linux 6.1, `include/uapi/linux/blktrace_api.h` and
//! `kernel/trace/blktrace.c`; version 7.
//!
//! The files are read in blocks, merged by time, and their events paired into records. Nothing is
//! kept of a request once it left, so that memory does not grow with the capture but for the names
//! of its processes.
//!
//! Times are nanoseconds since the earliest event, as blkparse prints them, of the kernel's
//! monotonic clock (`ktime_get`; `sched_clock` in old kernels).

mod arrival;
mod event;
mod index;
mod merge;
mod pairing;
mod ring;
mod stream;
mod units;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use event::{ByteOrder, Category, Event, MAGIC, RECORD_BYTES, VERSION, action, encode, notify};
pub use pairing::{PENDING_NS, PENDING_RECORDS};
pub use stream::{REORDER_EVENTS, REORDER_WINDOW_NS};

use crate::error::{Place, Problem, ReadError};
use crate::formats::Format;
use crate::record::Record;
use crate::trace::{ArrivalPoint, Layer, Losses, ReadOptions, TraceMeta, TraceReader};
use merge::{Merge, device_name};
use pairing::Pairing;
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

fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, ReadError> {
    Ok(Box::new(Reader::open(path, options)?))
}

/// Reads a capture into records.
struct Reader {
    merge: Merge,
    pairing: Pairing,
    findings: Findings,
    meta: TraceMeta,
    /// Time of the event last taken, nanoseconds since the earliest.
    now: u64,
    ended: bool,
}

impl Reader {
    fn open(path: &Path, options: &ReadOptions) -> Result<Reader, ReadError> {
        let mut findings = Findings { lenient: options.lenient, ..Findings::default() };
        let files = members(path)?;
        let merge = Merge::open(&files, path, &mut findings)?;
        let usual = match options.arrivals {
            ArrivalPoint::Queued => Layer::GuestQueue,
            ArrivalPoint::Issued => Layer::GuestIssued,
        };
        let mut meta = TraceMeta::new(FORMAT.name, options.layer.unwrap_or(usual), "monotonic");
        let order = merge.streams().first().map_or_else(ByteOrder::default, Stream::order);
        let arrivals = match options.arrivals {
            ArrivalPoint::Queued => "Q",
            ArrivalPoint::Issued => "D",
        };
        let facts = [
            ("blktrace.device", device_name(merge.device())),
            ("blktrace.files", files.len().to_string()),
            ("blktrace.byte_order", order.name().to_owned()),
            ("blktrace.zero_monotonic_ns", merge.zero().to_string()),
            ("blktrace.arrivals", arrivals.to_owned()),
        ];
        meta.provenance.extend(facts.map(|(key, value)| (key.to_owned(), value)));
        let pairing = Pairing::new(options.arrivals);
        let mut reader = Reader { merge, pairing, findings, meta, now: 0, ended: false };
        reader.set_wall_clock();
        Ok(reader)
    }

    /// The wall-clock time of timestamp zero, if a timestamp record tells.
    fn set_wall_clock(&mut self) {
        let zero = self.merge.zero();
        if let Some((time, unix_ns)) = self.findings.wall
            // In blkparse's own dumps (`-d`) events count from zero but timestamp records do not.
            && time <= zero.saturating_add(REORDER_WINDOW_NS)
            && let Ok(since) = i64::try_from(i128::from(zero) - i128::from(time))
        {
            self.meta.clock.zero_unix_ns = unix_ns.checked_add(since);
        }
    }

    /// Completes the metadata at the end of the capture.
    fn finish(&mut self) {
        self.ended = true;
        self.set_wall_clock();
        self.meta.streams = std::mem::take(&mut self.findings.names);
        let cpus: Vec<String> = self.merge.cpus().map(|cpu| cpu.to_string()).collect();
        self.meta.provenance.insert("blktrace.cpus".to_owned(), cpus.join(","));
        let aside = self.pairing.aside();
        let counts = [
            ("merges", aside.merges),
            ("splits", aside.splits),
            ("requeues", aside.requeues),
            ("remaps", aside.remaps),
            ("bounces", aside.bounces),
            ("passthrough_events", aside.passthrough),
            ("requests_without_data", aside.without_data),
            ("driver_data_events", aside.driver_data),
            ("messages", self.findings.messages),
        ];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.meta.provenance.insert(format!("blktrace.{what}"), count.to_string());
        }
    }

    #[cold]
    fn refuse(&mut self, why: String) -> Result<(), ReadError> {
        if self.findings.lenient {
            self.findings.losses.skip("request with an impossible address or length");
            return Ok(());
        }
        let (path, place) = self.merge.place();
        Err(ReadError::new(path, place, Problem::Malformed(why)).remedy("--lenient leaves it out and counts it"))
    }
}

impl TraceReader for Reader {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            if let Some(record) = self.pairing.next(self.now, self.ended, &mut self.findings.losses) {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            match self.merge.next(&mut self.findings)? {
                Some(event) => {
                    self.now = event.time - self.merge.zero();
                    if let Err(why) = self.pairing.event(&event, self.now, &mut self.findings.losses) {
                        self.refuse(why)?;
                    }
                }
                None => self.finish(),
            }
        }
    }

    fn losses(&self) -> &Losses {
        &self.findings.losses
    }

    fn position_bytes(&self) -> u64 {
        self.merge.streams().iter().map(Stream::consumed_bytes).sum()
    }
}
