//! iocast's own format: what is written reads back, the same trace gives the same bytes, and
//! damage is found.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::column::writer::ColumnWriter;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use iocast_traces::formats::parquet::{ParquetReader, ParquetWriter};
use iocast_traces::trace::{ReadOptions, TraceWriter};
use iocast_traces::{
    Flags, Layer, Lba, Operation, Place, Record, Request, Sectors, StreamId, Timestamp, TraceMeta, VmId, WriteError,
    WriteProblem,
};
use proptest::prelude::*;
use support::{any_records, data, read_as, read_bytes};

fn meta() -> TraceMeta {
    let mut meta = TraceMeta::new("blkreplay", Layer::GuestIssued, "monotonic");
    meta.clock.zero_unix_ns = Some(-1);
    meta.capacity_sectors = Some(Sectors::new(u64::MAX));
    meta.vms = vec!["mail".to_owned(), "web".to_owned(), "file \"server\"".to_owned()];
    meta.streams = BTreeMap::from([(0, "swapper".to_owned()), (u32::MAX, "µ".to_owned())]);
    meta.provenance.insert("header".to_owned(), "two\nlines".to_owned());
    meta
}

fn write(path: &Path, records: &[Record]) -> Result<(), WriteError> {
    let mut writer = ParquetWriter::create(path)?;
    records.iter().try_for_each(|record| writer.write(record))?;
    Box::new(writer).finish(&meta()).map(|_| ())
}

fn written(records: &[Record]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    write(&path, records).unwrap();
    fs::read(path).unwrap()
}

/// Some plain records, more than two row groups of them.
fn many() -> Vec<Record> {
    (0..150_000u64)
        .map(|at| {
            let operation = Operation::ALL[at as usize % 2];
            let lba = Lba::new(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24);
            let mut record =
                Record::arrived(Request::new(Timestamp::from_ns(at * 1_000), operation, lba, Sectors::new(8)));
            record.request.stream = StreamId(at as u32 % 100);
            record.observed.issued = (at % 3 > 0).then_some(Timestamp::from_ns(at * 1_000 + 400));
            record.observed.completed = Some(Timestamp::from_ns(at * 1_000 + 900));
            record
        })
        .collect()
}

#[test]
fn the_metadata_come_back_and_say_what_the_trace_was_written_from() {
    let read = read_bytes("parquet", &written(&[]), false).unwrap();
    let mut expected = meta();
    expected.format = "parquet".to_owned();
    expected.provenance.insert("source_format".to_owned(), "blkreplay".to_owned());
    assert_eq!(read.meta, expected);
    assert_eq!(read.records, []);
}

#[test]
fn the_layer_is_the_stored_one_unless_one_is_given() {
    let layer = |layer| {
        let options = ReadOptions { layer, ..ReadOptions::default() };
        read_as("parquet", &data("small.parquet"), &options).unwrap().meta.layer
    };
    assert_eq!(layer(None), Layer::GuestIssued);
    assert_eq!(layer(Some(Layer::Wire)), Layer::Wire);
}

#[test]
fn several_row_groups_and_batches_read_as_one() {
    let records = many();
    let bytes = written(&records);
    let read = read_bytes("parquet", &bytes, false).unwrap();
    assert_eq!(read.records, records);
    assert_eq!(read.position_bytes, bytes.len() as u64);
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<i64> = file.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [65_536, 65_536, 150_000 - 2 * 65_536]);
}

#[test]
fn the_extent_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    let mut flush = Record::arrived(Request::new(Timestamp::from_ns(3), Operation::Flush, Lba::ZERO, Sectors::ZERO));
    let read = |lba| Request::new(Timestamp::from_ns(5), Operation::Read, Lba::new(lba), Sectors::new(8));
    write(&path, &[flush, Record::arrived(read(100)), Record::arrived(read(16))]).unwrap();
    let extent = ParquetReader::open(&path, &ReadOptions::default()).unwrap().extent().unwrap();
    assert_eq!((extent.first_arrival.as_ns(), extent.last_arrival.as_ns(), extent.records), (3, 5, 3));
    assert_eq!((extent.lba_min.sector(), extent.lba_end.sector()), (16, 108));
    flush.request.arrival = Timestamp::ZERO;
    write(&path, &[flush]).unwrap();
    let extent = ParquetReader::open(&path, &ReadOptions::default()).unwrap().extent().unwrap();
    assert_eq!((extent.lba_min.sector(), extent.lba_end.sector()), (0, 0));
}

