//! Real traces that are not part of this project, written in every format and read back.

use std::path::{Path, PathBuf};

use crate::support::line;
use crate::support::written::{kept, through, written_formats};
use iocast_traces::formats;
use iocast_traces::trace::{ReadOptions, WriteOptions};
use iocast_traces::{Operation, Record};

/// As much of a trace as shows all that it holds.
const RECORDS: usize = 100_000;

fn traces() -> Vec<PathBuf> {
    let folder = crate::root().join("servers");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut traces: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    traces.sort();
    assert!(traces.len() >= 5, "{}", folder.display());
    traces
}

fn read(path: &Path) -> Vec<Record> {
    let mut reader = formats::open(path, &ReadOptions::default()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap().filter(|_| records.len() < RECORDS) {
        records.push(record);
    }
    records
}

#[test]
fn real_traces_read_back_from_every_format() {
    for path in traces() {
        let records = read(&path);
        for name in written_formats() {
            // They hold reads and writes only, which every format can express.
            assert!(records.iter().all(|record| record.request.operation <= Operation::Write));
            let options = WriteOptions::default();
            // But for DiskSim's 32 bits.
            let far = name == "disksim-ascii" && records.iter().any(|record| kept(name, record, record).is_none());
            let (written, whole) = through(name, &records, &WriteOptions { lossy: far, ..options });
            let expected: Vec<String> = records
                .iter()
                .filter_map(|record| kept(name, record, &records[0]))
                .map(|record| line(&record))
                .collect();
            let found: Vec<String> = whole.records.iter().map(line).collect();
            assert!(found == expected, "{} as {name}", path.display());
            assert_eq!(written.left_out.is_empty(), !far, "{} as {name}", path.display());
        }
    }
}

/// A load file is written as it was, but for how many decimals a span of zero has.
#[test]
fn load_files_are_written_as_they_were() {
    for path in traces().into_iter().filter(|path| path.to_string_lossy().ends_with(".load.gz")) {
        let records = read(&path);
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.load");
        crate::support::written::write("blkreplay", &copy, &records, &WriteOptions::default()).unwrap();
        let mut text = String::new();
        let compressed = std::fs::File::open(&path).unwrap();
        std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(compressed), &mut text).unwrap();
        let fields =
            |line: &str| -> Vec<String> { line.split(';').take(4).map(|field| field.trim().to_owned()).collect() };
        let requests = |text: &str| -> Vec<Vec<String>> {
            let begins_with_a_digit = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
            text.lines().filter(begins_with_a_digit).map(fields).filter(|fields| fields.len() == 4).collect()
        };
        let (ours, mut theirs) = (requests(&std::fs::read_to_string(&copy).unwrap()), requests(&text));
        theirs.truncate(ours.len());
        assert!(ours == theirs, "{}", path.display());
        assert_eq!(ours.len(), records.len());
    }
}
