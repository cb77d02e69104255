//! Limits that end a capture of a loop device, and limits that it keeps. Needs root, tracefs and fio.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod live;

use std::fs;
use std::path::Path;

use live::{Loop, Running, errors, fio, instances, is_of, ran, read, run, until};
use serde_json::Value;
use traces::Record;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn trace_that_reaches_its_size_limit_is_complete() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let mut load = fio(&device, 40, &["--rate_iops=4000"]).spawn().unwrap();
    let more = ["-w", "60", "--max-size", "100k", "--output-format", "json"];
    let output = ran(&[&["capture", "block", device.str(), "-o", text(&trace)], &more[..]].concat());
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("stopped: the trace has reached --max-size"), "{}", errors(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["stopped_by"], "size");
    assert!(summary["lasted_ns"].as_u64().unwrap() < 30_000_000_000, "{summary}");
    // Waiting rows are written every five seconds and sizes checked every second, so the trace may exceed the limit.
    let bytes = fs::metadata(&trace).unwrap().len();
    assert_eq!(summary["written_bytes"], bytes);
    assert!((100 << 10..2 << 20).contains(&bytes), "{bytes}");
    // The trace needs no recovery and holds all counted requests.
    let (records, losses, _) = read(&trace, None);
    assert_eq!((records.len() as u64, losses.total()), (summary["requests"].as_u64().unwrap(), 0));
    assert!(records.len() > 5_000, "{}", records.len());
}

/// The CPU time of a capture in percent of one CPU.
fn share(summary: &Value) -> f64 {
    100.0 * summary["cpu_ns"].as_f64().unwrap() / summary["lasted_ns"].as_f64().unwrap()
}

#[test]
fn capture_keeps_its_cpu_limit_and_counts_the_events_it_did_not_read() {
    const PERCENT: f64 = 1.0;
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let capture = |more: &[&str]| {
        let usual = ["capture", "block", device.str(), "--force", "-o", text(&trace), "--output-format", "json"];
        let capture = Running::begin(&[&usual, more].concat());
        let fast = ["--bs=512", "--iodepth=64", "--iodepth_batch=16", "--gtod_reduce=1"];
        assert!(fio(&device, 8, &fast).status().unwrap().success());
        let output = capture.interrupt();
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        (summary, errors(&output))
    };
    let (free, _) = capture(&[]);
    let (bound, said) = capture(&["--max-cpu", &PERCENT.to_string(), "--buffer", "128k"]);
    eprintln!("{:.2} % of a CPU, {:.2} % of at most {PERCENT} %", share(&free), share(&bound));
    // Without a limit it takes more; otherwise the test shows nothing.
    assert!(share(&free) > 2.0 * PERCENT, "{free}");
    // The start and the last sweep are not followed by a pause.
    assert!(share(&bound) < 1.5 * PERCENT, "{bound}");
    let lost = bound["lost_events"].as_u64().unwrap();
    assert!(
        lost > 0 && said.contains(&format!("{lost} events were lost; a larger --buffer or a higher --max-cpu")),
        "{said}"
    );
    // The trace's provenance holds the same figure.
    let (records, _, meta) = read(&trace, None);
    assert_eq!(records.len() as u64, bound["requests"].as_u64().unwrap());
    assert_eq!(meta.provenance["capture.lost_events"], lost.to_string());
}

#[test]
fn full_disk_leaves_a_complete_trace() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=1200k", "none", text(&small)]);
    let trace = small.join("full.parquet");
    let mut load = fio(&device, 40, &["--rate_iops=15000", "--iodepth=32"]).spawn().unwrap();
    let output = ran(&["capture", "block", device.str(), "-w", "30", "--min-free", "0", "-o", text(&trace)]);
    let (records, losses, _) = read(&trace, None);
    fs::remove_file(&trace).unwrap();
    let limited = ran(&["capture", "block", device.str(), "-w", "30", "--min-free", "800k", "-o", text(&trace)]);
    load.kill().unwrap();
    load.wait().unwrap();
    fs::remove_file(&trace).unwrap();
    // A capture that would stop at once does not begin.
    let refused = ran(&["capture", "block", device.str(), "-w", "30", "--min-free", "2m", "-o", text(&trace)]);
    let is_written = trace.exists();
    run("umount", &[text(&small)]);
    assert_eq!((refused.status.code(), is_written), (Some(1), false));
    assert!(
        errors(&refused).contains("1 MiB are free there, fewer than the 2 MiB of --min-free"),
        "{}",
        errors(&refused)
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("No space left on device"), "{}", errors(&output));
    assert!(errors(&output).contains("and is complete"), "{}", errors(&output));
    assert!(records.len() > 10_000 && losses.total() == 0, "{} records, {losses:?}", records.len());
    let said = errors(&limited);
    assert!(limited.status.success() && said.contains("less than --min-free is left where "), "{said}");
}

