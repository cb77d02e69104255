//! The lab's captures of iSCSI: every command pairs, cut captures make nothing up, guest and wire agree, and so does tshark.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn lab(name: &str) -> PathBuf {
    let path = crate::root().join("lab").join(name);
    assert!(path.exists(), "{} does not exist; IOCAST_SHARED_DATA names the folder of the shared data", path.display());
    path
}

fn iocast(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_iocast")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn figures(capture: &Path, out: &Path) -> Value {
    let (capture, out) = (capture.display().to_string(), out.display().to_string());
    let output = iocast(&["capture", "iscsi", "--read", &capture, "-o", &out, "--force", "--output-format", "json"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(path: &Path) -> BTreeSet<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn unpacked(name: &str, folder: &Path) -> PathBuf {
    let path = folder.join("whole.pcap");
    let output = Command::new("gzip").args(["-dc"]).arg(lab(name)).output().unwrap();
    std::fs::write(&path, output.stdout).unwrap();
    path
}

#[test]
fn all_commands_pair() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("wire.csv");
    let mail = figures(&lab("iscsi-mail-alone.pcap.gz"), &out);
    assert_eq!(mail["commands"]["commands"], 14_148);
    assert_eq!(mail["commands"]["paired"], 14_148);
    assert_eq!(mail["commands"]["lost"], 0);
    assert_eq!(mail["opcodes"]["READ(10)"], 7_948);
    assert_eq!(mail["opcodes"]["WRITE(10)"], 4_184);
    let web = figures(&lab("iscsi-web-alone.pcap.gz"), &out);
    assert_eq!(web["commands"]["commands"], web["commands"]["paired"]);
    assert_eq!(web["commands"]["commands"], 9_354);
}

#[test]
fn what_the_guest_issued_is_a_run_of_what_the_wire_saw() {
    let folder = tempfile::tempdir().unwrap();
    for (run, issued) in [("mail", 10_237), ("web", 5_046)] {
        let wire = folder.path().join("wire.parquet");
        figures(&lab(&format!("iscsi-{run}-alone.pcap.gz")), &wire);
        let guest = lab(&format!("iscsi-{run}-alone.blktrace.0.gz")).display().to_string();
        let (wire, out) = (wire.display().to_string(), folder.path().join("guest.parquet").display().to_string());
        let arguments =
            ["convert", "--align", &wire, "--at", "issued", &guest, &out, "--force", "--output-format", "json"];
        let found: Value = serde_json::from_slice(&iocast(&arguments).stdout).unwrap();
        assert_eq!(found["input_requests"], issued);
        assert_eq!(found["matched"], issued);
        assert_eq!(found["longest_run"], issued);
        // On one clock nearly every request is on the wire while the guest waits for it.
        assert!(found["nested"].as_u64().unwrap() * 100 >= issued * 99, "{found}");
        assert!(found["drift_ppb"].as_f64().unwrap().abs() < 200_000.0, "{found}");
    }
}

#[test]
fn cut_captures_lose_commands_and_make_none_up() {
    let folder = tempfile::tempdir().unwrap();
    let whole = unpacked("iscsi-mail-alone.pcap.gz", folder.path());
    let (all, out) = (folder.path().join("all.csv"), folder.path().join("cut.csv"));
    figures(&whole, &all);
    let all = rows(&all);
    for snaplen in ["128", "160", "256", "1514"] {
        let cut = folder.path().join("cut.pcap");
        let status = Command::new("editcap").args(["-s", snaplen]).arg(&whole).arg(&cut).status();
        assert!(status.expect("editcap is in the Debian package wireshark-common").success());
        let found = figures(&cut, &out);
        let count = |name: &str| found["commands"][name].as_u64().unwrap();
        assert_eq!(count("commands") + count("lost"), 14_148, "snap length {snaplen}");
        assert!(count("lost") * 100 < 14_148 * 16, "snap length {snaplen}: {} lost", count("lost"));
        let invented: Vec<String> = rows(&out).difference(&all).cloned().collect();
        assert!(invented.is_empty(), "snap length {snaplen}: {invented:?}");
    }
}

#[test]
fn tshark_sees_the_same_commands() {
    let folder = tempfile::tempdir().unwrap();
    // In the web run tshark passes over two commands, both in a segment that was sent again together with new bytes.
    for (run, passed_over) in [("mail", 0), ("web", 2)] {
        let capture = lab(&format!("iscsi-{run}-alone.pcap.gz"));
        let (ours, theirs) = (folder.path().join("ours.csv"), folder.path().join("theirs.csv"));
        figures(&capture, &ours);
        let (path, out) = (capture.display().to_string(), theirs.display().to_string());
        iocast(&["capture", "iscsi", "--read", &path, "-o", &out, "--engine", "tshark", "--force"]);
        let (ours, theirs) = (rows(&ours), rows(&theirs));
        assert_eq!(ours.difference(&theirs).count(), passed_over, "{run}");
        assert_eq!(theirs.difference(&ours).take(3).collect::<Vec<_>>(), Vec::<&String>::new(), "{run}");
    }
}

#[test]
fn a_scrubbed_capture_holds_the_same_commands() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, scrubbed) = (folder.path().join("ours.csv"), folder.path().join("scrubbed.csv"));
    let capture = lab("iscsi-mail-alone.pcap.gz");
    let out = folder.path().join("scrubbed.pcap.gz").display().to_string();
    iocast(&["capture", "scrub", &capture.display().to_string(), &out]);
    figures(&capture, &ours);
    figures(Path::new(&out), &scrubbed);
    assert_eq!(rows(&ours), rows(&scrubbed));
    assert!(std::fs::metadata(&out).unwrap().len() < 5_000_000);
}
