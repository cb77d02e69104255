//! Files whose writer was stopped before it could write the whole footer. They are found by their checkpoints, read as
//! if they had ended with the last of them, and completed in place.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use super::caught::caught;
use super::growing::footer;
use super::{KEY_CHECKPOINT, MAGIC};
use crate::error::{Place, Problem, ReadError};

/// Length of a footer and the magic behind it.
const TRAILER_BYTES: u64 = 8;
/// The bytes within which a file that grows has its first checkpoint.
const FIRST_BYTES: u64 = 1 << 20;
/// How much is searched at a time.
const WINDOW_BYTES: u64 = 1 << 20;
/// No checkpoint is longer; the longest part of one is the names of processes.
const CHECKPOINT_BYTES_MAX: u64 = 1 << 28;

/// The contents of a file without its whole footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Rows in the row groups that have a checkpoint.
    pub rows: u64,
    /// Where the last checkpoint ends.
    pub kept_bytes: u64,
    /// Bytes behind it, of a row group that was being written.
    pub torn_bytes: u64,
    /// The whole footer, which belongs behind the last checkpoint.
    pub(super) footer: Vec<u8>,
}

/// Completes the file at `path` in place: cuts the torn end off and writes the whole footer; `None` if it
/// is whole already.
///
/// # Errors
/// A file that is no trace that grew, or cannot be written to.
pub fn recover(path: &Path) -> Result<Option<Recovered>, ReadError> {
    let fail = |error| ReadError::io(path, Place::Whole, error);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(fail)?;
    let bytes = file.metadata().map_err(fail)?.len();
    let Some(found) = find(&file, bytes).map_err(fail)? else {
        if ends_whole(&file, bytes).map_err(fail)? {
            return Ok(None);
        }
        let what = "no checkpoint is in it: this is no trace that iocast was recording";
        return Err(ReadError::new(path, Place::Whole, Problem::Missing(what.to_owned())));
    };
    file.set_len(found.kept_bytes).map_err(fail)?;
    file.write_all_at(&found.footer, found.kept_bytes).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    Ok(Some(found))
}

/// Whether the file at `path` has its whole footer.
///
/// # Errors
/// The operating system's.
pub fn is_whole(path: &Path) -> Result<bool, ReadError> {
    let whole = File::open(path).and_then(|file| ends_whole(&file, file.metadata()?.len()));
    whole.map_err(|error| ReadError::io(path, Place::Whole, error))
}

/// The contents of a file that ends without its whole footer; `None` if it has one, or never was a file that
/// grew.
pub(super) fn find(file: &File, bytes: u64) -> io::Result<Option<Recovered>> {
    // A whole footer is no checkpoint. It is looked for first, since a checkpoint is searched for in a MiB.
    if ends_whole(file, bytes)? || !grew(file, bytes)? {
        return Ok(None);
    }
    let mut end = bytes;
    while let Some(at) = magic_before(file, end)? {
        if let Some(found) = chain(file, at)? {
            return Ok(Some(Recovered { torn_bytes: bytes - at, ..found }));
        }
        end = at - 1;
    }
    Ok(None)
}

/// Whether a footer that is no checkpoint is at the end.
fn ends_whole(file: &File, bytes: u64) -> io::Result<bool> {
    Ok(metadata(file, bytes)?.is_some_and(|metadata| previous(&metadata).is_none()))
}

/// Whether the file begins with a checkpoint.
fn grew(file: &File, bytes: u64) -> io::Result<bool> {
    let head = read(file, 0, bytes.min(FIRST_BYTES))?;
    if !head.starts_with(MAGIC) {
        return Ok(false);
    }
    let Some(at) = head[MAGIC.len()..].windows(MAGIC.len()).position(|bytes| bytes == MAGIC) else {
        return Ok(false);
    };
    let first = metadata(file, (at + 2 * MAGIC.len()) as u64)?;
    Ok(first.is_some_and(|metadata| previous(&metadata) == Some(0)))
}

/// The end of the last magic that ends at `end` or before, behind the first.
fn magic_before(file: &File, mut end: u64) -> io::Result<Option<u64>> {
    let magic = MAGIC.len() as u64;
    while end > 2 * magic {
        let begin = end.saturating_sub(WINDOW_BYTES).max(magic);
        let window = read(file, begin, end - begin)?;
        if let Some(at) = window.windows(MAGIC.len()).rposition(|bytes| bytes == MAGIC) {
            return Ok(Some(begin + at as u64 + magic));
        }
        if begin == magic {
            break;
        }
        // One may lie across.
        end = begin + magic - 1;
    }
    Ok(None)
}

/// All row groups up to the checkpoint that ends at `end`, if one does.
fn chain(file: &File, end: u64) -> io::Result<Option<Recovered>> {
    let Some(last) = metadata(file, end)? else { return Ok(None) };
    let Some(mut before) = previous(&last) else { return Ok(None) };
    let mut parts: Vec<Vec<RowGroupMetaData>> = vec![last.row_groups().to_vec()];
    let mut at = end;
    while before != 0 {
        if before >= at {
            return Ok(None);
        }
        at = before;
        let Some(part) = metadata(file, at)? else { return Ok(None) };
        let Some(previous) = previous(&part) else { return Ok(None) };
        parts.push(part.row_groups().to_vec());
        before = previous;
    }
    let groups: Vec<RowGroupMetaData> = parts.into_iter().rev().flatten().collect();
    let rows = groups.iter().map(|group| group.num_rows().unsigned_abs()).sum();
    let keys = last.file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let keys = keys.into_iter().filter(|pair| pair.key != KEY_CHECKPOINT).collect();
    let schema = last.file_metadata().schema_descr_ptr();
    let footer = caught(|| footer(schema, keys, groups)).ok();
    Ok(footer.map(|footer| Recovered { rows, kept_bytes: end, torn_bytes: 0, footer }))
}

/// Where the checkpoint before this one ends; `None` if this is none.
fn previous(metadata: &ParquetMetaData) -> Option<u64> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == KEY_CHECKPOINT)?.value.as_ref()?.parse().ok()
}

/// The footer that ends at `end`, if one does.
fn metadata(file: &File, end: u64) -> io::Result<Option<ParquetMetaData>> {
    let least = MAGIC.len() as u64 + TRAILER_BYTES;
    if end < least {
        return Ok(None);
    }
    let trailer = read(file, end - TRAILER_BYTES, TRAILER_BYTES)?;
    let Some((length, magic)) = trailer.split_first_chunk::<4>() else { return Ok(None) };
    let length = u64::from(u32::from_le_bytes(*length));
    if magic != MAGIC || length > CHECKPOINT_BYTES_MAX || length > end - least {
        return Ok(None);
    }
    let bytes = read(file, end - TRAILER_BYTES - length, length)?;
    Ok(caught(|| ParquetMetaDataReader::decode_metadata(&bytes)).ok())
}

fn read(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(&mut buffer, at)?;
    Ok(buffer)
}