#[test]
fn nothing_has_the_final_name_until_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    let names = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<PathBuf>>();
    let mut writer = ParquetWriter::create(&path).unwrap();
    writer.write(&many()[0]).unwrap();
    // It has no name, so that it goes with a killed process.
    assert_eq!(names(), [] as [PathBuf; 0]);
    drop(writer);
    assert_eq!(names(), [] as [PathBuf; 0]);
    write(&path, &many()[..1]).unwrap();
    assert_eq!(names(), std::slice::from_ref(&path));
    let other = folder.path().join("other");
    File::create(&other).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&other), "who may read it is what the umask says");
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    let records = many();
    let backwards = write(&path, &[records[1], records[1], records[0]]).unwrap_err();
    assert!(matches!(backwards.problem, WriteProblem::OutOfOrder(_)), "{backwards}");
    let mut unnamed = records[0];
    unnamed.request.vm = VmId(3);
    assert!(write(&path, &[unnamed]).unwrap_err().to_string().contains("VM 3"));
    let nowhere = write(&folder.path().join("no/such/folder.parquet"), &records[..1]).unwrap_err();
    assert!(nowhere.to_string().contains("no/such/folder.parquet"), "{nowhere}");
    assert!(!path.exists());
}

/// The contents of a file, to write it anew with a difference.
struct Parts {
    schema: String,
    keys: Vec<KeyValue>,
    wide: Vec<i64>,
    narrow: Vec<i32>,
    /// How often the row is repeated, in one page.
    rows: usize,
}

impl Parts {
    /// One row that can be read, under columns in the order of the schema.
    fn good() -> Parts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        write(&path, &many()[..1]).unwrap();
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let metadata = file.metadata().file_metadata();
        let mut schema = Vec::new();
        ::parquet::schema::printer::print_schema(&mut schema, metadata.schema());
        let mut keys = metadata.key_value_metadata().unwrap().clone();
        // The values are to be judged, not their sum.
        keys.retain(|pair| pair.key != "iocast.checksum");
        Parts { schema: String::from_utf8(schema).unwrap(), keys, wide: vec![0; 5], narrow: vec![0; 8], rows: 1 }
    }

    fn key(mut self, key: &str, value: Option<&str>) -> Parts {
        self.keys.retain(|pair| pair.key != key);
        self.keys.extend(value.map(|value| KeyValue::new(key.to_owned(), value.to_owned())));
        self
    }

    fn schema(mut self, from: &str, to: &str) -> Parts {
        assert!(self.schema.contains(from), "{from} in {}", self.schema);
        self.schema = self.schema.replacen(from, to, 1);
        self
    }

    fn narrow(mut self, column: usize, value: i32) -> Parts {
        self.narrow[column] = value;
        self
    }

    fn wide(mut self, column: usize, value: i64) -> Parts {
        self.wide[column] = value;
        self
    }

    /// The row `rows` times, in one page.
    fn rows(mut self, rows: usize) -> Parts {
        self.rows = rows;
        let extent = format!(
            r#"{{"records":{rows},"first_arrival_ns":0,"last_arrival_ns":0,"lba_min_sectors":0,"lba_end_sectors":0}}"#
        );
        self.key("iocast.extent", Some(&extent))
    }

    fn bytes(&self) -> Vec<u8> {
        let schema = Arc::new(::parquet::schema::parser::parse_message_type(&self.schema).unwrap());
        let mut bytes = Vec::new();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(usize::MAX)
            .set_data_page_row_count_limit(usize::MAX)
            .build();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
        self.keys.iter().for_each(|pair| writer.append_key_value_metadata(pair.clone()));
        let mut group = writer.next_row_group().unwrap();
        let (mut wide, mut narrow) = (self.wide.iter(), self.narrow.iter());
        while let Some(mut column) = group.next_column().unwrap() {
            let levels = vec![1i16; self.rows];
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(column) => {
                    let values = vec![wide.next().copied().unwrap_or_default(); self.rows];
                    column.write_batch(&values, Some(&levels), None).unwrap()
                }
                ColumnWriter::Int32ColumnWriter(column) => {
                    let values = vec![narrow.next().copied().unwrap_or_default(); self.rows];
                    column.write_batch(&values, Some(&levels), None).unwrap()
                }
                _ => panic!("the schemas of these tests have integers only"),
            };
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        bytes
    }
}

const NO_VM: &str = r#"{"format":"vscsi","layer":"wire","clock":{"name":"x","zero_unix_ns":null},"capacity_sectors":null,
    "vms":[],"streams":{},"provenance":{}}"#;

