//! `iocast capture iscsi`, `iocast capture scrub` and `iocast convert --align` on the command line.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod wire;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use wire::capture;

fn iocast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iocast")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn sample(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "traces", "samples", name].iter().collect()
}

#[test]
fn capture_and_scrubbed_capture_give_the_same_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    capture(Path::new(&path("a.pcap")));
    let output =
        iocast(&["capture", "iscsi", "--read", &path("a.pcap"), "-o", &path("a.csv"), "--output-format", "json"]);
    assert!(output.status.success(), "{}", said(&output));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&figures["schema_version"], &figures["commands"]["paired"]), (&1.into(), &1.into()));
    assert_eq!(figures["units"][0]["lun"], "2");
    let rows = std::fs::read_to_string(path("a.csv")).unwrap();
    assert!(rows.contains("\n10000,read,777,8,,0,0,1,0,,10000,250000,0"), "{rows}");

    let output = iocast(&["capture", "scrub", &path("a.pcap"), &path("b.pcap.gz"), "--output-format", "json"]);
    assert!(output.status.success(), "{}", said(&output));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&done["kept_payload_bytes"], &done["payload_bytes"]), (&96.into(), &4192.into()));
    assert!(iocast(&["capture", "iscsi", "--read", &path("b.pcap.gz"), "-o", &path("b.csv")]).status.success());
    assert_eq!(std::fs::read_to_string(path("b.csv")).unwrap(), rows);
}

#[test]
fn unreadable_inputs_and_contradictory_arguments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    capture(Path::new(&path("a.pcap")));
    std::fs::write(path("text"), "not a capture").unwrap();
    std::fs::write(path("empty-key"), "\n").unwrap();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["capture", "iscsi", "--read", &path("text")], 1, "no file of packets"),
        (&["capture", "iscsi", "--read", &path("none")], 1, "No such file"),
        (&["capture", "iscsi"], 2, "required"),
        (&["capture", "iscsi", "--interface", "lo"], 2, "--output for a trace, --raw for packets"),
        (&["capture", "iscsi", "--read", &path("a.pcap"), "-o", &path("text")], 2, "--force overwrites"),
        (&["capture", "scrub", &path("a.pcap"), &path("b.pcapng")], 2, "the output is pcap, not pcapng"),
        (
            &["capture", "scrub", &path("a.pcap"), &path("b.pcap"), "--rename-key", &path("empty-key")],
            2,
            "the key has 0 bytes",
        ),
    ];
    for (arguments, code, message) in cases {
        let output = iocast(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(message), "{arguments:?}: {}", said(&output));
    }
    // A port at which nothing is.
    let output = iocast(&["capture", "iscsi", "--read", &path("a.pcap"), "--port", "9"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let why = format!("{} holds 4 packets, but no iSCSI at TCP port 9; --port names another", path("a.pcap"));
    assert!(said(&output).contains(&why), "{}", said(&output));
}

#[test]
fn captures_without_packets_or_commands_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    capture(Path::new(&path("a.pcap")));
    let all = std::fs::read(path("a.pcap")).unwrap();
    // The header of the file only, and the two packets that open the connection.
    for (name, bytes, message) in [
        ("none.pcap", 24, "none.pcap holds no packets"),
        ("begun.pcap", 24 + 2 * 70, "the 2 packets hold no SCSI command, nor any iSCSI PDU; --port names"),
    ] {
        std::fs::write(path(name), &all[..bytes]).unwrap();
        let output = iocast(&["capture", "iscsi", "--read", &path(name)]);
        assert!(output.status.success(), "{name}: {}", said(&output));
        let warning = said(&output);
        assert!(warning.contains("iocast: warning: ") && warning.contains(message), "{name}: {warning}");
    }
}

#[test]
fn align_removes_a_clock_offset() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mail = sample("mail.parquet").display().to_string();
    let original = path("original.csv");
    assert!(iocast(&["convert", &mail, &original, "--limit", "5000"]).status.success());
    // Two seconds later, and every seventh request missing.
    let shift = |field: &str| field.parse::<u64>().map_or(field.to_owned(), |ns| (ns + 2_000_000_000).to_string());
    let mut text = String::new();
    for (number, line) in std::fs::read_to_string(&original).unwrap().lines().enumerate() {
        let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
        if number > 0 {
            for column in [0, 9, 10, 11] {
                fields[column] = shift(&fields[column]);
            }
        }
        if number == 0 || number % 7 != 0 {
            text.push_str(&fields.join(","));
            text.push('\n');
        }
    }
    std::fs::write(path("shifted.csv"), text).unwrap();
    let output =
        iocast(&["convert", "--align", &original, &path("shifted.csv"), &path("back.csv"), "--output-format", "json"]);
    assert!(output.status.success(), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["offset_ns"], -2_000_000_000_i64);
    assert_eq!((&found["drift_ppb"], &found["residual_max_ns"]), (&0.0.into(), &0.into()), "{found}");
    assert_eq!(found["unmatched_input"], 0);
    let all = std::fs::read_to_string(&original).unwrap();
    let back = std::fs::read_to_string(path("back.csv")).unwrap();
    assert!(back.lines().all(|line| all.contains(line)));

    let stranger = sample("fast-disk/web.parquet").display().to_string();
    let strangers = iocast(&["convert", "--align", &stranger, &original, &path("x.csv")]);
    assert_eq!(strangers.status.code(), Some(1));
    assert!(said(&strangers).contains("cannot be aligned"), "{}", said(&strangers));
    assert!(!Path::new(&path("x.csv")).exists());

    // Strangers that have some requests in common.
    let oltp = sample("oltp.parquet").display().to_string();
    let strangers = iocast(&["convert", "--align", &oltp, &mail, &path("x.csv")]);
    assert_eq!(strangers.status.code(), Some(1));
    for part in [&oltp, &mail, "not of one run", "are the same in both", "ms at p95", "at the same time"] {
        assert!(said(&strangers).contains(part), "{part}: {}", said(&strangers));
    }
    assert!(!Path::new(&path("x.csv")).exists());
}
