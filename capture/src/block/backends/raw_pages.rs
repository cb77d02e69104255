//! Raw pages of the trace buffers in files: `STEM.trace_raw.N` of each CPU, with the descriptions that decode them in
//! `STEM.formats`.
//!
//! Full pages go from the kernel's buffer to the file by splice(2) through a pipe, without a copy to this program. The
//! kernel gives only full pages so (Linux 6.18, `kernel/trace/trace.c`, `tracing_buffers_splice_read`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use traces::formats::trace_pipe_raw::{FORMATS_ENDING, INFIX};

use super::tracefs::with_ending;
use crate::block::error::CaptureError;

/// What the pipe holds, if the kernel lets it: the most that two calls move.
const PIPE_BYTES: usize = 1 << 20;

/// The raw files of a capture, or of one piece of it.
pub(super) struct RawPages {
    stem: PathBuf,
    files: BTreeMap<u32, RawFile>,
    pipe: Option<Pipe>,
    /// Bytes written to all pieces.
    bytes: u64,
}

struct RawFile {
    file: File,
    path: PathBuf,
    /// Events of the CPU that were dropped before this file began.
    dropped_before: u64,
}

struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
    bytes: usize,
}

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // More than the user may have is refused, and the usual size does, too.
        let bytes = fcntl_setpipe_size(&to, PIPE_BYTES).unwrap_or(1 << 16);
        Ok(Pipe { from, to, bytes })
    }
}

impl RawPages {
    pub(super) fn begin(stem: &Path) -> Result<RawPages, CaptureError> {
        let pipe = Pipe::new().map_err(|error| CaptureError::io(stem, error))?;
        Ok(RawPages { stem: stem.to_owned(), files: BTreeMap::new(), pipe: Some(pipe), bytes: 0 })
    }

