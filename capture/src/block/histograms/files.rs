//! The files that lines of histograms go to.

use std::collections::VecDeque;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use traces::histograms::pieces;

use crate::block::error::CaptureError;
use crate::block::options::CaptureOptions;
use crate::block::output::{Output, OutputSink, rotated_path};
use crate::block::store::{Rotate, StoreOutcome};

/// Appends whole seconds to a file, or to pieces of which the last ones stay.
pub(super) struct HistogramFiles {
    output: Output,
    rotate: Option<Rotate>,
    keep: Option<u32>,
    force: bool,
    number: u32,
    sink: OutputSink,
    /// When the first second of the current file began, in ns of the events' clock; `None` before that.
    begun: Option<u64>,
    /// Bytes in the current file, and in those before.
    bytes: u64,
    bytes_before: u64,
    /// The files that are there, the current one last.
    files: VecDeque<PathBuf>,
    failure: Option<String>,
}

impl HistogramFiles {
    /// Opens the first file.
    ///
    /// # Errors
    /// It cannot be opened; or there are files of an earlier capture of this name, unless they may be overwritten.
    pub(super) fn begin(options: &CaptureOptions) -> Result<HistogramFiles, CaptureError> {
        if let Some(path) = options.output.file() {
            remove_earlier(path, options.force)?;
        }
        let (sink, path) = open(&options.output, options.rotate, options.force, 1)?;
        Ok(HistogramFiles {
            output: options.output.clone(),
            rotate: options.rotate,
            keep: options.keep,
            force: options.force,
            number: 1,
            sink,
            begun: None,
            bytes: 0,
            bytes_before: 0,
            files: VecDeque::from([path]),
            failure: None,
        })
    }

    /// Appends the lines of the second that began at `from` of the events' clock, in the next file if that is due. After
    /// a failure it does nothing.
    pub(super) fn write(&mut self, lines: &[u8], from: u64) {
        if self.failure.is_none()
            && !lines.is_empty()
            && let Err(error) = self.try_write(lines, from)
        {
            self.failure = Some(error.to_string());
            // A half-written second goes, so that what was written before is read without a complaint.
            if let OutputSink::File(file) = &self.sink {
                let _ = file.set_len(self.bytes);
            }
        }
    }

    fn try_write(&mut self, lines: &[u8], from: u64) -> Result<(), CaptureError> {
        let is_due = match self.rotate {
            None => false,
            Some(Rotate::Bytes(most)) => self.bytes >= most,
            // By the seconds themselves: the times at which they are written jitter.
            Some(Rotate::Time(most)) => self.begun.is_some_and(|begun| u128::from(from - begun) >= most.as_nanos()),
        };
        // An empty file would be no file of histograms.
        if is_due && self.bytes > 0 {
            self.next()?;
        }
        self.begun.get_or_insert(from);
        let written = self.sink.write_all(lines).and_then(|()| self.sink.flush());
        written.map_err(|error| CaptureError::io(&self.path(), error))?;
        self.bytes += lines.len() as u64;
        Ok(())
    }

    /// Goes on to the next file, and removes those that are too many.
    fn next(&mut self) -> Result<(), CaptureError> {
        self.sink.sync().map_err(|error| CaptureError::io(&self.path(), error))?;
        self.number += 1;
        let (sink, path) = open(&self.output, self.rotate, self.force, self.number)?;
        (self.sink, self.begun) = (sink, None);
        self.bytes_before += std::mem::take(&mut self.bytes);
        self.files.push_back(path);
        while self.keep.is_some_and(|most| self.files.len() > most as usize) {
            let Some(oldest) = self.files.pop_front() else { break };
            std::fs::remove_file(&oldest).map_err(|error| CaptureError::io(&oldest, error))?;
        }
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.files.back().cloned().unwrap_or_default()
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes_before + self.bytes
    }

    /// Whether a line could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Makes the last file durable.
    pub(super) fn end(&mut self) -> StoreOutcome {
        let synced = self.sink.sync().map_err(|error| CaptureError::io(&self.path(), error).to_string());
        let bytes = self.bytes();
        let files = if self.output.file().is_some() { std::mem::take(&mut self.files).into() } else { Vec::new() };
        StoreOutcome { bytes, files, failure: self.failure.take().or(synced.err()) }
    }
}

fn open(
    output: &Output,
    rotate: Option<Rotate>,
    force: bool,
    number: u32,
) -> Result<(OutputSink, PathBuf), CaptureError> {
    let path = if rotate.is_some() { rotated_path(&output.name(), number) } else { output.name() };
    Ok((OutputSink::open(output, &path, force)?, path))
}

/// Refuses the file and the pieces of an earlier capture with this name, or removes them if `force`: they would be
/// read in the place of this one, or as parts of it.
fn remove_earlier(path: &Path, force: bool) -> Result<(), CaptureError> {
    let own = path.exists().then(|| path.to_owned());
    for earlier in own.into_iter().chain(pieces(path)?) {
        if !force {
            let why = format!("{} exists; --force overwrites it", earlier.display());
            return Err(CaptureError::Output { path: path.to_owned(), why });
        }
        if earlier.is_file() {
            std::fs::remove_file(&earlier).map_err(|error| CaptureError::io(&earlier, error))?;
        }
    }
    Ok(())
}
