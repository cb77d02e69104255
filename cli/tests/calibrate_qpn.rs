//! `iocast calibrate qpn`: predictors from captures at several thread counts.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;
mod scratch;

use std::collections::VecDeque;

use program::iocast;
use scratch::Scratch;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

/// Mean response times (ms) of reading and writing threads at a storage that serves one after another: 2 ms a read,
/// 5 ms a write, w_r / w_w = 1.5 (t_r / t_w)^0.6.
fn responses([reads, writes]: [f64; 2]) -> [f64; 2] {
    if reads == 0.0 || writes == 0.0 {
        return [2.0 * reads, 5.0 * writes];
    }
    let weight = 1.5 * (reads / writes).powf(0.6);
    let share = weight / (1.0 + weight);
    let cycle = share * 2.0 + (1.0 - share) * 5.0;
    [reads * cycle / share, writes * cycle / (1.0 - share)]
}

/// The isolation profile of threads that never think.
fn profile(vm: &str, threads: [f64; 2], responses: [f64; 2]) -> Value {
    let operation = |kind: usize| match threads[kind] {
        0.0 => json!({}),
        threads => json!({
            "requests": 1000, "iops": threads / responses[kind] * 1e3, "response_ns": responses[kind] * 1e6,
            "response_variance_ns2": 9e12,
        }),
    };
    json!({"vm": vm, "busy_share": 1.0, "reads": operation(0), "writes": operation(1)})
}

fn write(folder: &TempDir, threads: [u32; 2]) -> String {
    let name = format!("{}-{}.json", threads[0], threads[1]);
    let threads = threads.map(f64::from);
    std::fs::write(folder.path().join(&name), profile("vm", threads, responses(threads)).to_string()).unwrap();
    name
}

fn captures(folder: &TempDir) -> Vec<String> {
    let threads = [[1, 0], [10, 0], [40, 0], [10, 10], [10, 40], [40, 10], [40, 40], [20, 30], [0, 10], [0, 40]];
    threads.iter().map(|&[reads, writes]| format!("{reads}/{writes}={}", write(folder, [reads, writes]))).collect()
}

#[test]
fn predictors_are_calibrated_by_captures_and_forecast_vms_that_no_capture_has_seen() {
    let folder = tempdir().unwrap();
    let run = iocast()
        .current_dir(folder.path())
        .args(["calibrate", "qpn"])
        .args(captures(&folder))
        .args(["-o", "storage", "--output-format", "json"])
        .assert()
        .success();
    let found: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    for (kind, expected) in [2e6, 5e6].into_iter().enumerate() {
        assert!((found["service_ns"][kind].as_f64().unwrap() / expected - 1.0).abs() < 1e-6, "{found}");
    }
    let mixes: Vec<&Value> =
        found["points"].as_array().unwrap().iter().filter(|point| !point["published_errors"].is_null()).collect();
    assert_eq!(mixes.len(), 5);
    for error in mixes.iter().flat_map(|point| point["published_errors"].as_array().unwrap()) {
        assert!(error.as_f64().unwrap().abs() < 1e-6, "{mixes:?}");
    }
    // The refined model is judged without the mix itself, so that it has to interpolate.
    let refined = |point: &Value| point["refined_errors"][0].as_f64().unwrap().abs();
    assert!(mixes.iter().any(|point| refined(point) > 1e-3) && mixes.iter().all(|point| refined(point) < 0.3));
    let published = std::fs::read_to_string(folder.path().join("storage-qpn.txt")).unwrap();
    assert!(published.starts_with("qpn:read_deviation=3000us,read_responses=1x2000us+10x20000us"), "{published}");

    let vms = [("reader", [24.0, 0.0]), ("writer", [0.0, 12.0])];
    for (vm, threads) in vms {
        std::fs::write(folder.path().join(format!("{vm}.json")), profile(vm, threads, responses(threads)).to_string())
            .unwrap();
    }
    let expected = responses([24.0, 12.0]);
    for (name, tolerance) in [("qpn", 1e-4), ("qpn-refined", 0.05)] {
        let predictor = std::fs::read_to_string(folder.path().join(format!("storage-{name}.txt"))).unwrap();
        let run = iocast()
            .current_dir(folder.path())
            .args([
                "predict",
                "reader.json",
                "writer.json",
                "--output-format",
                "json",
                "--predictors",
                predictor.trim(),
            ])
            .assert()
            .success();
        let forecast: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        let forecast = &forecast["pairs"][0]["predictors"][predictor.trim()];
        let found =
            [&forecast["read_response_ns"][0], &forecast["write_response_ns"][1]].map(|ns| ns.as_f64().unwrap() / 1e6);
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < tolerance, "{name}: {found} ms instead of {expected} ms");
        }
    }
}

