//! The `blkparse` format against blkparse itself: what it prints of a binary capture must read as
//! that capture does.

use std::path::{Path, PathBuf};
use std::process::Command;

use iocast_traces::events::{Category, Event, Watch, action};
use iocast_traces::formats::{self, blkparse, blktrace};
use iocast_traces::trace::ReadOptions;
use iocast_traces::{Place, Problem, ReadError, Record, Timestamp};
use proptest::prelude::*;

use crate::writer::{Capture, Whole, at_issued, lenient, strict};

/// The output of blkparse for the capture with this stem.
pub(crate) fn blkparse(stem: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("blkparse")
        .args(arguments)
        .arg("-i")
        .arg(stem)
        .output()
        .expect("blkparse (Debian package blktrace) must be installed");
    assert!(output.status.success(), "blkparse: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn read_text(text: &[u8], options: &ReadOptions) -> Result<Whole, ReadError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, text).unwrap();
    let mut reader = (blkparse::FORMAT.open)(&path, options)?;
    let mut records: Vec<Record> = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    let (meta, losses) = (reader.meta().clone(), reader.losses().clone());
    Ok(Whole { meta, records, losses, position_bytes: reader.position_bytes() })
}

/// The records of a text of one line per event, each at its own microsecond: `Q R 8 + 8 [fio]`.
fn lines(lines: &str) -> String {
    let line =
        |(number, line): (usize, &str)| format!("  8,0    0 {:8}     0.{number:06}000    77 {line}\n", number + 1);
    lines.lines().enumerate().map(line).collect()
}

/// Asserts that the text of a capture reads as the capture, from both points of arrival.
pub(crate) fn assert_alike(stem: &Path, arguments: &[&str]) -> Result<(), TestCaseError> {
    let text = blkparse(stem, arguments);
    for options in [strict(), at_issued()] {
        let expected = crate::writer::read(stem, &options).unwrap();
        let read = read_text(&text, &options).unwrap();
        prop_assert_eq!(&read.losses, &expected.losses);
        prop_assert_eq!(read.records.len(), expected.records.len());
        for (ours, expected) in read.records.iter().zip(&expected.records) {
            prop_assert_eq!(ours, expected);
        }
    }
    Ok(())
}

#[test]
fn the_text_of_real_captures_reads_as_they_do() {
    for name in ["virtio-mail", "virtio-file", "iscsi-mail"] {
        let folder = tempfile::tempdir().unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/blktrace/{name}.blktrace.0.gz"));
        let mut input = flate2::read::MultiGzDecoder::new(std::fs::File::open(data).unwrap());
        let mut file = std::fs::File::create(folder.path().join("x.blktrace.0")).unwrap();
        std::io::copy(&mut input, &mut file).unwrap();
        for arguments in [&["-q"][..], &[], &["-s", "-t"]] {
            assert_alike(&folder.path().join("x"), arguments).unwrap();
        }
        let names = read_text(&blkparse(&folder.path().join("x"), &[]), &strict()).unwrap().meta.streams;
        assert!(names.values().any(|name| name == "fio") && names.values().any(|name| name.contains("kworker/0:1H")));
    }
}

/// The events of a capture.
fn events(open: fn(&Path, &ReadOptions) -> formats::EventsOpened, path: &Path) -> Vec<(u64, Event)> {
    #[derive(Default)]
    struct Seen(Vec<(u64, Event)>);
    impl Watch for Seen {
        fn event(&mut self, now: Timestamp, event: &Event) {
            self.0.push((now.as_ns(), *event));
        }
    }
    let mut reader = open(path, &lenient()).unwrap();
    let mut seen = Seen::default();
    while reader.next_watched(&mut seen).unwrap().is_some() {}
    seen.0
}

/// One event of any kind that blkparse prints.
fn any_event() -> impl Strategy<Value = (Event, Vec<u8>)> {
    let properties = prop_oneof![
        Just(Category::READ),
        Just(Category::WRITE),
        Just(Category::WRITE | Category::DISCARD),
        Just(Category::READ | Category::FLUSH),
        Just(Category::WRITE | Category::FLUSH | Category::FUA | Category::SYNC | Category::META),
        Just(Category::READ | Category::AHEAD),
    ];
    let length = prop_oneof![Just(0u32), 1..9u32, 0..1u32 << 23];
    let numbers = (1..16u8, 0..1u64 << 40, length, -600..1i16, any::<u32>(), 0..3u32, 1..5_000u64);
    (numbers, properties, any::<bool>(), any::<u64>()).prop_map(
        |((code, sector, sectors, error, pid, cpu, gap), properties, passthrough, payload)| {
            let may_pass = [action::QUEUE, action::INSERT, action::ISSUE, action::COMPLETE, action::REQUEUE];
            let side = if passthrough && may_pass.contains(&code) { Category::PASSTHROUGH } else { Category::FS };
            let has_error = matches!(code, action::COMPLETE | action::REQUEUE);
            let event = Event {
                time: gap,
                sector,
                bytes: sectors * 512,
                action: u32::from(code) | (properties | side).in_action(),
                pid,
                cpu,
                error: if has_error { error as u16 } else { 0 },
                ..Event::default()
            };
            let payload = match code {
                // The device before and after, and the sector before.
                action::REMAP => {
                    [&(8u32 << 20 | 1).to_be_bytes()[..], &(8u32 << 20 | 2).to_be_bytes(), &payload.to_be_bytes()]
                        .concat()
                }
                action::SPLIT => (sector + payload % 1_000).to_be_bytes().to_vec(),
                action::UNPLUG | action::UNPLUG_TIMER => (payload % 100).to_be_bytes().to_vec(),
                _ if side == Category::PASSTHROUGH => payload.to_be_bytes()[..payload as usize % 9].to_vec(),
                _ => Vec::new(),
            };
            (event, payload)
        },
    )
}

/// The fields of an event that blkparse prints.
fn printed(event: &Event) -> Event {
    let mut printed = Event { cgroup: 0, time: 0, ..*event };
    let passed = event.is(Category::PASSTHROUGH);
    let kept = Category::all() - Category::READ - Category::FS - Category::QUEUE - Category::ISSUE;
    let category = event.category() & (kept - Category::COMPLETE - Category::REQUEUE);
    printed.action = u32::from(event.code()) | category.in_action();
    match event.code() {
        action::PLUG | action::UNPLUG | action::UNPLUG_TIMER => (printed.sector, printed.bytes) = (0, 0),
        action::COMPLETE | action::REQUEUE if passed => (printed.sector, printed.bytes) = (0, 0),
        action::COMPLETE | action::REQUEUE | action::REMAP | action::SPLIT => {}
        _ if passed || event.bytes == 0 => printed.sector = 0,
        _ => {}
    }
    printed
}

proptest! {
    #[test]
    fn every_event_that_is_printed_is_read_as_it_was(
        generated in proptest::collection::vec(any_event(), 1..60),
        name in "[ -~&&[^\0]]{1,15}",
    ) {
        let mut capture = Capture::new(3);
        let mut time = 1_000_000_000;
        let named = Event { action: 0x400 << 16, pid: generated[0].0.pid, time, ..Event::default() };
        capture.add(named, name.as_bytes());
        // An event that states the device: a remap, alone, does not.
        capture.add(Event { time, action: 1 | 0x11 << 16, ..Event::default() }, &[]);
        for (event, payload) in generated {
            time += event.time;
            capture.add(Event { time, ..event }, &payload);
        }
        let stem = capture.write();
        let text = capture.folder().join("text");
        std::fs::write(&text, blkparse(&stem, &[])).unwrap();
        let expected = events(blktrace::FORMAT.open_events.unwrap(), &stem);
        let read = events(blkparse::FORMAT.open_events.unwrap(), &text);
        prop_assert_eq!(read.len(), expected.len());
        for ((our_time, ours), (time, expected)) in read.iter().zip(&expected) {
            prop_assert_eq!((our_time, printed(ours)), (time, printed(expected)), "{:?}", expected);
        }
    }

    #[test]
    fn damaged_texts_do_no_harm(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..20),
        cut in any::<usize>(),
        name in prop_oneof![Just("virtio-mail"), Just("iscsi-mail")],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/blktrace/{name}.blktrace.0.gz"));
        let mut input = flate2::read::MultiGzDecoder::new(std::fs::File::open(data).unwrap());
        let mut file = std::fs::File::create(folder.path().join("x.blktrace.0")).unwrap();
        std::io::copy(&mut input, &mut file).unwrap();
        let mut text = blkparse(&folder.path().join("x"), &[]);
        for (at, byte) in changes {
            let at = at % text.len();
            text[at] = byte;
        }
        text.truncate(text.len() - cut % text.len() / 2);
        let strictly = read_text(&text, &strict());
        let whole = read_text(&text, &lenient()).unwrap();
        if let Ok(strictly) = strictly {
            prop_assert_eq!(whole.records, strictly.records);
        }
    }
}

