//! Traces whose writer was stopped: all rows with a checkpoint are read, and the file is completed in place.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use iocast_traces::formats::parquet::{GrowingWriter, ParquetReader, ParquetWriter, recover};
use iocast_traces::trace::{ReadOptions, TraceWriter as _};
use iocast_traces::{Layer, Lba, Losses, Operation, Record, Request, Sectors, Timestamp, TraceMeta, TraceReader as _};

/// Rows between two checkpoints, the last of which is not followed by one.
const PARTS: [u64; 4] = [3, 1, 40, 7];

fn records() -> Vec<Record> {
    let record = |at: u64| {
        let operation = if at.is_multiple_of(3) { Operation::Write } else { Operation::Read };
        let request = Request::new(Timestamp::from_ns(at * 1_000), operation, Lba::new(at * 8), Sectors::new(8));
        let mut record = Record::arrived(request);
        record.observed.completed = (!at.is_multiple_of(5)).then(|| Timestamp::from_ns(at * 1_000 + 77));
        record
    };
    (0..PARTS.iter().sum()).map(record).collect()
}

fn meta(name: &str) -> TraceMeta {
    let mut meta = TraceMeta::new("trace-pipe-raw", Layer::GuestQueue, "trace clock mono");
    meta.vms = vec![name.to_owned()];
    meta
}

/// The bytes of the trace, and at which of them each checkpoint ended, with the rows before it.
fn grown() -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut writer = GrowingWriter::begin(Path::new("x"), Vec::new(), &meta("begun")).unwrap();
    let mut ends = vec![(usize::try_from(writer.safe_bytes()).unwrap(), 0)];
    let mut rest = records().into_iter();
    let mut rows = 0;
    for (part, count) in PARTS.into_iter().enumerate() {
        for record in rest.by_ref().take(count as usize) {
            writer.write(&record, &meta("later")).unwrap();
        }
        if part + 1 < PARTS.len() {
            rows += count as usize;
            writer.checkpoint(&meta("later")).unwrap();
            assert_eq!(writer.waiting(), 0);
            ends.push((usize::try_from(writer.safe_bytes()).unwrap(), rows));
        }
    }
    (writer.finish(&meta("ended")).unwrap().0, ends)
}

fn read(path: &Path) -> Result<(Vec<Record>, Losses, TraceMeta), iocast_traces::ReadError> {
    let mut reader = ParquetReader::open(path, &ReadOptions::default())?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    Ok((records, reader.losses().clone(), reader.meta().clone()))
}

fn file(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("x.parquet");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_trace_that_ended_well_is_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &grown().0);
    let (found, losses, found_meta) = read(&path).unwrap();
    assert_eq!((&found, losses.total()), (&records(), 0));
    assert_eq!(found_meta.vms, ["ended"]);
    let other = folder.path().join("whole.parquet");
    let mut writer = ParquetWriter::create(&other).unwrap();
    records().iter().for_each(|record| writer.write(record).unwrap());
    Box::new(writer).finish(&meta("ended")).unwrap();
    assert_eq!(read(&other).unwrap().0, found);
    assert_eq!(recover(&path).unwrap(), None);
    assert_eq!(fs::read(&path).unwrap(), grown().0);
}

#[test]
fn cut_anywhere_it_holds_what_had_a_checkpoint_and_says_that_the_end_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, ends) = grown();
    // Every place near a checkpoint, some of those between.
    let is_near = |cut: &usize| cut.is_multiple_of(11) || ends.iter().any(|(end, _)| cut.abs_diff(*end) < 12);
    for cut in (0..bytes.len()).filter(is_near) {
        let path = file(folder.path(), &bytes[..cut]);
        let Some((_, rows)) = ends.iter().rfind(|(end, _)| *end <= cut) else {
            assert!(read(&path).is_err(), "cut at {cut}");
            assert!(recover(&path).is_err(), "cut at {cut}");
            continue;
        };
        let (found, losses, found_meta) = read(&path).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert_eq!(found, records()[..*rows], "cut at {cut}");
        assert_eq!(losses.skipped.values().sum::<u64>(), 1, "cut at {cut}");
        assert_eq!(found_meta.vms, [if *rows == 0 { "begun" } else { "later" }]);
    }
}

#[test]
fn completed_in_place_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, ends) = grown();
    for cut in [ends[0].0, ends[1].0, ends[2].0 + 1, ends[3].0 - 1, bytes.len() - 1] {
        let path = file(folder.path(), &bytes[..cut]);
        let (end, rows) = *ends.iter().rfind(|(end, _)| *end <= cut).unwrap();
        let recovered = recover(&path).unwrap().unwrap();
        assert_eq!((recovered.rows, recovered.kept_bytes), (rows as u64, end as u64));
        assert_eq!(recovered.torn_bytes, (cut - end) as u64);
        let (found, losses, _) = read(&path).unwrap();
        assert_eq!((found.len(), losses.total()), (rows, 0));
        assert_eq!(found, records()[..rows]);
        assert_eq!(recover(&path).unwrap(), None);
    }
}

#[test]
fn damage_before_the_last_checkpoint_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, ends) = grown();
    let mut damaged = bytes[..ends[3].0 + 5].to_vec();
    // In the rows of the third part, which no other program would notice.
    let at = ends[2].0 + 40;
    damaged[at] ^= 0x10;
    let path = file(folder.path(), &damaged);
    assert!(read(&path).is_err());
}

#[test]
fn an_ordinary_trace_that_was_cut_is_still_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.parquet");
    let mut writer = ParquetWriter::create(&path).unwrap();
    records().iter().for_each(|record| writer.write(record).unwrap());
    Box::new(writer).finish(&meta("ended")).unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("does not end with PAR1"));
    assert!(recover(&path).unwrap_err().to_string().contains("no checkpoint is in it"));
}
