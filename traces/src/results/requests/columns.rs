//! The columns of the table of requests: their names, types and values, and the encoding of a row group.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::column::writer::ColumnCloseResult;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::{ColumnPath, Type};
use bytes::Bytes;

use super::{RequestNames, RequestRow, Service};
use crate::request::Operation;

/// Rows in a row group: as many as a replay holds until they are written.
pub(super) const ROWS_PER_GROUP: usize = 65_536;
/// zstd's fastest regular level: the columns of differences hardly become smaller with a higher one.
const ZSTD_LEVEL: i32 = 1;

/// The values of a column. Optional ones come from a [`Service`], which may be absent.
pub(super) enum Values {
    Text(fn(&Texts, &RequestRow) -> ByteArray),
    OptionalText(fn(&Texts, &RequestRow) -> Option<ByteArray>),
    Wide(fn(&RequestRow) -> u64),
    OptionalWide(fn(&RequestRow, &Service) -> u64),
    /// With the number of bits.
    Narrow(u8, fn(&RequestRow) -> u32),
    Switch(fn(&RequestRow) -> bool),
    OptionalSwitch(fn(&Service) -> bool),
}

/// A name and the values below it.
type Column = (&'static str, Values);

pub(super) const COLUMNS: [Column; 22] = [
    ("scheduler", Values::Text(|texts, _| texts.scheduler.clone())),
    ("drive", Values::Text(|texts, _| texts.drive.clone())),
    ("vm", Values::Text(|texts, row| texts.vms[usize::from(row.request.vm.0)].0.clone())),
    ("process", Values::OptionalText(Texts::process)),
    ("stream", Values::Narrow(32, |row| row.request.stream.0)),
    ("number", Values::Wide(|row| row.number)),
    ("operation", Values::Text(|texts, row| texts.operations[row.request.operation as usize].clone())),
    ("lba_sectors", Values::Wide(|row| row.request.lba.sector())),
    // At most 32 bits: Request::SECTORS_MAX.
    ("sectors", Values::Narrow(32, |row| row.request.sectors().count() as u32)),
    ("is_sync", Values::Switch(|row| row.request.is_sync())),
    ("flags", Values::Narrow(8, |row| row.request.flags.bits().into())),
    ("priority", Values::Narrow(8, |row| row.request.priority.as_byte().into())),
    ("arrival_ns", Values::Wide(|row| row.request.arrival.as_ns())),
    ("dispatched_ns", Values::OptionalWide(|_, service| service.dispatched.as_ns())),
    ("issued_ns", Values::OptionalWide(|_, service| service.issued.as_ns())),
    ("started_ns", Values::OptionalWide(|_, service| service.started.as_ns())),
    ("completed_ns", Values::Wide(|row| row.completed.as_ns())),
    ("response_ns", Values::Wide(|row| row.completed.since(row.request.arrival).as_ns())),
    ("device_ns", Values::OptionalWide(|row, service| row.completed.since(service.issued).as_ns())),
    ("seek_sectors", Values::OptionalWide(|_, service| service.seek.count())),
    ("cache_hit", Values::OptionalSwitch(|service| service.hit)),
    ("all_active", Values::Switch(|row| row.all_active)),
];

impl Values {
    /// The column as Parquet's notation of schemas has it.
    fn column(&self, name: &str) -> String {
        match self {
            Values::Text(_) => format!("REQUIRED BYTE_ARRAY {name} (STRING);"),
            Values::OptionalText(_) => format!("OPTIONAL BYTE_ARRAY {name} (STRING);"),
            Values::Wide(_) => format!("REQUIRED INT64 {name} (INTEGER(64,false));"),
            Values::OptionalWide(_) => format!("OPTIONAL INT64 {name} (INTEGER(64,false));"),
            Values::Narrow(bits, _) => format!("REQUIRED INT32 {name} (INTEGER({bits},false));"),
            Values::Switch(_) => format!("REQUIRED BOOLEAN {name};"),
            Values::OptionalSwitch(_) => format!("OPTIONAL BOOLEAN {name};"),
        }
    }
}

/// The schema of the table.
pub(super) fn schema() -> Result<Type, ParquetError> {
    schema_of(COLUMNS.iter())
}

fn schema_of<'a>(columns: impl Iterator<Item = &'a Column>) -> Result<Type, ParquetError> {
    let columns: Vec<String> = columns.map(|(name, values)| values.column(name)).collect();
    parse_message_type(&format!("message requests {{ {} }}", columns.join(" ")))
}

