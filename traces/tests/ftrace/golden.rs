//! Real captures; the expected values were read off their lines.

use iocast_traces::events::action;
use iocast_traces::formats;
use iocast_traces::{Flags, Layer, Operation, Priority, Record};

use crate::whole::{Whole, at_issued, data, lenient, read, row, strict, text};

fn fixture(name: &str) -> Whole {
    read(&data(name), &strict()).unwrap()
}

fn at(whole: &Whole, lba: u64, sectors: u64) -> &Record {
    let is = |record: &&Record| (record.request.lba.sector(), record.request.sectors().count()) == (lba, sectors);
    whole.records.iter().find(is).unwrap()
}

#[test]
fn events_are_as_many_as_lines_hold_their_names() {
    for name in ["loop", "none"] {
        let (whole, text) = (fixture(name), text(name));
        for (tracepoint, code) in [
            ("block_bio_queue", action::QUEUE),
            ("block_getrq", action::GET_REQUEST),
            ("block_rq_insert", action::INSERT),
            ("block_rq_issue", action::ISSUE),
            ("block_rq_complete", action::COMPLETE),
            ("block_bio_backmerge", action::BACK_MERGE),
            ("block_split", action::SPLIT),
            ("block_bio_remap", action::REMAP),
            ("block_plug", action::PLUG),
            ("block_unplug", action::UNPLUG),
        ] {
            let printed = text.lines().filter(|line| line.contains(&format!(": {tracepoint}: "))).count();
            let read = whole.events.iter().filter(|event| event.code() == code).count();
            assert_eq!(read, printed, "{name} {tracepoint}");
        }
        let queued = text.lines().filter(|line| line.contains(": block_bio_queue: ")).count();
        assert_eq!(whole.records.len(), queued, "{name}");
        assert_eq!(whole.losses.total(), 0, "{name}");
        let issued = text.lines().filter(|line| line.contains(": block_rq_issue: ")).count();
        let at_device = read(&data(name), &at_issued()).unwrap();
        assert_eq!(at_device.records.len(), issued, "{name}");
        assert_eq!(at_device.meta.layer, Layer::GuestIssued);
    }
}

#[test]
fn requests_of_a_loop_device_are_read_off_its_lines() {
    let whole = fixture("loop");
    // Seconds 15,531, microseconds from 444,527.
    let us = |micros: i64| micros - 444_527;
    let first = &whole.records[0];
    assert_eq!(row(first), [24_704, 8, 0, us(444_545), us(444_550), us(444_600)]);
    assert_eq!((first.request.stream.0, first.request.cpu), (13_275, 0));
    assert_eq!(first.request.priority, Priority::new(2, 5).unwrap());
    // Split: ends with its second part.
    let split = at(&whole, 0, 2_048);
    assert_eq!(row(split), [0, 2_048, us(446_408), us(446_419), us(446_421), us(447_135)]);
    // Merged into the request of the bio before it.
    let merged = at(&whole, 2_112, 8);
    assert_eq!(row(merged), [2_112, 8, us(517_293), us(517_317), us(517_321), us(517_365)]);
    assert_eq!(merged.request.flags, Flags::SYNC);
    let flush = whole.records.iter().find(|record| record.request.operation == Operation::Flush).unwrap();
    assert_eq!(row(flush), [0, 0, us(447_347), -1, us(447_354), us(447_423)]);
    assert_eq!((flush.request.stream.0, flush.request.flags), (13_276, Flags::PREFLUSH | Flags::SYNC));
    let discard = at(&whole, 35_712, 128);
    assert_eq!(row(discard), [35_712, 128, us(447_232), us(447_238), us(447_251), us(447_276)]);
    assert_eq!(discard.request.operation, Operation::Discard);
    assert!(whole.losses.unmatched.is_empty(), "{:?}", whole.losses);
    assert_eq!(whole.meta.streams[&13_275], "fio");
    assert_eq!(whole.meta.clock.name, "trace clock");
    for (key, value) in [
        ("device", "7:0"),
        ("cpus", "0,1"),
        ("tracer", "nop"),
        ("resolution", "1 us"),
        ("other_events", "9"),
        ("remaps", "20"),
        ("splits", "6"),
        ("zero_ns", "15531444527000"),
    ] {
        assert_eq!(whole.provenance(key), Some(value), "{key}");
    }
}

#[test]
fn without_a_scheduler_there_are_no_inserts_and_the_priority_is_that_of_the_issue() {
    let whole = fixture("none");
    assert_eq!(row(&whole.records[0]), [1_068_640, 8, 0, -1, 9, 14_192]);
    assert!(whole.records.iter().all(|record| record.observed.inserted.is_none()));
    let issued = whole.records.iter().filter(|record| record.observed.issued.is_some());
    let priority = Priority::new(2, 4).unwrap();
    assert!(issued.clone().count() == 147 && issued.clone().all(|record| record.request.priority == priority));
    let unfinished = whole.records.iter().filter(|record| record.observed.completed.is_none()).count() as u64;
    assert_eq!(whole.losses.unmatched.get("Q without C"), Some(&unfinished));
    assert_eq!(unfinished, 149 - 144);
}

#[test]
fn events_that_the_buffer_lost_are_an_error_or_counted() {
    let error = read(&data("trace_pipe-lost"), &strict()).unwrap_err().to_string();
    assert!(error.contains("at line 1: the capture lost 2754 events of CPU 0 before this line"), "{error}");
    let whole = read(&data("trace_pipe-lost"), &lenient()).unwrap();
    assert_eq!(whole.losses.lost_events, 2_754 + 3_391);
    assert!(whole.losses.skipped.is_empty(), "{:?}", whole.losses);
}

#[test]
fn ftrace_text_is_recognised_as_ftrace() {
    for name in ["loop", "none", "trace_pipe-lost"] {
        assert_eq!(formats::recognise(&data(name), &strict()).unwrap().name, "ftrace", "{name}");
    }
}
