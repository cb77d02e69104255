//! The part of an input that is in memory.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use traces::{Place, Problem, ReadError};

const WINDOW_BYTES_MIN: usize = 1 << 18;

/// A buffer over an input, which lends slices. It grows to the longest packet only.
pub(super) struct ReadWindow {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Bytes that were lent last; they are still before `begin`.
    lent: usize,
    /// Offset of `begin` in the input.
    offset: u64,
}

impl ReadWindow {
    pub(super) fn new(path: &Path, input: Box<dyn Read + Send>) -> ReadWindow {
        ReadWindow {
            path: path.to_owned(),
            input,
            buffer: vec![0; WINDOW_BYTES_MIN],
            begin: 0,
            end: 0,
            lent: 0,
            offset: 0,
        }
    }

    /// Whether `bytes` more bytes are available.
    pub(super) fn has(&mut self, bytes: usize) -> Result<bool, ReadError> {
        if self.end - self.begin >= bytes {
            return Ok(true);
        }
        self.fill(bytes)
    }

    fn fill(&mut self, bytes: usize) -> Result<bool, ReadError> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        if bytes > self.buffer.len() {
            self.buffer.resize(bytes, 0);
        }
        while self.end < bytes {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let place = Place::Byte(self.offset + (self.end - self.begin) as u64);
                    return Err(ReadError::io(&self.path, place, error));
                }
            }
        }
        Ok(true)
    }

    /// Whether the buffer is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// The next bytes. [`ReadWindow::has`] must have confirmed them.
    pub(super) fn bytes(&self, bytes: usize) -> &[u8] {
        &self.buffer[self.begin..self.begin + bytes]
    }

    /// Skips the next bytes, which must be available.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.begin += bytes;
        self.offset += bytes as u64;
    }

    /// Skips bytes that need not fit in memory. Returns false if the input ends first.
    pub(super) fn pass_over(&mut self, mut bytes: u64) -> Result<bool, ReadError> {
        while bytes > 0 {
            if !self.has(1)? {
                return Ok(false);
            }
            let step = bytes.min((self.end - self.begin) as u64);
            self.pass(step as usize);
            bytes -= step;
        }
        Ok(true)
    }

    /// Lends the next bytes, which must be available, until [`ReadWindow::release`].
    pub(super) fn lend(&mut self, bytes: usize) -> &[u8] {
        self.lent = bytes;
        &self.buffer[self.begin..self.begin + bytes]
    }

    /// Skips the bytes that were lent.
    pub(super) fn release(&mut self) {
        let lent = std::mem::take(&mut self.lent);
        self.pass(lent);
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    #[cold]
    pub(super) fn malformed(&self, what: impl Into<String>) -> ReadError {
        ReadError::malformed(&self.path, Place::Byte(self.offset), what)
    }

    #[cold]
    pub(super) fn truncated(&self, what: impl Into<String>) -> ReadError {
        ReadError::new(&self.path, Place::Byte(self.offset), Problem::Truncated(what.into()))
    }
}