#[test]
fn foreign_and_wrong_files_are_refused_with_their_place() {
    let good = Parts::good;
    assert_eq!(read_bytes("parquet", &good().bytes(), false).unwrap().records.len(), 1);
    let whole = Place::Whole;
    let row = Place::Row(0);
    for (parts, place, message) in [
        (good().key("iocast.schema_version", None), whole, "without iocast.schema_version"),
        (good().key("iocast.schema_version", Some("2")), whole, "unsupported version: iocast.schema_version is `2`"),
        (good().key("iocast.trace", None), whole, "iocast.trace"),
        (good().key("iocast.trace", Some("{")), whole, "iocast.trace in the metadata: EOF"),
        (good().key("iocast.trace", Some(NO_VM)), whole, "names no VM"),
        (good().key("iocast.extent", Some("[]")), whole, "iocast.extent in the metadata"),
        (good().key("iocast.extent", None), whole, "1 rows, but the metadata speak of 0"),
        (
            good().schema("lba_sectors", "lba"),
            whole,
            "column 1: expected REQUIRED INT64 lba_sectors, found REQUIRED INT64 lba",
        ),
        (good().schema("REQUIRED INT64 arrival", "OPTIONAL INT64 arrival"), whole, "column 0"),
        (good().schema("OPTIONAL INT64 issued", "REQUIRED INT64 issued"), whole, "column 10"),
        (good().schema("INT32 error;", "INT64 error;"), whole, "column 12"),
        (good().schema("REQUIRED INT32 error;", ""), whole, "found none"),
        (good().schema("error;", "error; REQUIRED INT32 more;"), whole, "column 13: expected none"),
        (good().narrow(1, 4), row, "operation 4"),
        (good().narrow(1, -1), row, "operation -1"),
        (good().narrow(2, 32), row, "flags 32"),
        (good().narrow(3, 4 << 3), row, "priority 32"),
        (good().narrow(4, 3), row, "vm 3, but the metadata names 3"),
        (good().narrow(4, -1), row, "vm -1"),
        (good().narrow(6, 65_536), row, "cpu 65536"),
        (good().wide(1, -8).narrow(0, 8), row, "beyond the last address"),
        (good().wide(0, i64::MIN), row, "more than 146 years (2^62 ns) after"),
        (good().wide(4, i64::MIN), row, "more than 146 years"),
    ] {
        let error = read_bytes("parquet", &parts.bytes(), false).unwrap_err();
        assert_eq!(error.place, place, "{error}");
        assert!(error.to_string().contains(message), "{error} does not say {message}");
        if place == row {
            let lenient = read_bytes("parquet", &parts.bytes(), true).unwrap();
            assert_eq!((lenient.records.len(), lenient.losses.total()), (0, 1), "{message}");
        }
    }
}

/// A page is held as a whole, so what it states to be is checked before it is decompressed.
#[test]
fn a_page_of_more_than_4_mib_is_refused_though_its_compressed_bytes_are_few() {
    // 4 MiB with the levels of an optional column.
    let rows = (4 << 17) - 1;
    assert_eq!(read_bytes("parquet", &Parts::good().rows(rows).bytes(), false).unwrap().records.len(), rows);
    let rows = rows + 2;
    let bytes = Parts::good().rows(rows).bytes();
    assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
    let error = read_bytes("parquet", &bytes, false).unwrap_err();
    assert_eq!(error.place, Place::Row(0));
    assert!(error.to_string().contains("a page of 4194312 bytes, but at most 4 MiB are read"), "{error}");
    let lenient = read_bytes("parquet", &bytes, true).unwrap();
    assert_eq!(lenient.losses.skipped["undecodable row group"], rows as u64);
}

/// The header of a dictionary may state more values than its bytes hold.
#[test]
fn a_dictionary_takes_no_more_memory_than_its_page() {
    let mut bytes = written(&many()[..100]);
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
    let column = file.metadata().row_group(0).column(7);
    assert_eq!(column.column_path().string(), "stream");
    let at = column.dictionary_page_offset().unwrap() as usize;
    // 100 values as a varint, twice as large.
    let stated = bytes[at..].windows(3).position(|bytes| bytes == [0x15, 0xc8, 0x01]).unwrap() + at;
    assert!(stated - at < 16, "within the header");
    // As many bytes say 8191.
    bytes[stated + 1..stated + 3].copy_from_slice(&[0xfe, 0x7f]);
    let error = read_bytes("parquet", &bytes, false).unwrap_err();
    assert!(error.to_string().contains("a dictionary of 8191 values in 400 bytes"), "{error}");
}

