//! `iocast stat`: a capture and the trace converted from it have the same figures; the series; the inputs it refuses.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn capture(name: &str) -> String {
    root().join(format!("traces/tests/data/blktrace/{name}.blktrace.0.gz")).display().to_string()
}

fn iocast(arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("iocast").unwrap().args(arguments).output().unwrap()
}

fn text(arguments: &[&str]) -> String {
    let output = iocast(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[&["stat", "--output-format=json"], arguments].concat())).unwrap()
}

/// The exit code and standard error of a run that fails.
fn failure(arguments: &[&str]) -> (i32, String) {
    let output = iocast(arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_capture_and_its_converted_trace_have_the_same_figures() {
    let folder = tempfile::tempdir().unwrap();
    let parquet = folder.path().join("file.parquet").display().to_string();
    // Without flush sequences, of which a record keeps the end of the flush and not of the data.
    let name = capture("virtio-file");
    text(&["convert", &name, &parquet]);
    let (events, records) = (json(&[&name]), json(&[&parquet]));
    for operation in ["read", "write"] {
        assert_eq!(records["arrivals"][operation]["requests"], events["arrivals"][operation]["requests"]);
        assert_eq!(records["arrivals"][operation]["sizes"], events["arrivals"][operation]["sizes"]);
    }
    for stage in ["q2q", "q2c", "d2c"] {
        assert_eq!(records["stages"][stage], events["stages"][stage], "{stage}");
    }
    assert_eq!(records["queues"]["outstanding"]["max"], events["queues"]["outstanding"]["max"]);
    assert_eq!(records["groups"]["process"]["groups"], events["groups"]["process"]["groups"]);
    assert_eq!(records["arrival_queues"]["at_queue"], events["arrival_queues"]["at_queue"]);
    assert_eq!(records["seeks"]["at_queue"], events["seeks"]["at_queue"]);
    assert_eq!(records["events"], Value::Null);
}

#[test]
fn a_window_has_the_figures_of_a_trace_that_was_cut_there() {
    let folder = tempfile::tempdir().unwrap();
    let (cut, whole) = (folder.path().join("cut.parquet"), folder.path().join("whole.parquet"));
    let (cut, whole) = (cut.display().to_string(), whole.display().to_string());
    let capture = capture("virtio-file");
    text(&["convert", &capture, &whole]);
    for window in [&["--start", "100ms", "--end", "350ms"][..], &["--start", "50ms", "--limit", "200"]] {
        text(&[&["convert", &capture, &cut, "--force"], window].concat());
        let expected = json(&[&cut]);
        let requests = expected["trace"]["requests"].as_u64().unwrap();
        assert!(requests > 100 && requests < json(&[&whole])["trace"]["requests"].as_u64().unwrap());
        for input in [&capture, &whole] {
            let measured = json(&[&[input.as_str()], window].concat());
            for part in ["arrivals", "device_requests", "stages", "queues", "arrival_queues", "seeks"] {
                // The events of the capture count to the end of the window only, so that its span is another.
                let (mut measured, mut expected) = (measured[part].clone(), expected[part].clone());
                [&mut measured, &mut expected].into_iter().for_each(without_means_over_time);
                // A record does not say whether it was merged, and i2d leaves merged arrivals out.
                let known = expected.as_object().unwrap().keys().filter(|name| *name != "i2d");
                known.for_each(|name| assert_eq!(measured[name], expected[name], "{input} {window:?} {part} {name}"));
            }
            assert_eq!(measured["trace"]["requests"], requests);
            assert_eq!(measured["first_arrival_ns"], expected["first_arrival_ns"]);
            let text = text(&[&["stat", input.as_str()], window].concat());
            assert!(text.contains("only requests that arrived from "), "{text}");
        }
    }
}

/// Removes what depends on the first and last time of a trace.
fn without_means_over_time(figures: &mut Value) {
    let Some(figures) = figures.as_object_mut() else { return };
    for name in ["requests_per_s", "bytes_per_s", "mean", "busy_share", "time_at_length_ns"] {
        figures.remove(name);
    }
    figures.values_mut().for_each(without_means_over_time);
}

#[test]
fn events_of_windows_that_follow_one_another_add_up_to_the_capture() {
    let count = |arguments: &[&str]| {
        let figures = json(arguments);
        let events = figures["events"].as_object().unwrap().clone();
        let read = |of: &Value| of["read"]["events"].as_u64().unwrap() + of["write"]["events"].as_u64().unwrap();
        events.iter().map(|(name, of)| (name.clone(), read(of))).collect::<std::collections::BTreeMap<_, _>>()
    };
    let capture = capture("virtio-file");
    let whole = count(&[&capture]);
    let mut sum = count(&[&capture, "--end", "200ms"]);
    assert_ne!(sum, whole);
    for (name, events) in count(&[&capture, "--start", "200ms"]) {
        *sum.entry(name).or_default() += events;
    }
    assert_eq!(sum, whole);
}

#[test]
fn figures_are_those_of_the_capture() {
    // Beginning of a capture; the numbers are from blkparse's text of it.
    let figures = json(&[&capture("virtio-mail")]);
    assert_eq!(figures["schema_version"], 1);
    assert_eq!(figures["arrivals"]["read"]["requests"], 92);
    assert_eq!(figures["arrivals"]["read"]["bytes"], 1_128 * 512);
    assert_eq!(figures["arrivals"]["write"]["requests"], 85);
    assert_eq!(figures["arrivals"]["flush"]["requests"], 37);
    assert_eq!(figures["events"]["queue"]["read"]["events"], 92);
    let device: u64 =
        ["read", "write"].iter().map(|of| figures["device_requests"][of]["requests"].as_u64().unwrap()).sum();
    assert_eq!(device, 182 - 56);
    assert_eq!(figures["trace"]["clock"]["name"], "monotonic");
    assert_eq!(figures["trace"]["sha256"], "");
    let digested = json(&[&capture("virtio-mail"), "--digest"]);
    assert_eq!(digested["trace"]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn table_shows_the_main_figures() {
    let table = text(&["stat", &capture("virtio-mail"), "--top", "2"]);
    for part in
        ["214 requests", "Q2C R", "at the device (D to C)", "reads, when issued", "By process: 2 of ", "back merge"]
    {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let markdown = text(&["stat", &capture("virtio-mail"), "--output-format=markdown"]);
    assert!(markdown.contains("### Times between stages") && markdown.contains("| Q2C all "), "{markdown}");
    // The help explains the table's stages.
    let help = text(&["help", "stat"]);
    assert!(help.contains("D2C") && help.contains("issued to completed"), "{help}");
}

#[test]
fn trace_without_events_has_the_figures_of_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let load = folder.path().join("two.load");
    let title = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";
    std::fs::write(&load, format!("{title}0.0 ; 8 ; 8 ; R ; 0.0 ; 0.0\n0.5 ; 16 ; 8 ; W ; 0.0 ; 0.0\n")).unwrap();
    let figures = json(&[&load.display().to_string(), "--from", "blkreplay"]);
    assert_eq!(figures["arrivals"]["write"]["bytes"], 4096);
    assert_eq!(figures["seeks"]["at_queue"]["all"]["sequential"], 1);
    assert_eq!(figures["stages"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q2q"]);
    assert_eq!(figures["device_requests"], serde_json::json!({}));
}

#[test]
fn seek_distances_are_measured_per_volume() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volumes.csv");
    // device, operation, offset, length, microseconds: each volume is read sequentially.
    let line = |at: u64| format!("{},R,{},4096,{}\n", 3 + at % 2, at / 2 * 4096, 1_577_808_000_000_000 + at * 1_000);
    std::fs::write(&path, (0..40).map(line).collect::<String>()).unwrap();
    let figures = json(&[&path.display().to_string(), "--from", "alibaba"]);
    assert_eq!(figures["seeks"]["at_queue"]["read"]["sequential"], 38);
    let groups = figures["groups"]["vm"]["groups"].as_array().unwrap();
    let of: Vec<(&str, u64)> =
        groups.iter().map(|group| (group["name"].as_str().unwrap(), group["reads"].as_u64().unwrap())).collect();
    assert_eq!(of, [("3", 20), ("4", 20)]);
    let one = json(&[&path.display().to_string(), "--from", "alibaba", "--device", "4"]);
    assert_eq!(one["arrivals"]["read"]["requests"], 20);
}

const TITLE: &str = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";

/// The table whose title begins so.
fn table_of<'a>(text: &'a str, title: &str) -> &'a str {
    let from = text.find(title).unwrap_or_else(|| panic!("{title} is not in\n{text}"));
    text[from..].split("\n\n").next().unwrap()
}

/// The cells of the row of that name.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let rows = table.lines().map(|line| line.split(['│', '┆']).map(str::trim).collect::<Vec<&str>>());
    rows.map(|cells| cells[1..cells.len().max(2) - 1].to_vec())
        .find(|cells| cells.first() == Some(&name))
        .unwrap_or_else(|| panic!("{name} is not in\n{table}"))
}

#[test]
fn a_sequential_writer_between_random_reads_is_sequential_within_its_class() {
    let folder = tempfile::tempdir().unwrap();
    let load = folder.path().join("two.load").display().to_string();
    // A write of 8 sectors each 20 ms, and 10 ms behind each a read somewhere beyond all writes.
    let pair = |at: u64| {
        let (write, read) = (at * 20, at * 20 + 10);
        let of = |ms: u64| format!("{}.{:03}", ms / 1_000, ms % 1_000);
        let random = 100_000 + at * 7_919 % 1_000 * 16;
        format!("{} ; {} ; 8 ; W ; 0 ; 0\n{} ; {random} ; 8 ; R ; 0 ; 0\n", of(write), at * 8, of(read))
    };
    std::fs::write(&load, TITLE.to_owned() + &(0..200).map(pair).collect::<String>()).unwrap();
    let figures = json(&[&load]);
    let seeks = &figures["seeks"]["at_queue"];
    assert_eq!((&seeks["write"]["sequential"], &seeks["write"]["backward"]), (&0.into(), &199.into()));
    let within = &seeks["within_class"]["write"];
    assert_eq!((&within["sequential"], &within["count"]), (&199.into(), &199.into()));
    let gaps = &figures["stages"]["q2q"];
    assert_eq!(gaps["write"]["mean_ns"], 10_000_000.0);
    assert_eq!(gaps["within_class"]["write"]["mean_ns"], 20_000_000.0);

    let text = text(&["stat", &load]);
    let seeks = table_of(&text, "Seeks");
    assert_eq!(row(seeks, "Q2Q W, within the class")[3], "100.0");
    assert_eq!(row(seeks, "Q2Q W, in the device's order")[3], "0.00");
    assert_eq!(row(table_of(&text, "Gaps in the device's order"), "Q2Q W")[2], "10ms");
    assert_eq!(row(table_of(&text, "Gaps within the class"), "Q2Q W")[2], "20ms");
}

/// A trace of the requests of one class alone has the figures of that class within the whole trace.
#[test]
fn figures_within_a_class_are_those_of_its_requests_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mail = root().join("traces/samples/mail.parquet").display().to_string();
    text(&["convert", &mail, &path("mail.csv")]);
    let whole = json(&[&path("mail.csv")]);
    let csv = std::fs::read_to_string(path("mail.csv")).unwrap();
    let (header, lines) = csv.split_once('\n').unwrap();
    let column = header.split(',').position(|name| name == "operation").unwrap();
    for class in ["read", "write"] {
        let of_class = |line: &&str| line.split(',').nth(column) == Some(class);
        let alone: Vec<&str> = [header].into_iter().chain(lines.lines().filter(of_class)).collect();
        std::fs::write(path("alone.csv"), alone.join("\n")).unwrap();
        let alone = json(&[&path("alone.csv")]);
        assert!(alone["arrivals"][class]["requests"].as_u64().unwrap() > 10_000, "{class}");
        assert_eq!(alone["seeks"]["at_queue"]["all"], whole["seeks"]["at_queue"]["within_class"][class], "{class}");
        assert_eq!(alone["stages"]["q2q"]["all"], whole["stages"]["q2q"]["within_class"][class], "{class}");
    }
}

#[test]
fn classes_that_are_counted_in_all_have_a_row() {
    let mail = root().join("traces/samples/mail.parquet").display().to_string();
    let text = text(&["stat", &mail]);
    let times = table_of(&text, "Times between stages");
    for stage in ["D2C", "Q2C", "DEV"] {
        let of = |class: &str| row(times, &format!("{stage} {class}"))[1].parse::<u64>().unwrap();
        assert_eq!(of("all"), of("R") + of("W") + of("flush"), "{stage}");
    }
    let figures = json(&[&mail]);
    assert!(figures["stages"]["q2c"]["flush"]["count"].as_u64().unwrap() > 4_000);
    assert_eq!(figures["stages"]["q2c"]["within_class"], Value::Null);
}

#[test]
fn the_zero_of_the_clock_is_a_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dated.csv");
    std::fs::write(&path, "3,R,0,4096,1577808000123456\n3,R,4096,4096,1577808000223456\n").unwrap();
    let text = text(&["stat", &path.display().to_string(), "--from", "alibaba"]);
    assert!(text.contains("zero at 2019-12-31T16:00:00Z\n"), "{text}");
}