/// How the table is written.
pub(super) fn properties() -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("iocast version {}", crate::VERSION))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for (name, values) in &COLUMNS {
        if matches!(values, Values::Wide(_) | Values::OptionalWide(_)) {
            let column = ColumnPath::from(*name);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

/// The texts of the rows, shared by all of them.
pub(super) struct Texts {
    scheduler: ByteArray,
    drive: ByteArray,
    /// Each VM's own name, and those of its streams.
    vms: Vec<(ByteArray, BTreeMap<u32, ByteArray>)>,
    operations: [ByteArray; 4],
}

impl Texts {
    fn of(names: &RequestNames) -> Texts {
        let processes = |names: &BTreeMap<u32, String>| {
            names.iter().map(|(&stream, name)| (stream, name.as_str().into())).collect()
        };
        Texts {
            scheduler: names.scheduler.as_str().into(),
            drive: names.drive.as_str().into(),
            vms: names.vms.iter().map(|vm| (vm.vm.as_str().into(), processes(&vm.processes))).collect(),
            operations: Operation::ALL.map(|operation| operation.name().into()),
        }
    }

    /// Whether every row has the same in this column.
    fn are_one(&self, column: &str) -> bool {
        match column {
            "scheduler" | "drive" => true,
            "vm" => self.vms.len() == 1,
            "process" => self.vms.iter().all(|(_, processes)| processes.is_empty()),
            _ => false,
        }
    }

    fn process(&self, row: &RequestRow) -> Option<ByteArray> {
        self.vms[usize::from(row.request.vm.0)].1.get(&row.request.stream.0).cloned()
    }
}

/// Encodes row groups.
pub(super) struct Encoder {
    texts: Texts,
    scratch: Scratch,
    /// The columns that are the same in every full row group, encoded once: a text costs ten times as much as a number.
    constant: Option<Constant>,
}

/// Columns of a full row group, as a file in memory.
struct Constant {
    file: Bytes,
    group: RowGroupMetaData,
}

/// The values of one column on their way to the file; reused, so that a row group allocates nothing anew.
#[derive(Default)]
struct Scratch {
    texts: Vec<ByteArray>,
    wide: Vec<i64>,
    narrow: Vec<i32>,
    switches: Vec<bool>,
    levels: Vec<i16>,
}

impl Encoder {
    pub(super) fn new(names: &RequestNames) -> Encoder {
        Encoder { texts: Texts::of(names), scratch: Scratch::default(), constant: None }
    }

    /// Writes `rows` as a row group.
    pub(super) fn write_group<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
        rows: &[RequestRow],
    ) -> Result<(), ParquetError> {
        let is_full = rows.len() == ROWS_PER_GROUP;
        if is_full && self.constant.is_none() {
            self.constant = Some(self.constant(rows)?);
        }
        let constant = self.constant.as_ref().filter(|_| is_full);
        let mut known = constant.iter().flat_map(|constant| constant.group.columns());
        let mut group = file.next_row_group()?;
        for (name, values) in &COLUMNS {
            match constant {
                Some(Constant { file, .. }) if self.texts.are_one(name) => {
                    let column = known.next().ok_or_else(too_few)?;
                    group.append_column(file, as_it_is(column))?;
                }
                _ => {
                    let mut writer = group.next_column()?.ok_or_else(too_few)?;
                    write_column(&mut writer, values, rows, &self.texts, &mut self.scratch)?;
                    writer.close()?;
                }
            }
        }
        group.close()?;
        Ok(())
    }

    /// The columns of which all `rows` have the same.
    fn constant(&mut self, rows: &[RequestRow]) -> Result<Constant, ParquetError> {
        let columns: Vec<&Column> = COLUMNS.iter().filter(|(name, _)| self.texts.are_one(name)).collect();
        let schema = schema_of(columns.iter().copied())?;
        let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties()?))?;
        let mut group = file.next_row_group()?;
        for (_, values) in columns {
            let mut writer = group.next_column()?.ok_or_else(too_few)?;
            write_column(&mut writer, values, rows, &self.texts, &mut self.scratch)?;
            writer.close()?;
        }
        let group = group.close()?.as_ref().clone();
        Ok(Constant { file: file.into_inner()?.into(), group })
    }
}

fn too_few() -> ParquetError {
    ParquetError::General("fewer columns than the schema has".to_owned())
}

/// A column that was encoded before, for a copy of it.
pub(super) fn as_it_is(column: &ColumnChunkMetaData) -> ColumnCloseResult {
    ColumnCloseResult {
        bytes_written: column.compressed_size().unsigned_abs(),
        // No column repeats.
        rows_written: column.num_values().unsigned_abs(),
        metadata: column.clone(),
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    }
}

fn write_column(
    writer: &mut SerializedColumnWriter<'_>,
    values: &Values,
    rows: &[RequestRow],
    texts: &Texts,
    scratch: &mut Scratch,
) -> Result<(), ParquetError> {
    let Scratch { texts: texts_written, wide, narrow, switches, levels } = scratch;
    match values {
        Values::Text(value) => write::<ByteArrayType>(writer, texts_written, rows.iter().map(|row| value(texts, row))),
        Values::OptionalText(value) => {
            let values = rows.iter().map(|row| value(texts, row));
            write_optional::<ByteArrayType>(writer, texts_written, levels, values)
        }
        Values::Wide(value) => write::<Int64Type>(writer, wide, rows.iter().map(|row| value(row).cast_signed())),
        Values::OptionalWide(value) => {
            let values = rows.iter().map(|row| Some(value(row, row.service.as_ref()?).cast_signed()));
            write_optional::<Int64Type>(writer, wide, levels, values)
        }
        Values::Narrow(_, value) => write::<Int32Type>(writer, narrow, rows.iter().map(|row| value(row).cast_signed())),
        Values::Switch(value) => write::<BoolType>(writer, switches, rows.iter().map(value)),
        Values::OptionalSwitch(value) => {
            let values = rows.iter().map(|row| row.service.as_ref().map(value));
            write_optional::<BoolType>(writer, switches, levels, values)
        }
    }
}

fn write<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    scratch: &mut Vec<T::T>,
    values: impl Iterator<Item = T::T>,
) -> Result<(), ParquetError> {
    scratch.clear();
    scratch.extend(values);
    writer.typed::<T>().write_batch(scratch, None, None)?;
    Ok(())
}

fn write_optional<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    scratch: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    scratch.clear();
    levels.clear();
    for value in values {
        levels.push(i16::from(value.is_some()));
        scratch.extend(value);
    }
    writer.typed::<T>().write_batch(scratch, Some(levels), None)?;
    Ok(())
}