    /// The folder with the descriptions.
    pub(super) fn formats(&self) -> PathBuf {
        with_ending(&self.stem, FORMATS_ENDING)
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins the file of a CPU of which `dropped` events have been dropped.
    pub(super) fn add_cpu(&mut self, cpu: u32, dropped: u64) -> Result<(), CaptureError> {
        let path = with_ending(&self.stem, &format!("{INFIX}{cpu}"));
        let file = File::create(&path).map_err(|error| CaptureError::io(&path, error))?;
        self.files.insert(cpu, RawFile { file, path, dropped_before: dropped });
        Ok(())
    }

    /// Appends pages that were read.
    pub(super) fn write(&mut self, cpu: u32, pages: &[u8]) -> Result<(), CaptureError> {
        let Some(raw) = self.files.get_mut(&cpu) else { return Ok(()) };
        raw.file.write_all(pages).map_err(|error| CaptureError::io(&raw.path, error))?;
        self.bytes += pages.len() as u64;
        Ok(())
    }

    /// Moves full pages of a CPU's buffer to its file, `bytes_max` at most. Returns false if the kernel cannot; what
    /// it has not moved is still to be read.
    pub(super) fn splice(&mut self, cpu: u32, buffer: &File, bytes_max: usize) -> Result<bool, CaptureError> {
        let (Some(pipe), Some(raw)) = (&self.pipe, self.files.get_mut(&cpu)) else { return Ok(false) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let mut left = bytes_max;
        while left > 0 {
            let moved = match splice(buffer, None, &pipe.to, None, pipe.bytes.min(left), flags) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(true),
                Ok(moved) => moved,
                Err(Errno::INTR) => continue,
                Err(Errno::INVAL | Errno::NOSYS) => {
                    self.pipe = None;
                    return Ok(false);
                }
                Err(error) => return Err(CaptureError::io(&raw.path, error.into())),
            };
            let can = empty(pipe, &mut raw.file, moved).map_err(|error| CaptureError::io(&raw.path, error))?;
            self.bytes += moved as u64;
            left = left.saturating_sub(moved);
            if !can {
                self.pipe = None;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Saves each CPU's counters (`stats`), with what was dropped since the file began, and makes all durable.
    pub(super) fn end(&mut self, stats: &BTreeMap<u32, String>) -> Result<(), CaptureError> {
        let folder = self.formats();
        for (cpu, raw) in &self.files {
            raw.file.sync_all().map_err(|error| CaptureError::io(&raw.path, error))?;
            let Some(text) = stats.get(cpu) else { continue };
            let to = folder.join(format!("stats.{cpu}"));
            fs::write(&to, since(text, raw.dropped_before)).map_err(|error| CaptureError::io(&to, error))?;
        }
        Ok(())
    }

    /// Ends these files, and begins those of the next piece. `dropped` has the events of each CPU dropped so far.
    pub(super) fn next(
        &mut self,
        stem: &Path,
        stats: &BTreeMap<u32, String>,
        dropped: impl Fn(u32) -> u64,
    ) -> Result<(), CaptureError> {
        self.end(stats)?;
        let formats = self.formats();
        let cpus: Vec<u32> = self.files.keys().copied().collect();
        self.stem = stem.to_owned();
        copy_folder(&formats, &self.formats())?;
        cpus.into_iter().try_for_each(|cpu| self.add_cpu(cpu, dropped(cpu)))
    }
}

/// Moves `bytes` from the pipe to the file. Returns false if the file takes them by writing only.
fn empty(pipe: &Pipe, file: &mut File, bytes: usize) -> io::Result<bool> {
    let mut left = bytes;
    while left > 0 {
        match splice(&pipe.from, None, &*file, None, left, SpliceFlags::MOVE) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(moved) => left -= moved,
            Err(Errno::INTR) => {}
            Err(Errno::INVAL) => {
                let mut buffer = vec![0; left];
                while left > 0 {
                    let read = rustix::io::retry_on_intr(|| rustix::io::read(&pipe.from, &mut buffer[..left]))?;
                    file.write_all(&buffer[..read])?;
                    left -= read;
                }
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// A buffer's counters, of which the dropped events are those beyond `before`.
fn since(stats: &str, before: u64) -> String {
    let line = |line: &str| match line.strip_prefix("dropped events:").and_then(|count| count.trim().parse().ok()) {
        Some(count) => format!("dropped events: {}\n", u64::saturating_sub(count, before)),
        None => format!("{line}\n"),
    };
    stats.lines().map(line).collect()
}

/// Copies the descriptions, but no counters.
fn copy_folder(from: &Path, to: &Path) -> Result<(), CaptureError> {
    fs::create_dir_all(to).map_err(|error| CaptureError::io(to, error))?;
    for entry in fs::read_dir(from).map_err(|error| CaptureError::io(from, error))? {
        let entry = entry.map_err(|error| CaptureError::io(from, error))?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &to)?;
        } else if !entry.file_name().to_string_lossy().starts_with("stats.") {
            fs::copy(&path, &to).map_err(|error| CaptureError::io(&to, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_piece_begin_with_it() {
        let stats = "entries: 0\ndropped events: 7\nread events: 12\n";
        assert_eq!(since(stats, 5), "entries: 0\ndropped events: 2\nread events: 12\n");
        assert_eq!(since(stats, 0), stats);
    }

    #[test]
    fn pieces_have_their_own_descriptions_and_counters() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut raw = RawPages::begin(&at("x.0001")).unwrap();
        fs::create_dir_all(raw.formats().join("block/block_rq_issue")).unwrap();
        fs::write(raw.formats().join("header_page"), "page").unwrap();
        fs::write(raw.formats().join("block/block_rq_issue/format"), "issue").unwrap();
        raw.add_cpu(3, 0).unwrap();
        raw.write(3, b"one").unwrap();
        let stats = |dropped: u64| BTreeMap::from([(3, format!("dropped events: {dropped}\n"))]);
        raw.next(&at("x.0002"), &stats(4), |_| 4).unwrap();
        raw.write(3, b"two!").unwrap();
        raw.end(&stats(9)).unwrap();
        assert_eq!(raw.bytes(), 7);
        let text = |name: &str| fs::read_to_string(at(name)).unwrap();
        assert_eq!((text("x.0001.trace_raw.3"), text("x.0002.trace_raw.3")), ("one".into(), "two!".into()));
        assert_eq!(text("x.0001.formats/stats.3"), "dropped events: 4\n");
        assert_eq!(text("x.0002.formats/stats.3"), "dropped events: 5\n");
        assert_eq!(text("x.0002.formats/header_page"), "page");
        assert_eq!(text("x.0002.formats/block/block_rq_issue/format"), "issue");
    }

    /// A pipe in the place of the kernel's buffer.
    #[test]
    fn pages_are_moved_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut raw = RawPages::begin(&folder.path().join("x")).unwrap();
        raw.add_cpu(0, 0).unwrap();
        let (from, to) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let (from, mut to) = (File::from(from), File::from(to));
        to.write_all(&[1; 8192]).unwrap();
        assert!(raw.splice(0, &from, 4096).unwrap());
        to.write_all(&[2; 4096]).unwrap();
        assert!(raw.splice(0, &from, usize::MAX).unwrap());
        assert!(raw.splice(0, &from, usize::MAX).unwrap());
        let bytes = fs::read(folder.path().join("x.trace_raw.0")).unwrap();
        assert_eq!((bytes.len() as u64, raw.bytes()), (12_288, 12_288));
        assert!(bytes == [[1; 4096], [1; 4096], [2; 4096]].concat());
    }
}