/// First sector, sectors, and the microseconds of Q, I, D and C; -1 where there is none.
fn row(record: &Record) -> [i64; 6] {
    let us = |time: Option<Timestamp>| time.map_or(-1, |time| time.as_ns() as i64 / 1000);
    let Record { request, observed } = record;
    let (lba, sectors) = (request.lba.sector() as i64, request.sectors().count() as i64);
    [lba, sectors, us(Some(request.arrival)), us(observed.inserted), us(observed.issued), us(observed.completed)]
}

fn rows(text: &str) -> Vec<[i64; 6]> {
    read_text(text.as_bytes(), &strict()).unwrap().records.iter().map(row).collect()
}

const ONE: &str = "Q R 8 + 8 [a b] c]\nG R 8 + 8 [fio]\nI R 8 + 8 [fio]\nD R 8 + 8 [fio]\nC R 8 + 8 [0]";

#[test]
fn a_request_is_read_from_its_lines() {
    assert_eq!(rows(&lines(ONE)), [[8, 8, 0, 2, 3, 4]]);
    let whole = read_text(lines(ONE).as_bytes(), &strict()).unwrap();
    assert_eq!(whole.meta.streams.get(&77).map(String::as_str), Some("fio"));
    assert_eq!(whole.meta.provenance["blkparse.device"], "8:0");
    // The C library prints this for a name that is not known.
    let unknown = read_text(lines(&ONE.replace("[fio]", "[(null)]").replace("[a b] c]", "[]")).as_bytes(), &strict());
    assert!(unknown.unwrap().meta.streams.is_empty());
    // Line ends of Windows, and none at the last.
    assert_eq!(rows(&lines(ONE).replace('\n', "\r\n")), rows(&lines(ONE)));
    assert_eq!(rows(lines(ONE).trim_end()), rows(&lines(ONE)));
}

