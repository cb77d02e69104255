//! Rows of named columns: as Arrow record batches for a worker's pipes, and as Parquet files.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use arrow_array::builder::{BinaryBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use traces::formats::parquet::caught;
use traces::whole_file::WholeFile;

/// The most rows that are read or encoded at once. A row may hold histograms of some KiB.
pub const ROWS_AT_ONCE: usize = 256;
/// Encoded bytes at which a row group of a file ends. Fewer would make the footers of large sweeps larger than memory.
const GROUP_BYTES: usize = 4 << 20;

/// What a column holds. Spark has no unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Whole,
    Real,
    Bytes,
}

impl Kind {
    fn data_type(self) -> DataType {
        match self {
            Kind::Text => DataType::Utf8,
            Kind::Whole => DataType::Int64,
            Kind::Real => DataType::Float64,
            Kind::Bytes => DataType::Binary,
        }
    }

    /// As Spark's schemas name it.
    pub fn spark(self) -> &'static str {
        match self {
            Kind::Text => "string",
            Kind::Whole => "bigint",
            Kind::Real => "double",
            Kind::Bytes => "binary",
        }
    }
}

/// A value of a row. Every column may be empty.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Empty,
    Text(String),
    Whole(i64),
    Real(f64),
    Bytes(Vec<u8>),
}

impl Cell {
    pub fn text(text: Option<impl Into<String>>) -> Cell {
        text.map_or(Cell::Empty, |text| Cell::Text(text.into()))
    }

    /// A count; one beyond 63 bits as the most there can be.
    pub fn count(count: u64) -> Cell {
        Cell::Whole(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub fn real(number: Option<f64>) -> Cell {
        number.map_or(Cell::Empty, Cell::Real)
    }
}

/// A value for each column.
pub type Row = Vec<Cell>;

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(pub Vec<(String, Kind)>);

impl Columns {
    fn schema(&self) -> SchemaRef {
        let field = |(name, kind): &(String, Kind)| Field::new(name, kind.data_type(), true);
        Arc::new(Schema::new(self.0.iter().map(field).collect::<Vec<Field>>()))
    }

    /// The schema of batches without rows.
    pub fn empty(&self) -> RecordBatch {
        RecordBatch::new_empty(self.schema())
    }

    /// Rows as a batch.
    ///
    /// # Errors
    /// A value of another kind than its column.
    pub fn batch(&self, rows: &[Row]) -> Result<RecordBatch> {
        let columns = self.0.iter().enumerate().map(|(at, (name, kind))| {
            column(*kind, rows.iter().map(|row| &row[at])).with_context(|| format!("column {name}"))
        });
        Ok(RecordBatch::try_new(self.schema(), columns.collect::<Result<_>>()?)?)
    }

    /// The rows of a batch. Columns are found by their names; others are passed over.
    ///
    /// # Errors
    /// A column that is missing or of another kind.
    pub fn rows(&self, batch: &RecordBatch) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = vec![Row::with_capacity(self.0.len()); batch.num_rows()];
        for (name, kind) in &self.0 {
            let column = batch.column_by_name(name).with_context(|| format!("there is no column {name}"))?;
            let (is, wanted) = (column.data_type(), kind.data_type());
            ensure!(*is == wanted, "the column {name} is {is}, where it should be {wanted}");
            for (at, row) in rows.iter_mut().enumerate() {
                row.push(cell(*kind, column, at));
            }
        }
        Ok(rows)
    }
}

fn column<'a>(kind: Kind, cells: impl Iterator<Item = &'a Cell>) -> Result<ArrayRef> {
    let other = |cell: &Cell| anyhow!("{cell:?} is not {kind:?}");
    macro_rules! build {
        ($builder:expr, $variant:ident) => {{
            let mut builder = $builder;
            for cell in cells {
                match cell {
                    Cell::Empty => builder.append_null(),
                    Cell::$variant(value) => builder.append_value(value.to_owned()),
                    unfit => return Err(other(unfit)),
                }
            }
            Arc::new(builder.finish())
        }};
    }
    Ok(match kind {
        Kind::Text => build!(StringBuilder::new(), Text),
        Kind::Whole => build!(Int64Builder::new(), Whole),
        Kind::Real => build!(Float64Builder::new(), Real),
        Kind::Bytes => build!(BinaryBuilder::new(), Bytes),
    })
}

fn cell(kind: Kind, column: &ArrayRef, at: usize) -> Cell {
    if column.is_null(at) {
        return Cell::Empty;
    }
    match kind {
        Kind::Text => Cell::Text(column.as_string::<i32>().value(at).to_owned()),
        Kind::Whole => Cell::Whole(column.as_primitive::<Int64Type>().value(at)),
        Kind::Real => Cell::Real(column.as_primitive::<Float64Type>().value(at)),
        Kind::Bytes => Cell::Bytes(column.as_binary::<i32>().value(at).to_owned()),
    }
}

