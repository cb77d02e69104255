//! Reads traces from Parquet: row group by row group, some thousand rows at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::column::reader::{ColumnReader, get_column_reader};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use ::parquet::schema::types::SchemaDescriptor;

use super::batch::{Batch, Checksum, Column};
use super::caught::caught;
use super::chunks::Chunks;
use super::pages::BoundedPages;
use super::{FORMAT, KEY_CHECKSUM, KEY_EXTENT, KEY_SCHEMA_VERSION, KEY_TRACE, SCHEMA_VERSION, StoredExtent, schema};
use crate::error::{Place, Problem, ReadError};
use crate::formats::check::{Bad, Order, Takes, TimesInOrder};
use crate::record::Record;
use crate::request::VmId;
use crate::trace::{Extent, Losses, ReadOptions, TraceMeta, TraceReader};

/// Rows decoded at once.
pub(super) const ROWS_PER_BATCH: usize = 8_192;
/// The key counted for a file whose writer was stopped: it is unknown how many requests were outstanding.
const UNFINISHED: &str = "the end of a trace whose recording was stopped (`iocast capture recover` completes the file)";
/// Key of the provenance for the source that a Parquet file was written from.
const KEY_SOURCE_FORMAT: &str = "source_format";

/// Reads a trace in iocast's Parquet format.
pub struct ParquetReader {
    path: PathBuf,
    chunks: Chunks,
    metadata: ParquetMetaData,
    meta: TraceMeta,
    losses: Losses,
    /// Those of them that were known from the start.
    known_losses: u64,
    lenient: bool,
    extent: Option<Extent>,
    /// The checksum of the file, and that over the rows read so far.
    written_checksum: Option<String>,
    checksum: Checksum,
    /// The texts of the metadata, which come last in the checksum.
    texts: Vec<String>,
    order: Order,
    times: TimesInOrder,
    /// How many VMs the rows are of.
    vms: usize,
    /// The one VM whose rows are given, as VM 0.
    only: Option<VmId>,
    /// The next row group, the columns of the current one and how many of its rows are not decoded.
    group: usize,
    columns: Vec<ColumnReader>,
    rows_left: u64,
    batch: Batch,
    /// The next row of the batch, and its number in the file.
    at: usize,
    row: u64,
    /// Bytes of the input as it lies on disk, and rows of the file, for progress.
    input_bytes: u64,
    rows: u64,
}

