//! Captures read to their end.

use std::path::{Path, PathBuf};

use iocast_traces::events::{Event, Watch};
use iocast_traces::formats::trace_pipe_raw::FORMAT;
use iocast_traces::trace::ReadOptions;
use iocast_traces::{Losses, ReadError, Record, Timestamp, TraceMeta};

/// A trace read to its end, and the events it was made of.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) meta: TraceMeta,
    pub(crate) records: Vec<Record>,
    pub(crate) events: Vec<Event>,
    pub(crate) losses: Losses,
    pub(crate) position_bytes: u64,
}

#[derive(Default)]
struct Seen(Vec<Event>);

impl Watch for Seen {
    fn event(&mut self, _now: Timestamp, event: &Event) {
        self.0.push(*event);
    }
}

pub(crate) fn read_as(
    format: &iocast_traces::formats::Format,
    path: &Path,
    options: &ReadOptions,
) -> Result<Whole, ReadError> {
    let mut reader = (format.open_events.unwrap())(path, options)?;
    let (mut records, mut seen): (Vec<Record>, Seen) = (Vec::new(), Seen::default());
    while let Some(record) = reader.next_watched(&mut seen)? {
        assert!(records.last().is_none_or(|last| last.request.arrival <= record.request.arrival), "arrivals decrease");
        records.push(record);
    }
    let (meta, losses) = (reader.meta().clone(), reader.losses().clone());
    Ok(Whole { meta, records, events: seen.0, losses, position_bytes: reader.position_bytes() })
}

pub(crate) fn read(path: &Path, options: &ReadOptions) -> Result<Whole, ReadError> {
    read_as(&FORMAT, path, options)
}

pub(crate) fn strict() -> ReadOptions {
    ReadOptions::default()
}

pub(crate) fn lenient() -> ReadOptions {
    ReadOptions { lenient: true, ..ReadOptions::default() }
}

/// A file of the fixtures.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The decompressed bytes of a fixture.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = flate2::read::MultiGzDecoder::new(std::fs::File::open(data(name)).unwrap());
    std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
    bytes
}

/// Copies a folder and all below it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// A capture of the pages of some CPUs, with the formats of the fixture, in a folder of its own.
pub(crate) struct Capture {
    folder: tempfile::TempDir,
}

impl Capture {
    pub(crate) fn new(cpus: &[(u32, &[u8])]) -> Capture {
        let capture = Capture { folder: tempfile::tempdir().unwrap() };
        copy(&data("trace-pipe-raw/loop.formats"), &capture.formats());
        for (cpu, bytes) in cpus {
            std::fs::write(capture.member(*cpu), bytes).unwrap();
        }
        capture
    }

    pub(crate) fn stem(&self) -> PathBuf {
        self.folder.path().join("x")
    }

    pub(crate) fn formats(&self) -> PathBuf {
        self.folder.path().join("x.formats")
    }

    pub(crate) fn member(&self, cpu: u32) -> PathBuf {
        self.folder.path().join(format!("x.trace_raw.{cpu}"))
    }

    /// Replaces text in a file of the formats.
    pub(crate) fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.formats().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} does not contain {from}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

    pub(crate) fn read(&self, options: &ReadOptions) -> Result<Whole, ReadError> {
        read(&self.stem(), options)
    }
}
