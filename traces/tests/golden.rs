//! The fixtures read as their golden files say, what is written reads back as it was, and each
//! format recognises its own files only.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use std::path::Path;

use iocast_traces::formats::{self, FORMATS};
use iocast_traces::trace::ReadOptions;
use iocast_traces::{Flags, Layer, Lba, Observed, Operation, Record, Request, Sectors, Timestamp};
use proptest::prelude::*;
use support::{FIXTURES, data, line, read_as, read_bytes, simple_records};

/// Set to write the golden files anew from the records read.
const BLESS: &str = "IOCAST_BLESS";

#[test]
fn fixtures_read_as_their_golden_files_say() {
    for (format, name) in FIXTURES {
        let whole = read_as(format, &data(name), &ReadOptions::default()).unwrap();
        let lines: String = whole.records.iter().map(|record| line(record) + "\n").collect();
        let golden = data(&format!("{name}.golden"));
        if std::env::var_os(BLESS).is_some() {
            std::fs::write(&golden, &lines).unwrap();
        }
        assert_eq!(lines, std::fs::read_to_string(&golden).unwrap(), "{name}");
        assert_eq!(whole.losses.total(), 0, "{name}");
        assert_eq!(whole.meta.format, format, "{name}");
    }
}

#[test]
fn each_format_recognises_only_its_own_files() {
    for (owner, name) in FIXTURES {
        assert_eq!(formats::recognise(&data(name), &ReadOptions::default()).unwrap().name, owner, "{name}");
        let head = std::fs::read(data(name)).unwrap();
        for format in FORMATS {
            // Without its name, and cut to the part that recognition reads.
            let head = &head[..head.len().min(iocast_traces::input::HEAD_BYTES)];
            let claims = (format.recognises)(Path::new("input"), head);
            assert_eq!(claims, format.name == owner, "{} and {name}", format.name);
        }
    }
}

#[test]
fn a_compressed_fixture_reads_alike() {
    for (format, name) in FIXTURES {
        let plain = std::fs::read(data(name)).unwrap();
        let compressed = zstd::encode_all(&plain[..], 1).unwrap();
        let whole = read_bytes(format, &compressed, false).unwrap();
        assert_eq!(whole.records, read_bytes(format, &plain, false).unwrap().records, "{name}");
        assert_eq!(whole.position_bytes, compressed.len() as u64, "{name}");
    }
}

#[test]
fn the_layer_is_the_formats_unless_one_is_given() {
    for (format, name) in FIXTURES.into_iter().filter(|(format, _)| *format != "parquet") {
        let layer = |options| read_as(format, &data(name), &options).unwrap().meta.layer;
        assert_eq!(layer(ReadOptions::default()), support::format(format).layer, "{name}");
        for given in Layer::ALL {
            assert_eq!(layer(ReadOptions { layer: Some(given), ..ReadOptions::default() }), given, "{name}");
        }
    }
}

#[test]
fn the_header_of_a_load_file_is_kept_for_its_licence() {
    let whole = read_as("blkreplay", &data("small.load"), &ReadOptions::default()).unwrap();
    let header = &whole.meta.provenance["header"];
    assert!(header.starts_with("A load file written for the tests of iocast.\n1.5 ways"), "{header}");
    assert!(header.ends_with("replay_duration=0"), "{header}");
}

#[test]
fn line_ends_of_windows_and_a_missing_last_one_are_accepted() {
    let texts = ["blkreplay", "disksim-validate", "msr", "spc", "fiu", "alibaba", "tencent", "blkparse", "ftrace"];
    for (format, name) in FIXTURES.into_iter().filter(|(format, _)| texts.contains(format)) {
        let text = std::fs::read_to_string(data(name)).unwrap();
        let expected = read_bytes(format, text.as_bytes(), false).unwrap();
        for variant in [text.replace('\n', "\r\n"), text.trim_end().to_owned()] {
            let read = read_bytes(format, variant.as_bytes(), false).unwrap();
            assert_eq!((read.records, read.meta), (expected.records.clone(), expected.meta.clone()), "{name}");
        }
    }
}

/// A record of the simple values; `us` rounds times to whole microseconds.
fn record(simple: support::Simple, arrival_ns: u64) -> Record {
    let (operation, lba, sectors, ..) = simple;
    let (lba, sectors) = if operation == Operation::Flush { (0, 0) } else { (lba, sectors) };
    Record::arrived(Request::new(Timestamp::from_ns(arrival_ns), operation, Lba::new(lba), Sectors::new(sectors)))
}

proptest! {
    #[test]
    fn blkreplay_reads_what_was_written(simple in simple_records(), flags in 0u8..32) {
        let mut ns = 0;
        let records: Vec<Record> = simple.into_iter().map(|values| {
            let (operation, _, _, gap, delay, duration) = values;
            ns += gap;
            let mut record = record(values, ns);
            record.request.flags = Flags::from_bits(flags).unwrap();
            if operation == Operation::Flush {
                record.request.flags -= Flags::PREFLUSH;
            }
            let later = |span: u64, base: u64| (span > 0).then_some(Timestamp::from_ns(base + span));
            let (issued, completed) = (later(delay, ns), later(duration, ns + delay));
            record.observed = Observed { issued, completed, ..Observed::default() };
            record
        }).collect();
        let read = read_bytes("blkreplay", &support::write_blkreplay(&records), false).unwrap();
        prop_assert_eq!(read.records, records);
    }

    #[test]
    fn disksim_reads_what_was_written(simple in simple_records()) {
        let mut ns = 0;
        let records: Vec<Record> = simple.into_iter().map(|(operation, lba, sectors, think, service, _)| {
            let operation = if operation == Operation::Read { operation } else { Operation::Write };
            let mut record = record((operation, lba, sectors, 0, 0, 0), ns);
            let completed = Timestamp::from_ns(ns + service);
            record.observed.issued = Some(record.request.arrival);
            record.observed.completed = Some(completed);
            ns += service + think;
            record
        }).collect();
        let read = read_bytes("disksim-validate", &support::write_disksim(&records), false).unwrap();
        prop_assert_eq!(read.records, records);
    }

    #[test]
    fn vscsi_reads_what_was_written(simple in simple_records(), version in 1u16..3) {
        let mut us = 0;
        let records: Vec<Record> = simple.into_iter().enumerate().map(|(at, values)| {
            us += if at == 0 { 0 } else { values.3 };
            let mut record = record(values, us * 1_000);
            let known = version == 2 && values.4 > 0;
            record.observed.completed = known.then_some(Timestamp::from_ns((us + values.4) * 1_000));
            record
        }).collect();
        let read = read_bytes("vscsi", &support::write_vscsi(version, &records), false).unwrap();
        prop_assert_eq!(read.records, records);
    }

    /// Damaged input may be refused or, where the damage makes other values, be read; it never
    /// panics. The records of a lenient read are still in order.
    #[test]
    fn damaged_fixtures_never_panic(
        fixture in 0..FIXTURES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
        lenient in any::<bool>(),
    ) {
        let (format, name) = FIXTURES[fixture];
        let mut bytes = std::fs::read(data(name)).unwrap();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(whole) = read_bytes(format, &bytes, lenient) {
            prop_assert!(whole.records.is_sorted_by_key(|record| record.request.arrival));
        }
    }
}
