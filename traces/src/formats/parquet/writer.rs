//! Writes traces as Parquet, one row group of bounded size at a time.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::data_type::{Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::ColumnPath;

use super::batch::{Batch, Checksum, Column};
use super::{KEY_CHECKSUM, KEY_EXTENT, KEY_SCHEMA_VERSION, KEY_TRACE, SCHEMA_VERSION, StoredExtent, schema};
use crate::error::{WriteError, WriteProblem};
use crate::formats::output::Ledger;
use crate::record::Record;
use crate::trace::{TraceMeta, TraceWriter, WriteOptions, Written};
use crate::whole_file::WholeFile;

/// Rows per row group: as many as a writer holds in memory.
pub const ROWS_PER_GROUP: usize = 65_536;
/// After so many row groups the next ones have twice as many rows: writers and readers hold the footer in memory, some
/// 7 kB for each row group.
const GROUPS_OF_A_SIZE: usize = 64;
/// The last row groups of a long trace take 16 MB of a writer's memory.
const DOUBLINGS_MAX: usize = 2;
/// zstd's own default, a good bargain for columns of small differences.
const ZSTD_LEVEL: i32 = 3;
/// Columns of times and addresses, stored as differences.
const DIFFERENCES: [&str; 5] = ["arrival_ns", "lba_sectors", "inserted_ns", "issued_ns", "completed_ns"];

/// Rows on their way into row groups, for any sink.
pub(super) struct Rows<W: Write + Send> {
    pub(super) path: PathBuf,
    pub(super) file: SerializedFileWriter<W>,
    batch: Batch,
    /// How many rows a row group has, by the number of those before it.
    rows_of_group: fn(usize) -> usize,
    pub(super) ledger: Ledger,
    checksum: Checksum,
    vm_max: u16,
}

impl<W: Write + Send> Rows<W> {
    /// Begins to write to `sink`, called `path` in messages.
    pub(super) fn begin(path: &Path, sink: W, rows_of_group: fn(usize) -> usize) -> Result<Rows<W>, WriteError> {
        let file = SerializedFileWriter::new(sink, Arc::new(schema()), Arc::new(properties()));
        let file = file.map_err(|error| refused(path, &error))?;
        let ledger = Ledger::new(path, super::FORMAT.name, &WriteOptions::default());
        let (batch, checksum) = (Batch::default(), Checksum::new());
        Ok(Rows { path: path.to_owned(), file, batch, rows_of_group, ledger, checksum, vm_max: 0 })
    }

    /// Takes in a record; true if the row group is full and has to be written before the next.
    pub(super) fn push(&mut self, record: &Record) -> Result<bool, WriteError> {
        self.ledger.admit(record)?;
        self.ledger.settle(Ok(()))?;
        self.vm_max = self.vm_max.max(record.request.vm.0);
        self.checksum.add(record);
        self.batch.push(record);
        Ok(self.batch.len() == (self.rows_of_group)(self.file.flushed_row_groups().len()))
    }

    /// Rows that are in no row group yet.
    pub(super) fn waiting(&self) -> usize {
        self.batch.len()
    }

    /// The metadata of a file that ends here.
    pub(super) fn keys(&self, meta: &TraceMeta) -> Result<Vec<KeyValue>, WriteError> {
        if meta.vms.len() <= usize::from(self.vm_max) {
            let what = format!("a record is of VM {}, but the metadata names {}", self.vm_max, meta.vms.len());
            return Err(WriteError::new(&self.path, WriteProblem::Encoding(what)));
        }
        let json = |error: serde_json::Error| WriteError::new(&self.path, WriteProblem::Encoding(error.to_string()));
        let mut keys = vec![(KEY_TRACE, serde_json::to_string(meta).map_err(json)?)];
        if let Some(extent) = self.ledger.written().extent {
            keys.push((KEY_EXTENT, serde_json::to_string(&StoredExtent::from(extent)).map_err(json)?));
        }
        let mut checksum = self.checksum;
        for (_, text) in &keys {
            checksum.add_text(text);
        }
        keys.push((KEY_SCHEMA_VERSION, SCHEMA_VERSION.to_owned()));
        keys.push((KEY_CHECKSUM, checksum.hex()));
        Ok(keys.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect())
    }

