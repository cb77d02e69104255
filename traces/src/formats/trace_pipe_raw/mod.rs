//! Pages of the kernel's trace buffer with the block layer's tracepoints, as tracefs gives them in
//! `per_cpu/cpu*/trace_pipe_raw`: exact nanoseconds, and cheap to take.
//!
//! A capture is
//!
//! ```text
//! STEM.trace_raw.0, STEM.trace_raw.1, …    bytes read from per_cpu/cpuN/trace_pipe_raw (.gz, .zst)
//! STEM.formats/header_page                 events/header_page of the instance: layout of a page
//! STEM.formats/header_event                events/header_event: layout of an event's header
//! STEM.formats/block/EVENT/format          events/block/EVENT/format: layout of each tracepoint
//! STEM.formats/trace_clock                 trace_clock (may be missing)
//! STEM.formats/kernel                      `uname -r` (may be missing)
//! STEM.formats/stats.0, …                  per_cpu/cpuN/stats, after the end (may be missing)
//! ```
//!
//! and is named by its stem or any of these. A capture may consist of pieces (`pieces.rs`). The last three must be there for the clock's name, for
//! provenance, and to know of events that found the buffer full. All layouts are taken from the
//! saved files (`layout.rs`); the pages are decoded by `page.rs`, from files or, while the kernel still
//! writes, as they come (`live.rs`).

mod layout;
mod live;
mod page;
mod pages;
mod pieces;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use crate::error::{Place, Problem, ReadError};
use crate::events::PairedReader;
use crate::formats::capture::Capture;
use crate::formats::check::Takes;
use crate::formats::{EventsOpened, Format, Opened, per_cpu};
use crate::input::Input;
use crate::trace::ReadOptions;
use layout::Layouts;
use page::PageFile;
use pieces::Chain;

pub use live::LivePages;
pub use pieces::{piece_stem, pieces};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "trace-pipe-raw",
    summary: "pages of tracefs's trace_pipe_raw with the block layer's tracepoints: STEM.trace_raw.N of all CPUs and \
              STEM.formats, by stem or any member; in pieces STEM.0001 and on",
    units: "ns; 512-byte sectors",
    traps: "Times in ns of the trace clock (local by default, which may differ between CPUs). The formats must be \
            those of the kernel, and header_page that of the instance, that the pages come from. Events that a full \
            buffer dropped are counted only in the saved stats (buffers that do not overwrite).",
    holds_issues: true,
    recognises,
    open,
    open_events: Some(open_events),
    members: files,
    ..Format::READ_ONLY
};

/// The part of a page file's name between the stem and the number of the CPU.
pub const INFIX: &str = ".trace_raw.";

/// The end of the name of the folder beside them, after the stem.
pub const FORMATS_ENDING: &str = ".formats";

/// Files in that folder that need not be there.
const OPTIONAL: [&str; 2] = ["trace_clock", "kernel"];

/// Clocks that do not count nanoseconds (Linux 6.18, `kernel/trace/trace.c`, `trace_clocks`, and the
/// architectures').
const NO_TIME: [&str; 5] = ["counter", "uptime", "x86-tsc", "ppc-tb", "s390-tod"];

fn recognises(path: &Path, _head: &[u8]) -> bool {
    parts(path).is_ok_and(|parts| !parts.is_empty())
}

/// The stem of the capture that `path` is a member of, or that it is itself.
fn stem(path: &Path) -> PathBuf {
    for part in path.ancestors() {
        let Some(name) = part.file_name().and_then(|name| name.to_str()) else { continue };
        if let Some(stem) = name.strip_suffix(FORMATS_ENDING).filter(|stem| !stem.is_empty()) {
            return part.with_file_name(stem);
        }
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    per_cpu::parse_name(name, INFIX).map_or_else(|| path.to_owned(), |(stem, _)| path.with_file_name(stem))
}

/// The stems of the parts of a capture: its own, or those of its pieces. None if `path` names no capture.
fn parts(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let stem = stem(path);
    if !per_cpu::files(&stem, INFIX)?.is_empty() {
        return Ok(vec![stem]);
    }
    if stem.is_file() { Ok(Vec::new()) } else { pieces(&stem) }
}

/// The page files of each CPU.
fn page_files(parts: &[PathBuf]) -> Result<BTreeMap<u32, VecDeque<PathBuf>>, ReadError> {
    let mut by_cpu: BTreeMap<u32, VecDeque<PathBuf>> = BTreeMap::new();
    for part in parts {
        for (cpu, file) in per_cpu::files(part, INFIX)? {
            by_cpu.entry(cpu).or_default().push_back(file);
        }
    }
    Ok(by_cpu)
}

/// `STEM.formats`.
fn formats_folder(part: &Path) -> PathBuf {
    let mut folder = part.as_os_str().to_owned();
    folder.push(FORMATS_ENDING);
    folder.into()
}

/// `STEM.formats/stats.N`.
fn stats_file(folder: &Path, cpu: u32) -> PathBuf {
    folder.join(format!("stats.{cpu}"))
}

/// All files of a capture that are read.
fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let parts = parts(path)?;
    if parts.is_empty() {
        return Err(not_named_like_one(path));
    }
    let pages = page_files(&parts)?;
    let mut files: Vec<PathBuf> = pages.values().flatten().cloned().collect();
    for (number, part) in parts.iter().enumerate() {
        let folder = formats_folder(part);
        // The descriptions of the first part decode all.
        if number == 0 {
            files.extend(layout::files(&folder)?);
            files.extend(OPTIONAL.iter().map(|name| folder.join(name)).filter(|file| file.is_file()));
        }
        files.extend(pages.keys().map(|cpu| stats_file(&folder, *cpu)).filter(|file| file.is_file()));
    }
    Ok(files)
}