#[test]
fn what_stands_around_the_events_is_passed_over() {
    let summary = "CPU0 (sda):\n Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB\n\n\
                   Throughput (R/W): 0KiB/s / 0KiB/s\nEvents (sda): 5 entries\nSkips: 0 forward (0 -   0.0%)\n";
    let whole = format!("Input file sda.blktrace.0 added\nInput file sda.blktrace.1 added\n{}{summary}", lines(ONE));
    assert_eq!(rows(&whole), rows(&lines(ONE)));
    // Of processes, with -s.
    let of_process = format!("{}fio (77, ...)\n Reads Queued: 1\n{summary}", lines(ONE));
    assert_eq!(rows(&of_process), rows(&lines(ONE)));
    let error = read_text((whole + &lines(ONE)).as_bytes(), &strict()).unwrap_err();
    assert_eq!(error.place, Place::Line(14), "{error}");
    assert!(error.to_string().contains("behind blkparse's summary"), "{error}");
}

#[test]
fn messages_are_counted_and_remaps_belong_to_the_traced_device() {
    let text = lines("Q R 8 + 8 [fio]\nm N any text\nA R 8 + 8 <- (8,17) 0\nC R 8 + 8 [0]")
        .replace("        2     0", "        0     0");
    let text = text.replace("        3     0", "        2     0").replace("        4     0", "        3     0");
    let text = text.replacen("  8,0    0        2", "  8,2    0        2", 1);
    let whole = read_text(text.as_bytes(), &strict()).unwrap();
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[8, 8, 0, -1, -1, 3]]);
    assert_eq!(whole.meta.provenance["blkparse.messages"], "1");
    assert_eq!(whole.meta.provenance["blkparse.remaps"], "1");
}

#[test]
fn the_split_point_of_a_large_disk_is_printed_without_its_upper_bits() {
    let sector = (5u64 << 32) - 4;
    let second = 4;
    let text = lines(&format!(
        "Q W {sector} + 16 [a]\nX W {sector} / {second} [a]\nG W {sector} + 8 [a]\nG W {next} + 8 [a]
D W {sector} + 8 [a]\nD W {next} + 8 [a]\nC W {sector} + 8 [0]\nC W {next} + 8 [0]",
        next = sector + 8
    ));
    let whole = read_text(text.as_bytes(), &strict()).unwrap();
    assert!(whole.losses.unmatched.is_empty(), "{:?}", whole.losses);
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[sector as i64, 16, 0, -1, 4, 7]]);
}

