//! Bad input: every entry is refused with file and place; a lenient read counts the records that it leaves out.

use std::path::Path;

use iocast_traces::formats::{self, trace_pipe_raw};
use iocast_traces::trace::ReadOptions;
use iocast_traces::{Place, Problem};
use proptest::prelude::*;

use crate::whole::{Capture, bytes, data, lenient, read, strict};

fn fixture(cpu: u32) -> Vec<u8> {
    bytes(&format!("trace-pipe-raw/loop.trace_raw.{cpu}.gz"))
}

/// The fixture's second CPU with some bytes changed.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut pages = fixture(1);
    pages[at..at + bytes.len()].copy_from_slice(bytes);
    pages
}

#[test]
fn damaged_pages_are_refused_with_their_place() {
    let first_event = 16;
    let long = fixture(1).len() as u64;
    for (name, pages, place, words) in [
        ("cut in a page", fixture(1)[..4_096 + 100].to_vec(), 4_096, "ends in the middle of a page of 4096 bytes"),
        ("text", b"some text that is no page at all\n".repeat(200), 0, "the pages are of another size, or none"),
        ("more in use than there is", changed(8, &[0xf1, 0x0f]), 0, "0xff1 as the number of bytes in use"),
        ("bits between flags and length", changed(4_096 + 8, &[0, 0, 0, 0x08]), 4_096, "of another size, or none"),
        ("an event beyond its page", changed(8, &[6, 0]), 16, "reaches beyond its page"),
        (
            "an endless event",
            changed(first_event, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
            16,
            "reaches beyond its page",
        ),
        ("an event of no length", changed(first_event, &[0, 0, 0, 0, 4, 0, 0, 0]), 16, "an event of 0 bytes"),
        ("a length below its own", changed(first_event, &[0, 0, 0, 0, 3, 0, 0, 0]), 16, "shorter than its length"),
    ] {
        let capture = Capture::new(&[(1, &pages)]);
        let error = capture.read(&strict()).unwrap_err();
        assert_eq!(error.place, Place::Byte(place), "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert_eq!(error.path.file_name().unwrap(), "x.trace_raw.1", "{name}");
        assert!(error.remedy.is_some(), "{name}");
        if name != "text" {
            let whole = capture.read(&lenient()).unwrap();
            assert_eq!(whole.losses.total(), 1, "{name}: {:?}", whole.losses);
            assert!(!whole.events.is_empty() && whole.position_bytes <= long, "{name}");
        }
    }
}

#[test]
fn damaged_events_are_refused_and_only_they_are_left_out() {
    let pages = fixture(1);
    let all = Capture::new(&[(1, &pages)]).read(&strict()).unwrap();
    // An event of block_bio_queue, by its number, with `rwbs` and a length.
    let event = pages.windows(4).position(|bytes| bytes == [0x31, 0x08, 0, 0]).unwrap();
    let put = |at: usize, with: &[u8]| changed(event + at, with);
    for (name, pages, words) in [
        ("letters of no operation", put(28, b"X"), "expected letters of an operation"),
        ("no letters", put(28, &[0]), "expected letters of an operation"),
        ("an absurd length", put(24, &[0xff; 4]), "expected a length below 2^23 sectors"),
    ] {
        let capture = Capture::new(&[(1, &pages)]);
        let error = capture.read(&strict()).unwrap_err();
        assert_eq!(error.place, Place::Byte(event as u64 - 4), "{name}: {error}");
        let words = words.strip_prefix("expected ").unwrap();
        assert!(error.to_string().contains(words), "{name}: {error}");
        let whole = capture.read(&lenient()).unwrap();
        assert_eq!(whole.losses.skipped.get("malformed event"), Some(&1), "{name}: {:?}", whole.losses);
        assert_eq!(whole.events.len(), all.events.len() - 1, "{name}");
    }
}

#[test]
fn descriptions_that_are_missing_or_malformed_are_refused() {
    let good = |capture: &Capture| assert!(capture.read(&strict()).is_ok());
    good(&Capture::new(&[(0, &fixture(0)), (1, &fixture(1))]));
    let issue = "block/block_rq_issue/format";
    for file in ["header_page", "header_event", "block/block_bio_queue/format", issue, "block/block_rq_complete/format"]
    {
        let capture = Capture::new(&[(1, &fixture(1))]);
        std::fs::remove_file(capture.formats().join(file)).unwrap();
        let error = capture.read(&strict()).unwrap_err();
        assert!(error.path.ends_with(Path::new("x.formats").join(file)), "{error}");
        assert!(matches!(error.problem, Problem::Missing(_)) && error.to_string().contains("save events/"), "{error}");
        assert!(capture.read(&lenient()).is_err(), "{file}");
    }
    for (file, from, to, words) in [
        ("header_page", "commit", "comit", "there is no field `commit`"),
        ("header_page", "offset:16", "offset:9", "no page has timestamp, commit and data"),
        ("header_page", "size:4080", "size:16777210", "no page has timestamp, commit and data"),
        ("header_page", "size:4080", "size:x", "is no field: expected a declaration, offset and size"),
        ("header_event", "27 bits", "26 bits", "expected a word of type_len and time_delta"),
        ("header_event", "padding     : type == 29", "padding", "no number for `padding`"),
        (issue, "name: block_rq_issue", "", "there is no `name:`"),
        (issue, "ID: ", "ID: x", "no number after `ID:`"),
        (issue, "ID: 2104", "ID: 2105", "the number 2105 is that of another tracepoint"),
        (issue, "sector_t sector", "sector_t sectr", "there is no field `sector`"),
        (issue, "dev_t dev;", "char dev[4];", "the field `dev` is no integer"),
        (issue, "common_pid;\toffset:4", "common_pid;\toffset:x", "is no field"),
        (
            issue,
            "common_type;\toffset:0",
            "common_type;\toffset:2",
            "common_type is not where the other formats have it",
        ),
        (issue, "common_type;\toffset:0;\tsize:2", "common_type;\toffset:0;\tsize:4", "common_type has 4 bytes"),
        ("trace_clock", "[mono]", "mono", "no clock is chosen"),
        ("trace_clock", "[mono]", "[counter]", "`counter`, which does not count nanoseconds"),
        ("stats.1", "dropped events: 0", "dropped events: many", "expected a number of dropped events"),
    ] {
        let capture = Capture::new(&[(1, &fixture(1))]);
        capture.edit(file, from, to);
        let error = capture.read(&strict()).unwrap_err();
        assert!(error.path.ends_with(Path::new("x.formats").join(file)), "{file}: {error}");
        assert!(error.to_string().contains(words), "{file}: {error}");
    }
    // A format that says more than the events hold.
    let capture = Capture::new(&[(1, &fixture(1))]);
    capture.edit("block/block_bio_queue/format", "comm[16];\toffset:38;\tsize:16", "comm[160];\toffset:38;\tsize:160");
    let error = capture.read(&strict()).unwrap_err();
    assert!(error.to_string().contains("shorter than its format says"), "{error}");
    // A file as long as none that the kernel writes.
    let capture = Capture::new(&[(1, &fixture(1))]);
    std::fs::write(capture.formats().join("header_page"), "x".repeat(300_000)).unwrap();
    assert!(capture.read(&strict()).unwrap_err().to_string().contains("for a description by the kernel"));
}

#[test]
fn what_is_named_otherwise_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    std::fs::write(&path, fixture(1)).unwrap();
    let error = read(&path, &strict()).unwrap_err();
    assert!(error.to_string().contains("recognised by their name, STEM.trace_raw.N"), "{error}");
    let named = ReadOptions { format: Some("trace-pipe-raw".to_owned()), ..strict() };
    assert!(formats::open(&path, &named).is_err());
    assert!((trace_pipe_raw::FORMAT.members)(&path).is_err());
    assert!(matches!(read(folder.path(), &strict()).unwrap_err().problem, Problem::Directory));
    assert!(matches!(read(&folder.path().join("none"), &strict()).unwrap_err().problem, Problem::Io(_)));
    // Pages without descriptions.
    let alone = folder.path().join("y.trace_raw.0");
    std::fs::copy(&path, &alone).unwrap();
    assert_eq!(formats::recognise(&alone, &strict()).unwrap().name, "trace-pipe-raw");
    let error = read(&alone, &strict()).unwrap_err();
    assert!(matches!(error.problem, Problem::Missing(_)) && error.path.ends_with("y.formats/header_page"), "{error}");
    let capture = Capture::new(&[(0, &[]), (1, &fixture(1))]);
    assert!(capture.read(&strict()).is_ok(), "a CPU without events is no error");
    let capture = Capture::new(&[(0, &[]), (1, &[])]);
    assert!(matches!(capture.read(&strict()).unwrap_err().problem, Problem::Empty));
    let capture = Capture::new(&[(70_000, &fixture(1))]);
    assert!(capture.read(&strict()).unwrap_err().to_string().contains("a file of CPU 70000"));
}

#[test]
fn compressed_pages_that_were_cut_are_refused() {
    // Long and not compressible, so that the cut comes behind the bytes that are read first: events and
    // pages in which nothing is in use.
    let mut pages = fixture(1)[..4_096].to_vec();
    let mut state = 1u64;
    for _ in 0..100 {
        let mut page = fixture(1)[..8].to_vec();
        page.extend([0; 8]);
        page.extend((0..4_080).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        }));
        pages.extend(page);
    }
    let capture = Capture::new(&[(1, &pages)]);
    let compressed = zstd::encode_all(&pages[..], 1).unwrap();
    std::fs::write(capture.member(1), &compressed).unwrap();
    assert!(capture.read(&strict()).is_ok());
    std::fs::write(capture.member(1), &compressed[..compressed.len() * 3 / 4]).unwrap();
    let error = capture.read(&strict()).unwrap_err();
    assert!(error.to_string().contains("the middle of compressed data"), "{error}");
    let whole = capture.read(&lenient()).unwrap();
    assert_eq!(whole.losses.skipped["the rest of a truncated input"], 1);
}

