//! `iocast convert`: a converted trace replays like the original; names, windows and provenance; existing outputs.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;

fn sample(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "traces", "samples", name].iter().collect()
}

fn iocast(arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("iocast").unwrap().args(arguments).output().unwrap()
}

fn convert(arguments: &[&str]) {
    let output = iocast(&[&["convert"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The figures of a replay, without the trace's provenance.
fn figures(trace: &str, extra: &[&str]) -> Value {
    let arguments = ["compare", trace, "--pacing", "closed", "--schedulers", "deadline", "--output-format", "json"];
    let output = iocast(&[&arguments[..], extra].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["runs"].clone()
}

#[test]
fn a_converted_trace_replays_as_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let load = path("a.load");
    let mut text = String::from("start ; sector ; length ; op ; replay_delay=0 ; replay_duration=0\n");
    for index in 0..2000u64 {
        let sector = index * 7919 % 100_000 * 8;
        let operation = if index % 3 == 0 { "W" } else { "R" };
        text.push_str(&format!("{}.{:02} ; {sector} ; 8 ; {operation} ; 0.000001 ; 0.004\n", index / 100, index % 100));
    }
    std::fs::write(&load, text).unwrap();
    convert(&[&load, &path("a.parquet")]);
    assert_eq!(figures(&load, &[]), figures(&path("a.parquet"), &[]));

    // The same through a pipe, and compressed.
    let bytes = std::fs::read(&load).unwrap();
    let mut piped = Command::cargo_bin("iocast").unwrap();
    piped.args(["convert", "-", &path("piped.parquet")]).write_stdin(bytes).assert().success();
    assert_eq!(figures(&load, &[]), figures(&path("piped.parquet"), &[]));
}

#[test]
fn window_vm_name_and_provenance_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("cut.parquet").display().to_string();
    let mail = sample("mail.parquet").display().to_string();
    convert(&[&mail, &out, "--start", "1s", "--end", "3s", "--vm", "post", "--provenance", "host=lab"]);
    let window = ["--start", "1s", "--end", "3s"];
    let cut = figures(&out, &[]);
    assert_eq!(cut[0]["all"]["requests"], figures(&mail, &window)[0]["all"]["requests"]);
    let output = iocast(&["compare", &out, "--pacing", "closed", "--output-format", "json"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let made = &result["provenance"]["traces"][0]["made"];
    assert_eq!(made["host"], "lab");
    assert_eq!(made["converted_from"], "mail.parquet");
    assert_eq!(made["converted_from_sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn an_existing_output_is_kept_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.parquet");
    std::fs::write(&out, "precious").unwrap();
    let mail = sample("mail.parquet").display().to_string();
    let output = iocast(&["convert", &mail, &out.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read(&out).unwrap(), b"precious");
    convert(&[&mail, &out.display().to_string(), "--force", "--limit", "10"]);
    assert!(std::fs::read(&out).unwrap().starts_with(b"PAR1"));
}

#[test]
fn a_failed_conversion_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("bad.load"), "start ; sector ; length ; op ; a ; b\n0.0 ; 8 ; 8 ; R ; 0 ; 0\nnonsense\n")
        .unwrap();
    let output = iocast(&["convert", &path("bad.load"), &path("out.parquet")]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("bad.load at line 3"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only the input is left");

    let lenient = iocast(&["convert", &path("bad.load"), &path("out.parquet"), "--lenient"]);
    assert!(lenient.status.success());
    assert!(String::from_utf8(lenient.stderr).unwrap().contains("1 records skipped"));
}

#[test]
fn anonymised_trace_holds_no_names_and_keeps_distances_within_regions() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("anonymous.parquet").display().to_string();
    let mail = sample("mail.parquet").display().to_string();
    convert(&[&mail, &out, "--anonymise", "secret"]);
    let bytes = std::fs::read(&out).unwrap();
    let original = std::fs::read(&mail).unwrap();
    for name in ["kworker", "jbd2", "mail"] {
        let is_in = |bytes: &[u8]| bytes.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(is_in(&original), "{name} was never in the file");
        assert!(!is_in(&bytes), "{name} is still in the file");
    }
    // Names do not change the replay: the same requests, in the same streams.
    assert_eq!(figures(&out, &[])[0]["all"], figures(&mail, &[])[0]["all"]);

    let moved = folder.path().join("moved.parquet").display().to_string();
    convert(&[&mail, &moved, "--anonymise", "secret", "--anonymise-lba"]);
    assert_eq!(figures(&moved, &["--map", "scale"])[0]["all"]["requests"], figures(&mail, &[])[0]["all"]["requests"]);
}
