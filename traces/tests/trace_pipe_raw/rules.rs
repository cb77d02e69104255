//! The contents of pages, in captures that the encoder writes.

use std::path::PathBuf;

use iocast_traces::events::{Category, Event, action};
use iocast_traces::{Priority, Record, Timestamp};
use proptest::prelude::*;

use crate::encoder::{Layout, MISSED, MISSED_STORED, Machine, PC, Pages, Text, Value, write_formats};
use crate::whole::{Whole, lenient, read, strict};

const DEVICE: u32 = 8 << 20 | 16;

/// Tracepoints with their fields as Linux 6.1 has them.
fn usual() -> Vec<Layout> {
    let start = [("dev_t", "dev", Ok(4)), ("sector_t", "sector", Ok(8)), ("unsigned int", "nr_sector", Ok(4))];
    let (rwbs, comm) = (("char", "rwbs", Err(Text::Here(8))), ("char", "comm", Err(Text::Here(16))));
    let command = ("char", "cmd", Err(Text::At));
    let with = |more: &[(&'static str, &'static str, Result<usize, Text>)]| [&start[..], more].concat();
    let (bytes, error) = (("unsigned int", "bytes", Ok(4)), ("int", "error", Ok(4)));
    vec![
        Layout::new("block_bio_queue", 1_000, &with(&[rwbs, comm])),
        Layout::new("block_getrq", 1_001, &with(&[rwbs, comm])),
        Layout::new("block_rq_issue", 1_002, &with(&[bytes, rwbs, comm, command])),
        Layout::new("block_rq_complete", 1_003, &with(&[error, rwbs, command])),
        Layout::new("block_split", 1_004, &[start[0], start[1], ("sector_t", "new_sector", Ok(8)), rwbs, comm]),
        Layout::new("block_plug", 1_005, &[comm]),
    ]
}

/// The same tracepoints with fields in other places, of other sizes and kinds.
fn unusual() -> Vec<Layout> {
    let ioprio = ("unsigned short", "ioprio", Ok(2));
    let (sector, sectors) = (("sector_t", "sector", Ok(8)), ("sector_t", "nr_sector", Ok(8)));
    let (error, bytes) = (("long", "error", Ok(8)), ("unsigned short", "bytes", Ok(2)));
    let (rwbs, comm) = (("char", "rwbs", Err(Text::AtFromHere)), ("char", "comm", Err(Text::At)));
    let device = ("dev_t", "dev", Ok(4));
    let command = ("char", "cmd", Err(Text::AtFromHere));
    vec![
        Layout::new("block_bio_queue", 7, &[comm, sectors, device, rwbs, sector]),
        Layout::new("block_getrq", 65_535, &[rwbs, device, comm, sector, sectors]),
        Layout::new("block_rq_issue", 0, &[ioprio, sectors, bytes, command, sector, rwbs, device, comm]),
        Layout::new("block_rq_complete", 9, &[command, ioprio, ("int", "error", Ok(2)), sector, device, sectors, rwbs]),
        Layout::new("block_rq_requeue", 10, &[device, rwbs, sectors, sector]),
        Layout::new("block_bio_complete", 11, &[device, rwbs, ("int", "error", Ok(8)), sectors, sector]),
        Layout::new("block_split", 12, &[("sector_t", "new_sector", Ok(8)), sector, rwbs, device, error, comm]),
        Layout::new("block_unplug", 13, &[comm, ("int", "nr_rq", Ok(4))]),
        Layout::new("block_dirty_buffer", 14, &[device]),
    ]
}

/// A capture written to a folder of its own.
struct Capture {
    folder: tempfile::TempDir,
    machine: Machine,
    layouts: Vec<Layout>,
}

impl Capture {
    fn new(machine: Machine, layouts: Vec<Layout>) -> Capture {
        let folder = tempfile::tempdir().unwrap();
        write_formats(&folder.path().join("x.formats"), machine, &layouts);
        Capture { folder, machine, layouts }
    }