impl ParquetReader {
    /// Opens a trace. An input that is compressed as a whole, or comes from standard input (`-`), is copied
    /// to an anonymous temporary file.
    ///
    /// # Errors
    /// A file that is no Parquet, is cut off, has other columns, another schema version, or no
    /// metadata of iocast.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<ParquetReader, ReadError> {
        Takes { device: true, ..Takes::default() }.check(path, FORMAT.name, options)?;
        let (chunks, recovered) = Chunks::open(path)?;
        let mut losses = Losses::default();
        if recovered.is_some() {
            losses.skip(UNFINISHED);
        }
        let input_bytes = chunks.input_bytes();
        let metadata = caught(|| ParquetMetaDataReader::new().parse_and_finish(&chunks));
        let metadata = metadata.map_err(|error| undecodable(path, Place::Whole, &error))?;
        let footer = Footer::of(path, &metadata)?;
        let mut meta = footer.meta;
        if meta.format != FORMAT.name {
            let source = std::mem::replace(&mut meta.format, FORMAT.name.to_owned());
            meta.provenance.entry(KEY_SOURCE_FORMAT.to_owned()).or_insert(source);
        }
        meta.layer = options.layer.unwrap_or(meta.layer);
        let vms = meta.vms.len();
        let only = options.device.as_ref().map(|device| only(path, device, &mut meta)).transpose()?;
        Ok(ParquetReader {
            path: path.to_owned(),
            chunks,
            metadata,
            meta,
            // Damage is found even if some rows are known to be missing.
            known_losses: losses.total(),
            losses,
            lenient: options.lenient,
            extent: footer.extent.filter(|_| only.is_none()),
            vms,
            only,
            written_checksum: footer.checksum,
            checksum: Checksum::new(),
            texts: footer.texts,
            order: Order::default(),
            times: TimesInOrder::default(),
            group: 0,
            columns: Vec::new(),
            rows_left: 0,
            batch: Batch::default(),
            at: 0,
            row: 0,
            input_bytes,
            rows: footer.extent.map_or(0, |extent| extent.records),
        })
    }

    /// The trace's extent as its writer stored it; `None` for a trace without records, and for one of
    /// which only a device is read.
    pub fn extent(&self) -> Option<Extent> {
        self.extent
    }

    /// Decodes the next rows; false at the end of the file, true with no row where some were lost.
    fn refill(&mut self) -> Result<bool, ReadError> {
        self.batch.clear();
        self.at = 0;
        while self.rows_left == 0 {
            if self.group == self.metadata.num_row_groups() {
                return Ok(false);
            }
            caught(|| self.open_group()).or_else(|error| self.lose_group(&error))?;
        }
        let rows = self.rows_left.min(ROWS_PER_BATCH as u64) as usize;
        if let Err(error) = caught(|| self.decode_rows(rows)) {
            self.batch.clear();
            self.lose_group(&error)?;
            return Ok(true);
        }
        self.rows_left -= rows as u64;
        Ok(true)
    }

    fn decode_rows(&mut self, rows: usize) -> Result<(), ParquetError> {
        for (reader, column) in self.columns.iter_mut().zip(self.batch.columns()) {
            let decoded = decode(reader, rows, column)?;
            if decoded != rows {
                return Err(ParquetError::General(format!("a column ends after {decoded} of {rows} rows")));
            }
        }
        Ok(())
    }

    fn open_group(&mut self) -> Result<(), ParquetError> {
        let group = self.metadata.row_group(self.group);
        self.rows_left = group.num_rows().unsigned_abs();
        self.group += 1;
        self.columns.clear();
        for column in group.columns() {
            let pages = BoundedPages::new(&self.chunks, column, usize::try_from(self.rows_left)?)?;
            self.columns.push(get_column_reader(column.column_descr_ptr(), Box::new(pages)));
        }
        Ok(())
    }

    /// A row group that cannot be decoded (any further): an error, or a number of skipped rows.
    #[cold]
    fn lose_group(&mut self, error: &ParquetError) -> Result<(), ReadError> {
        if !self.lenient {
            let error = undecodable(&self.path, Place::Row(self.row), error);
            return Err(error.remedy("copy or convert the file again; --lenient skips to the next row group"));
        }
        *self.losses.skipped.entry("undecodable row group".to_owned()).or_default() += self.rows_left;
        self.row += self.rows_left;
        self.rows_left = 0;
        Ok(())
    }

    fn take(&mut self) -> Result<Record, Bad> {
        let row = self.at;
        self.at += 1;
        self.row += 1;
        let record = self.batch.take(row, self.vms)?;
        self.order.admit(&record)?;
        self.times.look(&record, Place::Row(self.row - 1), &mut self.losses);
        self.checksum.add(&record);
        Ok(record)
    }

    /// Decoded rows may still differ from the written ones.
    fn check_whole(&mut self) -> Result<(), ReadError> {
        for text in std::mem::take(&mut self.texts) {
            self.checksum.add_text(&text);
        }
        if self.losses.total() > self.known_losses
            || self.written_checksum.as_ref().is_none_or(|sum| *sum == self.checksum.hex())
        {
            return Ok(());
        }
        if self.lenient {
            self.losses.skip("rows that are not those that were written");
            return Ok(());
        }
        let what = "the rows or the metadata are not those that were written: their checksum differs";
        let error = ReadError::malformed(&self.path, Place::Row(self.row), what);
        Err(error.remedy("copy or convert the file again"))
    }
}

/// The VM that is called `device`, which becomes the only one.
fn only(path: &Path, device: &str, meta: &mut TraceMeta) -> Result<VmId, ReadError> {
    let at = meta.vms.iter().position(|name| name == device).and_then(|at| u16::try_from(at).ok());
    let Some(at) = at else {
        let some: Vec<&str> = meta.vms.iter().take(5).map(String::as_str).collect();
        let more = if meta.vms.len() > some.len() { ", …" } else { "" };
        let what = format!("no VM of it is called `{device}`: there are {}{more}", some.join(", "));
        return Err(ReadError::new(path, Place::Whole, Problem::Missing(what)));
    };
    meta.vms = vec![device.to_owned()];
    Ok(VmId(at))
}

