//! Opens an input: plain, gzip (all members) or zstd by its first bytes, `-` for standard input.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use crate::error::{Place, Problem, ReadError};

/// How names of compressed inputs end. What is decompressed is decided by an input's first bytes.
pub const COMPRESSED: [&str; 2] = [".gz", ".zst"];

const BUFFER_BYTES: usize = 1 << 16;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

type Decompressed = Box<dyn Read + Send>;

/// A decompressed, buffered input that knows its name and how much of the file it has consumed.
pub struct Input {
    path: PathBuf,
    reader: BufReader<Chain<Cursor<Vec<u8>>, Decompressed>>,
    consumed: Arc<AtomicU64>,
}

/// Inputs that can be opened only once (standard input, pipes) and have been looked at: they wait
/// here, by name, to be opened.
static LOOKED_AT: Mutex<BTreeMap<PathBuf, Input>> = Mutex::new(BTreeMap::new());

fn looked_at() -> MutexGuard<'static, BTreeMap<PathBuf, Input>> {
    // Nothing that holds the lock can panic half-way, so a poisoned map is as good as any.
    LOOKED_AT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the input can be opened again and again: a regular file, or anything that does not exist
/// and so cannot be opened at all.
pub fn is_reopenable(path: &Path) -> bool {
    path != Path::new("-") && std::fs::metadata(path).map_or(true, |metadata| metadata.is_file() || metadata.is_dir())
}

/// The first decompressed bytes (at most [`HEAD_BYTES`]) of an input that is still to be opened;
/// nothing of a pipe is lost.
///
/// # Errors
/// As [`Input::open`].
pub fn look_at(path: &Path) -> Result<Vec<u8>, ReadError> {
    let input = Input::open(path)?;
    let head = input.head().to_vec();
    if !is_reopenable(path) {
        looked_at().insert(path.to_owned(), input);
    }
    Ok(head)
}

/// Counts the (compressed) bytes that have been read.
struct Counted<R> {
    inner: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Input {
    /// Opens `path`, `-` for standard input.
    ///
    /// # Errors
    /// What the operating system says; a directory.
    pub fn open(path: &Path) -> Result<Input, ReadError> {
        if let Some(input) = looked_at().remove(path) {
            return Ok(input);
        }
        let fail = |error| ReadError::io(path, Place::Whole, error);
        if path == Path::new("-") {
            return Input::from_reader(path, Box::new(io::stdin())).map_err(fail);
        }
        let file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.is_dir() {
            return Err(ReadError::new(path, Place::Whole, Problem::Directory));
        }
        Input::from_reader(path, Box::new(file)).map_err(fail)
    }

    /// The same over any reader; `path` is the name used in messages.
    ///
    /// # Errors
    /// The reader's, while its first bytes are read.
    pub fn from_reader(path: &Path, raw: Box<dyn Read + Send>) -> io::Result<Input> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut counted = Counted { inner: raw, consumed: Arc::clone(&consumed) };
        let head = read_up_to(&mut counted, 4)?;
        let raw = Cursor::new(head.clone()).chain(counted);
        let mut stream: Decompressed = if head.starts_with(&GZIP_MAGIC) {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, raw)))
        } else if head == ZSTD_MAGIC {
            Box::new(zstd::Decoder::new(raw)?)
        } else {
            Box::new(raw)
        };
        let head = read_up_to(&mut stream, HEAD_BYTES)?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(stream));
        Ok(Input { path: path.to_owned(), reader, consumed })
    }

    /// The name for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first bytes (at most [`HEAD_BYTES`]) without consuming them; only before anything is read.
    pub fn head(&self) -> &[u8] {
        self.reader.get_ref().get_ref().0.get_ref()
    }

    /// The count of compressed bytes consumed so far, for who gives the input away.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.consumed)
    }

    /// Compressed bytes consumed so far, for progress.
    pub fn consumed_bytes(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }
}

/// How many of an input's first bytes a format may look at to recognise itself.
pub const HEAD_BYTES: usize = 8192;

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.reader.consume(amount);
    }
}

fn read_up_to(reader: &mut impl Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(bytes);
    reader.take(bytes as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// SHA-256 of the files as they lie on disk, one after another, in hexadecimal: for a single file
/// what `sha256sum` prints.
///
/// # Errors
/// What the operating system says, with the file's name.
pub fn digest(files: &[PathBuf]) -> Result<String, ReadError> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    for path in files {
        let fail = |error| ReadError::io(path, Place::Whole, error);
        let mut file = File::open(path).map_err(fail)?;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => hasher.update(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fail(error)),
            }
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn through(bytes: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        let mut input = Input::from_reader(Path::new("x"), Box::new(Cursor::new(bytes))).unwrap();
        let head = input.head().to_vec();
        let mut all = Vec::new();
        input.read_to_end(&mut all).unwrap();
        (head, all)
    }

    #[test]
    fn plain_gzip_and_zstd_read_alike() {
        let text: Vec<u8> = (0..20_000u32).flat_map(u32::to_le_bytes).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        for bytes in [text.clone(), gzip.finish().unwrap(), zstd] {
            let (head, all) = through(bytes);
            assert_eq!(head, text[..HEAD_BYTES]);
            assert_eq!(all, text);
        }
    }

    #[test]
    fn an_input_shorter_than_any_magic_is_read_as_it_is() {
        for bytes in [vec![], vec![0x1f], vec![0x28, 0xb5]] {
            assert_eq!(through(bytes.clone()).1, bytes);
        }
    }

    #[test]
    fn truncated_gzip_is_an_error() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&[7; 100_000]).unwrap();
        let mut bytes = gzip.finish().unwrap();
        bytes.truncate(bytes.len() / 2);
        let all = Input::from_reader(Path::new("x"), Box::new(Cursor::new(bytes)))
            .and_then(|mut input| input.read_to_end(&mut Vec::new()));
        assert!(all.is_err());
    }

    #[test]
    fn the_digest_is_that_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(&[path]).unwrap(), known);
    }
}
