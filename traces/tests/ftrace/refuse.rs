//! Bad input: every entry is refused with file and place; a lenient read counts the records that it leaves out.

use iocast_traces::trace::ReadOptions;
use iocast_traces::{Place, Problem};
use proptest::prelude::*;

use crate::whole::{lenient, read_text, row, strict, text};

const GOOD: &str = "fio-7 [000] ..... 1.000000: block_bio_queue: 8,0 R 8 + 8 [fio]
fio-7 [000] ..... 1.000001: block_bio_complete: 8,0 R 8 + 8 [0]
";

#[test]
fn bad_lines_are_refused_with_their_place() {
    let head = "fio-7 [000] ..... 1.000002:";
    let with = |line: &str| format!("{GOOD}{line}\n").into_bytes();
    let block = |line: &str| with(&format!("{head} {line}"));
    for (name, text, place, words) in [
        ("empty", Vec::new(), Place::Whole, "empty"),
        ("no event", b"# tracer: nop\n#\n".to_vec(), Place::Whole, "empty"),
        ("text", with("some text"), Place::Line(3), "expected a task, its process id and [CPU]"),
        ("binary", with("\0\u{1}[\u{2}"), Place::Line(3), "expected a task"),
        ("no process id", with("fio [000] ..... 1.000002: block_plug: [a]"), Place::Line(3), "expected a task"),
        (
            "process id too large",
            with("fio-4294967296 [000] 1.000002: block_plug: [a]"),
            Place::Line(3),
            "expected a task",
        ),
        ("CPU absurd", with("fio-7 [65536] 1.000002: block_plug: [a]"), Place::Line(3), "a CPU below 65536"),
        ("a clock that counts", with("fio-7 [000] ..... 1234567: block_plug: [a]"), Place::Line(3), "seconds with six"),
        ("time NaN", with("fio-7 [000] ..... NaN: block_plug: [a]"), Place::Line(3), "seconds with six"),
        ("time negative", with("fio-7 [000] ..... -1.000002: block_plug: [a]"), Place::Line(3), "seconds with six"),
        ("time too coarse", with("fio-7 [000] ..... 1.002: block_plug: [a]"), Place::Line(3), "seconds with six"),
        (
            "time too large",
            with("fio-7 [000] ..... 18446744074.000000: block_plug: [a]"),
            Place::Line(3),
            "seconds with six",
        ),
        ("no colon", with("fio-7 [000] ..... 1.000002 block_plug: [a]"), Place::Line(3), "seconds with six"),
        ("latency format", with("fio-7 1d..1. 12us : block_plug: [a]"), Place::Line(3), "expected a task"),
        ("perf script", with("fio 7 [000] 1.000002: block:block_plug: [a]"), Place::Line(3), "expected a task"),
        ("no device", block("block_bio_queue: sda R 8 + 8 [a]"), Place::Line(3), "a device, MAJOR,MINOR"),
        ("device out of range", block("block_bio_queue: 8,1048576 R 8 + 8 [a]"), Place::Line(3), "a device"),
        ("operation unknown", block("block_bio_queue: 8,0 X 8 + 8 [a]"), Place::Line(3), "letters of an operation"),
        ("sector too large", block("block_bio_queue: 8,0 R 18446744073709551616 + 8 [a]"), Place::Line(3), "a sector"),
        ("sector negative", block("block_bio_queue: 8,0 R -8 + 8 [a]"), Place::Line(3), "a sector"),
        ("length too large", block("block_bio_queue: 8,0 R 8 + 8388608 [a]"), Place::Line(3), "a length below 2^23"),
        ("length missing", block("block_bio_queue: 8,0 R 8 [a]"), Place::Line(3), "+ and a length"),
        ("process missing", block("block_bio_queue: 8,0 R 8 + 8"), Place::Line(3), "[process] at the end"),
        ("bytes missing", block("block_rq_issue: 8,0 R () 8 + 8 [a]"), Place::Line(3), "a length in bytes"),
        ("command missing", block("block_rq_issue: 8,0 R 4096 8 + 8 [a]"), Place::Line(3), "(command)"),
        ("command open", block("block_rq_issue: 8,0 R 4096 (8 + 8 [a]"), Place::Line(3), "(command)"),
        (
            "priority unknown",
            block("block_rq_issue: 8,0 R 4096 () 8 + 8 best,0,4 [a]"),
            Place::Line(3),
            "an I/O priority",
        ),
        (
            "priority short",
            block("block_rq_issue: 8,0 R 4096 () 8 + 8 be,4 [a]"),
            Place::Line(3),
            "class, hint and level",
        ),
        ("error no number", block("block_rq_complete: 8,0 R () 8 + 8 [a]"), Place::Line(3), "a number in [error]"),
        ("error missing", block("block_rq_complete: 8,0 R () 8 + 8"), Place::Line(3), "priority such as be,0,4"),
        ("split without its second part", block("block_split: 8,0 R 8 + 8 [a]"), Place::Line(3), "/ and the sector"),
        ("remap from nowhere", block("block_bio_remap: 8,0 R 8 + 8 [a]"), Place::Line(3), "<- and where"),
        ("unplug without a count", block("block_unplug: [a]"), Place::Line(3), "a number of requests"),
        ("an endless line", with(&"9".repeat(10_000)), Place::Line(3), "a line of more than 4096 bytes"),
        (
            "impossible address",
            block("block_bio_queue: 8,0 R 4611686018427387904 + 8 [a]"),
            Place::Line(3),
            "expected one below",
        ),
        (
            "cut in a line",
            GOOD.trim_end().trim_end_matches(']').as_bytes().to_vec(),
            Place::Line(2),
            "the middle of a line",
        ),
        (
            "out of order",
            with("fio-7 [000] 9.000000: block_plug: [a]\nfio-7 [000] 8.900000: block_plug: [a]"),
            Place::Line(4),
            "out of order",
        ),
        (
            "two devices",
            block("block_bio_queue: 8,16 R 8 + 8 [a]"),
            Place::Line(3),
            "device 8:16 in a capture of device 8:0",
        ),
    ] {
        let error = read_text(&text, &strict()).unwrap_err();
        assert_eq!(error.place, place, "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert_eq!(error.path.file_name().unwrap(), "text", "{name}");
        if place != Place::Whole {
            let whole = read_text(&text, &lenient()).unwrap();
            assert_eq!((whole.records.len(), whole.losses.total()), (1, 1), "{name}: {:?}", whole.losses);
        }
    }
}

#[test]
fn a_device_is_chosen_by_its_numbers() {
    let both = format!(
        "{GOOD}fio-7 [000] ..... 1.000002: block_plug: [fio]
fio-7 [000] ..... 1.000003: block_bio_queue: 8,16 W 80 + 8 [fio]
fio-7 [000] ..... 1.000004: block_bio_complete: 8,16 W 80 + 8 [0]\n"
    );
    let of = |device: &str| read_text(&both, &ReadOptions { device: Some(device.to_owned()), ..strict() });
    for (device, expected) in [("8:0", [8, 8, 0, -1, -1, 1]), ("8,16", [80, 8, 3, -1, -1, 4])] {
        let whole = of(device).unwrap();
        assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [expected], "{device}");
        assert_eq!(whole.losses.total(), 0);
        assert_eq!(whole.provenance("events_of_other_devices"), Some("2"));
        // Plugging does not tell its device.
        assert_eq!(whole.events.len(), 3);
    }
    let whole = read_text(&both, &lenient()).unwrap();
    assert_eq!(whole.losses.skipped.get("event of another device"), Some(&2));
    assert!(of("9:9").unwrap_err().to_string().contains("no event is of device 9:9: there are 8:0, 8:16"));
}

#[test]
fn compressed_text_that_was_cut_is_refused() {
    let lines = (0..50_000u64).map(|at| {
        let sector = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        format!("fio-7 [000] ..... 1.{at:06}: block_bio_queue: 8,0 R {sector} + 8 [fio]\n")
    });
    let text: String = lines.collect();
    let compressed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    assert_eq!(read_text(&compressed, &strict()).unwrap().records.len(), 50_000);
    let cut = &compressed[..compressed.len() * 3 / 4];
    let error = read_text(cut, &strict()).unwrap_err();
    assert!(matches!(error.problem, Problem::Truncated(_)) && matches!(error.place, Place::Line(1_000..)), "{error}");
    let whole = read_text(cut, &lenient()).unwrap();
    assert_eq!(whole.losses.skipped["the rest of a truncated input"], 1);
    assert!(whole.records.len() > 1_000);
}

proptest! {
    /// For any change: an error or records, no panic, and a lenient read that never fails
    /// while there is an event.
    #[test]
    fn damaged_texts_do_no_harm(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..20),
        cut in any::<usize>(),
        name in prop_oneof![Just("loop"), Just("none")],
    ) {
        let mut text = text(name).into_bytes();
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
