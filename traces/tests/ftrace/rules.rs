//! Lines as kernels of all ages and trace-cmd print them.

use std::path::Path;

use iocast_traces::events::{Category, Event, action};
use iocast_traces::formats::ftrace::FORMAT;
use iocast_traces::{Priority, Record};

use crate::whole::{at_issued, lenient, read_text, row, strict};

/// Every line at its own microsecond, after the head that it stands behind.
fn text(head: &str, lines: &str) -> String {
    let line = |(number, line): (usize, &str)| format!("{head} {}.{number:06}: {line}\n", 7);
    lines.lines().enumerate().map(line).collect()
}

const HEAD: &str = "             fio-77      [003] d..1.";

fn rows(text: &str) -> Vec<[i64; 6]> {
    read_text(text, &strict()).unwrap().records.iter().map(row).collect()
}

/// As Linux 6.18 prints a request.
const NEW: &str = "block_bio_queue: 8,0 R 8 + 8 [fio]
block_getrq: 8,0 R 8 + 8 [fio]
block_rq_insert: 8,0 R 4096 () 8 + 8 rt,2,3 [fio]
block_rq_issue: 8,0 R 4096 () 8 + 8 rt,2,3 [fio]
block_rq_complete: 8,0 R () 8 + 8 rt,2,3 [0]";

#[test]
fn heads_differ_between_kernels_and_tools() {
    for head in [
        HEAD,
        // Without the state of the CPU; with one that is a word; with a thread group.
        "             fio-77      [003]",
        "             fio-77      [003] dNh1",
        "             fio-77    (     77) [003] .....",
        "             fio-77    (-------) [003] d..2",
        // Of trace-cmd.
        "fio-77    [003] ",
        "           <...>-77    [003] ..s1. ",
        // Names of tasks may hold anything.
        "   Web Content-1-77   [003] .....",
        "  [a] b-9 [x]c-77  [003] .....",
        "kworker/u8:3+ev-77  [003] .....",
    ] {
        let whole = read_text(text(head, NEW), &strict()).unwrap();
        assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[8, 8, 0, 2, 3, 4]], "{head}");
        let request = &whole.records[0].request;
        assert_eq!((request.stream.0, request.cpu), (77, 3), "{head}");
        assert_eq!(request.priority, Priority::new(1, 3).unwrap(), "{head}");
        assert_eq!(whole.meta.streams[&77], "fio", "{head}");
    }
}

#[test]
fn requests_differ_between_kernels() {
    let of = |insert: &str, complete: &str| {
        format!("block_bio_queue: 8,0 W 8 + 8 [fio]\n{insert}\nblock_rq_issue: 8,0 W 0 () 8 + 8 [fio]\n{complete}")
    };
    for (insert, complete, priority) in [
        ("block_rq_insert: 8,0 W 0 () 8 + 8 [fio]", "block_rq_complete: 8,0 W () 8 + 8 [0]", Priority::NONE),
        ("block_rq_insert: 8,0 W 4096 () 8 + 8 [a b]", "block_rq_complete: 8,0 W () 8 + 8 [0]", Priority::NONE),
        (
            "block_rq_insert: 8,0 W 4096 () 8 + 8 idle,0,7 [fio]",
            "block_rq_complete: 8,0 W () 8 + 8 idle,0,7 [0]",
            Priority::new(3, 7).unwrap(),
        ),
        ("block_rq_insert: 8,0 W 4096 () 8 + 8 none,0,4 [fio]", "block_bio_complete: 8,0 W 8 + 8 [0]", Priority::NONE),
        (
            "block_rq_insert: 8,0 W 4096 () 8 + 8 invalid,0,0 [fio]",
            "block_rq_complete: 8,0 W () 8 + 8 [0]",
            Priority::NONE,
        ),
        ("block_rq_insert: 8,0 W 4096 () 8 + 8 0x5,0,1 [fio]", "block_rq_complete: 8,0 W () 8 + 8 [0]", Priority::NONE),
    ] {
        let whole = read_text(text(HEAD, &of(insert, complete)), &strict()).unwrap();
        assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[8, 8, 0, 1, 2, 3]], "{insert}");
        assert_eq!(whole.records[0].request.priority, priority, "{insert}");
    }
}

#[test]
fn times_have_six_or_nine_decimals_and_are_exact() {
    let line = |time: &str, line: &str| format!("a-1 [000] {time}: {line}\n");
    let [queued, completed] = ["block_bio_queue: 8,0 R 8 + 8 [a]", "block_bio_complete: 8,0 R 8 + 8 [-5]"];
    for (times, expected, resolution) in [
        (["1.000001", "1.000003"], 2_000, "1 us"),
        (["1.000000001", "4294967297.000000002"], 4_294_967_296_000_000_001, "1 ns"),
    ] {
        let whole = read_text(line(times[0], queued) + &line(times[1], completed), &lenient()).unwrap();
        let completion = whole.events[1].time - whole.events[0].time;
        assert_eq!(completion, expected);
        assert_eq!(whole.provenance("resolution"), Some(resolution));
        assert_eq!(whole.events[1].errno(), 5);
    }
    // Events of one microsecond stay as they stand.
    let same: String = NEW.lines().map(|event| line("1.000001", event)).collect();
    assert_eq!(rows(&same), [[8, 8, 0, 0, 0, 0]]);
}

