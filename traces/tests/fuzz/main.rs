//! Damaged inputs of every format: no panic, no endless loop, bounded memory, and statistics that
//! stand whatever is read. Seeds are the fixtures and `tests/data/corpus/FORMAT/`, which also holds
//! every input that ever failed. Parquet is also damaged by the fields of its footer and page headers.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod harness;
#[path = "../support/mod.rs"]
mod support;
mod thrift;

use std::path::{Path, PathBuf};

use harness::{Target, files, fuzz_all};
use iocast_traces::formats::parquet::GrowingWriter;
use iocast_traces::formats::{FORMATS, Format};
use iocast_traces::statistics::{Statistics, Timeline};
use iocast_traces::trace::{ArrivalPoint, ReadOptions, TimeUnit, UnitOverrides};
use iocast_traces::{Nanos, Operation};

/// Inputs per format in a short run.
const SHORT_RUN: u64 = 800;

/// Records after which reading an input ends: a small file may hold very many (run lengths).
const RECORDS_MAX: u64 = 1_000_000;

/// The seeds of a format.
fn seeds(format: &Format) -> Vec<Vec<u8>> {
    let fixtures = support::FIXTURES.iter().filter(|(of, _)| *of == format.name).map(|(_, name)| support::data(name));
    let mut paths: Vec<PathBuf> = fixtures.collect();
    for folder in [support::data("corpus").join(format.name), support::data(format.name)] {
        paths.extend(files(&folder));
    }
    paths.retain(|path| path.extension().is_none_or(|ending| ending != "md" && ending != "golden"));
    paths.sort();
    let plain = |path: &PathBuf| {
        let mut bytes = Vec::new();
        std::io::copy(&mut iocast_traces::input::Input::open(path).unwrap(), &mut bytes).unwrap();
        bytes
    };
    paths.iter().map(plain).collect()
}

/// Reads an input in every way, with any result. Says whether it has a request.
fn read_all_ways(format: &Format, path: &Path, way: usize) -> bool {
    let units = UnitOverrides { time: Some(TimeUnit::ALL[way % 5]), address_bytes: Some(512), length_bytes: Some(1) };
    let options = ReadOptions {
        lenient: way.is_multiple_of(2),
        arrivals: if way.is_multiple_of(7) && format.holds_issues {
            ArrivalPoint::Issued
        } else {
            ArrivalPoint::Queued
        },
        device: way.is_multiple_of(11).then(|| "0".to_owned()),
        operation: format.name.starts_with("oracle").then_some(Operation::Read),
        units: if way.is_multiple_of(3) { units } else { UnitOverrides::default() },
        ..ReadOptions::default()
    };
    let _ = (format.recognises)(path, &std::fs::read(path).unwrap_or_default());
    if let Some(open_events) = format.open_events {
        let Ok(mut reader) = open_events(path, &options) else { return false };
        let mut statistics = Statistics::new(reader.meta(), Some(Nanos::from_ms(10)));
        let mut records = 0;
        while let Ok(Some(_)) = reader.next_watched(&mut statistics) {
            records += 1;
            statistics.series().into_iter().for_each(|series| while series.next_closed().is_some() {});
            if records == RECORDS_MAX {
                return true;
            }
        }
        measured(&statistics, &*reader, records);
    }
    let Ok(mut reader) = (format.open)(path, &options) else { return false };
    let mut statistics = Statistics::new(reader.meta(), Some(Nanos::from_ms(10)));
    let mut timeline = Timeline::default();
    let (mut records, mut last) = (0, None);
    while let Ok(Some(record)) = reader.next() {
        assert!(last <= Some(record.request.arrival), "arrivals decrease");
        last = Some(record.request.arrival);
        assert!(usize::from(record.request.vm.0) < reader.meta().vms.len(), "a VM without a name");
        timeline.record(&record, &mut statistics);
        statistics.series().into_iter().for_each(|series| while series.next_closed().is_some() {});
        records += 1;
        if records == RECORDS_MAX {
            return true;
        }
    }
    timeline.finish(&mut statistics);
    measured(&statistics, &*reader, records);
    records > 0
}

/// The figures can be computed, and count the records read.
fn measured(statistics: &Statistics, reader: &dyn iocast_traces::TraceReader, records: u64) {
    let trace = support::provenance(reader, records);
    let figures = statistics.figures("fuzz", trace, reader.meta());
    let arrived: u64 = figures.arrivals.values().map(|of| of.requests).sum();
    assert!(arrived >= records, "{records} records, but {arrived} arrivals");
}

/// Where inputs of a format are put. Pages of a trace buffer are recognised by their name, and need the
/// descriptions of their layout beside them.
fn place(format: &Format, folder: &Path) -> PathBuf {
    if format.name != "trace-pipe-raw" {
        return folder.join("input");
    }
    let formats = support::data("trace-pipe-raw").join("loop.formats");
    let copied = folder.join("input.formats");
    for description in (format.members)(&formats).unwrap() {
        if let Ok(name) = description.strip_prefix(&formats) {
            std::fs::create_dir_all(copied.join(name).parent().unwrap()).unwrap();
            std::fs::copy(&description, copied.join(name)).unwrap();
        }
    }
    folder.join("input.trace_raw.0")
}

/// A Parquet trace whose writer was stopped after a checkpoint.
fn unfinished() -> Vec<u8> {
    let path = support::data("small.parquet");
    let mut reader = (support::format("parquet").open)(&path, &ReadOptions::default()).unwrap();
    let mut writer = GrowingWriter::begin(Path::new("x"), Vec::new(), reader.meta()).unwrap();
    while let Some(record) = reader.next().unwrap() {
        writer.write(&record, reader.meta()).unwrap();
    }
    writer.checkpoint(reader.meta()).unwrap();
    let kept = writer.safe_bytes() as usize;
    let mut bytes = writer.finish(reader.meta()).unwrap().0;
    bytes.truncate(kept);
    bytes
}

fn target(format: &'static Format) -> Target {
    let work = |path: &Path, way: usize| read_all_ways(format, path, way);
    let place = Box::new(|folder: &Path| place(format, folder));
    let mut seeds = seeds(format);
    seeds.extend((format.name == "parquet").then(unfinished));
    Target { place, ways: 12, ..Target::new(format.name, "input", seeds, SHORT_RUN, work) }
}

#[test]
fn no_input_panics_hangs_or_fills_the_memory() {
    let mut targets: Vec<Target> = FORMATS.iter().map(target).collect();
    let parquet = support::format("parquet");
    let (name, seeds) = ("parquet-fields".to_owned(), seeds(parquet));
    targets.push(Target { name, seeds, damage: thrift::damaged, ..target(parquet) });
    fuzz_all(targets);
}
