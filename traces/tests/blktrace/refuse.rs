//! Bad input: every entry is refused with file and place; a lenient read counts the records that it leaves out.

use std::path::Path;

use iocast_traces::events::{Event, action};
use iocast_traces::formats::blktrace::{FORMAT, REORDER_EVENTS, REORDER_WINDOW_NS};
use iocast_traces::formats::{open, recognise};
use iocast_traces::statistics::Statistics;
use iocast_traces::trace::ReadOptions;
use iocast_traces::{Place, Problem, ReadError};
use proptest::prelude::*;

use crate::writer::{Capture, at_issued, lenient, read, strict};

/// Two requests; 14 records of 48 bytes.
const TWO: &str = "P N 0 0
Q R 8 8\nG R 8 8\nI R 8 8\nD R 8 8\nC R 8 8\nP N 0 0
P N 0 0\nQ W 80 8\nG W 80 8\nI W 80 8\nD W 80 8\nC W 80 8\nP N 0 0";

type Spoil = fn(&mut Vec<u8>);

fn refused(bytes: &[u8]) -> ReadError {
    let mut capture = Capture::new(1);
    capture.files[0] = bytes.to_vec();
    capture.read(&strict()).unwrap_err()
}

#[test]
fn bad_input_is_refused_with_file_and_place() {
    let good = Capture::lines(TWO).files.remove(0);
    assert_eq!(good.len(), 14 * 48);
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    // At, as the error's place, and words of the message.
    let table: [(&str, Vec<u8>, Option<u64>, &str); 9] = [
        ("nothing in it", Vec::new(), None, "empty"),
        ("in the middle of a record", good[..48 * 3 + 20].to_vec(), Some(48 * 3), "the middle of a record"),
        ("payload missing", changed(48 * 13 + 46, 9), Some(48 * 13), "the middle of a record's payload"),
        ("magic", changed(48 * 2 + 3, 0x66), Some(48 * 2), "found 0x66617407"),
        ("version", changed(48 * 4, 8), Some(48 * 4), "blktrace 8, expected 7"),
        ("text", b"8,0 0 1 0.000000000 141 Q FWS [fio] and so on for more than a record".to_vec(), Some(0), "magic"),
        ("half a sector", changed(48 + 24, 1), Some(48), "4097 bytes"),
        ("address", changed(48 + 23, 0xff), Some(48), "expected one below"),
        ("CPU", changed(48 + 43, 1), Some(48), "CPU 16777216"),
    ];
    for (what, bytes, place, words) in table {
        let error = refused(&bytes);
        assert_eq!(error.place, place.map_or(Place::Whole, Place::Byte), "{what}: {error}");
        assert!(error.to_string().contains(words), "{what}: {error}");
        let named = if place.is_some() { "sda.blktrace.0" } else { "sda" };
        assert_eq!(error.path.file_name().unwrap(), named, "{what}");
    }
}

#[test]
fn a_folder_and_a_missing_capture_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read(folder.path(), &strict()).unwrap_err().problem, Problem::Directory));
    assert!(matches!(read(&folder.path().join("none"), &strict()).unwrap_err().problem, Problem::Io(_)));
    std::fs::create_dir(folder.path().join("sda.blktrace.0")).unwrap();
    assert!(matches!(read(&folder.path().join("sda"), &strict()).unwrap_err().problem, Problem::Directory));
}

#[test]
fn a_capture_without_events_is_empty() {
    let mut capture = Capture::new(2);
    capture.add(Event { action: 1 | 0x400 << 16, ..Event::default() }, &[0; 8]);
    assert!(matches!(capture.read(&strict()).unwrap_err().problem, Problem::Empty));
}

#[test]
fn a_lenient_read_counts_what_is_left_out() {
    let good = Capture::lines(TWO).files.remove(0);
    let cases: [(&str, usize, Spoil); 5] = [
        // The payload would end behind the file: the records that it hides are read.
        ("record cut short by the end of its file", 2, |bytes| bytes[48 * 6 + 47] = 0xff),
        ("record cut short by the end of its file", 2, |bytes| bytes.truncate(48 * 13 + 9)),
        ("run of bytes that are no record", 1, |bytes| bytes[48 * 8..48 * 10].fill(0x65)),
        ("request with an impossible address or length", 1, |bytes| bytes[48 + 24] = 1),
        ("event of an impossible CPU", 1, |bytes| bytes[48 + 43] = 1),
    ];
    for (reason, records, spoil) in cases {
        let mut capture = Capture::new(1);
        capture.files[0] = good.clone();
        spoil(&mut capture.files[0]);
        let whole = capture.read(&lenient()).unwrap();
        assert_eq!(whole.losses.skipped.get(reason), Some(&1), "{reason}: {:?}", whole.losses);
        assert_eq!(whole.records.len(), records, "{reason}");
        assert!(capture.read(&strict()).is_err(), "{reason}");
    }
}