#[test]
fn a_series_sums_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let series = folder.path().join("series.parquet").display().to_string();
    let figures = json(&[&capture("virtio-file"), "--series", &series, "--interval", "50ms"]);
    let rows = rows(&series);
    assert!(rows.len() > 2, "{} rows", rows.len());
    let sum = |column: &str| rows.iter().map(|row| row[column]).sum::<i64>() as u64;
    for (operation, column) in [("read", "reads_queued"), ("write", "writes_queued")] {
        assert_eq!(sum(column), figures["arrivals"][operation]["requests"].as_u64().unwrap(), "{column}");
    }
    assert_eq!(sum("read_bytes"), figures["arrivals"]["read"]["bytes"].as_u64().unwrap());
    assert_eq!(sum("reads_issued"), figures["device_requests"]["read"]["requests"].as_u64().unwrap());
    let completed = figures["stages"]["q2c"]["write"]["count"].as_u64().unwrap();
    assert_eq!(sum("writes_completed"), completed);
    let mean = figures["stages"]["q2c"]["write"]["mean_ns"].as_f64().unwrap();
    assert!((sum("write_response_sum_ns") as f64 / completed as f64 - mean).abs() < 1.0);
    let longest = rows.iter().map(|row| row["write_response_max_ns"]).max().unwrap();
    assert_eq!(longest as u64, figures["stages"]["q2c"]["write"]["max_ns"].as_u64().unwrap());
    let deepest = rows.iter().map(|row| row["outstanding_max"]).max().unwrap();
    assert_eq!(deepest as u64, figures["queues"]["outstanding"]["max"].as_u64().unwrap());
    assert!(rows.iter().all(|row| row["length_ns"] == 50_000_000 && row["start_ns"] % 50_000_000 == 0));
    assert!(rows.windows(2).all(|rows| rows[0]["start_ns"] < rows[1]["start_ns"]));
    // Depth over all intervals is depth over the whole, to the thousandth they are stored in.
    let area: f64 = rows.iter().map(|row| row["outstanding_mean_milli"] as f64 * 50e6 / 1e3).sum();
    let whole = figures["queues"]["outstanding"]["mean"].as_f64().unwrap() * figures["span_ns"].as_f64().unwrap();
    assert!((area - whole).abs() < 50e3 * rows.len() as f64, "{area} {whole}");
}

