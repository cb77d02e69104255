//! `iocast convert`: a converted trace replays like the original; names, windows and provenance; existing outputs.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

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
fn missing_folder_for_the_temporary_copy_of_a_piped_parquet_trace_is_named() {
    let mut piped = Command::cargo_bin("iocast").unwrap();
    piped.args(["stat", "-"]).env("TMPDIR", "/nowhere").write_stdin(std::fs::read(sample("mail.parquet")).unwrap());
    let said = String::from_utf8(piped.assert().code(1).get_output().stderr.clone()).unwrap();
    assert!(said.contains("/nowhere: No such file") && said.contains("set TMPDIR to a folder with room"), "{said}");
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
    let key = folder.path().join("key").display().to_string();
    std::fs::write(&key, "a secret of 16 bytes or more\n").unwrap();
    convert(&[&mail, &out, "--anonymise", &key, "--provenance", "host=rack7", "--provenance", "kernel=6.1"]);
    let bytes = std::fs::read(&out).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("\"kernel\"") && text.contains("host-") && !text.contains("rack7"), "{text}");
    let original = std::fs::read(&mail).unwrap();
    for name in ["kworker", "jbd2", "mail"] {
        let is_in = |bytes: &[u8]| bytes.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(is_in(&original), "{name} was never in the file");
        assert!(!is_in(&bytes), "{name} is still in the file");
    }
    // Names do not change the replay: the same requests, in the same streams.
    assert_eq!(figures(&out, &[])[0]["all"], figures(&mail, &[])[0]["all"]);

    let moved = folder.path().join("moved.parquet").display().to_string();
    convert(&[&mail, &moved, "--anonymise", &key, "--anonymise-lba"]);
    // At other places the journal commits at other times. All else is replayed once.
    let [there, here] = [figures(&moved, &["--map", "scale"])[0].clone(), figures(&mail, &[])[0].clone()];
    let without_commits = |run: &Value| {
        let commits = |what: &str| run["journal_commits"][what].as_u64().unwrap();
        run["all"]["requests"].as_u64().unwrap() + commits("requests_left_out") - commits("requests_repeated")
    };
    assert_eq!(without_commits(&there), without_commits(&here));
    assert_eq!(there["read"]["requests"], here["read"]["requests"]);
}

#[test]
fn an_anonymised_trace_begins_at_zero_and_has_no_date_whatever_its_clock_counts_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (fiu, csv, key) = (path("day.fiu"), path("day.csv"), path("key"));
    std::fs::write(&key, "a secret of 16 bytes or more\n").unwrap();
    // Both in nanoseconds since 1970.
    std::fs::write(
        &fiu,
        "1226000000000000000 7 mail 8 8 W 6 0 00112233445566778899aabbccddeeff\n1226000000000000500 7 mail 16 8 R 6 0\n",
    )
    .unwrap();
    convert(&[&fiu, &csv]);
    assert!(std::fs::read_to_string(&csv).unwrap().contains("\n1226000000000000500,"));
    for input in [&fiu, &csv] {
        let (plain, parquet) = (path("shared.csv"), path("shared.parquet"));
        convert(&[input, &plain, "--anonymise", &key, "--force"]);
        let text = std::fs::read_to_string(&plain).unwrap();
        let arrivals: Vec<&str> = text.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
        assert_eq!(arrivals, ["0", "500"], "{text}");
        convert(&[input, &parquet, "--anonymise", &key, "--force"]);
        let statistics = String::from_utf8(iocast(&["stat", &parquet, "--output-format=json"]).stdout).unwrap();
        assert!(!statistics.contains("12260000000"), "{statistics}");
        assert!(statistics.contains("\"zero_unix_ns\": null"), "{statistics}");
    }
}