/// In the order in which the files of several CPUs are merged, which blkparse may print in another.
#[test]
fn events_of_one_time_come_by_cpu_and_number() {
    let line = |cpu: u32, number: u32, line: &str| format!("  8,0    {cpu} {number:8}     0.000000001    77 {line}\n");
    let text = [
        line(1, 1, "C R 8 + 8 [0]"),
        line(0, 3, "D R 8 + 8 [a]"),
        line(0, 2, "G R 8 + 8 [a]"),
        line(0, 1, "Q R 8 + 8 [a]"),
    ];
    let whole = read_text(text.concat().as_bytes(), &strict()).unwrap();
    assert!(whole.losses.unmatched.is_empty(), "{:?}", whole.losses);
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[8, 8, 0, -1, 0, 0]]);
}

#[test]
fn missing_numbers_are_lost_events() {
    let text = lines(ONE).replace("        5     0", "        9     0");
    let error = read_text(text.as_bytes(), &strict()).unwrap_err();
    assert!(matches!(error.problem, Problem::Lost(_)), "{error}");
    assert_eq!(error.place, Place::Line(5));
    assert!(error.to_string().contains("lost 4 events of CPU 0 before this one (numbers 5 to 8)"), "{error}");
    let whole = read_text(text.as_bytes(), &lenient()).unwrap();
    assert_eq!((whole.losses.lost_events, whole.records.len()), (4, 1));
}