#[test]
fn events_above_the_rate_are_counted_and_rotated_files_are_consecutive() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let more = ["--rotate", "1s", "--max-rate", "2000", "--output-format", "json"];
    let capture = Running::begin(&[&["capture", "block", device.str(), "-o", text(&trace)], &more[..]].concat());
    assert!(fio(&device, 3, &["--rate_iops=1000"]).status().unwrap().success());
    let output = capture.interrupt();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (lost, above) = (summary["lost_events"].as_u64().unwrap(), summary["above_rate_events"].as_u64().unwrap());
    assert!(above > 1_000 && lost == above, "{summary}");
    assert!(errors(&output).contains(&format!("{lost} events were lost; they were above --max-rate")));
    let files = summary["files"].as_array().unwrap();
    assert!(files.len() >= 3, "{files:?}");
    let pieces: Vec<Vec<Record>> = files.iter().map(|file| read(Path::new(file.as_str().unwrap()), None).0).collect();
    let all: Vec<&Record> = pieces.iter().flatten().collect();
    assert_eq!(all.len() as u64, summary["requests"].as_u64().unwrap());
    assert!(all.windows(2).all(|two| two[0].request.arrival <= two[1].request.arrival));
}

#[test]
fn pieces_of_a_raw_capture_lose_nothing_between_them_and_the_oldest_go() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let stem = |name: &str| folder.path().join(name);
    let begin = |name: &str, more: &[&str]| {
        let out = stem(name);
        let always = ["capture", "block", device.str(), "--backend", "tracefs", "--output-format", "json"];
        Running::begin(&[&always[..], &["-o", text(&out)], more].concat())
    };
    // Three instances see the same requests.
    let all = begin("all", &["--raw", "--rotate", "1s"]);
    let last = begin("last", &["--raw", "--rotate", "256k", "--keep", "2"]);
    let parquet = begin("x.parquet", &["--rotate", "1s", "--keep", "2"]);
    assert!(fio(&device, 4, &["--rate_iops=2000"]).status().unwrap().success());
    let (last, all, parquet) = (last.interrupt(), all.interrupt(), parquet.interrupt());
    let files = |output: &std::process::Output| -> Vec<String> {
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["lost_events"], 0);
        let files = summary["files"].as_array().unwrap();
        files.iter().map(|file| file.as_str().unwrap().to_owned()).collect()
    };
    let described = |files: &[String]| files.iter().filter(|file| file.ends_with(".capture.json")).count();
    let (of_all, of_last) = (files(&all), files(&last));
    let kept = files(&parquet);
    assert!(kept.len() == 2 && kept.iter().all(|file| Path::new(file).exists()), "{kept:?}");
    assert!(!stem("x.0001.parquet").exists());
    assert!(described(&of_all) >= 4, "{of_all:?}");
    assert_eq!(described(&of_last), 2, "{of_last:?}");
    assert!(of_all.iter().chain(&of_last).all(|file| Path::new(file).exists()));
    assert!(!stem("last.0001.formats").exists() && !stem("last.0001.capture.json").exists());
    // Read as one, each request has its completion; a piece alone lacks those of its neighbours.
    let (records, losses, _) = read(&stem("all"), None);
    assert!(records.len() > 10_000 && losses.unmatched.is_empty(), "{} {losses:?}", records.len());
    assert!(records.iter().all(|record| record.observed.completed.is_some()));
    let (of_two, _, _) = read(&stem("last"), None);
    assert!(of_two.len() > 1_000 && of_two.len() < records.len(), "{}", of_two.len());
    // Of pieces that are there already, none is mixed with new ones.
    let again = ran(&["capture", "block", device.str(), "--raw", "--rotate", "1s", "-o", text(&stem("last"))]);
    assert!(again.status.code() == Some(1) && errors(&again).contains("exists; --force"), "{}", errors(&again));
    let all = text(&stem("all")).to_owned();
    assert!(ran(&["capture", "block", device.str(), "--raw", "-w", "1", "-o", &all, "--force"]).status.success());
    assert!(!stem("all.0001.formats").exists() && stem("all.formats").exists());
}

#[test]
fn killed_raw_capture_lacks_its_last_seconds_at_most() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let raw = folder.path().join("raw");
    let capture =
        Running::begin(&["capture", "block", device.str(), "--raw", "--backend", "tracefs", "-o", text(&raw)]);
    // Too few events to fill a page of each CPU.
    assert!(fio(&device, 1, &["--rate_iops=10", "--iodepth=1"]).status().unwrap().success());
    std::thread::sleep(std::time::Duration::from_secs(7));
    capture.signal("KILL");
    let pid = capture.pid();
    until("the supervisor has removed the instance", || !instances().iter().any(|path| is_of(path, pid)));
    let (records, losses, _) = read(&raw, None);
    assert!(records.len() >= 20, "{} {losses:?}", records.len());
}

#[test]
fn raw_capture_is_read_until_its_time_is_over() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let raw = folder.path().join("raw");
    // The buffers are full in half a second.
    let limits = ["-w", "3", "--buffer", "1m", "--output-format", "json"];
    let capture = ["capture", "block", device.str(), "--raw", "--backend", "tracefs", "-o", text(&raw)];
    let mut load = fio(&device, 5, &["--rate_iops=3000"]).spawn().unwrap();
    let ended = ran(&[&capture[..], &limits].concat());
    load.wait().unwrap();
    let summary: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert!(summary["events"].as_u64().unwrap() > 50_000, "{summary}");
    assert_eq!(summary["lost_events"], 0, "{summary}");
}
