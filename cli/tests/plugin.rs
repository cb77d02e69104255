//! Schedulers in shared libraries: the example in C, libraries that cannot be used, and answers that no scheduler gives.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod plugins;
mod program;

use std::path::PathBuf;

use plugins::{compiled, compiled_rust, crashed, faulty};
use program::{failure, json, sample, stdout};

fn compared(schedulers: &str, more: &[&str]) -> serde_json::Value {
    let mail = sample("mail.parquet");
    json(&[&["compare", &mail, "--pacing", "asap=16", "--end", "3s", "--schedulers", schedulers], more].concat())
}

#[test]
fn scheduler_in_c_has_the_figures_of_its_rule_and_counts_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let nearest = compiled(&folder, "libnearest.so", "examples/c-scheduler/nearest.c", &[]);
    let runs = compared(&format!("fifo,{nearest},{nearest}:max_wait=20ms"), &[]);
    let [fifo, usual, hasty] = [0, 1, 2].map(|run| &runs["runs"][run]);
    let mean = |run: &serde_json::Value, kind: &str| run[kind]["response_time"]["mean_ns"].as_f64().unwrap();
    assert!(mean(usual, "read") < mean(fifo, "read") && mean(usual, "write") > mean(fifo, "write"));
    assert!(mean(hasty, "read") > mean(usual, "read"), "late reads go first, wherever they lie");
    let rules = |run: &serde_json::Value| -> Vec<(String, u64)> {
        let rules = run["rules"].as_array().unwrap().iter();
        rules.map(|rule| (rule["name"].as_str().unwrap().to_owned(), rule["requests"].as_u64().unwrap())).collect()
    };
    assert_eq!(rules(usual).iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["late", "read", "other"]);
    assert!(rules(usual)[0].1 == 0 && rules(hasty)[0].1 > 0, "{:?} {:?}", rules(usual), rules(hasty));
    let sent: u64 = rules(usual).iter().map(|(_, sent)| sent).sum();
    let device = ["read", "write"].map(|kind| usual[kind]["device_requests"].as_u64().unwrap());
    assert_eq!(sent, device.iter().sum::<u64>());
    // Results name the file, and not where it lies.
    assert_eq!(usual["scheduler"]["model"], "plugin:libnearest.so");
    assert_eq!(runs, compared(&format!("fifo,{nearest},{nearest}:max_wait=20ms"), &[]));
    // Its tunables are named as ours are.
    let mail = sample("mail.parquet");
    let (code, said) = failure(&["compare", &mail, "--schedulers", &format!("{nearest}:max_wai=1s")]);
    assert!(code == 2 && said.contains("no tunable `max_wai`; did you mean max_wait?"), "{said}");
    let listed = stdout(&["list", "schedulers", &nearest]);
    assert!(listed.contains("max_wait") && listed.contains("500ms") && listed.contains("nearest read"), "{listed}");
}

#[test]
fn scheduler_in_rust_has_the_figures_of_the_same_rule_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let in_c = compiled(&folder, "libnearest.so", "examples/c-scheduler/nearest.c", &[]);
    let in_rust = compiled_rust(&folder, "librust.so", "examples/rust-scheduler/nearest.rs");
    for tunable in ["", ":max_wait=20ms"] {
        let runs = compared(&format!("{in_c}{tunable},{in_rust}{tunable}"), &[]);
        let [c, rust] = [0, 1].map(|run| {
            let mut run = runs["runs"][run].clone();
            run.as_object_mut().unwrap().remove("scheduler");
            run
        });
        assert!(c["read"]["requests"].as_u64().unwrap() > 100, "{c}");
        assert_eq!(c, rust);
    }
}

#[test]
fn scheduler_in_c_that_does_as_fifo_does_has_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = faulty(&folder, "libfifo.so", &[]);
    let runs = compared(&format!("fifo,{plugin},{plugin}:fault=9"), &["--merge", "off"]);
    let figures = |run: usize| {
        let mut run = runs["runs"][run].clone();
        for key in ["scheduler", "rules"] {
            run.as_object_mut().unwrap().remove(key);
        }
        run
    };
    assert_eq!(figures(1), figures(0));
    // It may also wait.
    assert_ne!(figures(2), figures(0));
    assert_eq!(figures(2)["read"]["requests"], figures(0)["read"]["requests"]);
}

#[test]
fn answer_that_no_scheduler_gives_ends_the_replay_and_names_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = faulty(&folder, "libfaulty.so", &[]);
    let mail = sample("mail.parquet");
    let said = |fault: u32, more: &[&str]| {
        let scheduler = format!("fifo,{plugin}:fault={fault}");
        let (code, said) = failure(&[&["compare", &mail, "--end", "3s", "--schedulers", &scheduler], more].concat());
        assert!(code == 1 && said.contains("libfaulty.so:fault=") && !said.contains("panicked"), "{fault}: {said}");
        said
    };
    for (fault, problem) in [
        (1, "which does not wait"),
        (2, "it sent request 4000000000, which does not wait"),
        (3, "which is not in the future"),
        (4, "an answer of the unknown kind 7"),
        (5, "it named rule 1 of 1"),
        (7, "its function create() returned nothing"),
        (13, "it has asked for 1000000 calls and sent none of the "),
        (14, "which is more than 30 days later"),
        (8, "nothing will happen: the scheduler keeps them for ever"),
    ] {
        let said = said(fault, &[]);
        assert!(said.contains(problem), "{fault}: {said}");
    }
    for (fault, signal) in [(10, "SIGSEGV"), (11, "SIGABRT")] {
        let said = crashed(&plugin, fault);
        let call = format!("crashed in dispatch() by {signal}, called at ");
        assert!(said.contains(&call) && said.contains("libfaulty.so"), "{said}");
        assert!(said.contains(" ns; the last request that it was called for is "), "{said}");
    }
    // A layer with a limit for writes asks without capacity for them.
    let limited = ["--pacing", "asap=32", "--stack", "guest=fifo@depth=32,write_depth=1", "--in", "guest"];
    let said = said(6, &limited);
    assert!(said.contains("for which there is no capacity"), "{said}");
}