/// Writes rows as Parquet. The same rows give the same bytes, in whatever pieces they come.
pub struct RowFile<W: Write + Send> {
    columns: Columns,
    writer: ArrowWriter<W>,
    waiting: Vec<Row>,
}

impl<W: Write + Send> RowFile<W> {
    /// Begins a table in `sink`.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn begin(columns: &Columns, sink: W) -> Result<RowFile<W>> {
        let properties = WriterProperties::builder()
            .set_created_by(traces::program_version())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let writer = ArrowWriter::try_new(sink, columns.schema(), Some(properties))?;
        Ok(RowFile { columns: columns.clone(), writer, waiting: Vec::new() })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// As [`RowFile::begin`]; a value of another kind than its column.
    pub fn push(&mut self, row: Row) -> Result<()> {
        self.waiting.push(row);
        if self.waiting.len() == ROWS_AT_ONCE { self.encode() } else { Ok(()) }
    }

    fn encode(&mut self) -> Result<()> {
        let batch = self.columns.batch(&self.waiting)?;
        self.waiting.clear();
        self.writer.write(&batch)?;
        if self.writer.in_progress_size() >= GROUP_BYTES {
            self.writer.flush()?;
        }
        Ok(())
    }

    /// Writes the rest, and gives the sink back.
    ///
    /// # Errors
    /// As [`RowFile::push`].
    pub fn finish(mut self) -> Result<W> {
        if !self.waiting.is_empty() {
            self.encode()?;
        }
        Ok(self.writer.into_inner()?)
    }
}

/// Writes a whole file of rows. Nothing stands at its path before it is complete. Another process may write the same.
///
/// # Errors
/// An error of the operating system, with the path; other rows that another process has written there.
pub fn write_file(path: &Path, columns: &Columns, rows: impl IntoIterator<Item = Result<Row>>) -> Result<()> {
    let mut file = RowFile::begin(columns, WholeFile::create(path)?).with_context(|| path.display().to_string())?;
    for row in rows {
        file.push(row?).with_context(|| path.display().to_string())?;
    }
    Ok(file.finish().with_context(|| path.display().to_string())?.finish_once()?)
}

/// Reads the rows of a Parquet file one after another, a few at a time.
pub struct RowReader {
    path: PathBuf,
    columns: Columns,
    /// None behind an error.
    batches: Option<ParquetRecordBatchReader>,
    rows: std::vec::IntoIter<Row>,
}

impl RowReader {
    /// Opens the file. Columns that are not asked for are not read.
    ///
    /// # Errors
    /// A file that cannot be read, is no Parquet or lacks a column.
    pub fn open(path: &Path, columns: &Columns) -> Result<RowReader> {
        let open = || -> Result<ParquetRecordBatchReader> {
            let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
            let names = columns.0.iter().map(|(name, _)| name.as_str());
            let wanted = ProjectionMask::columns(builder.parquet_schema(), names);
            Ok(builder.with_projection(wanted).with_batch_size(ROWS_AT_ONCE).build()?)
        };
        let batches = Some(caught(open).with_context(|| path.display().to_string())?);
        Ok(RowReader { path: path.to_owned(), columns: columns.clone(), batches, rows: Vec::new().into_iter() })
    }
}

