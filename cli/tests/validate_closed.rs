//! `iocast validate closed`: the errors of closed replays, the printed tables, and the inputs it refuses.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("traces/samples").join(name)
}

fn validate(trace: &Path, arguments: &[&str]) -> Output {
    let mut program = Command::cargo_bin("iocast").unwrap();
    program.args(["validate", "closed"]).arg(trace).args(arguments).output().unwrap()
}

fn json(trace: &Path, arguments: &[&str]) -> Value {
    let output = validate(trace, &[arguments, &["--output-format=json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn figure(of: &Value, pointer: &str) -> f64 {
    of.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer}"))
}

/// Samples of a fast disk, with the bound on the error of requests per second: the error reached today, rounded up a
/// little.
const FITTED: &[(&str, f64)] =
    &[("fast-disk/mail.parquet", 0.02), ("fast-disk/web.parquet", 0.02), ("fast-disk/file.parquet", 0.18)];

/// Samples of a served `cheetah-15k4-mechanical`, which need no fit: the depth of the replay, the bound, and the number
/// of requests that had not completed when the recording ended (null `completed_ns`, as pyarrow counts them). The guest
/// merged the mail server's writes while they were plugged, so they reach its disk as long ones; in a replay, writes
/// merge only while they wait.
const SERVED: &[(&str, &str, f64, u64)] = &[
    ("mail.parquet", "1", 0.02, 1),
    ("web.parquet", "8", 0.02, 0),
    ("file.parquet", "8", 0.02, 0),
    ("oltp.parquet", "8", 0.05, 0),
];

#[test]
fn closed_replay_on_the_recorded_drive_reproduces_the_recorded_figures() {
    let fitted = FITTED.iter().map(|(name, bound)| (name, json(&sample(name), &[]), bound, 0));
    let served = SERVED.iter().map(|(name, depth, bound, incomplete)| {
        let drive = ["--drive", "cheetah-15k4-mechanical", "--depth", depth];
        (name, json(&sample(name), &drive), bound, *incomplete)
    });
    for (name, result, bound, incomplete) in fitted.chain(served) {
        assert_eq!(result["schema_version"], 1);
        let error = figure(&result, "/all/relative_error/requests_per_s");
        assert!(error.abs() <= *bound, "{name}: {error}");
        let (recorded, replayed) = (&result["all"]["recorded"], &result["all"]["replayed"]);
        let completed = recorded["requests"].as_u64().unwrap();
        // Everything is replayed, but for commits of a journal, which are counted.
        let commits = |what: &str| result["journal_commits"][what].as_u64().unwrap();
        let expected = completed + incomplete - commits("requests_left_out") + commits("requests_repeated");
        assert_eq!(Some(expected), replayed["requests"].as_u64(), "{name}");
        assert!(commits("requests_left_out") * 20 < completed, "{name}: {}", result["journal_commits"]);
        let per_s = figure(replayed, "/requests_per_s") / figure(recorded, "/requests_per_s") - 1.0;
        assert!((per_s - error).abs() < 1e-12, "{name}: the error is that of the figures");
        let parts = |of: &str| -> u64 {
            let parts = result[of].as_array().unwrap();
            parts.iter().map(|part| part["replayed"]["requests"].as_u64().unwrap()).sum()
        };
        assert_eq!(Some(parts("operations")), replayed["requests"].as_u64(), "{name}");
        assert_eq!(result["streams"].as_array().unwrap().len(), 5, "{name}");
    }
}

#[test]
fn recorded_figures_equal_those_of_stat() {
    let trace = sample("mail.parquet");
    let result = json(&trace, &["--drive", "fixed"]);
    let output = Command::cargo_bin("iocast").unwrap().args(["stat", "--output-format=json"]).arg(&trace).output();
    let stat: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    for (ours, theirs) in [("response_time", "q2c"), ("device_time", "d2c")] {
        let (ours, theirs) = (&result["all"]["recorded"][ours], &stat["stages"][theirs]["all"]);
        assert_eq!((&ours["mean_ns"], &ours["percentiles_ns"]), (&theirs["mean_ns"], &theirs["percentiles_ns"]));
    }
}

#[test]
fn replay_on_a_slow_drive_is_slower_and_repeats_to_the_byte() {
    let trace = sample("mail.parquet");
    let slow = ["--drive", "fixed:service=25ms", "--depth", "1", "--top", "1"];
    let result = json(&trace, &slow);
    assert!(figure(&result, "/all/relative_error/response_time_mean") > 1.0, "{result}");
    assert!(figure(&result, "/all/relative_error/requests_per_s") < -0.5, "{result}");
    assert_eq!(result["streams"].as_array().unwrap().len(), 1);
    assert_eq!(json(&trace, &slow), result);
}

#[test]
fn tables_show_both_runs() {
    let output = validate(&sample("file.parquet"), &["--output-format=markdown"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["| recorded |", "| requests/s ", "### reads", "### Streams with the most requests"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn tables_have_units_that_fit_and_no_figure_that_nothing_supports() {
    let tables = |trace: &str, drive: &str| {
        let output = validate(&sample(trace), &["--drive", drive, "--output-format=markdown"]);
        String::from_utf8(output.stdout).unwrap()
    };
    let web = tables("web.parquet", "nvme-ssd");
    let response = web.lines().find(|line| line.starts_with("| response ")).unwrap();
    assert!(response.contains("ms |") && response.contains("µs |"), "{response}");
    // The trace has 79 writes, too few for a 99th percentile.
    let writes = &web[web.find("### writes").unwrap()..];
    let p99 = writes.lines().find(|line| line.starts_with("| p99 ")).unwrap();
    assert_eq!(p99.matches('–').count(), 3, "{p99}");
    let mail = tables("mail.parquet", "cheetah-15k4-mechanical");
    assert!(mail.contains("flushes complete at once on this drive.") && !mail.contains("### flushes"), "{mail}");
}

#[test]
fn depth_is_that_of_the_drives_queue_as_in_a_comparison() {
    let depth = |drive: &str| json(&sample("web.parquet"), &["--drive", drive])["depth"].clone();
    assert_eq!([depth("cheetah-15k4"), depth("sata-7200"), depth("nvme-ssd")], [1, 32, 1023]);
    let bfq = json(&sample("web.parquet"), &["--drive", "sata-7200", "--scheduler", "bfq"]);
    assert_eq!(bfq["scheduler"], "bfq:rotational=on");
}

#[test]
fn inputs_that_cannot_be_compared_are_refused() {
    let refused = |trace: &Path, arguments: &[&str]| {
        let output = validate(trace, arguments);
        assert!(output.stdout.is_empty());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, error) = refused(Path::new("-"), &[]);
    assert!(code == 2 && error.contains("read twice"), "{error}");
    let (code, error) = refused(&sample("mail.parquet"), &[]);
    assert!(code == 1 && error.contains("or name the drive with --drive"), "{error}");
    let (code, error) = refused(&sample("web.parquet"), &["--drive", "nonesuch"]);
    assert!(code == 2 && error.contains("nonesuch"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let arrivals = folder.path().join("arrivals.csv");
    let text = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                completed_ns,error\n\
                0,read,0,8,,0,0,1,0,,,,0\n1000,read,8,8,,0,0,1,0,,,,0\n";
    std::fs::write(&arrivals, text).unwrap();
    let (code, error) = refused(&arrivals, &[]);
    assert!(code == 1 && error.contains("no request has a completion time"), "{error}");
}
