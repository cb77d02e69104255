//! The sums of a trace from its footer and two of its columns. The bytes of the other columns are not read.

use std::path::Path;

use ::parquet::column::reader::{ColumnReader, get_column_reader};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::caught::caught;
use super::chunks::Chunks;
use super::pages::BoundedPages;
use super::reader::{Footer, ROWS_PER_BATCH, undecodable};
use crate::error::{Place, ReadError};
use crate::request::Operation;
use crate::trace::Extent;
use crate::units::SECTOR_BYTES;

/// The places of the columns `sectors` and `operation` in the schema.
const SECTORS: usize = 2;
const OPERATION: usize = 3;

/// How many requests of an operation there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub requests: u64,
    /// Their lengths together.
    pub bytes: u64,
}

/// The sums of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// From the footer; `None` for a trace without requests.
    pub extent: Option<Extent>,
    /// By [`Operation`]: reads, writes, flushes, discards.
    pub operations: [Sum; 4],
    /// Length of the file as it lies on disk.
    pub file_bytes: u64,
}

impl Summary {
    /// The sum of an operation.
    pub fn of(&self, operation: Operation) -> Sum {
        self.operations[operation as usize]
    }
}

/// Sums up the trace at `path`. The checksum is over all columns, so that it is not checked.
///
/// # Errors
/// As [`super::ParquetReader::open`]; a column that cannot be decoded, or an operation that is none.
pub fn summarise(path: &Path) -> Result<Summary, ReadError> {
    let (chunks, _) = Chunks::open(path)?;
    let metadata = caught(|| ParquetMetaDataReader::new().parse_and_finish(&chunks));
    let metadata = metadata.map_err(|error| undecodable(path, Place::Whole, &error))?;
    let extent = Footer::of(path, &metadata)?.extent;
    let mut summary = Summary { extent, file_bytes: chunks.input_bytes(), ..Summary::default() };
    let mut row = 0;
    for group in 0..metadata.num_row_groups() {
        let added = caught(|| add_group(&chunks, &metadata, group, &mut summary));
        added.map_err(|error| undecodable(path, Place::Row(row), &error))?;
        row += metadata.row_group(group).num_rows().unsigned_abs();
    }
    Ok(summary)
}

fn add_group(
    chunks: &Chunks,
    metadata: &ParquetMetaData,
    group: usize,
    summary: &mut Summary,
) -> Result<(), ParquetError> {
    let group = metadata.row_group(group);
    let mut left = usize::try_from(group.num_rows())?;
    let open = |column: usize| -> Result<ColumnReader, ParquetError> {
        let column = group.column(column);
        let pages = BoundedPages::new(chunks, column, left)?;
        Ok(get_column_reader(column.column_descr_ptr(), Box::new(pages)))
    };
    let (mut sectors, mut operations) = (open(SECTORS)?, open(OPERATION)?);
    let (mut lengths, mut kinds) = (Vec::new(), Vec::new());
    while left > 0 {
        let rows = left.min(ROWS_PER_BATCH);
        for (reader, values) in [(&mut sectors, &mut lengths), (&mut operations, &mut kinds)] {
            values.clear();
            let ColumnReader::Int32ColumnReader(reader) = reader else {
                return Err(ParquetError::General("a column of another type".to_owned()));
            };
            let (decoded, _, _) = reader.read_records(rows, None, None, values)?;
            if decoded != rows {
                return Err(ParquetError::General(format!("a column ends after {decoded} of {rows} rows")));
            }
        }
        for (&kind, &length) in kinds.iter().zip(&lengths) {
            let sum = usize::try_from(kind).ok().and_then(|kind| summary.operations.get_mut(kind));
            let sum = sum.ok_or_else(|| ParquetError::General(format!("operation {kind}, not one of 0 to 3")))?;
            sum.requests += 1;
            sum.bytes = sum.bytes.saturating_add(u64::from(length.cast_unsigned()) * SECTOR_BYTES);
        }
        left -= rows;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt as _;

    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;
    use crate::formats::parquet::ParquetWriter;
    use crate::record::{Observed, Record};
    use crate::request::Request;
    use crate::trace::{Layer, ReadOptions, TraceMeta, TraceReader as _, TraceWriter as _};
    use crate::units::{Lba, Sectors, Timestamp};

    /// 70,000 requests: two row groups.
    fn write(path: &Path) -> Summary {
        let mut writer = Box::new(ParquetWriter::create(path).unwrap());
        let mut operations = [Sum::default(); 4];
        for number in 0..70_000u64 {
            let operation = Operation::from_number((number % 7 % 4) as u8).unwrap();
            let sectors = if operation == Operation::Flush { 0 } else { 8 + number % 5 };
            let arrival = Timestamp::from_ns(5 + number * 1000);
            let lba = if operation == Operation::Flush { 0 } else { number * 7919 % 100_000 };
            let request = Request::new(arrival, operation, Lba::new(lba), Sectors::new(sectors));
            writer.write(&Record { request, observed: Observed::default() }).unwrap();
            operations[operation as usize].requests += 1;
            operations[operation as usize].bytes += sectors * 512;
        }
        let written = writer.finish(&TraceMeta::new("parquet", Layer::Wire, "none")).unwrap();
        Summary { extent: written.extent, operations, file_bytes: std::fs::metadata(path).unwrap().len() }
    }

    /// The bytes of a column in a row group.
    fn chunk(path: &Path, group: usize, column: usize) -> (u64, u64) {
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        reader.metadata().row_group(group).column(column).byte_range()
    }

    #[test]
    fn two_columns_are_read_and_no_byte_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        let written = write(&path);
        assert_eq!(summarise(&path).unwrap(), written);
        assert_eq!(written.of(Operation::Write).requests, 20_000);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let damage = |column: usize| {
            for group in 0..2 {
                let (at, bytes) = chunk(&path, group, column);
                file.write_all_at(&vec![0xff; bytes as usize], at).unwrap();
            }
        };
        (0..13).filter(|column| ![SECTORS, OPERATION].contains(column)).for_each(damage);
        assert_eq!(summarise(&path).unwrap(), written);
        let mut reader = super::super::ParquetReader::open(&path, &ReadOptions::default()).unwrap();
        assert!(reader.next().is_err(), "the damage is none");
        damage(SECTORS);
        let error = summarise(&path).unwrap_err().to_string();
        assert!(error.contains("undecodable Parquet"), "{error}");
    }

    #[test]
    fn a_trace_without_requests_has_no_extent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        let meta = TraceMeta::new("parquet", Layer::Wire, "none");
        Box::new(ParquetWriter::create(&path).unwrap()).finish(&meta).unwrap();
        let summary = summarise(&path).unwrap();
        assert_eq!((summary.extent, summary.operations), (None, [Sum::default(); 4]));
    }
}
