//! Writes a trace that is still being recorded. Every row group is followed by a footer of its own, a *checkpoint*, so
//! that all written rows stay readable when the writer is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData};
use ::parquet::schema::types::SchemaDescPtr;

pub use super::writer::ROWS_PER_GROUP;

use super::KEY_CHECKPOINT;
use super::writer::{Rows, refused};
use crate::error::{WriteError, WriteProblem};
use crate::record::Record;
use crate::trace::{TraceMeta, Written};

/// A trace that grows. It may be written to something else than a file.
pub struct GrowingWriter<W: Write + Send> {
    rows: Rows<W>,
    /// Row groups that are in a checkpoint.
    covered: usize,
    /// Where the last checkpoint ends.
    end: u64,
}

impl<W: Write + Send> GrowingWriter<W> {
    /// Begins a trace in `sink`, called `path` in messages, with a checkpoint of no rows.
    ///
    /// # Errors
    /// The sink's.
    pub fn begin(path: &Path, sink: W, meta: &TraceMeta) -> Result<GrowingWriter<W>, WriteError> {
        let mut writer = GrowingWriter { rows: Rows::begin(path, sink, |_| ROWS_PER_GROUP)?, covered: 0, end: 0 };
        writer.checkpoint(meta)?;
        Ok(writer)
    }

    /// Adds a record; one that fills a row group also makes a checkpoint, with `meta`.
    ///
    /// # Errors
    /// The sink's; a record out of order.
    pub fn write(&mut self, record: &Record, meta: &TraceMeta) -> Result<(), WriteError> {
        if self.rows.push(record)? { self.checkpoint(meta) } else { Ok(()) }
    }

    /// Rows that are in no row group yet, and would be lost.
    pub fn waiting(&self) -> usize {
        self.rows.waiting()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.rows.file.bytes_written() as u64
    }

    /// The end of the last checkpoint: a file that is cut behind it still holds all rows before it.
    pub fn safe_bytes(&self) -> u64 {
        self.end
    }

    /// The sink that it is written to.
    pub fn sink(&mut self) -> &mut W {
        self.rows.file.inner_mut()
    }

    /// Writes the rows that wait as a row group, and a checkpoint.
    ///
    /// # Errors
    /// The sink's; a VM that `meta` does not name.
    pub fn checkpoint(&mut self, meta: &TraceMeta) -> Result<(), WriteError> {
        if self.rows.waiting() > 0 {
            self.rows.write_group()?;
        }
        let mut keys = self.rows.keys(meta)?;
        keys.push(KeyValue::new(KEY_CHECKPOINT.to_owned(), self.end.to_string()));
        let file = &mut self.rows.file;
        let groups = file.flushed_row_groups()[self.covered..].to_vec();
        self.covered += groups.len();
        let bytes = footer(Arc::new(file.schema_descr().clone()), keys, groups);
        let bytes = bytes.map_err(|error| refused(&self.rows.path, &error))?;
        let written = self.rows.file.write_all(&bytes).and_then(|()| self.rows.file.flush());
        written.map_err(|error| WriteError::new(&self.rows.path, WriteProblem::Io(error)))?;
        self.end = self.bytes();
        Ok(())
    }

    /// Completes the trace with the whole footer, and gives the sink.
    ///
    /// # Errors
    /// As [`GrowingWriter::checkpoint`].
    pub fn finish(self, meta: &TraceMeta) -> Result<(W, Written), WriteError> {
        self.rows.end(meta)
    }
}

/// A footer with these keys of these row groups, with its length and the magic behind it.
pub(super) fn footer(
    schema: SchemaDescPtr,
    keys: Vec<KeyValue>,
    groups: Vec<RowGroupMetaData>,
) -> Result<Vec<u8>, ParquetError> {
    let rows = groups.iter().map(|group| group.num_rows()).sum();
    let created_by = format!("iocast version {}", crate::VERSION);
    let file = FileMetaData::new(1, rows, Some(created_by), Some(keys), schema, None);
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, &ParquetMetaData::new(file, groups)).finish()?;
    Ok(bytes)
}