    /// The data of an event as a line states it: `bio_queue R 8 16`, `rq_complete W 8 8 -5`.
    fn data(&self, line: &str) -> Vec<u8> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = format!("block_{}", fields[0]);
        let layout = self.layouts.iter().find(|layout| layout.name == name).unwrap();
        let number = |at: usize| fields.get(at).map_or(0, |field| field.parse::<i64>().unwrap() as u64);
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let values = [
            ("dev", Value::Number(u64::from(DEVICE))),
            ("rwbs", text(fields.get(1).unwrap_or(&""))),
            ("sector", Value::Number(number(2))),
            ("nr_sector", Value::Number(number(3))),
            ("bytes", Value::Number(number(3) * 512)),
            ("new_sector", Value::Number(number(3))),
            ("error", Value::Number(number(4))),
            // Best effort, hint 5, level 3.
            ("ioprio", Value::Number(2 << 13 | 5 << 3 | 3)),
            ("comm", text("fio")),
            ("cmd", text("")),
        ];
        layout.encode(self.machine, 77, &values)
    }

    fn write(&self, cpu: u32, pages: &[u8]) -> PathBuf {
        let path = self.folder.path().join(format!("x.trace_raw.{cpu}"));
        std::fs::write(&path, pages).unwrap();
        path
    }

    fn read(&self, cpus: Vec<Pages>) -> Whole {
        for (cpu, pages) in cpus.into_iter().enumerate() {
            self.write(cpu as u32, &pages.finish());
        }
        read(&self.folder.path().join("x"), &strict()).unwrap()
    }
}

fn row(record: &Record) -> [i64; 5] {
    let ns = |time: Option<Timestamp>| time.map_or(-1, |time| time.as_ns() as i64);
    let Record { request, observed } = record;
    let (lba, sectors) = (request.lba.sector() as i64, request.sectors().count() as i64);
    [lba, sectors, ns(Some(request.arrival)), ns(observed.issued), ns(observed.completed)]
}

const LINES: [&str; 4] = ["bio_queue R 8 16", "getrq R 8 16", "rq_issue R 8 16", "rq_complete R 8 16 -5"];

#[test]
fn fields_are_where_the_formats_say() {
    for (layouts, priority) in [(usual(), Priority::NONE), (unusual(), Priority::new(2, 3).unwrap())] {
        let capture = Capture::new(PC, layouts);
        let mut pages = Pages::new(PC);
        for (number, line) in LINES.into_iter().enumerate() {
            pages.event(1_000 + number as u64, &capture.data(line), false);
        }
        let whole = capture.read(vec![pages]);
        assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[8, 16, 0, 2, 3]]);
        let request = &whole.records[0].request;
        assert_eq!((request.stream.0, request.cpu, request.priority), (77, 0, priority));
        assert_eq!(whole.records[0].observed.error, 5);
        assert_eq!(whole.meta.streams[&77], "fio");
        assert_eq!(whole.meta.provenance["trace-pipe-raw.device"], "8:16");
        assert_eq!(whole.meta.clock.name, "trace clock");
    }
}

#[test]
fn machines_of_either_byte_order_and_word_size_read_alike() {
    for (big_endian, long, page_bytes) in [(false, 4, 4096), (true, 8, 4096), (true, 4, 65_536), (false, 8, 16_384)] {
        let machine = Machine { big_endian, long, page_bytes };
        let capture = Capture::new(machine, unusual());
        let mut pages = Pages::new(machine);
        for (number, line) in LINES.into_iter().chain(["bio_complete W 32 8 -5"]).enumerate() {
            pages.event(1_000 + number as u64 * 200_000_000, &capture.data(line), number % 2 == 0);
        }
        let whole = capture.read(vec![pages]);
        let read: Vec<_> = whole.records.iter().map(row).collect();
        assert_eq!(read, [[8, 16, 0, 400_000_000, 600_000_000]], "{machine:?}");
        assert_eq!(whole.events[4].errno(), 5, "{machine:?}");
        let order = if big_endian { "big-endian" } else { "little-endian" };
        assert_eq!(whole.meta.provenance["trace-pipe-raw.byte_order"], order);
    }
}

/// Of 64 bytes in use, a big-endian `commit` of 32 bits looks like a flag to the other order.
#[test]
fn a_length_that_is_a_flag_in_the_other_byte_order_is_told_by_the_time() {
    let machine = Machine { big_endian: true, long: 4, ..PC };
    let capture = Capture::new(machine, usual());
    let mut pages = Pages::new(machine);
    pages.event(77, &capture.data("bio_queue R 8 8"), false);
    let length = 4 + capture.data("bio_queue R 8 8").len().next_multiple_of(4);
    // The rest as an event that was discarded.
    pages.discarded(1, 64 - length - 4);
    let whole = capture.read(vec![pages]);
    assert_eq!(whole.records.len(), 1);
    assert_eq!(whole.meta.provenance["trace-pipe-raw.zero_ns"], "77");
}

