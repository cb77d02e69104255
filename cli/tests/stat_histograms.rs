//! `iocast stat` of histograms by second and VM.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::path::Path;

use program::{failure, iocast, json, stdout};
use traces::histograms::LogHistogram;
use traces::results::histograms::{HISTOGRAMS_VERSION, OperationInSecond, SecondOfVm};

const SECOND: u64 = 1_000_000_000;

/// A line with `reads` reads of 4 KiB that took 1, 2, … ms.
fn line(second: i64, vm: &str, reads: u64) -> String {
    let (mut d2c_ns, mut sectors) = (LogHistogram::default(), LogHistogram::default());
    for ms in 1..=reads {
        d2c_ns.add(ms * 1_000_000);
        sectors.add(8);
    }
    let read = OperationInSecond {
        requests: reads,
        bytes: reads * 4096,
        d2c_sum_ns: reads * (reads + 1) / 2 * 1_000_000,
        d2c_max_ns: reads * 1_000_000,
        d2c_ns: d2c_ns.stored(),
        sectors: sectors.stored(),
    };
    let line = SecondOfVm {
        histograms_version: HISTOGRAMS_VERSION,
        start_unix_ns: (1_795_000_000 + second) * SECOND as i64,
        length_ns: SECOND,
        begins: second == 0,
        device: "sda".to_owned(),
        vm: vm.to_owned(),
        read: (reads > 0).then_some(read),
        device_in_flight_ns: SECOND,
        device_in_flight_max: 4,
        ..SecondOfVm::default()
    };
    serde_json::to_string(&line).unwrap() + "\n"
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn figures_of_pieces_are_merged_and_printed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "web.0001.jsonl", &(line(0, "web", 400) + &line(1, "web", 100)));
    let last = line(3, "web", 500) + &line(3, "mail", 2);
    write(folder.path(), "web.0002.jsonl", &(last.clone() + &last[..50]));
    write(folder.path(), "web.0003.jsonl", "");
    let named = folder.path().join("web.jsonl");
    let named = named.to_str().unwrap();
    let figures = json(&["stat", named]);
    assert_eq!((figures["files"].as_array().unwrap().len(), figures["cut_lines"].as_u64()), (2, Some(2)));
    let web = &figures["vms"][1];
    assert_eq!((&web["vm"], &web["active_seconds"]), (&"web".into(), &3.into()));
    let read = &web["operations"]["read"];
    assert_eq!((read["requests"].as_u64(), read["iops"].as_f64()), (Some(1_000), Some(250.0)));
    assert_eq!(read["bytes_per_s"].as_f64(), Some(250.0 * 4096.0));
    let exact: f64 = (400.0 * 401.0 + 100.0 * 101.0 + 500.0 * 501.0) / 2.0 / 1_000.0 * 1e6;
    assert_eq!(read["d2c_mean_ns"].as_f64(), Some(exact));
    // Half of the requests took at most 200 ms: 200, 100 and 200 of them.
    let p50 = read["d2c_percentiles_ns"]["p50"].as_f64().unwrap();
    assert!((p50 - 200e6).abs() <= 200e6 / 32.0, "{p50}");
    assert_eq!(figures["busiest"][0]["requests"], 500);
    let table = stdout(&["stat", named]);
    for said in ["2 files from", "percentiles are within 3.1 %", "│ web on sda", "D2C mean", "2026-11-18T", "Busiest"]
    {
        assert!(table.contains(said), "{said}: {table}");
    }
    // Two requests support no percentile.
    let mail = table.lines().find(|line| line.contains("mail on sda")).unwrap();
    assert_eq!(mail.matches('–').count(), 3, "{mail}");
    assert!(stdout(&["stat", named, "--output-format", "markdown"]).contains("### Devices"));
    assert_eq!(json(&["stat", named, "--top", "1"])["busiest"].as_array().unwrap().len(), 1);
}

#[test]
fn standard_input_is_read_too() {
    let arguments = ["stat", "-", "--output-format", "json"];
    let output = iocast().args(arguments).write_stdin(line(0, "web", 3)).output().unwrap();
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["vms"][0]["operations"]["read"]["requests"], 3);
}

#[test]
fn wrong_files_and_options_are_refused_with_place_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "good.jsonl", &line(0, "web", 3));
    let text = line(0, "web", 3) + "nothing\n" + &line(1, "web", 4);
    let bad = write(folder.path(), "bad.jsonl", &text);
    let other = write(folder.path(), "other.jsonl", "{\"level\":\"info\"}\n");
    let empty = write(folder.path(), "empty.jsonl", "");
    let missing = folder.path().join("god.jsonl");
    let missing = missing.to_str().unwrap();
    for (arguments, code, said) in [
        (&["stat", &bad][..], 1, "bad.jsonl at line 2: this is no line of histograms"),
        (&["stat", &bad], 1, "--lenient leaves it out and counts it"),
        (&["stat", &other], 1, "name a file that `iocast capture block --histograms` wrote"),
        (&["stat", &empty], 1, "the input is empty"),
        (&["stat", missing], 1, "did you mean"),
        (&["stat", &good, "--digest"], 2, "--digest has no effect on histograms"),
        (&["stat", &good, "--start", "1s"], 2, "--start, --end and --limit has no effect"),
        (&["stat", &good, "--device", "sda"], 2, "an option of how traces are read"),
        (&["stat", &good, "--series", "x.parquet"], 2, "--series has no effect"),
    ] {
        let (found, message) = failure(arguments);
        assert!(found == code && message.contains(said), "{arguments:?}: {found} {message}");
    }
    let lenient = json(&["stat", &bad, "--lenient"]);
    assert_eq!((&lenient["lines"], &lenient["skipped_lines"]["malformed line"]), (&2.into(), &1.into()));
}

#[test]
fn names_are_shown_in_escapes() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "x.jsonl", &line(0, "\u{1b}[2J\u{202e}web", 3));
    for format in ["table", "markdown", "json"] {
        let text = stdout(&["stat", &file, "--output-format", format]);
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.contains("202e"), "{text}");
    }
}

#[test]
fn options_of_traces_do_not_go_with_histograms() {
    for (more, said) in [
        (&["--raw"][..], "cannot be used with '--raw'"),
        (&["--backend", "tracefs"], "cannot be used with"),
        (&["--max-rate", "5"], "cannot be used with"),
    ] {
        let (code, message) = failure(&[&["capture", "block", "/dev/null", "--histograms"][..], more].concat());
        assert!(code == 2 && message.contains(said), "{message}");
    }
}