impl TraceReader for ParquetReader {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            while self.at == self.batch.len() {
                if !self.refill()? {
                    self.check_whole()?;
                    self.times.at_end(&self.path, self.lenient, &self.losses)?;
                    return Ok(None);
                }
            }
            match self.take() {
                Ok(record) if self.only.is_none() => return Ok(Some(record)),
                Ok(mut record) if self.only == Some(record.request.vm) => {
                    record.request.vm = VmId(0);
                    return Ok(Some(record));
                }
                Ok(_) => {}
                Err(bad) if self.lenient => self.losses.skip(bad.reason),
                Err(bad) => {
                    let error = ReadError::new(&self.path, Place::Row(self.row - 1), bad.problem);
                    return Err(error.remedy("--lenient counts and skips such rows"));
                }
            }
        }
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn position_bytes(&self) -> u64 {
        // Columns lie apart in the file; the share of rows is the share of the work.
        let share = u128::from(self.input_bytes) * u128::from(self.row) / u128::from(self.rows.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// Decodes `rows` rows of one column; returns how many there were.
fn decode(reader: &mut ColumnReader, rows: usize, column: Column<'_>) -> Result<usize, ParquetError> {
    let (decoded, _, _) = match (reader, column) {
        (ColumnReader::Int64ColumnReader(reader), Column::Wide(values)) => {
            reader.read_records(rows, None, None, values)?
        }
        (ColumnReader::Int32ColumnReader(reader), Column::Narrow(values)) => {
            reader.read_records(rows, None, None, values)?
        }
        (ColumnReader::Int64ColumnReader(reader), Column::Times(times)) => {
            reader.read_records(rows, Some(&mut times.levels), None, &mut times.values)?
        }
        _ => return Err(ParquetError::General("a column of another type".to_owned())),
    };
    Ok(decoded)
}

/// The facts of the footer, checked.
pub(super) struct Footer {
    meta: TraceMeta,
    pub(super) extent: Option<Extent>,
    checksum: Option<String>,
    texts: Vec<String>,
}

impl Footer {
    pub(super) fn of(path: &Path, metadata: &ParquetMetaData) -> Result<Footer, ReadError> {
        let fail = |problem| ReadError::new(path, Place::Whole, problem);
        let value = |key: &str| {
            let pairs = metadata.file_metadata().key_value_metadata()?;
            pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
        };
        match value(KEY_SCHEMA_VERSION) {
            Some(SCHEMA_VERSION) => {}
            Some(other) => {
                let what = format!("{KEY_SCHEMA_VERSION} is `{other}`, this iocast reads `{SCHEMA_VERSION}`");
                return Err(fail(Problem::Version(what)));
            }
            None => {
                let what = format!("a Parquet file without {KEY_SCHEMA_VERSION} in its metadata");
                let remedy = "only what `iocast convert` wrote is read; other tools drop the metadata";
                return Err(fail(Problem::Missing(what)).remedy(remedy));
            }
        }
        check_columns(metadata.file_metadata().schema_descr()).map_err(|what| fail(Problem::Malformed(what)))?;
        let json = value(KEY_TRACE).ok_or_else(|| fail(Problem::Missing(format!("{KEY_TRACE} in the metadata"))))?;
        let unreadable =
            |key: &str, error: &serde_json::Error| fail(Problem::Malformed(format!("{key} in the metadata: {error}")));
        let meta: TraceMeta = serde_json::from_str(json).map_err(|error| unreadable(KEY_TRACE, &error))?;
        if meta.vms.is_empty() {
            return Err(fail(Problem::Malformed(format!("{KEY_TRACE} in the metadata names no VM"))));
        }
        let extent = value(KEY_EXTENT).map(serde_json::from_str::<StoredExtent>).transpose();
        let extent = extent.map_err(|error| unreadable(KEY_EXTENT, &error))?.map(Extent::from);
        check_rows(metadata, extent).map_err(|what| fail(Problem::Malformed(what)))?;
        let texts = [KEY_TRACE, KEY_EXTENT].into_iter().filter_map(value).map(str::to_owned).collect();
        Ok(Footer { meta, extent, checksum: value(KEY_CHECKSUM).map(str::to_owned), texts })
    }
}

/// The columns must be exactly those of the schema; that unsigned integers are marked so is not
/// required, since the bits are the same.
fn check_columns(found: &SchemaDescriptor) -> Result<(), String> {
    let expected = SchemaDescriptor::new(Arc::new(schema()));
    let describe = |schema: &SchemaDescriptor, column: usize| {
        let column = (column < schema.num_columns()).then(|| schema.column(column))?;
        let optional = column.max_def_level() == 1 && column.max_rep_level() == 0;
        let repetition = match (optional, column.max_def_level()) {
            (true, _) => "OPTIONAL",
            (false, 0) => "REQUIRED",
            (false, _) => "nested",
        };
        Some(format!("{repetition} {} {}", column.physical_type(), column.path().string()))
    };
    for column in 0..expected.num_columns().max(found.num_columns()) {
        let (expected, found) = (describe(&expected, column), describe(found, column));
        if expected != found {
            let name = |column: Option<String>| column.unwrap_or_else(|| "none".to_owned());
            return Err(format!("column {column}: expected {}, found {}", name(expected), name(found)));
        }
    }
    Ok(())
}

/// The row groups must hold as many rows as the metadata say.
fn check_rows(metadata: &ParquetMetaData, extent: Option<Extent>) -> Result<(), String> {
    let mut rows = 0u64;
    for group in metadata.row_groups() {
        let sum = u64::try_from(group.num_rows()).ok().and_then(|more| rows.checked_add(more));
        rows = sum.ok_or_else(|| format!("a row group of {} rows", group.num_rows()))?;
        if group.num_columns() != metadata.file_metadata().schema_descr().num_columns() {
            return Err(format!("a row group of {} columns", group.num_columns()));
        }
    }
    let expected = extent.map_or(0, |extent| extent.records);
    if rows == expected { Ok(()) } else { Err(format!("{rows} rows, but the metadata speak of {expected}")) }
}

pub(super) fn undecodable(path: &Path, place: Place, error: &ParquetError) -> ReadError {
    ReadError::malformed(path, place, format!("undecodable Parquet: {error}"))
}