#[test]
fn times_are_extended_absolute_and_kept_by_discarded_events() {
    for machine in [PC, Machine { big_endian: true, ..PC }] {
        let capture = Capture::new(machine, usual());
        let begin = (0b10110u64 << 59) + 5;
        let mut pages = Pages::new(machine);
        let event = |line: &str| capture.data(line);
        pages.event(begin, &event("bio_queue R 8 8"), false);
        // Beyond 27 bits.
        pages.event(begin + (3 << 27) + 1, &event("bio_queue R 16 8"), false);
        // An absolute time, whose upper five bits are the page's.
        pages.stamp(begin + (1 << 40));
        pages.event(begin + (1 << 40) + 7, &event("bio_queue R 24 8"), true);
        pages.discarded(11, 40);
        pages.event(begin + (1 << 40) + 20, &event("bio_queue R 32 8"), false);
        pages.end_page();
        // The next page begins anew, later than 27 bits reach.
        pages.event(begin + (1 << 50), &event("bio_queue R 40 8"), false);
        // The rest of a page may be padding of no length.
        pages.raw(&machine.event_word(crate::encoder::PADDING, 0));
        pages.raw(&[0xff; 64]);
        let whole = capture.read(vec![pages]);
        let arrivals: Vec<u64> = whole.records.iter().map(|record| record.request.arrival.as_ns()).collect();
        assert_eq!(arrivals, [0, (3 << 27) + 1, (1 << 40) + 7, (1 << 40) + 20, 1 << 50]);
        assert_eq!(whole.meta.provenance["trace-pipe-raw.zero_ns"], begin.to_string());
    }
}

#[test]
fn an_absolute_time_that_seems_earlier_has_carried_into_the_bits_that_are_not_stored() {
    let capture = Capture::new(PC, usual());
    let mut pages = Pages::new(PC);
    let begin = (1u64 << 59) - 10;
    pages.event(begin, &capture.data("bio_queue R 8 8"), false);
    pages.stamp((1 << 59) + 10);
    pages.event((1 << 59) + 11, &capture.data("bio_queue R 16 8"), false);
    let whole = capture.read(vec![pages]);
    assert_eq!(whole.records[1].request.arrival.as_ns(), 21);
}

#[test]
fn cpus_are_merged_by_time() {
    let capture = Capture::new(PC, usual());
    let mut cpus = [Pages::new(PC), Pages::new(PC), Pages::new(PC)];
    for (number, line) in LINES.into_iter().enumerate() {
        // The last on the first CPU again; the third has none.
        cpus[[1, 0, 1, 0][number]].event(1_000 + number as u64, &capture.data(line), false);
    }
    let whole = capture.read(cpus.into());
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[8, 16, 0, 2, 3]]);
    assert_eq!(whole.events.iter().map(|event| event.cpu).collect::<Vec<_>>(), [1, 0, 1, 0]);
    assert_eq!((whole.records[0].request.cpu, whole.meta.provenance["trace-pipe-raw.cpus"].as_str()), (1, "0,1"));
    assert_eq!(whole.meta.provenance["trace-pipe-raw.files"], "3");
}

#[test]
fn lost_events_are_counted_with_either_word_size() {
    for (long, stored, lost) in [(8, true, 5), (4, true, 5), (8, false, 1), (4, false, 1)] {
        let machine = Machine { long, ..PC };
        let capture = Capture::new(machine, usual());
        let mut pages = Pages::new(machine);
        pages.event(1, &capture.data("bio_queue R 8 8"), false);
        pages.end_page();
        pages.event(2, &capture.data("bio_queue R 16 8"), false);
        (pages.flags, pages.missed) = (MISSED | if stored { MISSED_STORED } else { 0 }, 5);
        let path = capture.write(0, &pages.finish());
        let error = read(&path, &strict()).unwrap_err().to_string();
        assert!(error.contains("at byte 4096") && error.contains("of CPU 0 before this page"), "{error}");
        let whole = read(&path, &lenient()).unwrap();
        assert_eq!((whole.losses.lost_events, whole.records.len()), (lost, 2), "{machine:?} {stored}");
    }
}