#[test]
fn a_key_comes_from_a_file_or_standard_input_and_has_16_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mail = sample("mail.parquet").display().to_string();
    let anonymised = |key: &str, input: &str| {
        let arguments = ["convert", &mail, &path("out.parquet"), "--force", "--limit", "9", "--anonymise", key];
        let output = Command::cargo_bin("iocast").unwrap().args(arguments).write_stdin(input).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap(), std::fs::read(path("out.parquet")).ok())
    };
    // The message does not repeat what may be the key.
    for literal in ["a literal secret of many bytes", "short"] {
        let (code, said, written) = anonymised(literal, "");
        assert_eq!((code, written), (Some(2), None), "{said}");
        assert!(!said.contains(literal) && said.contains("put the key into a file"), "{said}");
    }
    for (name, key, expected) in [
        ("empty", "", "has 0 bytes"),
        ("short", "15 bytes only..\n", "has 15 bytes, but needs 16"),
        ("long", &"x".repeat(100_000), "no key"),
    ] {
        std::fs::write(path(name), key).unwrap();
        let (code, said, written) = anonymised(&path(name), "");
        assert_eq!((code, written), (Some(2), None), "{said}");
        assert!(said.contains(expected) && said.contains(&path(name)), "{said}");
    }
    assert_eq!(anonymised("-", "short").0, Some(2));
    std::fs::write(path("key"), "16 bytes exactly\n").unwrap();
    let (of_file, of_input) = (anonymised(&path("key"), ""), anonymised("-", "16 bytes exactly"));
    assert_eq!(of_file.0, Some(0), "{}", of_file.1);
    assert_eq!(of_file.2, of_input.2);
    let both = ["convert", "-", &path("other.parquet"), "--anonymise", "-"];
    let output = Command::cargo_bin("iocast").unwrap().args(both).write_stdin("16 bytes exactly").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot come from one pipe"));
}

/// A conversion from standard input that has begun to write `out`, and waits for more records.
fn begun(out: &Path) -> (Child, ChildStdin) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_iocast"));
    command.args(["convert", "-"]).arg(out).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"start ; sector ; length ; op ; replay_delay=0 ; replay_duration=0\n").unwrap();
    // More than any buffer on the way holds.
    for index in 0..200_000u64 {
        let line = format!("{}.{:03} ; {} ; 8 ; R ; 0.000001 ; 0.004\n", index / 1000, index % 1000, index % 999 * 8);
        input.write_all(line.as_bytes()).unwrap();
    }
    input.flush().unwrap();
    // Its output: with a temporary name in the folder, or with none.
    let folder = out.parent().unwrap().to_owned();
    let files = PathBuf::from(format!("/proc/{}/fd", child.id()));
    let is_output = |file: std::fs::DirEntry| {
        let is_there = std::fs::read_link(file.path()).is_ok_and(|to| to.starts_with(&folder));
        is_there && std::fs::metadata(file.path()).is_ok_and(|found| found.len() > 0)
    };
    while !std::fs::read_dir(&files).unwrap().flatten().any(is_output) {
        assert!(child.try_wait().unwrap().is_none(), "the conversion has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    (child, input)
}

#[test]
fn a_killed_or_interrupted_conversion_leaves_nothing_behind() {
    for signal in ["KILL", "INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, input) = begun(&folder.path().join("out.csv"));
        let kill = std::process::Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let status = child.wait().unwrap();
        drop(input);
        // It ends by the signal, as a shell expects.
        let number = [("KILL", 9), ("INT", 2), ("TERM", 15)].iter().find(|row| row.0 == signal).unwrap().1;
        assert_eq!(status.signal(), Some(number));
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "SIG{signal}: {left:?}");
    }
}

#[test]
fn the_error_of_a_failed_write_names_the_output() {
    // The limit of the size of files, whose signal the shell ignores for its child: a write beyond it fails.
    let folder = tempfile::tempdir().unwrap();
    let mail = sample("mail.parquet");
    for name in ["out.csv", "out.parquet", "out.btreplay"] {
        let out = folder.path().join(name);
        let script = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", script, "sh", env!("CARGO_BIN_EXE_iocast"), "convert", "--lossy"]);
        limited.arg(&mail).arg(&out);
        if name.ends_with(".btreplay") {
            limited.args(["--to", "btreplay"]);
        }
        let output = limited.output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(&format!("cannot write {}: File too large", out.display())), "{message}");
        assert!(!message.contains(".part"), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