/// The rows of a Parquet file of whole numbers.
fn rows(path: &str) -> Vec<std::collections::BTreeMap<String, i64>> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let number = |field: &Field| match field {
        Field::ULong(number) => *number as i64,
        other => panic!("{other} is no unsigned number"),
    };
    let row =
        |row: parquet::record::Row| row.get_column_iter().map(|(name, field)| (name.clone(), number(field))).collect();
    reader.get_row_iter(None).unwrap().map(|line| row(line.unwrap())).collect()
}

#[test]
fn unmeasurable_inputs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (code, message) = failure(&["stat", "/missing.trace"]);
    assert_eq!(code, 1);
    assert!(message.contains("/missing.trace: No such file"), "{message}");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let (code, message) = failure(&["stat", &empty.display().to_string()]);
    assert!(code == 1 && message.contains("the input is empty"), "{message}");
    std::fs::write(folder.path().join("taken.parquet"), "kept").unwrap();
    let taken = folder.path().join("taken.parquet").display().to_string();
    let (code, message) = failure(&["stat", &capture("virtio-mail"), "--series", &taken]);
    assert!(code == 1 && message.contains("taken.parquet exists; overwrite it with --force"), "{message}");
    assert_eq!(std::fs::read(&taken).unwrap(), b"kept");
    let (code, message) = failure(&["stat", &capture("virtio-mail"), "--series", "series.csv"]);
    assert!(code == 2 && message.contains("series.csv: it is a Parquet file; name it .parquet"), "{message}");
    let unwritten = folder.path().join("series.parquet").display().to_string();
    let (code, message) = failure(&["stat", &capture("virtio-mail"), "--series", &unwritten, "--interval", "10us"]);
    assert_eq!((code, message.as_str()), (2, "iocast: --interval is at least 1ms\n"));
    let (code, message) = failure(&["stat", &capture("virtio-mail"), "--from", "blktrase"]);
    assert!(code == 1 && message.contains("there is no format `blktrase`"), "{message}");
    let series = folder.path().join("none/series.parquet").display().to_string();
    let (code, message) = failure(&["stat", &capture("virtio-mail"), "--series", &series]);
    assert!(code == 1 && message.contains(&series), "{message}");
}

#[test]
fn standard_input_is_measured_like_the_file() {
    let bytes = std::fs::read(capture("virtio-mail")).unwrap();
    let output = Command::cargo_bin("iocast")
        .unwrap()
        .args(["stat", "-", "--output-format=json"])
        .write_stdin(bytes)
        .output()
        .unwrap();
    let piped: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(piped["stages"], json(&[&capture("virtio-mail")])["stages"]);
}
