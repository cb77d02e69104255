//! Real traces that are not part of this project, read to their end and counted against a second,

//! slow reading that shares no code with the readers.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::support::{Whole, read_as};
use flate2::read::MultiGzDecoder;
use iocast_traces::formats;
use iocast_traces::trace::ReadOptions;
use iocast_traces::{Flags, Operation};

fn folder(name: &str) -> PathBuf {
    crate::root().join(name)
}

fn files(name: &str, ending: &str) -> Vec<PathBuf> {
    let folder = folder(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

fn bytes(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    MultiGzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads a whole trace by the format that recognises it.
fn read(path: &Path, format: &str) -> Whole {
    let recognised = formats::recognise(path, &ReadOptions::default()).unwrap();
    assert_eq!(recognised.name, format, "{}", path.display());
    let whole = read_as(format, path, &ReadOptions::default()).unwrap();
    assert_eq!(whole.losses.total(), 0);
    assert_eq!(whole.position_bytes, fs::metadata(path).unwrap().len());
    whole
}

#[test]
fn every_load_file_reads_to_its_end() {
    let files = files("servers", ".load.gz");
    assert_eq!(files.len(), 4);
    for path in files {
        let whole = read(&path, "blkreplay");
        let text = String::from_utf8(bytes(&path)).unwrap();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split(';').map(str::trim).collect::<Vec<_>>())
            .filter(|fields| fields.len() == 6 && fields[0].parse::<f64>().is_ok())
            .collect();
        assert_eq!(whole.records.len(), lines.len(), "{}", path.display());
        for (record, fields) in whole.records.iter().zip(lines) {
            let request = &record.request;
            assert_eq!(request.arrival.to_string(), format!("{} s", fields[0]));
            assert_eq!((request.lba.to_string(), request.sectors().to_string()), (fields[1].into(), fields[2].into()));
            let letters = match (request.operation, request.flags == Flags::AHEAD) {
                (Operation::Read, false) => "R",
                (Operation::Read, true) => "RA",
                (Operation::Write, false) => "W",
                _ => "none of these",
            };
            assert_eq!(letters, fields[3]);
            assert_eq!(record.observed, iocast_traces::Observed::default());
        }
        assert!(whole.meta.provenance["header"].contains("GNU all-permissive"));
    }
}

#[test]
fn every_drive_trace_reads_to_its_end() {
    let files = files("disks", ".trace.gz");
    assert_eq!(files.len(), 12);
    for path in files {
        let whole = read(&path, "disksim-validate");
        let text = String::from_utf8(bytes(&path)).unwrap();
        assert_eq!(whole.records.len(), text.lines().count(), "{}", path.display());
        let mut clock_us = 0.0;
        for (record, line) in whole.records.iter().zip(text.lines()) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let request = &record.request;
            assert_eq!(request.operation, if fields[0] == "R" { Operation::Read } else { Operation::Write });
            assert_eq!((request.lba.to_string(), request.sectors().to_string()), (fields[2].into(), fields[3].into()));
            let us = |at: usize| fields[at].parse::<f64>().unwrap();
            let device_ns = record.observed.device_time().unwrap().as_ns() as f64;
            assert!((device_ns - us(4) * 1e3).abs() < 1.001, "{line}: {device_ns} ns");
            assert!((request.arrival.as_ns() as f64 - clock_us * 1e3).abs() < 10.0, "{line}: {clock_us} us");
            clock_us += us(4) + us(5);
        }
    }
}

#[test]
fn the_vscsi_trace_reads_to_its_end() {
    let path = folder("servers").join("cloudphysics-vm.vscsi.gz");
    let whole = read(&path, "vscsi");
    let bytes = bytes(&path);
    let words =
        |at: usize, size: usize| bytes[at..at + size].iter().rev().fold(0u64, |sum, &b| sum * 256 + u64::from(b));
    assert_eq!(whole.records.len() * 32, bytes.len());
    let first_us = words(24, 8);
    for (at, record) in whole.records.iter().enumerate() {
        let (request, at) = (&record.request, at * 32);
        assert_eq!(request.operation, if words(at + 12, 2) == 40 { Operation::Read } else { Operation::Write });
        assert_eq!((request.lba.sector(), request.sectors().bytes()), (words(at + 16, 8), words(at + 4, 4)));
        assert_eq!(request.arrival.as_ns(), (words(at + 24, 8) - first_us) * 1_000);
    }
    assert_eq!(whole.meta.provenance["vscsi_version"], "0x0100");
}