#[test]
fn bad_lines_are_refused_with_their_place() {
    let good = lines(ONE);
    let with = |line: &str| format!("{good}{line}\n").into_bytes();
    let head = "  8,0    0        6     0.000005000    77";
    let long = "9".repeat(10_000);
    for (name, text, place, words) in [
        ("empty", Vec::new(), Place::Whole, "empty"),
        ("only a summary", b"CPU0 (sda):\n Reads Queued: 0\n".to_vec(), Place::Whole, "empty"),
        ("another format", with(&format!("{head} C R 8 8 0")), Place::Line(6), "expected [error] at the end"),
        ("no device", with("some text"), Place::Line(6), "expected a device, MAJOR,MINOR"),
        ("device out of range", with("4096,0 0 6 0.000005000 77 Q R 8 + 8 [a]"), Place::Line(6), "expected a device"),
        ("CPU absurd", with("8,0 70000 6 0.000005000 77 Q R 8 + 8 [a]"), Place::Line(6), "a CPU below 65536"),
        ("time NaN", with("8,0 0 6 NaN 77 Q R 8 + 8 [a]"), Place::Line(6), "expected seconds with nine decimals"),
        ("time negative", with("8,0 0 6 -1.000000000 77 Q R 8 + 8 [a]"), Place::Line(6), "nine decimals"),
        ("time too coarse", with("8,0 0 6 1.000005 77 Q R 8 + 8 [a]"), Place::Line(6), "nine decimals"),
        ("time too large", with("8,0 0 6 18446744074.000000000 77 Q R 8 + 8 [a]"), Place::Line(6), "nine decimals"),
        ("pid too large", with("8,0 0 6 0.000005000 4294967296 Q R 8 + 8 [a]"), Place::Line(6), "a process id"),
        ("action unknown", with(&format!("{head} Z R 8 + 8 [a]")), Place::Line(6), "expected an action"),
        (
            "operation unknown",
            with(&format!("{head} Q X 8 + 8 [a]")),
            Place::Line(6),
            "expected letters of an operation",
        ),
        ("sector too large", with(&format!("{head} Q R 18446744073709551616 + 8 [a]")), Place::Line(6), "a sector"),
        ("length too large", with(&format!("{head} Q R 8 + 8388608 [a]")), Place::Line(6), "a length below 2^23"),
        ("length missing", with(&format!("{head} Q R 8 + [a]")), Place::Line(6), "a length in sectors"),
        ("no process", with(&format!("{head} Q R 8 + 8")), Place::Line(6), "expected [process]"),
        ("error no number", with(&format!("{head} C R 8 + 8 [fio]")), Place::Line(6), "a number in [error]"),
        ("error too large", with(&format!("{head} C R 8 + 8 [65536]")), Place::Line(6), "an error number"),
        ("split without its second part", with(&format!("{head} X R 8 [a]")), Place::Line(6), "expected / and"),
        ("remap from nowhere", with(&format!("{head} A R 8 + 8 (8,1) 4")), Place::Line(6), "expected <- (MAJOR"),
        ("unplug without a count", with(&format!("{head} U N [a]")), Place::Line(6), "expected [process]"),
        ("an endless line", with(&long), Place::Line(6), "a line of more than 4096 bytes"),
        (
            "impossible address",
            with(&format!("{head} Q R 4611686018427387904 + 8 [a]")),
            Place::Line(6),
            "expected one below",
        ),
        (
            "out of order",
            with("8,0 1 1 0.000005000 7 P N [a]\n8,0 1 2 1.000000000 7 P N [a]\n8,0 1 3 0.900000000 7 P N [a]"),
            Place::Line(8),
            "out of order",
        ),
        (
            "cut in a line",
            good.trim_end().trim_end_matches(']').as_bytes().to_vec(),
            Place::Line(5),
            "the middle of a line",
        ),
        (
            "two devices",
            with("8,16 0 1 0.000005000 7 Q R 8 + 8 [a]"),
            Place::Line(6),
            "device 8:16 in a capture of device 8:0",
        ),
    ] {
        let error = read_text(&text, &strict()).unwrap_err();
        assert_eq!(error.place, place, "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert!(error.to_string().contains("text"), "{name}: {error} does not name the file");
        if place != Place::Whole {
            let whole = read_text(&text, &lenient()).unwrap();
            let open = usize::from(name == "impossible address");
            assert_eq!((whole.records.len(), whole.losses.total()), (1, 1), "{name}: {:?} {open}", whole.losses);
        }
    }
}

#[test]
fn a_device_is_chosen_by_its_numbers() {
    // The remap names a partition; by its number it is of the second device.
    let other = "  8,16   0        1     0.000001500    78  Q   W 80 + 8 [b]
  8,16   0        2     0.000002500    78  C   W 80 + 8 [0]
  8,17   0        3     0.000002600    78  A   W 80 + 8 <- (8,17) 16
";
    let text = lines(ONE) + other;
    let of = |device: &str| {
        let options = ReadOptions { device: Some(device.to_owned()), ..ReadOptions::default() };
        read_text(text.as_bytes(), &options)
    };
    for (device, expected, others, remaps) in
        [("8:0", [8, 8, 0, 2, 3, 4], "2", None), ("8,16", [80, 8, 1, -1, -1, 2], "5", Some("1"))]
    {
        let whole = of(device).unwrap();
        assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [expected], "{device}");
        assert_eq!(whole.losses.total(), 0);
        assert!(whole.losses.unmatched.is_empty(), "{device}: {:?}", whole.losses);
        assert_eq!(whole.meta.provenance["blkparse.events_of_other_devices"], others);
        assert_eq!(whole.meta.provenance.get("blkparse.remaps").map(String::as_str), remaps, "{device}");
        assert_eq!(whole.meta.provenance["blkparse.device"], device.replace(',', ":"));
    }
    let missing = of("8:32").unwrap_err();
    assert!(missing.to_string().contains("no event is of device 8:32: there are 8:0, 8:16"), "{missing}");
    for no_device in ["sda", "8", "8:", "4096:0", "8:0:0", ""] {
        let error = of(no_device).unwrap_err();
        assert!(error.to_string().contains("no device is called") && error.to_string().contains("8:0"), "{error}");
    }
}

#[test]
fn blkparse_text_is_recognised_and_other_text_is_not() {
    let recognised = |head: &[u8]| (blkparse::FORMAT.recognises)(&PathBuf::from("x"), head);
    assert!(recognised(lines(ONE).as_bytes()));
    assert!(recognised(format!("Input file a added\r\n{}", lines(ONE)).as_bytes()));
    assert!(recognised(b"  8,0    0        0     0.000000000     0  m   N message\n"));
    for other in ["", "8,0", "8,0 0 1 0.5 7 Q R", "some text\n", "Input file a added\n"] {
        assert!(!recognised(other.as_bytes()), "{other}");
    }
}
