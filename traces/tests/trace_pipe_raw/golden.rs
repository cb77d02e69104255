//! A real capture of a loop device, as pages and as the text that the kernel printed of the same
//! buffer: requests of several priorities, merges, splits, flushes, discards, a partition.

use iocast_traces::events::{Event, action};
use iocast_traces::formats::{self, ftrace};
use iocast_traces::{Layer, Operation, Priority, Problem, Record, Timestamp};

use crate::whole::{Capture, Whole, bytes, data, lenient, read, read_as, strict};

fn pages() -> Whole {
    read(&data("trace-pipe-raw/loop"), &strict()).unwrap()
}

#[test]
fn the_pages_hold_the_events_that_the_kernel_prints() {
    let pages = pages();
    let text = read_as(&ftrace::FORMAT, &data("ftrace/loop.txt.gz"), &strict()).unwrap();
    assert_eq!(pages.events.len(), 504);
    assert_eq!(pages.events.len(), text.events.len());
    for (ours, printed) in pages.events.iter().zip(&text.events) {
        // The kernel rounds to microseconds.
        let rounded = (ours.time + 500) / 1_000 * 1_000;
        assert_eq!(Event { time: rounded, ..*ours }, *printed);
    }
    // Times apart, the records are the same as well.
    assert_eq!(pages.records.len(), text.records.len());
    for (ours, printed) in pages.records.iter().zip(&text.records) {
        let untimed = |record: &Record| {
            let mut request = record.request;
            request.arrival = Timestamp::ZERO;
            (request, record.observed.error, record.observed.inserted.is_some(), record.observed.issued.is_some())
        };
        assert_eq!(untimed(ours), untimed(printed));
    }
    assert_eq!((&pages.losses, &pages.meta.streams), (&text.losses, &text.meta.streams));
    for key in ["merges", "splits", "remaps", "other_events", "cpus", "device"] {
        let of = |whole: &Whole, format: &str| whole.meta.provenance.get(&format!("{format}.{key}")).cloned();
        let (ours, printed) = (of(&pages, "trace-pipe-raw"), of(&text, "ftrace"));
        assert!(ours.is_some() && ours == printed, "{key}: {ours:?} {printed:?}");
    }
}

#[test]
fn requests_are_as_many_as_were_asked_for() {
    let pages = pages();
    let of = |operation| pages.records.iter().filter(|record| record.request.operation == operation).count();
    // fio's 24 small reads, and 3 of 2 MiB that are two bios each; their splits make no arrival.
    assert_eq!(of(Operation::Read), 24 + 2 * 3);
    assert_eq!(of(Operation::Discard), 4);
    assert_eq!(of(Operation::Flush), 3);
    assert!(pages.records.iter().all(|record| record.observed.completed.is_some()));
    assert!(pages.losses.unmatched.is_empty(), "{:?}", pages.losses);
    assert_eq!(pages.losses.total(), 0);
    let with = |class, level| {
        let priority = Priority::new(class, level).unwrap();
        pages.records.iter().filter(|record| record.request.priority == priority).count()
    };
    // fio's own: best effort 5 for the 24 reads, real time 2 for the 48 writes.
    assert_eq!((with(2, 5), with(1, 2)), (24, 48));
    assert!(pages.events.iter().any(|event| event.code() == action::UNPLUG));
}

#[test]
fn metadata_tells_clock_kernel_and_layout() {
    let pages = pages();
    assert_eq!(pages.meta.clock.name, "trace clock mono");
    assert_eq!(pages.meta.layer, Layer::GuestQueue);
    for (key, value) in [
        ("device", "7:0"),
        ("cpus", "0,1"),
        ("files", "2"),
        ("page_bytes", "4096"),
        ("byte_order", "little-endian"),
        ("kernel", "6.18.44"),
        ("zero_ns", &pages.events[0].time.to_string()),
    ] {
        assert_eq!(pages.meta.provenance[&format!("trace-pipe-raw.{key}")], value, "{key}");
    }
    let compressed = ["0", "1"].map(|cpu| data(&format!("trace-pipe-raw/loop.trace_raw.{cpu}.gz")));
    let size = compressed.map(|path| std::fs::metadata(path).unwrap().len());
    assert_eq!(pages.position_bytes, size.iter().sum::<u64>());
}

#[test]
fn pages_of_another_size_are_told_by_their_header() {
    let capture = Capture::new(&[(1, &bytes("trace-pipe-raw/pages-of-8-kib.trace_raw.1.gz"))]);
    let error = capture.read(&strict()).unwrap_err();
    assert!(error.to_string().contains("the pages are of another size, or none"), "{error}");
    // As the kernel says it of an instance whose pages were made larger.
    capture.edit("header_page", "size:4080", "size:8176");
    let whole = capture.read(&strict()).unwrap();
    assert_eq!(whole.meta.provenance["trace-pipe-raw.page_bytes"], "8192");
    // Counted with a few lines of Python over the two pages.
    assert_eq!(whole.events.len(), 303);
}

#[test]
fn pages_that_the_buffer_overwrote_before_are_lost() {
    let of_cpu = |cpu: u32| bytes(&format!("trace-pipe-raw/lost.trace_raw.{cpu}.gz"));
    // Page full: no capacity for the number. 2,102 behind the last event of the other.
    for (cpu, words, lost) in [(0, "an unknown number of events of CPU 0", 1), (1, "2102 events of CPU 1", 2_102)] {
        let capture = Capture::new(&[(cpu, &of_cpu(cpu))]);
        let error = capture.read(&strict()).unwrap_err();
        assert!(matches!(error.problem, Problem::Lost(_)), "{error}");
        assert!(error.to_string().contains(words) && error.to_string().contains("at byte 0"), "{error}");
        let whole = capture.read(&lenient()).unwrap();
        assert_eq!(whole.losses.lost_events, lost);
        let unknown = whole.meta.provenance.get("trace-pipe-raw.losses_of_unknown_number");
        assert_eq!(unknown.map(String::as_str), (cpu == 0).then_some("1"));
        assert!(whole.losses.skipped.is_empty());
    }
}

#[test]
fn stem_and_members_name_the_capture() {
    let folder = data("trace-pipe-raw");
    let members = (formats::trace_pipe_raw::FORMAT.members)(&folder.join("loop")).unwrap();
    let names: Vec<String> =
        members.iter().map(|path| path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(
        names[..4],
        ["loop.trace_raw.0.gz", "loop.trace_raw.1.gz", "loop.formats/header_page", "loop.formats/header_event"]
    );
    assert!(names.iter().any(|name| name == "loop.formats/block/block_rq_issue/format"));
    assert_eq!(
        names[names.len() - 4..],
        ["loop.formats/trace_clock", "loop.formats/kernel", "loop.formats/stats.0", "loop.formats/stats.1"]
    );
    for named in
        ["loop.trace_raw.1.gz", "loop.formats", "loop.formats/header_page", "loop.formats/block/block_split/format"]
    {
        let path = folder.join(named);
        assert_eq!((formats::trace_pipe_raw::FORMAT.members)(&path).unwrap(), members, "{named}");
        assert_eq!(formats::recognise(&path, &strict()).unwrap().name, "trace-pipe-raw", "{named}");
        assert_eq!(read(&path, &strict()).unwrap().records, pages().records, "{named}");
    }
    assert!(!(formats::trace_pipe_raw::FORMAT.recognises)(&folder.join("none"), &[]));
}