    /// Writes the rows as a row group.
    pub(super) fn write_group(&mut self) -> Result<(), WriteError> {
        self.try_write_group().map_err(|error| refused(&self.path, &error))
    }

    fn try_write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in self.batch.columns() {
            let Some(mut writer) = group.next_column()? else {
                return Err(ParquetError::General("fewer columns than the schema has".to_owned()));
            };
            match column {
                Column::Wide(values) => writer.typed::<Int64Type>().write_batch(values, None, None)?,
                Column::Narrow(values) => writer.typed::<Int32Type>().write_batch(values, None, None)?,
                Column::Times(times) => {
                    writer.typed::<Int64Type>().write_batch(&times.values, Some(&times.levels), None)?
                }
            };
            writer.close()?;
        }
        group.close()?;
        self.batch.clear();
        Ok(())
    }

    /// Writes the remaining rows and the metadata; gives the sink and the account.
    // The metadata comes last because a reader knows all names only at the end of its trace.
    pub(super) fn end(mut self, meta: &TraceMeta) -> Result<(W, Written), WriteError> {
        let keys = self.keys(meta)?;
        if self.batch.len() > 0 {
            self.write_group()?;
        }
        for key in keys {
            self.file.append_key_value_metadata(key);
        }
        let sink = self.file.into_inner().map_err(|error| refused(&self.path, &error))?;
        Ok((sink, self.ledger.close()))
    }
}

/// Writes a trace as Parquet. Until [`TraceWriter::finish`] nothing stands at its path; dropped before that, the file
/// is removed.
pub struct ParquetWriter {
    rows: Rows<WholeFile>,
}

impl ParquetWriter {
    /// Begins a file that will be `path`, and replaces an existing file when it is finished.
    ///
    /// # Errors
    /// Standard output, something there that is no file, a folder that does not exist or cannot be
    /// written to.
    pub fn create(path: &Path) -> Result<ParquetWriter, WriteError> {
        Ok(ParquetWriter { rows: Rows::begin(path, WholeFile::create(path)?, rows_of_group)? })
    }
}

impl TraceWriter for ParquetWriter {
    fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        if self.rows.push(record)? { self.rows.write_group() } else { Ok(()) }
    }

    fn finish(self: Box<Self>, meta: &TraceMeta) -> Result<Written, WriteError> {
        let (file, written) = self.rows.end(meta)?;
        file.finish()?;
        Ok(written)
    }
}

/// How many rows the row group with this index has, counted from 0.
fn rows_of_group(index: usize) -> usize {
    ROWS_PER_GROUP << (index / GROUPS_OF_A_SIZE).min(DOUBLINGS_MAX)
}

fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("a constant that zstd has");
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("iocast version {}", crate::VERSION))
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for name in DIFFERENCES {
        let column = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

pub(crate) fn refused(path: &Path, error: &ParquetError) -> WriteError {
    // An error of the operating system is passed on as such, so that a full disk can be recognised.
    if let ParquetError::External(inner) = error
        && let Some(code) = inner.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error)
    {
        return WriteError::new(path, WriteProblem::Io(io::Error::from_raw_os_error(code)));
    }
    WriteError::new(path, WriteProblem::Encoding(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lba, Operation, Request, Sectors, Timestamp};

    #[test]
    fn row_groups_of_a_long_trace_are_larger() {
        assert_eq!([0, 63, 64, 127, 128, 100_000].map(rows_of_group), [1, 1, 2, 2, 4, 4].map(|times| times << 16));
        let mut rows = Rows::begin(Path::new("-"), Vec::new(), |index| 2 << index).unwrap();
        for at in 0..15 {
            let request = Request::new(Timestamp::from_ns(at), Operation::Read, Lba::new(at), Sectors::new(8));
            if rows.push(&Record::arrived(request)).unwrap() {
                rows.write_group().unwrap();
            }
        }
        let sizes: Vec<i64> = rows.file.flushed_row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!((sizes, rows.waiting()), (vec![2, 4, 8], 1));
    }
}