fn events(lines: &str) -> Vec<Event> {
    read_text(text(HEAD, lines), &strict()).unwrap().events
}

#[test]
fn every_tracepoint_has_its_action() {
    let lines = "block_bio_queue: 8,0 W 8 + 8 [a]
block_bio_backmerge: 8,0 W 8 + 8 [a]
block_bio_frontmerge: 8,0 W 8 + 8 [a]
block_rq_merge: 8,0 W 4096 () 8 + 8 be,0,4 [a]
block_getrq: 8,0 W 8 + 8 [a]
block_sleeprq: 8,0 W 8 + 8 [a]
block_bio_bounce: 8,0 W 8 + 8 [a]
block_rq_insert: 8,0 W 4096 () 8 + 8 be,0,4 [a]
block_rq_issue: 8,0 W 4096 () 8 + 8 be,0,4 [a]
block_rq_requeue: 8,0 W () 8 + 8 be,0,4 [0]
block_rq_complete: 8,0 W () 8 + 8 be,0,4 [-5]
block_bio_complete: 8,0 W 8 + 8 [-28]
block_split: 8,0 W 8 / 12 [a]
block_bio_remap: 8,17 W 8 + 8 <- (8,17) 0
block_rq_remap: 8,17 W 8 + 8 <- (8,17) 0 1
block_plug: [a b] c]
block_unplug: [a b] c] 3
block_unplug_timer: [a] 3
block_rq_abort: 8,0 W () 8 + 8 [0]";
    let events = events(lines);
    let codes = [
        action::QUEUE,
        action::BACK_MERGE,
        action::FRONT_MERGE,
        action::BACK_MERGE,
        action::GET_REQUEST,
        action::SLEEP,
        action::BOUNCE,
        action::INSERT,
        action::ISSUE,
        action::REQUEUE,
        action::COMPLETE,
        action::COMPLETE,
        action::SPLIT,
        action::REMAP,
        action::REMAP,
        action::PLUG,
        action::UNPLUG,
        action::UNPLUG_TIMER,
        action::ABORT,
    ];
    assert_eq!(events.iter().map(Event::code).collect::<Vec<_>>(), codes);
    for event in &events {
        let plugging = matches!(event.code(), action::PLUG | action::UNPLUG | action::UNPLUG_TIMER);
        let length = if event.code() == action::SPLIT { 2_048 } else { 4_096 };
        let (sector, bytes) = if plugging { (0, 0) } else { (8, length) };
        assert_eq!((event.sector, event.bytes, event.device), (sector, bytes, 8 << 20), "{event:?}");
        assert!(event.is(Category::FS), "{event:?}");
    }
    assert_eq!([events[10].errno(), events[11].errno()], [5, 28]);
}

#[test]
fn a_flush_and_the_sector_of_none_are_read() {
    let flush = "block_bio_queue: 8,0 FWS 0 + 0 [a]
block_getrq: 8,0 FWS 0 + 0 [a]
block_rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]
block_rq_complete: 8,0 FF () 18446744073709551615 + 0 none,0,0 [0]
block_rq_complete: 8,0 WS () 0 + 0 none,0,0 [0]";
    let whole = read_text(text(HEAD, flush), &strict()).unwrap();
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[0, 0, 0, -1, 2, 4]]);
    assert!(whole.losses.unmatched.is_empty());
}

#[test]
fn passed_through_commands_and_zone_commands_are_left_out() {
    let aside = "block_rq_insert: 8,0 N 36 () 0 + 0 none,0,0 [smartd]
block_rq_issue: 8,0 N 36 () 0 + 0 none,0,0 [smartd]
block_rq_complete: 8,0 N () 18446744073709551615 + 1 none,0,0 [0]
block_rq_issue: 8,0 R 36 (12 00 00 00 24 00) 0 + 0 [udevd]
block_rq_complete: 8,0 R (12 00 00 00 24 00) 18446744073709551615 + 1 [0]
block_rq_issue: 0,0 N 0 () 0 + 0 [x]
block_bio_queue: 8,0 ZR 0 + 0 [x]
block_bio_queue: 8,0 NS 64 + 16 [x]
block_rq_issue: 8,0 NS 8192 () 64 + 16 be,0,4 [x]
block_rq_complete: 8,0 NS () 64 + 16 be,0,4 [0]";
    let whole = read_text(text(HEAD, aside), &strict()).unwrap();
    assert_eq!(whole.provenance("passthrough_events"), Some("6"));
    assert_eq!(whole.provenance("zone_commands"), Some("1"));
    // Zeroing is a write.
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[64, 16, 7, -1, 8, 9]]);
    assert_eq!(whole.records[0].request.operation, iocast_traces::Operation::Write);
    assert!(whole.losses.unmatched.is_empty(), "{:?}", whole.losses);
}

