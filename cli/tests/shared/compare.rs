//! `compare` on every trace of the shared data: lab captures and real servers.

use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;

fn traces() -> Vec<PathBuf> {
    let root = crate::root();
    let mut traces = Vec::new();
    for folder in ["lab", "servers"] {
        let folder = root.join(folder);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let is_trace = |path: &PathBuf| {
            let name = path.to_string_lossy();
            name.contains(".blktrace.") || name.ends_with(".load.gz") || name.ends_with(".vscsi.gz")
        };
        traces.extend(entries.flatten().map(|entry| entry.path()).filter(is_trace));
    }
    traces.sort();
    assert_eq!(traces.len(), 10, "five captures of the lab, five of servers");
    traces
}

#[test]
fn every_trace_replays_under_every_scheduler() {
    for trace in traces() {
        // As fast as possible, since servers' traces have no completions and most overload a spindle.
        let output = Command::cargo_bin("iocast")
            .unwrap()
            .args(["compare", trace.to_str().unwrap(), "--schedulers", "all", "--pacing", "asap=32", "--map", "scale"])
            .args(["--output-format", "json"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", trace.display(), String::from_utf8_lossy(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let requests = result["provenance"]["traces"][0]["requests"].as_u64().unwrap();
        assert!(requests > 1000, "{}", trace.display());
        for run in result["runs"].as_array().unwrap() {
            let completed: u64 =
                ["read", "write", "other"].iter().map(|class| run[class]["requests"].as_u64().unwrap()).sum();
            assert_eq!(completed, requests, "{} under {}", trace.display(), run["scheduler"]["name"]);
        }
    }
}

#[test]
fn the_labs_captures_replay_closed() {
    for trace in traces().iter().filter(|path| path.to_string_lossy().contains("blktrace")) {
        let arguments = ["--pacing", "closed", "--output-format", "json"];
        let output =
            Command::cargo_bin("iocast").unwrap().args(["compare", trace.to_str().unwrap()]).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}: {}", trace.display(), String::from_utf8_lossy(&output.stderr));
    }
}