impl Iterator for RowReader {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            let batches = self.batches.as_mut()?;
            let read = caught(|| batches.next().transpose().map_err(anyhow::Error::from));
            let rows = read.and_then(|batch| batch.map(|batch| self.columns.rows(&batch)).transpose());
            match rows.with_context(|| self.path.display().to_string()) {
                Ok(rows) => self.rows = rows?.into_iter(),
                Err(error) => {
                    self.batches = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// The number of rows of a file, from its footer.
///
/// # Errors
/// A file that cannot be read or is no Parquet.
pub fn count(path: &Path) -> Result<u64> {
    let open = || -> Result<u64> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
        Ok(builder.metadata().file_metadata().num_rows().unsigned_abs())
    };
    caught(open).with_context(|| path.display().to_string())
}

/// The whole number in a column of a row.
///
/// # Errors
/// It holds something else.
pub fn whole(row: &Row, at: usize) -> Result<i64> {
    match row.get(at) {
        Some(Cell::Whole(number)) => Ok(*number),
        other => bail!("column {} holds {other:?}, where it should hold a whole number", at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        Columns(
            [("a", Kind::Text), ("b", Kind::Whole), ("c", Kind::Real), ("d", Kind::Bytes)]
                .map(|(name, kind)| (name.to_owned(), kind))
                .into(),
        )
    }

    #[test]
    fn rows_come_back_from_batches_and_files_as_they_were() {
        let row = |n: i64| match n % 3 {
            0 => vec![Cell::Empty; 4],
            _ => vec![
                Cell::Text(format!("µ{n}")),
                Cell::Whole(-n),
                Cell::Real(0.1 * n as f64),
                Cell::Bytes(vec![n as u8; 3]),
            ],
        };
        let rows: Vec<Row> = (0..600).map(row).collect();
        assert_eq!(columns().rows(&columns().batch(&rows).unwrap()).unwrap(), rows);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        write_file(&path, &columns(), rows.iter().cloned().map(Ok)).unwrap();
        let read: Vec<Row> = RowReader::open(&path, &columns()).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, rows);
    }

    #[test]
    fn footers_and_groups_stay_small_however_many_rows_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let groups = |rows: i64, histogram: usize| {
            let mut draw = 1_u64;
            let mut byte = || {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (draw >> 56) as u8
            };
            let mut bytes = || (0..histogram).map(|_| byte()).collect();
            let mut row =
                |n: i64| vec![Cell::Text("a name".to_owned()), Cell::Whole(n), Cell::Empty, Cell::Bytes(bytes())];
            write_file(&path, &columns(), (0..rows).map(|n| Ok(row(n)))).unwrap();
            let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
            let groups = builder.metadata().row_groups();
            assert_eq!(groups.iter().map(|group| group.num_rows()).sum::<i64>(), rows);
            groups.len()
        };
        assert_eq!(groups(100_000, 0), 1);
        let large = groups(2_500, 4096);
        assert!((2..=3).contains(&large), "{large}");
    }

    #[test]
    fn columns_that_are_not_asked_for_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let row = |n: i64| vec![Cell::Text(n.to_string()), Cell::Whole(n), Cell::Empty, Cell::Bytes(vec![7; 9])];
        write_file(&path, &columns(), (0..600).map(|n| Ok(row(n)))).unwrap();
        assert_eq!(count(&path).unwrap(), 600);
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        for group in builder.metadata().row_groups() {
            let (at, length) = group.column(3).byte_range();
            bytes[at as usize..(at + length) as usize].fill(0xff);
        }
        std::fs::write(&path, bytes).unwrap();
        let of = |some: &[usize]| {
            let columns = Columns(some.iter().map(|at| columns().0[*at].clone()).collect());
            RowReader::open(&path, &columns).unwrap().collect::<Result<Vec<Row>>>()
        };
        let read = of(&[1, 0]).unwrap();
        assert!(read.len() == 600 && read[17] == vec![Cell::Whole(17), Cell::Text("17".to_owned())], "{:?}", read[17]);
        assert!(of(&[1, 3]).is_err(), "the damage is none");
    }

    #[test]
    fn damaged_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let row =
            |n: i64| vec![Cell::Text(n.to_string()), Cell::Whole(n), Cell::Real(n as f64), Cell::Bytes(vec![7; 9])];
        write_file(&path, &columns(), (0..300).map(|n| Ok(row(n)))).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let (mut unread, mut panics, mut draw) = (0, 0, 1_u64);
        for at in (0..whole.len()).step_by(2) {
            let mut bytes = whole.clone();
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes[at] ^= (draw >> 56) as u8 | 1;
            std::fs::write(&path, bytes).unwrap();
            let rows = RowReader::open(&path, &columns()).and_then(|rows| rows.collect::<Result<Vec<Row>>>());
            if let Err(error) = rows.and(count(&path)) {
                assert!(format!("{error:#}").starts_with(&path.display().to_string()), "{error:#}");
                unread += 1;
                panics += usize::from(format!("{error:#}").contains("the decoder gave up"));
            }
        }
        assert!(unread > whole.len() / 8 && panics > 0, "{unread} errors, {panics} of them panics");
    }

    #[test]
    fn columns_that_are_missing_or_of_another_kind_are_named() {
        let batch = columns().batch(&[vec![Cell::Empty; 4]]).unwrap();
        let fail = |name: &str, kind| Columns(vec![(name.to_owned(), kind)]).rows(&batch).unwrap_err().to_string();
        assert_eq!(fail("e", Kind::Text), "there is no column e");
        assert_eq!(fail("b", Kind::Real), "the column b is Int64, where it should be Float64");
        let error = columns().batch(&[vec![Cell::Whole(1), Cell::Empty, Cell::Empty, Cell::Empty]]).unwrap_err();
        assert_eq!(format!("{error:#}"), "column a: Whole(1) is not Text");
    }
}