#[test]
fn lines_beside_the_events_are_counted_or_passed_over() {
    let beside = [
        "# tracer: nop",
        "#",
        "##### CPU 1 buffer started ####",
        "version = 7",
        "CPU 0 is empty",
        "cpus=4",
        "",
        "a-1 [000] ..... 6.000001: sched_switch: prev_comm=a prev_pid=1 ==> next_comm=b",
        "a-1 [000] ..... 6.000001: block_rq_error: 8,0 R () 8 + 8 be,0,4 [-5]",
        "a-1 [000] ..... 6.000001: schedule <-schedule_timeout",
        "a-1 [000] ..... 6.000002: tracing_mark_write: hello [000] block_rq_issue: 1",
        "a-1 [000] ..... 6.000002: <stack trace>",
        "<stack trace>",
        " => submit_bio_noacct",
        "           => submit_bio",
    ]
    .join("\n");
    let whole = read_text(format!("{beside}\n{}", text(HEAD, NEW)), &strict()).unwrap();
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[8, 8, 0, 2, 3, 4]]);
    assert_eq!(whole.provenance("other_events"), Some("5"));
    assert_eq!(whole.provenance("stack_trace_lines"), Some("3"));
    assert_eq!(whole.provenance("tracer"), Some("nop"));
    // Line ends of Windows, and none at the last.
    assert_eq!(rows(&text(HEAD, NEW).replace('\n', "\r\n")), [[8, 8, 0, 2, 3, 4]]);
    assert_eq!(rows(text(HEAD, NEW).trim_end()), [[8, 8, 0, 2, 3, 4]]);
}

#[test]
fn losses_are_an_error_or_counted() {
    for (line, words, lost) in [
        ("CPU:1 [LOST 23 EVENTS]", "lost 23 events of CPU 1 before this line", 23),
        ("CPU:12 [LOST EVENTS]", "lost an unknown number of events of CPU 12", 1),
        ("CPU:1 [7 EVENTS DROPPED]", "lost 7 events of CPU 1", 7),
        ("CPU:1 [EVENTS DROPPED]", "lost an unknown number of events of CPU 1", 1),
        ("# entries-in-buffer/entries-written: 100/142   #P:2", "lost 42 events before this line", 42),
    ] {
        let text = format!("{line}\n{}", text(HEAD, NEW));
        let error = read_text(&text, &strict()).unwrap_err().to_string();
        assert!(error.contains("at line 1") && error.contains(words), "{error}");
        let whole = read_text(&text, &lenient()).unwrap();
        assert_eq!((whole.losses.lost_events, whole.records.len()), (lost, 1), "{line}");
    }
    let absurd = format!("CPU:1 [LOST {0} EVENTS]\nCPU:1 [LOST {0} EVENTS]\nx\n{1}", u64::MAX, text(HEAD, NEW));
    assert_eq!(read_text(absurd, &lenient()).unwrap().losses.total(), (1 << 48) + 1);
    let whole = format!("# entries-in-buffer/entries-written: 142/142   #P:2\n{}", text(HEAD, NEW));
    assert_eq!(read_text(whole, &strict()).unwrap().losses.total(), 0);
}

#[test]
fn lines_slightly_out_of_order_are_put_in_their_place() {
    let mut lines: Vec<String> = text(HEAD, NEW).lines().map(str::to_owned).collect();
    lines.swap(0, 3);
    lines.swap(1, 4);
    assert_eq!(rows(&lines.join("\n")), [[8, 8, 0, 2, 3, 4]]);
}

#[test]
fn issues_may_be_the_arrivals() {
    let whole = read_text(text(HEAD, NEW), &at_issued()).unwrap();
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[8, 8, 3, -1, 3, 4]]);
    let priorities: Vec<Priority> = whole.records.iter().map(|record: &Record| record.request.priority).collect();
    assert_eq!(priorities, [Priority::new(1, 3).unwrap()]);
}

#[test]
fn only_events_of_the_block_layer_are_recognised() {
    let recognised = |head: &str| (FORMAT.recognises)(Path::new("x"), head.as_bytes());
    assert!(recognised(&text(HEAD, NEW)));
    assert!(recognised(&format!("version = 7\r\ncpus=2\r\n{}", text(HEAD, NEW).replace('\n', "\r\n"))));
    assert!(recognised("# tracer: nop\n#\n"));
    for other in
        ["", "fio-77", "a-1 [000] 7.000000: sched_switch: x", "a-1 [000] block_rq_issue: 8,0", "8,0 0 1 0.5 7 Q R 8"]
    {
        assert!(!recognised(other), "{other}");
    }
}
