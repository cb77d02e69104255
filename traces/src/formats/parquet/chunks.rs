//! The file as the Parquet library reads it: positioned reads that never ask for more than there is.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

use super::MAGIC;
use super::recovery::{self, Recovered};
use crate::error::{Place, Problem, ReadError};
use crate::input::Input;

/// Page headers are small and read one by one; their data is read apart.
const HEADER_BUFFER_BYTES: usize = 512;
/// The most GiB of a temporary copy: a few compressed bytes must not fill the disk.
const COPY_GIB_MAX: u64 = 1;

/// A Parquet file that can be read anywhere.
#[derive(Clone)]
pub(super) struct Chunks {
    file: Arc<File>,
    /// How much of the file counts.
    file_bytes: u64,
    /// The bytes behind that: the whole footer of a file that has none.
    tail: Bytes,
    input_bytes: u64,
}

impl Chunks {
    /// Opens `path`. An input that is compressed as a whole or comes from a pipe is copied to an anonymous
    /// temporary file first, since Parquet begins at its end.
    ///
    /// A file that grew until its writer was stopped is read as if it ended at its last checkpoint; the facts that were
    /// found of it are given, too.
    pub(super) fn open(path: &Path) -> Result<(Chunks, Option<Recovered>), ReadError> {
        let fail = |error| ReadError::io(path, Place::Whole, error);
        let (file, spooled_bytes) = match plain_file(path).map_err(fail)? {
            Some(file) => (file, None),
            None => spool(path, COPY_GIB_MAX << 30).map(|(file, bytes)| (file, Some(bytes)))?,
        };
        let bytes = file.metadata().map_err(fail)?.len();
        let input_bytes = spooled_bytes.unwrap_or(bytes);
        let recovered = recovery::find(&file, bytes).map_err(fail)?;
        let file_bytes = recovered.as_ref().map_or(bytes, |recovered| recovered.kept_bytes);
        let tail = recovered.as_ref().map(|recovered| Bytes::copy_from_slice(&recovered.footer)).unwrap_or_default();
        let chunks = Chunks { file: Arc::new(file), file_bytes, tail, input_bytes };
        if recovered.is_none() {
            chunks.check_magic(path)?;
        }
        Ok((chunks, recovered))
    }

    /// Length of the input as it was given: compressed, if it was.
    pub(super) fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    /// A file that was cut off has the magic at its beginning but not at its end.
    fn check_magic(&self, path: &Path) -> Result<(), ReadError> {
        let magic_bytes = MAGIC.len() as u64;
        let mut magic = [0; MAGIC.len()];
        let ends = self.file_bytes.checked_sub(magic_bytes).filter(|&at| at >= magic_bytes);
        if let Some(at) = ends {
            self.file.read_exact_at(&mut magic, at).map_err(|error| ReadError::io(path, Place::Byte(at), error))?;
        }
        if magic == MAGIC {
            return Ok(());
        }
        let problem = Problem::Truncated("a Parquet file: it does not end with PAR1".to_owned());
        Err(ReadError::new(path, Place::Byte(self.file_bytes), problem).remedy("copy or convert it again"))
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

/// A temporary copy of the input, of at most `bytes_max`, and how many (compressed) bytes that was.
fn spool(path: &Path, bytes_max: u64) -> Result<(File, u64), ReadError> {
    let mut input = Input::open(path)?;
    if input.head().is_empty() {
        return Err(ReadError::new(path, Place::Whole, Problem::Empty));
    }
    if !input.head().starts_with(MAGIC) {
        return Err(ReadError::malformed(path, Place::Byte(0), "this is no Parquet file: it does not begin with PAR1"));
    }
    let fail = |error| ReadError::io(path, Place::Whole, error);
    let no_room = |error| {
        let error = ReadError::io(&std::env::temp_dir(), Place::Whole, error);
        error.remedy(format!("a temporary copy of {} is made there; set TMPDIR to a folder with room", path.display()))
    };
    let mut file = tempfile::tempfile().map_err(no_room)?;
    let copied = io::copy(&mut (&mut input).take(bytes_max + 1), &mut file);
    let copied =
        copied.map_err(|error| if error.kind() == ErrorKind::StorageFull { no_room(error) } else { fail(error) })?;
    if copied > bytes_max {
        let what = format!("the temporary copy of this Parquet file would have more than {COPY_GIB_MAX} GiB");
        let error = ReadError::malformed(path, Place::Byte(bytes_max), what);
        return Err(error.remedy("decompress or write it into a file first and name that file"));
    }
    file.seek(SeekFrom::Start(0)).map_err(fail)?;
    Ok((file, input.consumed_bytes()))
}

/// Reads a file from some place on.
pub(super) struct From {
    chunks: Chunks,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.at.checked_sub(self.chunks.file_bytes) {
            None => {
                let room = buffer.len().min(usize::try_from(self.chunks.file_bytes - self.at).unwrap_or(usize::MAX));
                self.chunks.file.read_at(&mut buffer[..room], self.at)?
            }
            Some(behind) => {
                let left = self.chunks.tail.get(behind as usize..).unwrap_or_default();
                let room = buffer.len().min(left.len());
                buffer[..room].copy_from_slice(&left[..room]);
                room
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.file_bytes + self.tail.len() as u64
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let from = From { chunks: self.clone(), at: start };
        Ok(BufReader::with_capacity(HEADER_BUFFER_BYTES, from))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Checked first: the length comes from the file and decides how much memory is taken.
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start}, but the file has {}", self.len())));
        }
        let mut buffer = vec![0; length];
        From { chunks: self.clone(), at: start }.read_exact(&mut buffer)?;
        Ok(buffer.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::parquet::FORMAT;

    #[test]
    fn a_length_beyond_the_file_takes_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        std::fs::write(&path, b"PAR1, data, PAR1").unwrap();
        let (chunks, _) = Chunks::open(&path).unwrap();
        assert_eq!(&chunks.get_bytes(12, 4).unwrap()[..], MAGIC);
        for (start, length) in [(13, 4), (0, usize::MAX / 4), (u64::MAX, 4)] {
            assert!(chunks.get_bytes(start, length).is_err(), "{length} at {start}");
        }
    }

    #[test]
    fn a_temporary_copy_has_a_bounded_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet.zst");
        let bytes = [MAGIC, &[0; 1_000_000]].concat();
        std::fs::write(&path, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
        let copied = spool(&path, bytes.len() as u64).unwrap().0;
        assert_eq!(copied.metadata().unwrap().len(), bytes.len() as u64);
        assert!(FORMAT.traps.contains(&format!("temporary copies of more than {COPY_GIB_MAX} GiB")));
        let error = spool(&path, bytes.len() as u64 - 1).unwrap_err();
        assert_eq!(error.place, Place::Byte(bytes.len() as u64 - 1));
        assert!(error.to_string().contains("into a file first"), "{error}");
    }
}
