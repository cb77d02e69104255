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
//! and is named by its stem or any of these. The last three must be there for the clock's name, for
//! provenance, and to know of events that found the buffer full. All layouts are taken from the
//! saved files (`layout.rs`); the pages are decoded by `page.rs`, from files or, while the kernel still
//! writes, as they come (`live.rs`).

mod layout;
mod live;
mod page;
mod pages;

use std::collections::BTreeMap;
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

pub use live::LivePages;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "trace-pipe-raw",
    summary: "pages of tracefs's trace_pipe_raw with the block layer's tracepoints: STEM.trace_raw.N of all CPUs and \
              STEM.formats, by stem or any member",
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
    page_files(path).is_ok_and(|files| !files.is_empty())
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

/// The page files of a capture with their CPUs; none if `path` names no capture.
fn page_files(path: &Path) -> Result<BTreeMap<u32, PathBuf>, ReadError> {
    per_cpu::files(&stem(path), INFIX)
}

/// `STEM.formats`.
fn formats_folder(path: &Path) -> PathBuf {
    let mut folder = stem(path).into_os_string();
    folder.push(FORMATS_ENDING);
    folder.into()
}

/// `STEM.formats/stats.N`.
fn stats_file(folder: &Path, cpu: u32) -> PathBuf {
    folder.join(format!("stats.{cpu}"))
}

/// All files of a capture that are read.
fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let pages = page_files(path)?;
    if pages.is_empty() {
        return Err(not_named_like_one(path));
    }
    let folder = formats_folder(path);
    let mut optional: Vec<PathBuf> = OPTIONAL.iter().map(|name| folder.join(name)).collect();
    optional.extend(pages.keys().map(|cpu| stats_file(&folder, *cpu)));
    optional.retain(|file| file.is_file());
    let mut files: Vec<PathBuf> = pages.into_values().collect();
    files.extend(layout::files(&folder)?);
    files.extend(optional);
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

fn paired(path: &Path, options: &ReadOptions) -> Result<PairedReader<Capture<PageFile<Input>>>, ReadError> {
    Takes { device: true, ..Takes::default() }.check(path, FORMAT.name, options)?;
    let pages = page_files(path)?;
    if pages.is_empty() {
        return Err(not_named_like_one(path));
    }
    let folder = formats_folder(path);
    let layouts = Layouts::read(&folder)?;
    let clock = clock(&folder)?;
    let kernel = layout::read_optional(&folder.join("kernel"))?;
    let files = pages.into_iter().map(|(cpu, file)| {
        let dropped = dropped(&stats_file(&folder, cpu))?;
        PageFile::new(Input::open(&file)?, cpu, &layouts, dropped, kernel.as_deref().map(str::trim))
    });
    let capture = Capture::new(FORMAT.name, path, options, files)?;
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
