//! The file as the Parquet library reads it: positioned reads that never ask for more than there is.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

use super::MAGIC;
use crate::error::{Place, Problem, ReadError};
use crate::input::Input;

/// Page headers are small and read one by one; their data is read apart.
const HEADER_BUFFER_BYTES: usize = 512;

/// A Parquet file that can be read anywhere.
#[derive(Clone)]
pub(super) struct Chunks {
    file: Arc<File>,
    bytes: u64,
    input_bytes: u64,
}

impl Chunks {
    /// Opens `path`. What is compressed as a whole or comes from a pipe is copied to an anonymous
    /// temporary file first, since Parquet begins at its end.
    pub(super) fn open(path: &Path) -> Result<Chunks, ReadError> {
        let fail = |error| ReadError::io(path, Place::Whole, error);
        let (file, spooled_bytes) = match plain_file(path).map_err(fail)? {
            Some(file) => (file, None),
            None => spool(path).map(|(file, bytes)| (file, Some(bytes)))?,
        };
        let bytes = file.metadata().map_err(fail)?.len();
        let chunks = Chunks { file: Arc::new(file), bytes, input_bytes: spooled_bytes.unwrap_or(bytes) };
        chunks.check_magic(path)?;
        Ok(chunks)
    }

    /// Length of the input as it was given: compressed, if it was.
    pub(super) fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    /// A file that was cut off has the magic at its beginning but not at its end.
    fn check_magic(&self, path: &Path) -> Result<(), ReadError> {
        let magic_bytes = MAGIC.len() as u64;
        let mut magic = [0; MAGIC.len()];
        let ends = self.bytes.checked_sub(magic_bytes).filter(|&at| at >= magic_bytes);
        if let Some(at) = ends {
            self.file.read_exact_at(&mut magic, at).map_err(|error| ReadError::io(path, Place::Byte(at), error))?;
        }
        if magic == MAGIC {
            return Ok(());
        }
        let problem = Problem::Truncated("a Parquet file: it does not end with PAR1".to_owned());
        Err(ReadError::new(path, Place::Byte(self.bytes), problem).remedy("copy or convert it again"))
    }
}

/// The file at `path` if it can be read in place.
fn plain_file(path: &Path) -> io::Result<Option<File>> {
    // Asked before it is opened: a pipe can be opened only once.
    if path == Path::new("-") || !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    let mut magic = [0; MAGIC.len()];
    let is_plain = file.read_exact_at(&mut magic, 0).is_ok() && magic == MAGIC;
    Ok(is_plain.then_some(file))
}

/// A temporary copy of the input, and how many (compressed) bytes that was.
fn spool(path: &Path) -> Result<(File, u64), ReadError> {
    let mut input = Input::open(path)?;
    if input.head().is_empty() {
        return Err(ReadError::new(path, Place::Whole, Problem::Empty));
    }
    if !input.head().starts_with(MAGIC) {
        return Err(ReadError::malformed(path, Place::Byte(0), "this is no Parquet file: it does not begin with PAR1"));
    }
    let fail = |error| ReadError::io(path, Place::Whole, error);
    let mut file = tempfile::tempfile().map_err(fail)?;
    io::copy(&mut input, &mut file).map_err(fail)?;
    file.seek(SeekFrom::Start(0)).map_err(fail)?;
    Ok((file, input.consumed_bytes()))
}

/// Reads a file from some place on.
pub(super) struct From {
    file: Arc<File>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let from = From { file: Arc::clone(&self.file), at: start };
        Ok(BufReader::with_capacity(HEADER_BUFFER_BYTES, from))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Checked first: the length comes from the file and decides how much memory is taken.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start}, but the file has {}", self.bytes)));
        }
        let mut buffer = vec![0; length];
        self.file.read_exact_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_file_takes_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        std::fs::write(&path, b"PAR1, data, PAR1").unwrap();
        let chunks = Chunks::open(&path).unwrap();
        assert_eq!(&chunks.get_bytes(12, 4).unwrap()[..], MAGIC);
        for (start, length) in [(13, 4), (0, usize::MAX / 4), (u64::MAX, 4)] {
            assert!(chunks.get_bytes(start, length).is_err(), "{length} at {start}");
        }
    }
}