#[test]
fn a_compressed_file_that_was_cut_is_refused() {
    let good = Capture::lines(TWO).files.remove(0);
    let compressed = zstd::encode_all(&good[..], 1).unwrap();
    let error = refused(&compressed[..compressed.len() - 9]);
    assert!(matches!(error.problem, Problem::Truncated(_)), "{error}");
    let mut capture = Capture::new(1);
    capture.files[0] = compressed;
    assert_eq!(capture.read(&strict()).unwrap().records.len(), 2);
}

/// A read every microsecond; `place` changes the time of each.
fn reads(count: u64, place: impl Fn(u64) -> u64) -> Capture {
    let mut capture = Capture::new(1);
    for number in 0..count {
        let action = u32::from(action::QUEUE) | 0x11 << 16;
        let sector = number * 8;
        capture
            .add(Event { time: 1_000_000_000 + place(number), sector, bytes: 4096, action, ..Event::default() }, &[]);
    }
    capture
}

#[test]
fn events_late_within_the_window_are_put_in_their_place() {
    // Every tenth comes 700 events after its place.
    let capture =
        reads(20_000, |number| if number % 10 == 0 { number.saturating_sub(700) * 1000 } else { number * 1000 });
    let whole = capture.read(&strict()).unwrap();
    assert_eq!(whole.records.len(), 20_000);
    assert_eq!(whole.losses.total(), 0);
}

#[test]
fn events_late_beyond_the_window_are_refused() {
    let ms = 1_000_000;
    let late = |number| if number == 50 { 49 * ms - REORDER_WINDOW_NS - 1 } else { number * ms };
    let error = reads(60, late).read(&strict()).unwrap_err();
    assert!(matches!(error.problem, Problem::OutOfOrder(_)), "{error}");
    assert!(error.to_string().contains("10000001 ns late"), "{error}");
    assert_eq!(error.place, Place::Byte(50 * 48));
    let whole = reads(60, late).read(&lenient()).unwrap();
    assert_eq!((whole.records.len(), whole.losses.total()), (59, 1));
    // One nanosecond less is within it.
    let late = |number| if number == 50 { 49 * ms - REORDER_WINDOW_NS } else { number * ms };
    assert_eq!(reads(60, late).read(&strict()).unwrap().records.len(), 60);
    // Within the window's time but not its number of events.
    let late = |number| if number == 15_000 { 1_000 } else { number * 10 + 1_001 };
    let error = reads(20_000, late).read(&strict()).unwrap_err();
    assert!(error.to_string().contains(&format!("more than {REORDER_EVENTS} events")), "{error}");
    let whole = reads(20_000, late).read(&lenient()).unwrap();
    assert_eq!((whole.records.len(), whole.losses.total()), (19_999, 1));
}

#[test]
fn events_beyond_the_range_of_times_are_refused_or_left_out() {
    let capture = reads(60, |number| if number < 58 { number * 1_000 } else { (1 << 62) + number });
    let error = capture.read(&strict()).unwrap_err();
    assert_eq!(error.place, Place::Byte(58 * 48));
    assert!(error.to_string().contains("more than 146 years (2^62 ns) after the zero of the trace"), "{error}");
    let whole = capture.read(&lenient()).unwrap();
    assert_eq!((whole.records.len(), whole.losses.skipped["time too large"]), (58, 2));
    // Measured in runs of events, as iocast stat does.
    for (options, is_read) in [(strict(), false), (lenient(), true)] {
        let mut reader = FORMAT.open_events.unwrap()(&capture.write(), &options).unwrap();
        let mut statistics = Statistics::new(reader.meta(), None);
        let measured = std::iter::from_fn(|| reader.measure_run(&mut statistics).transpose());
        let records = measured.sum::<Result<u64, _>>();
        assert_eq!(records.ok(), is_read.then_some(58));
    }
}

