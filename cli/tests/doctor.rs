//! `iocast doctor`, and subcommands on a host that lacks what they need.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::process::Output;

use program::{failure, iocast, json};
use serde_json::Value;

/// Runs the program where no other program is on the PATH.
fn alone(arguments: &[&str]) -> Output {
    iocast().env("PATH", "/nowhere").args(arguments).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn missing_need_of_every_run_is_exit_code_1_for_that_subcommand_only() {
    let output = alone(&["doctor", "--for", "capture", "lab"]);
    let (said, table) = (errors(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("iocast: capture lab cannot run on this host without qemu-system-x86_64, tar"));
    // tshark is of another subcommand; filebench is of some runs of this one.
    assert!(table.contains("filebench") && !table.contains("tshark") && !said.contains("filebench"), "{table}{said}");
    for other in [&["doctor"][..], &["doctor", "--for", "serve"], &["doctor", "--for", "capture iscsi"]] {
        let output = alone(other);
        assert!(output.status.success() && !output.stdout.is_empty(), "{other:?}: {}", errors(&output));
    }
    let nothing = alone(&["doctor", "--for", "compare"]);
    assert_eq!((nothing.status.code(), &nothing.stdout[..]), (Some(0), &b"it needs nothing but this program\n"[..]));
    let (code, message) = failure(&["doctor", "--for", "capture", "lap"]);
    assert!(code == 2 && message.contains("capture has no subcommand lap; it has "), "{message}");
}

#[test]
fn json_has_the_finding_the_remedy_and_the_runs_of_each_need() {
    let output = alone(&["doctor", "--for", "capture iscsi", "--output-format", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["schema_version"], 1);
    let of = |name: &str| found["needs"].as_array().unwrap().iter().find(|need| need["name"] == name).unwrap();
    let dumpcap = of("dumpcap");
    assert_eq!((&dumpcap["is_there"], &dumpcap["package"]), (&false.into(), &"wireshark-common".into()));
    assert_eq!(dumpcap["found"], "not installed: apt-get install wireshark-common");
    let run = &dumpcap["needed_by"][0];
    assert_eq!((&run["subcommand"], &run["when"]), (&"capture iscsi".into(), &"with --interface".into()));
    assert_eq!(dumpcap["needed_by"].as_array().unwrap().len(), 1, "the lab's run is left out");
    // With the programs of this host.
    let all = json(&["doctor"]);
    let sh = all["needs"].as_array().unwrap().iter().find(|need| need["name"] == "sh").unwrap();
    assert!(sh["is_there"] == true && sh["found"].as_str().unwrap().ends_with("/sh"), "{sh}");
}

#[test]
fn subcommand_names_all_that_it_lacks_before_it_does_anything() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("san.csv").display().to_string();
    let output = alone(&["capture", "iscsi", "--interface", "lo", "--engine", "tshark", "-w", "1s", "-o", &trace]);
    let said = errors(&output);
    assert!(output.status.code() == Some(1) && !folder.path().join("san.csv").exists(), "{said}");
    for line in [
        "iocast: capture iscsi cannot begin, because this host lacks:",
        "  dumpcap: not installed: apt-get install wireshark-common",
        "  tshark: not installed: apt-get install tshark",
        "  together: apt-get install tshark wireshark-common",
    ] {
        assert!(said.lines().any(|found| found == line), "{line} is missing: {said}");
    }
    let output =
        alone(&["serve", "--drive", "linear", "--image", "memory:1m", "--listen", "unix:x", "--urgency=realtime"]);
    assert!(
        output.status.code() == Some(1)
            && errors(&output).contains("  chrt: not installed: apt-get install util-linux")
    );
}