#[test]
fn thread_counts_are_inferred_and_a_person_sees_what_they_led_to() {
    let folder = tempdir().unwrap();
    let captures = captures(&folder);
    let bare: Vec<&str> = captures.iter().map(|capture| capture.split_once('=').unwrap().1).collect();
    let run = iocast().current_dir(folder.path()).args(["calibrate", "qpn"]).args(bare).assert().success();
    let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    assert!(text.contains("40-10.json") && text.contains("A read takes 2ms and a write 5ms"), "{text}");
    assert!(text.contains("'qpn:read_deviation="), "{text}");
}

#[test]
fn captures_that_do_not_calibrate_are_refused_with_what_is_missing() {
    let folder = tempdir().unwrap();
    let all = captures(&folder);
    let without = |ending: &str| all.iter().filter(|capture| !capture.starts_with(ending)).cloned().collect::<Vec<_>>();
    let mixed: Vec<String> =
        all.iter().filter(|capture| capture.contains("0/0") || capture.starts_with("0/")).cloned().collect();
    let with = |last: &str| all.iter().cloned().chain([last.to_owned()]).collect::<Vec<_>>();
    for (captures, code, words) in [
        (without("0/"), 2, "no capture has writing threads alone; the service time comes from them"),
        (mixed, 2, "no capture has reading and writing threads; the weights come from them"),
        (with("10:1=1-0.json"), 2, "`10:1` is not READERS/WRITERS"),
        (with("18446744073709551615/1=1-0.json"), 2, "is not READERS/WRITERS"),
        (with("0/0=1-0.json"), 2, "`0/0` is not READERS/WRITERS"),
        (with("3/4=1-0.json"), 1, "1-0.json: 4 writing threads, and the capture has 0 such requests per second"),
        (with("3/0=none.json"), 1, "none.json: cannot be read"),
    ] {
        let run = iocast().current_dir(folder.path()).args(["calibrate", "qpn"]).args(captures).assert().code(code);
        let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(said.contains(words), "{said}\n  instead of {words}");
    }
}

/// A trace of reading and writing threads at a storage that serves one request after another, first come, first served:
/// 2 ms a read, 5 ms a write. Each thread sends a request when it has its answer.
fn trace(scratch: &Scratch, [reads, writes]: [u64; 2]) -> String {
    let mut waiting: VecDeque<(u64, &str)> = VecDeque::new();
    for thread in 0..reads.max(writes) {
        waiting.extend((thread < reads).then_some((0, "read")));
        waiting.extend((thread < writes).then_some((0, "write")));
    }
    let (mut now, mut lines) = (0, Vec::new());
    for nth in 0..2000 {
        let (came, operation) = waiting.pop_front().unwrap();
        now += if operation == "read" { 2000 } else { 5000 };
        lines.push((came, operation, nth % 1000 * 8, 8, now - came));
        waiting.push_back((now, operation));
    }
    scratch.trace(&format!("{reads}-{writes}.csv"), lines)
}

#[test]
fn traces_calibrate_as_profiles_do() {
    let scratch = Scratch::new();
    let threads = [[1, 0], [4, 0], [8, 0], [0, 4], [0, 8], [4, 4], [8, 4], [4, 8]];
    let run = iocast()
        .args(["calibrate", "qpn", "--output-format", "json", "--start", "1s"])
        .args(threads.map(|threads| trace(&scratch, threads)))
        .assert()
        .success();
    let found: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let points = found["points"].as_array().unwrap();
    // The numbers of threads are those at the device.
    let counts: Vec<[u64; 2]> =
        points.iter().map(|point| [0, 1].map(|kind| point["threads"][kind].as_u64().unwrap())).collect();
    let mut expected = threads.to_vec();
    expected.sort_unstable();
    assert_eq!(counts, expected, "{found}");
    for (kind, expected) in [2e6, 5e6].into_iter().enumerate() {
        assert!((found["service_ns"][kind].as_f64().unwrap() / expected - 1.0).abs() < 0.01, "{found}");
    }
    // First come, first served: weights are as the threads, which the line holds exactly.
    for point in points.iter().filter(|point| !point["published_errors"].is_null()) {
        let errors = point["published_errors"].as_array().unwrap();
        assert!(errors.iter().all(|error| error.as_f64().unwrap().abs() < 0.01), "{point}");
    }
    let early = iocast().args(["calibrate", "qpn", "a", "b", "c", "--start", "2s", "--end", "1s"]).assert().code(2);
    assert!(String::from_utf8_lossy(&early.get_output().stderr).contains("--end must be later than --start"));
}

#[test]
fn threads_that_are_not_at_the_device_are_reported() {
    let folder = tempdir().unwrap();
    let mut captures = captures(&folder);
    captures.push("80/0=40-0.json".to_owned());
    let run = iocast().current_dir(folder.path()).args(["calibrate", "qpn"]).args(captures).assert().success();
    let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned().replace('\n', " ");
    assert!(text.contains("40-0.json: on average 40.0 of 80 reading threads have a request at the device"), "{text}");
}