#[test]
fn lost_events_are_an_error_or_counted() {
    let mut capture = Capture::new(1);
    capture.line(0, "Q R 8 8");
    capture.lose(0, 3);
    capture.line(1, "Q R 16 8");
    let error = capture.read(&strict()).unwrap_err();
    assert!(matches!(error.problem, Problem::Lost(_)), "{error}");
    assert_eq!(error.place, Place::Byte(48));
    assert!(error.to_string().contains("lost 3 events of CPU 0 before this one (numbers 2 to 4)"), "{error}");
    assert!(error.remedy.unwrap().contains("--lenient"));
    let whole = capture.read(&lenient()).unwrap();
    assert_eq!((whole.losses.lost_events, whole.records.len()), (3, 2));
}

#[test]
fn a_gap_that_another_file_fills_is_none() {
    let mut capture = Capture::new(2);
    capture.line(0, "Q R 8 8");
    capture.line(1, "Q R 16 8");
    capture.line(2, "Q R 24 8");
    // The task was moved to CPU 1 between taking its number and writing the event.
    let moved: Vec<u8> = capture.files[0].drain(48..96).collect();
    capture.files[1] = moved;
    let whole = capture.read(&strict()).unwrap();
    assert_eq!((whole.records.len(), whole.losses.lost_events), (3, 0));
}

#[test]
fn a_gap_that_stays_open_is_lost_even_if_much_follows() {
    let mut capture = Capture::new(1);
    capture.line(0, "Q R 8 8");
    capture.lose(0, 1);
    for number in 1..100 {
        capture.line(number * 1_000, "Q R 16 8");
    }
    let error = capture.read(&strict()).unwrap_err();
    assert_eq!(error.place, Place::Byte(48), "{error}");
}

#[test]
fn two_devices_are_refused() {
    let mut capture = Capture::lines("Q R 8 8\nQ R 16 8");
    capture.files[0][48 + 36] = 0x11;
    let error = capture.read(&strict()).unwrap_err();
    assert_eq!(error.place, Place::Byte(48));
    assert!(error.to_string().contains("device 254:17 in a capture of device 254:16"), "{error}");
    assert!(error.to_string().contains("--device 254:16 or --device 254:17"), "{error}");
    let whole = capture.read(&lenient()).unwrap();
    assert_eq!((whole.records.len(), whole.losses.total()), (1, 1));
    // A device that is asked for is read as if the other were not there, numbers and all.
    let of = |device: &str| capture.read(&ReadOptions { device: Some(device.to_owned()), ..strict() });
    for (device, lba, arrival) in [("254:16", 8, 0), ("254,17", 16, 1_000)] {
        let whole = of(device).unwrap();
        assert_eq!((whole.records.len(), whole.losses.total()), (1, 0), "{device}");
        let request = &whole.records[0].request;
        assert_eq!((request.lba.sector(), request.arrival.as_ns()), (lba, arrival), "{device}");
        assert_eq!(whole.meta.provenance["blktrace.events_of_other_devices"], "1");
    }
    let missing = of("8:0").unwrap_err();
    assert!(missing.to_string().contains("no event is of device 8:0: there are 254:16, 254:17"), "{missing}");
    assert!(of("sda").unwrap_err().to_string().contains("no device is called `sda`"));
}

#[test]
fn numbers_that_begin_late_count_from_there() {
    let mut capture = Capture::lines("Q R 8 8\nQ R 16 8\nQ R 24 8\nQ R 32 8");
    // The first two have none; then 7, and 9 after a gap.
    for (record, number) in [0u8, 0, 7, 9].into_iter().enumerate() {
        capture.files[0][48 * record + 4] = number;
    }
    let error = capture.read(&strict()).unwrap_err();
    assert!(error.to_string().contains("lost 1 events of CPU 0 before this one (numbers 8 to 8)"), "{error}");
    let whole = capture.read(&lenient()).unwrap();
    assert!(!whole.meta.provenance.contains_key("blktrace.numbers"));
    assert_eq!((whole.records.len(), whole.losses.lost_events), (4, 1));
}

