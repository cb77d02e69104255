//! The file of the table: replays that run at the same time write a part each, and the parts are joined in the order of
//! the result.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{KeyValue, RowGroupMetaData};
use ::parquet::file::writer::SerializedFileWriter;

use super::columns::{Encoder, ROWS_PER_GROUP, as_it_is, properties, schema};
use super::{RequestNames, RequestRow, VERSION, VERSION_KEY};
use crate::error::{WriteError, WriteProblem};
use crate::formats::parquet::refused;
use crate::whole_file::WholeFile;

/// A table of requests that is being made. Until [`RequestTable::join`] nothing stands at its path.
#[derive(Debug)]
pub struct RequestTable {
    path: PathBuf,
    file: WholeFile,
}

/// The rows of one replay, which are on their way to a file without a name beside the table. It takes the space of its
/// rows until it is joined.
pub struct RequestPart {
    path: PathBuf,
    file: SerializedFileWriter<WholeFile>,
    encoder: Encoder,
    rows: Vec<RequestRow>,
}

/// The rows of one replay, written.
pub struct WrittenPart {
    file: File,
    groups: Vec<RowGroupMetaData>,
    // A file that has a temporary name loses it with this.
    _whole: WholeFile,
}

impl RequestTable {
    /// Begins a table that will be at `path`, and replaces an existing file when it is joined.
    ///
    /// # Errors
    /// As [`WholeFile::create`].
    pub fn create(path: &Path) -> Result<RequestTable, WriteError> {
        Ok(RequestTable { path: path.to_owned(), file: WholeFile::create(path)? })
    }

    /// Begins the rows of a replay with these names.
    ///
    /// # Errors
    /// The file system's.
    pub fn part(&self, names: &RequestNames) -> Result<RequestPart, WriteError> {
        Ok(RequestPart {
            path: self.path.clone(),
            file: begin(WholeFile::create(&self.path)?).map_err(|error| refused(&self.path, &error))?,
            encoder: Encoder::new(names),
            rows: Vec::with_capacity(ROWS_PER_GROUP),
        })
    }

    /// Writes the rows of all `parts` in this order, and gives the file its name.
    ///
    /// # Errors
    /// The file system's.
    pub fn join(self, parts: impl IntoIterator<Item = WrittenPart>) -> Result<(), WriteError> {
        let RequestTable { path, file } = self;
        join(file, parts).map_err(|error| refused(&path, &error))?.finish()
    }
}

impl RequestPart {
    /// Adds a row.
    ///
    /// # Errors
    /// The file system's.
    ///
    /// # Panics
    /// If the names lack its VM.
    pub fn push(&mut self, row: &RequestRow) -> Result<(), WriteError> {
        self.rows.push(*row);
        if self.rows.len() == ROWS_PER_GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), WriteError> {
        let written = self.encoder.write_group(&mut self.file, &self.rows);
        self.rows.clear();
        written.map_err(|error| refused(&self.path, &error))
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The file system's.
    pub fn finish(mut self) -> Result<WrittenPart, WriteError> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        let groups = self.file.flushed_row_groups().to_vec();
        let whole = self.file.into_inner().map_err(|error| refused(&self.path, &error))?;
        let file = whole.handle().map_err(|error| WriteError::new(&self.path, WriteProblem::Io(error)))?;
        Ok(WrittenPart { file, groups, _whole: whole })
    }
}

fn begin(file: WholeFile) -> Result<SerializedFileWriter<WholeFile>, ParquetError> {
    SerializedFileWriter::new(file, Arc::new(schema()?), Arc::new(properties()?))
}

/// Copies the row groups of the parts as they are; each part vanishes with its last row group.
fn join(file: WholeFile, parts: impl IntoIterator<Item = WrittenPart>) -> Result<WholeFile, ParquetError> {
    let mut joined = begin(file)?;
    for part in parts {
        for group in &part.groups {
            let mut into = joined.next_row_group()?;
            for column in group.columns() {
                into.append_column(&part.file, as_it_is(column))?;
            }
            into.close()?;
        }
    }
    joined.append_key_value_metadata(KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_owned()));
    joined.into_inner()
}
