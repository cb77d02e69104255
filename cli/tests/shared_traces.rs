//! Replays of one `iocast compare` read their traces together: each has the result that it has alone.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::fs;

use program::{failure, iocast, json, sample};
use serde_json::Value;

/// More than are read together.
const SCHEDULERS: &str = "fifo,sstf,look,cscan,deadline,cats,mq-deadline,bfq,kyber,cfq";

#[test]
fn each_replay_is_what_it_is_alone_with_any_number_of_threads() {
    let (mail, web) = (format!("mail={}", sample("mail.parquet")), format!("web={}", sample("web.parquet")));
    let load = ["compare", "--vm", &mail, "--vm", &web, "--map", "remap", "--pacing", "closed", "--schedulers"];
    let together = json(&[&load[..], &[SCHEDULERS]].concat());
    let runs = together["runs"].as_array().unwrap();
    for (run, scheduler) in runs.iter().zip(SCHEDULERS.split(',')).step_by(4) {
        let alone = json(&[&load[..], &[scheduler]].concat());
        // Only the ratio to the baseline needs another replay.
        let without_ratio = |run: &Value| {
            let mut run = run.clone();
            run["ratio"] = Value::Null;
            run
        };
        assert_eq!(without_ratio(&alone["runs"][0]), without_ratio(run));
        assert_eq!(alone["provenance"]["traces"], together["provenance"]["traces"]);
    }
    let one = iocast()
        .args([&load[..], &[SCHEDULERS, "--output-format=json"]].concat())
        .env("RAYON_NUM_THREADS", "1")
        .assert()
        .success();
    assert!(serde_json::from_slice::<Value>(&one.get_output().stdout).unwrap() == together);
}

#[test]
fn a_fault_in_a_trace_is_told_once_as_by_a_single_replay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mail.csv");
    let columns = "operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,completed_ns,error";
    let mut text = format!("arrival_ns,{columns}\n");
    (0..5000).for_each(|n| text.push_str(&format!("{},read,{},8,,0,0,1,0,,,,0\n", n * 1000, n * 8)));
    text.push_str("none,read,8,8,,0,0,1,0,,,,0\n");
    fs::write(&path, text).unwrap();
    let said = |schedulers: &str| failure(&["compare", path.to_str().unwrap(), "--schedulers", schedulers]);
    let alone = said("fifo");
    assert!(alone.0 == 1 && alone.1.contains("mail.csv at line 5002: arrival_ns `none` is not a number"), "{alone:?}");
    assert_eq!(alone, said(SCHEDULERS));
}

#[test]
fn a_replay_that_fails_ends_the_others_and_its_error_is_told() {
    let mail = sample("mail.parquet");
    let small = "fixed:capacity=1000000000";
    let alone = failure(&["compare", &mail, "--drive", small, "--schedulers", "fifo"]);
    assert!(alone.0 == 1 && alone.1.contains("beyond the drive's"), "{alone:?}");
    for drives in [[small, "cheetah-15k4"], ["cheetah-15k4", small]] {
        let both = ["compare", &mail, "--drive", drives[0], "--drive", drives[1], "--schedulers", "fifo,sstf,look"];
        assert_eq!(failure(&both), alone);
    }
}