#[test]
fn stem_and_members_name_the_capture() {
    let capture = Capture::new(0);
    let folder = capture.folder();
    let bytes = Capture::lines("Q R 8 8").files.remove(0);
    for name in ["sda.blktrace.0", "sda.blktrace.2", "sda.blktrace.10.zst", "sdb.blktrace.1", "sda.blktrace.x", "alone"]
    {
        let compressed = zstd::encode_all(&bytes[..], 1).unwrap();
        std::fs::write(folder.join(name), if name.ends_with("zst") { &compressed } else { &bytes }).unwrap();
    }
    let expected = ["sda.blktrace.0", "sda.blktrace.2", "sda.blktrace.10.zst"].map(|name| folder.join(name));
    for named in ["sda", "sda.blktrace.2", "sda.blktrace.10.zst"] {
        assert_eq!((FORMAT.members)(&folder.join(named)).unwrap(), expected, "{named}");
        assert_eq!(recognise(&folder.join(named), &strict()).unwrap().name, "blktrace", "{named}");
        let mut reader = open(&folder.join(named), &lenient()).unwrap();
        assert!(reader.next().unwrap().is_some());
    }
    assert_eq!((FORMAT.members)(&folder.join("alone")).unwrap(), [folder.join("alone")]);
    assert!(!(FORMAT.recognises)(&folder.join("sdc"), &[]));
    std::fs::write(folder.join("sda.blktrace.2.gz"), &bytes).unwrap();
    let error = (FORMAT.members)(&folder.join("sda")).unwrap_err().to_string();
    assert!(error.contains("CPU 2 is there twice"), "{error}");
    assert!(error.contains("sda.blktrace.2 and") && error.contains("sda.blktrace.2.gz"), "{error}");
}

#[test]
fn a_cpu_without_events_is_no_error() {
    let mut capture = Capture::new(3);
    capture.line(0, "Q R 8 8");
    let whole = capture.read(&strict()).unwrap();
    assert_eq!((whole.records.len(), whole.meta.provenance["blktrace.files"].as_str()), (1, "3"));
}

#[test]
fn a_lenient_read_that_leaves_nothing_says_what_it_left_out() {
    let mut capture = Capture::new(1);
    capture.line(0, "Q R 8 8");
    capture.files[0][0] ^= 1;
    let error = capture.read(&lenient()).unwrap_err().to_string();
    assert!(error.contains("no request of it could be read (1 skipped: "), "{error}");
}

#[test]
fn a_compressed_member_that_is_cut_off_is_refused_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/blktrace/virtio-mail.blktrace.0.gz");
    let bytes = std::fs::read(whole).unwrap();
    let path = folder.path().join("sda.blktrace.0.gz");
    std::fs::write(&path, &bytes[..bytes.len() * 3 / 4]).unwrap();
    let read = |options: ReadOptions| {
        let mut reader = iocast_traces::formats::open(&path, &options)?;
        let mut records = 0;
        while reader.next()?.is_some() {
            records += 1;
        }
        Ok::<_, iocast_traces::ReadError>((records, reader.losses().skipped.clone()))
    };
    let error = read(strict()).unwrap_err().to_string();
    assert!(error.contains("ends in the middle of compressed data"), "{error}");
    let (records, skipped) = read(lenient()).unwrap();
    assert!(records > 100 && skipped["end of a compressed file that was cut short"] == 1, "{records} {skipped:?}");
}

fn mutate(mut bytes: Vec<u8>, changes: &[(usize, u8)], cut: usize) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at % bytes.len();
        bytes[at] = *byte;
    }
    bytes.truncate(bytes.len() - cut % bytes.len() / 2);
    bytes
}

proptest! {
    /// For any changed bytes of a real capture: an error or records, no panic, and a lenient read that fails only where
    /// it leaves nothing, as behind a damaged length of the first payload.
    #[test]
    fn damaged_captures_do_no_harm(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..60),
        cut in any::<usize>(),
        name in prop_oneof![Just("virtio-mail"), Just("iscsi-mail")],
    ) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/blktrace/{name}.blktrace.0.gz"));
        let mut bytes = Vec::new();
        let mut file = flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap());
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        let mut capture = Capture::new(1);
        capture.files[0] = mutate(bytes, &changes, cut);
        let strictly = capture.read(&strict());
        for options in [lenient(), ReadOptions { lenient: true, ..at_issued() }] {
            let whole = match capture.read(&options) {
                Ok(whole) => whole,
                Err(error) => {
                    prop_assert!(strictly.is_err() && error.to_string().contains("no request of it could be read"));
                    continue;
                }
            };
            if options == lenient() && let Ok(strictly) = &strictly {
                prop_assert_eq!(&whole.records, &strictly.records);
                prop_assert_eq!(whole.losses.total(), 0);
            }
        }
    }
}