#[test]
fn times_in_an_impossible_order_are_refused_or_counted() {
    let bytes = Parts::good().wide(3, 20).wide(4, 10).bytes();
    let error = read_bytes("parquet", &bytes, false).unwrap_err();
    assert_eq!(error.place, Place::Row(0));
    assert!(error.to_string().contains("1 of 1 requests have times in an impossible order"), "{error}");
    let lenient = read_bytes("parquet", &bytes, true).unwrap();
    assert_eq!((lenient.records.len(), lenient.losses.impossible["C before D"]), (1, 1));
}

/// Writes the same values under a checksum of others.
#[test]
fn rows_that_are_not_those_that_were_written_are_found() {
    let bytes = Parts::good().key("iocast.checksum", Some("0123456789abcdef")).bytes();
    let error = read_bytes("parquet", &bytes, false).unwrap_err();
    assert_eq!(error.place, Place::Row(1));
    assert!(error.to_string().contains("checksum"), "{error}");
    let lenient = read_bytes("parquet", &bytes, true).unwrap();
    assert_eq!((lenient.records.len(), lenient.losses.total()), (1, 1));
}

#[test]
fn a_lenient_read_skips_a_damaged_row_group_and_counts_its_rows() {
    let records = many();
    let mut bytes = written(&records);
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
    let at = file.metadata().row_group(1).column(0).data_page_offset() as usize;
    bytes[at..at + 64].fill(0xff);
    let error = read_bytes("parquet", &bytes, false).unwrap_err();
    assert_eq!(error.place, Place::Row(65_536), "{error}");
    let lenient = read_bytes("parquet", &bytes, true).unwrap();
    assert_eq!(lenient.losses.skipped["undecodable row group"], 65_536);
    assert_eq!(lenient.records.len(), records.len() - 65_536);
    assert_eq!(lenient.records[65_536..], records[2 * 65_536..]);
    assert_eq!(lenient.position_bytes, bytes.len() as u64);
}

#[test]
fn a_pipe_is_read_through_a_temporary_copy() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let feed = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(&pipe, fs::read(data("small.parquet")).unwrap()).unwrap()
    });
    let read = read_as("parquet", &pipe, &ReadOptions::default()).unwrap();
    feed.join().unwrap();
    assert_eq!(read.records, read_as("parquet", &data("small.parquet"), &ReadOptions::default()).unwrap().records);
}

/// Every byte of a small file, in turn, with some bits flipped and cut off behind it: an error, or
/// the same records where the byte does not matter. Never other records, and never a panic.
#[test]
fn a_flipped_byte_anywhere_is_harmless_or_found() {
    let bytes = fs::read(data("small.parquet")).unwrap();
    let whole = read_bytes("parquet", &bytes, false).unwrap();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            if let Ok(read) = read_bytes("parquet", &damaged, false) {
                assert_eq!(read.records, whole.records, "byte {at} ^ {flip:#x}");
                assert_eq!(read.meta, whole.meta, "byte {at} ^ {flip:#x}");
            }
        }
        assert!(read_bytes("parquet", &bytes[..at], false).is_err(), "cut to {at} bytes");
    }
}

proptest! {
    #[test]
    fn any_records_read_back_and_give_the_same_bytes(records in any_records()) {
        let bytes = written(&records);
        prop_assert_eq!(read_bytes("parquet", &bytes, false).unwrap().records, &records[..]);
        prop_assert_eq!(written(&records), bytes);
    }
}

/// The fixture's records. It was written by [`write`] under schema version 1 and stays as it is: a
/// file of an older version of the program must read the same.
#[test]
fn a_file_written_earlier_still_reads_the_same() {
    let mut records: Vec<Record> = many().into_iter().take(40).collect();
    for (at, record) in records.iter_mut().enumerate() {
        record.request.operation = Operation::ALL[at % 4];
        record.request.flags = Flags::from_bits(at as u8 % 32).unwrap();
        record.request.vm = VmId(at as u16 % 3);
        record.observed.error = at as i32 - 20;
        if record.request.operation == Operation::Flush {
            record.request.lba = Lba::ZERO;
            record.request.set_sectors(Sectors::ZERO);
        }
    }
    let bytes = std::fs::read(data("small.parquet")).unwrap();
    assert_eq!(read_bytes("parquet", &bytes, false).unwrap().records, records);
}