/// Why `path` is no capture.
fn not_named_like_one(path: &Path) -> ReadError {
    match Input::open(path) {
        Err(error) => error,
        Ok(input) if input.head().is_empty() => ReadError::new(path, Place::Whole, Problem::Empty),
        Ok(_) => {
            let what =
                "pages of a trace buffer are recognised by their name, STEM.trace_raw.N, with STEM.formats beside it";
            ReadError::new(path, Place::Whole, Problem::Missing(what.to_owned()))
                .remedy("name the stem, or a file of that name")
        }
    }
}

fn paired(path: &Path, options: &ReadOptions) -> Result<PairedReader<Capture<PageFile<Chain>>>, ReadError> {
    Takes { device: true, ..Takes::default() }.check(path, FORMAT.name, options)?;
    let parts = parts(path)?;
    let Some(first) = parts.first() else { return Err(not_named_like_one(path)) };
    let stem = stem(path);
    if parts.len() > 1 {
        pieces::check_complete(&stem)?;
    }
    let folder = formats_folder(first);
    let layouts = Layouts::read(&folder)?;
    let clock = clock(&folder)?;
    let kernel = layout::read_optional(&folder.join("kernel"))?;
    let mut files = Vec::new();
    for (cpu, of_cpu) in page_files(&parts)? {
        let dropped = parts
            .iter()
            .try_fold(0, |sum: u64, part| Ok(sum.saturating_add(dropped(&stats_file(&formats_folder(part), cpu))?)))?;
        let Some(chain) = Chain::open(&stem, cpu, of_cpu)? else { continue };
        files.push(PageFile::new(chain, cpu, &layouts, dropped, kernel.as_deref().map(str::trim))?);
    }
    let capture = Capture::new(FORMAT.name, path, options, files.into_iter().map(Ok))?;
    Ok(PairedReader::new(capture, FORMAT.name, &clock, options))
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    Ok(Box::new(paired(path, options)?))
}

fn open_events(path: &Path, options: &ReadOptions) -> EventsOpened {
    Ok(Box::new(paired(path, options)?))
}

/// The clock's name: the one in brackets in `trace_clock`.
fn clock(folder: &Path) -> Result<String, ReadError> {
    let path = folder.join(OPTIONAL[0]);
    let Some(text) = layout::read_optional(&path)? else { return Ok("trace clock".to_owned()) };
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    // A file of one word is the name itself.
    let name = chosen.or_else(|| Some(text.trim()).filter(|name| !name.is_empty() && !name.contains(' ')));
    match name {
        Some(name) if NO_TIME.contains(&name) => {
            let why = format!("the trace clock was `{name}`, which does not count nanoseconds");
            Err(ReadError::malformed(&path, Place::Whole, why).remedy("capture with another, e.g. mono"))
        }
        Some(name) => Ok(format!("trace clock {name}")),
        None => Err(ReadError::malformed(&path, Place::Whole, "no clock is chosen in brackets")),
    }
}

/// How many events found the buffer full, if that was saved: `dropped events: 0`.
fn dropped(path: &Path) -> Result<u64, ReadError> {
    let Some(text) = layout::read_optional(path)? else { return Ok(0) };
    for (number, line) in text.lines().enumerate() {
        if let Some(count) = line.strip_prefix("dropped events:") {
            let place = Place::Line(number as u64 + 1);
            let count = count.trim().parse();
            return count.map_err(|_| ReadError::malformed(path, place, "expected a number of dropped events"));
        }
    }
    Ok(0)
}