#[test]
fn runs_that_had_finished_when_a_scheduler_crashed_or_was_at_fault_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = faulty(&folder, "libfaulty.so", &[]);
    let mail = sample("mail.parquet");
    for fault in [1, 10] {
        let schedulers = format!("fifo,{plugin},{plugin}:fault={fault},sstf");
        let arguments = ["compare", &mail, "--end", "3s", "--schedulers", &schedulers];
        // On one thread, the sound library has finished before the other one fails.
        let mut program = program::iocast();
        let output = program.args(arguments).env("TMPDIR", folder.path()).env("RAYON_NUM_THREADS", "1").output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
        let place =
            said.split("runs that had finished: 3, a line of JSON each: ").nth(1).and_then(|rest| rest.lines().next());
        let kept = std::fs::read_to_string(place.unwrap_or_else(|| panic!("{fault}: {said}"))).unwrap();
        let runs: Vec<serde_json::Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let result = json(&["compare", &mail, "--end", "3s", "--schedulers", &format!("fifo,sstf,{plugin}")]);
        for (index, run) in runs.iter().enumerate() {
            assert_eq!(run["scheduler"], result["runs"][index]["scheduler"]);
            assert_eq!(run["read"], result["runs"][index]["read"]);
        }
    }
    // Without an error nothing is left.
    let left = |folder: &std::path::Path| std::fs::read_dir(folder).unwrap().count();
    let before = left(folder.path());
    let arguments = ["compare", &mail, "--end", "1s", "--schedulers", &format!("fifo,{plugin}")];
    assert!(program::iocast().args(arguments).env("TMPDIR", folder.path()).output().unwrap().status.success());
    assert_eq!(left(folder.path()), before);
}

#[test]
fn promises_of_a_scheduler_are_checked_and_the_calls_that_break_one_are_few() {
    let folder = tempfile::tempdir().unwrap();
    let nearest = compiled(&folder, "libnearest.so", "examples/c-scheduler/nearest.c", &[]);
    let checked = json(&["validate", "scheduler", &nearest, "--sequences", "100"]);
    assert_eq!((&checked["broken"], &checked["sequences"]), (&serde_json::Value::Null, &100.into()));
    let decisions = checked["decisions"].as_array().unwrap();
    assert_eq!(decisions.iter().map(|timed| timed["waiting_requests"].as_u64().unwrap()).max(), Some(1024));
    assert!(
        stdout(&["validate", "scheduler", "cats", "--sequences", "10"]).contains("cats keeps all 10 promises in 10")
    );
    let plugin = faulty(&folder, "libfaulty.so", &[]);
    assert_eq!(json(&["validate", "scheduler", &plugin, "--sequences", "300"])["broken"], serde_json::Value::Null);
    // Its first 21 answers are right, so that 22 requests have to arrive.
    for (fault, promise, what) in [
        (2, "gives answers that a scheduler may give", "it sent request 4000000000, which does not wait"),
        (8, "sends everything when nothing else is to come", "it is idle, and requests could go"),
    ] {
        let scheduler = format!("{plugin}:fault={fault}");
        let arguments = ["validate", "scheduler", &scheduler, "--sequences", "300", "--output-format", "json"];
        let output = program::iocast().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let broken = &found["broken"];
        assert_eq!(broken["promise"], promise, "{broken}");
        assert!(broken["what"].as_str().unwrap().contains(what), "{broken}");
        let calls = broken["calls"].as_array().unwrap().len();
        assert!((22..=24).contains(&calls), "{broken}");
    }
}

#[test]
fn library_that_cannot_be_used_is_refused_before_any_replay() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library".repeat(1000)).unwrap();
    let absent = folder.path().join("absent.so");
    let of_file = |path: &PathBuf| format!("plugin:{}", path.display());
    let mail = sample("mail.parquet");
    for (plugin, problem) in [
        (of_file(&absent), "No such file"),
        (of_file(&text), "invalid ELF header"),
        (faulty(&folder, "old.so", &[("ABI", "0")]), "it is built for version 0 of iocast_scheduler.h"),
        (faulty(&folder, "other.so", &[("SYMBOL", "another")]), "it has no function iocast_scheduler"),
        (faulty(&folder, "part.so", &[("DESTROY", "NULL")]), "its scheduler has no function destroy"),
        (faulty(&folder, "silent.so", &[("SUMMARY", "NULL")]), "its summary is missing"),
        (faulty(&folder, "word.so", &[("TUNABLE", "\"a b\"")]), "the name `a b` of a tunable is not of"),
        (
            faulty(&folder, "range.so", &[("NORMAL", "15")]),
            "the normal value 15 of its tunable fault is not in 0 to 14",
        ),
    ] {
        let (code, said) = failure(&["compare", &mail, "--schedulers", &format!("fifo,{plugin}")]);
        let path = plugin.strip_prefix("plugin:").unwrap();
        assert!(code == 2 && said.contains(problem) && said.contains(path), "{plugin}: {code} {said}");
    }
    let (code, said) = failure(&["compare", &mail, "--schedulers", "plugin:"]);
    assert!(code == 2 && said.contains("is not of the form"), "{said}");
}