proptest! {
    /// For any changed bytes, of pages or descriptions: an error or records, no panic, and a
    /// lenient read of damaged pages that fails only where nothing is left.
    #[test]
    fn damaged_captures_do_no_harm(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..40),
        cut in any::<usize>(),
        described in proptest::option::of((0usize..5, any::<usize>(), any::<u8>())),
    ) {
        let mut pages = [fixture(0), fixture(1)];
        for (at, byte) in changes {
            let cpu = at & 1;
            let at = at / 2 % pages[cpu].len();
            pages[cpu][at] = byte;
        }
        let length = pages[1].len();
        pages[1].truncate(length - cut % length / 2);
        let capture = Capture::new(&[(0, &pages[0]), (1, &pages[1])]);
        if let Some((file, at, byte)) = described {
            let path = capture.formats().join([
                "header_page",
                "header_event",
                "block/block_bio_queue/format",
                "block/block_rq_complete/format",
                "trace_clock",
            ][file]);
            let mut text = std::fs::read(&path).unwrap();
            let at = at % text.len();
            text[at] = byte;
            std::fs::write(&path, text).unwrap();
        }
        let strictly = capture.read(&strict());
        let whole = capture.read(&lenient());
        if described.is_none() {
            prop_assert!(whole.is_ok(), "{:?}", whole.unwrap_err());
        }
        if let Ok(strictly) = strictly {
            let whole = whole.unwrap();
            prop_assert_eq!(whole.records, strictly.records);
            prop_assert_eq!(whole.losses.total(), 0);
        }
    }
}

#[test]
fn the_fixture_is_what_the_tests_take_it_for() {
    let whole = read(&data("trace-pipe-raw/loop"), &strict()).unwrap();
    assert_eq!(whole.meta.provenance["trace-pipe-raw.other_events"], "9");
}
