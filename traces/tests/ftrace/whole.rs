//! Texts read to their end.

use std::path::{Path, PathBuf};

use iocast_traces::events::{Event, Watch};
use iocast_traces::formats::ftrace::FORMAT;
use iocast_traces::trace::{ArrivalPoint, ReadOptions};
use iocast_traces::{Losses, ReadError, Record, Timestamp, TraceMeta};

/// A trace read to its end, and the events it was made of.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) meta: TraceMeta,
    pub(crate) records: Vec<Record>,
    pub(crate) events: Vec<Event>,
    pub(crate) losses: Losses,
}

impl Whole {
    pub(crate) fn provenance(&self, key: &str) -> Option<&str> {
        self.meta.provenance.get(&format!("ftrace.{key}")).map(String::as_str)
    }
}

#[derive(Default)]
struct Seen(Vec<Event>);

impl Watch for Seen {
    fn event(&mut self, _now: Timestamp, event: &Event) {
        self.0.push(*event);
    }
}

pub(crate) fn read(path: &Path, options: &ReadOptions) -> Result<Whole, ReadError> {
    let mut reader = (FORMAT.open_events.unwrap())(path, options)?;
    let (mut records, mut seen): (Vec<Record>, Seen) = (Vec::new(), Seen::default());
    while let Some(record) = reader.next_watched(&mut seen)? {
        assert!(records.last().is_none_or(|last| last.request.arrival <= record.request.arrival), "arrivals decrease");
        records.push(record);
    }
    let (meta, losses) = (reader.meta().clone(), reader.losses().clone());
    Ok(Whole { meta, records, events: seen.0, losses })
}

pub(crate) fn read_text(text: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Whole, ReadError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, text).unwrap();
    read(&path, options)
}

pub(crate) fn strict() -> ReadOptions {
    ReadOptions::default()
}

pub(crate) fn lenient() -> ReadOptions {
    ReadOptions { lenient: true, ..ReadOptions::default() }
}

pub(crate) fn at_issued() -> ReadOptions {
    ReadOptions { arrivals: ArrivalPoint::Issued, ..ReadOptions::default() }
}

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ftrace").join(format!("{name}.txt.gz"))
}

/// The decompressed text of a fixture.
pub(crate) fn text(name: &str) -> String {
    let mut text = String::new();
    let mut file = flate2::read::MultiGzDecoder::new(std::fs::File::open(data(name)).unwrap());
    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
    text
}

/// First sector, sectors, and the microseconds of Q, I, D and C; -1 where there is none.
pub(crate) fn row(record: &Record) -> [i64; 6] {
    let us = |time: Option<Timestamp>| time.map_or(-1, |time| time.as_ns() as i64 / 1000);
    let Record { request, observed } = record;
    let (lba, sectors) = (request.lba.sector() as i64, request.sectors().count() as i64);
    [lba, sectors, us(Some(request.arrival)), us(observed.inserted), us(observed.issued), us(observed.completed)]
}
