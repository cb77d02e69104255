//! Writes captures and reads them to their end.

use std::path::{Path, PathBuf};

use iocast_traces::events::{Category, Event};
use iocast_traces::formats::blktrace::{ByteOrder, FORMAT, encode};
use iocast_traces::trace::{ArrivalPoint, ReadOptions};
use iocast_traces::{Losses, ReadError, Record, TraceMeta};

pub(crate) const DEVICE: u32 = 254 << 20 | 16;

/// A trace read to its end.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) meta: TraceMeta,
    pub(crate) records: Vec<Record>,
    pub(crate) losses: Losses,
    pub(crate) position_bytes: u64,
}

impl Whole {
    pub(crate) fn unmatched(&self, kind: &str) -> u64 {
        self.losses.unmatched.get(kind).copied().unwrap_or(0)
    }
}

pub(crate) fn read(path: &Path, options: &ReadOptions) -> Result<Whole, ReadError> {
    let mut reader = (FORMAT.open)(path, options)?;
    let mut records: Vec<Record> = Vec::new();
    while let Some(record) = reader.next()? {
        assert!(records.last().is_none_or(|last| last.request.arrival <= record.request.arrival), "arrivals decrease");
        records.push(record);
    }
    let (meta, losses) = (reader.meta().clone(), reader.losses().clone());
    Ok(Whole { meta, records, losses, position_bytes: reader.position_bytes() })
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

/// A capture in a folder of its own, written event by event.
pub(crate) struct Capture {
    folder: tempfile::TempDir,
    pub(crate) files: Vec<Vec<u8>>,
    sequences: Vec<u32>,
    pub(crate) order: ByteOrder,
}

impl Capture {
    pub(crate) fn new(cpus: usize) -> Capture {
        Capture {
            folder: tempfile::tempdir().unwrap(),
            files: vec![Vec::new(); cpus],
            sequences: vec![0; cpus],
            order: ByteOrder::Little,
        }
    }

    /// Appends an event with the next number of its CPU, which is taken from it.
    pub(crate) fn add(&mut self, event: Event, payload: &[u8]) {
        let cpu = event.cpu as usize;
        let event = if event.is(Category::NOTIFY) {
            event
        } else {
            self.sequences[cpu] += 1;
            Event { sequence: self.sequences[cpu], ..event }
        };
        encode(&Event { device: DEVICE, ..event }, payload, self.order, &mut self.files[cpu]);
    }

    /// One event on CPU 0 from a line as blkparse prints it: action, `RWBS`, sector, sectors.
    pub(crate) fn line(&mut self, time_us: u64, line: &str) {
        self.line_on(0, time_us, line);
    }

    pub(crate) fn line_on(&mut self, cpu: u32, time_us: u64, line: &str) {
        let (event, payload) = parse(line);
        self.add(Event { time: 1_000_000 + time_us * 1000, cpu, ..event }, &payload);
    }

    pub(crate) fn lines(lines: &str) -> Capture {
        let mut capture = Capture::new(1);
        for (number, line) in lines.trim().lines().enumerate() {
            capture.line(number as u64, line);
        }
        capture
    }

    /// Loses `events` of a CPU.
    pub(crate) fn lose(&mut self, cpu: usize, events: u32) {
        self.sequences[cpu] += events;
    }

    pub(crate) fn write(&self) -> PathBuf {
        for (cpu, bytes) in self.files.iter().enumerate() {
            std::fs::write(self.member(cpu), bytes).unwrap();
        }
        self.folder.path().join("sda")
    }

    pub(crate) fn member(&self, cpu: usize) -> PathBuf {
        self.folder.path().join(format!("sda.blktrace.{cpu}"))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn read(&self, options: &ReadOptions) -> Result<Whole, ReadError> {
        read(&self.write(), options)
    }
}

/// `Q WS 100 8`, `X WS 100 16 108` (the last is the payload), `C FN 0 0`, `C R 8 8 -5` (the error).
fn parse(line: &str) -> (Event, Vec<u8>) {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| fields.get(at).map_or(0, |field| field.parse::<i64>().unwrap());
    let (code, category) = match fields[0] {
        "Q" => (1, Category::QUEUE),
        "M" => (2, Category::QUEUE),
        "F" => (3, Category::QUEUE),
        "G" => (4, Category::QUEUE),
        "R" => (6, Category::REQUEUE),
        "D" => (7, Category::ISSUE),
        "C" => (8, Category::COMPLETE),
        "P" => (9, Category::QUEUE),
        "I" => (12, Category::QUEUE),
        "X" => (13, Category::empty()),
        "A" => (15, Category::QUEUE),
        "?" => (99, Category::QUEUE),
        other => panic!("no action {other}"),
    };
    let mut category = category | Category::FS;
    let rwbs = fields[1];
    let kind = rwbs.find(['R', 'W', 'D', 'N', 'P']).unwrap();
    for (at, letter) in rwbs.char_indices() {
        category |= match letter {
            'F' if at < kind => Category::FLUSH,
            'F' => Category::FUA,
            'R' | 'N' => Category::READ,
            'W' => Category::WRITE,
            'D' => Category::DISCARD | Category::WRITE,
            'S' => Category::SYNC,
            'M' => Category::META,
            'A' => Category::AHEAD,
            'P' => Category::PASSTHROUGH,
            other => panic!("no property {other}"),
        };
    }
    let is_split = fields[0] == "X";
    let event = Event {
        sector: number(2) as u64,
        bytes: number(3) as u32 * 512,
        action: code | category.in_action(),
        pid: 7,
        error: if is_split { 0 } else { number(4) as i16 as u16 },
        ..Event::default()
    };
    let payload = if is_split { (number(4) as u64).to_be_bytes().to_vec() } else { Vec::new() };
    (event, payload)
}