#[test]
fn events_that_found_the_buffer_full_are_lost() {
    let capture = Capture::new(PC, usual());
    let mut pages = Pages::new(PC);
    pages.event(1, &capture.data("bio_queue R 8 8"), false);
    let path = capture.write(0, &pages.finish());
    let stats = capture.folder.path().join("x.formats/stats.0");
    std::fs::write(&stats, "entries: 1\noverrun: 0\ndropped events: 0\nread events: 0\n").unwrap();
    assert_eq!(read(&path, &strict()).unwrap().losses.total(), 0);
    std::fs::write(&stats, "entries: 1\noverrun: 0\ndropped events: 12\nread events: 0\n").unwrap();
    let error = read(&path, &strict()).unwrap_err().to_string();
    assert!(error.contains("lost 12 events of CPU 0 that found its buffer full"), "{error}");
    assert_eq!(read(&path, &lenient()).unwrap().losses.lost_events, 12);
}

#[test]
fn other_tracepoints_and_zone_commands_are_counted() {
    let capture = Capture::new(PC, unusual());
    let mut pages = Pages::new(PC);
    let other = Layout::new("sched_switch", 500, &[("int", "prio", Ok(4))]);
    for (time, data) in [
        capture.data("dirty_buffer"),
        other.encode(PC, 1, &[]),
        capture.data("bio_queue ZR 8 0"),
        capture.data("unplug"),
        capture.data("bio_queue W 8 8"),
        capture.data("rq_requeue W 8 8"),
        capture.data("split W 8 12"),
    ]
    .into_iter()
    .enumerate()
    {
        pages.event(time as u64, &data, false);
    }
    let whole = capture.read(vec![pages]);
    assert_eq!(whole.meta.provenance["trace-pipe-raw.other_events"], "2");
    assert_eq!(whole.meta.provenance["trace-pipe-raw.zone_commands"], "1");
    let codes: Vec<u8> = whole.events.iter().map(Event::code).collect();
    assert_eq!(codes, [action::UNPLUG, action::QUEUE, action::REQUEUE, action::SPLIT]);
    assert_eq!(whole.events[3].bytes, 4 * 512);
    assert!(whole.events.iter().all(|event| event.device == DEVICE && event.is(Category::FS)));
}

proptest! {
    /// Any events, on machines of any kind, in pages of any size: the events read are those written.
    #[test]
    fn written_and_read_is_the_same(
        generated in proptest::collection::vec(
            (0usize..4, 1u64..1 << 40, 1u64..1 << 12, 0u64..1 << 30, any::<bool>(), 0usize..3),
            1..80,
        ),
        (big_endian, wide, order) in (any::<bool>(), any::<bool>(), 0usize..4),
        odd in any::<bool>(),
    ) {
        let machine = Machine { big_endian, long: if wide { 8 } else { 4 }, page_bytes: 512 << order };
        let capture = Capture::new(machine, if odd { unusual() } else { usual() });
        let mut cpus = [Pages::new(machine), Pages::new(machine), Pages::new(machine)];
        let mut time = 7;
        let mut expected = Vec::new();
        for (kind, sector, sectors, gap, long, cpu) in generated {
            time += gap;
            let name = ["bio_queue", "getrq", "rq_issue", "rq_complete"][kind];
            let sectors = if odd { sectors % 128 } else { sectors };
            cpus[cpu].event(time, &capture.data(&format!("{name} W {sector} {}", sectors.max(1))), long);
            let code = [action::QUEUE, action::GET_REQUEST, action::ISSUE, action::COMPLETE][kind];
            expected.push((time, cpu as u32, code, sector, sectors.max(1)));
        }
        // Events of one time come by CPU.
        expected.sort_by_key(|(time, cpu, ..)| (*time, *cpu));
        let whole = capture.read(cpus.into());
        let events = whole.events.iter();
        let read: Vec<_> =
            events.map(|event| (event.time, event.cpu, event.code(), event.sector, event.sectors())).collect();
        prop_assert_eq!(read, expected);
    }
}
