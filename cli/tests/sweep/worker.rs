//! `iocast worker`, by itself.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;

use crate::plan::{Plan, SMALL, errors, tasks, worker};

#[test]
fn the_error_of_a_missing_trace_does_not_depend_on_its_neighbours() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 1, &[]);
    let tasks = tasks(&plan, "out");
    fs::rename(plan.scratch.path("web.parquet"), plan.scratch.path("wep.parquet")).unwrap();
    let errors: BTreeSet<String> = errors(&worker(&tasks)).into_iter().flatten().collect();
    assert_eq!(Vec::from_iter(errors), ["web.parquet: No such file or directory (os error 2)"]);
}

#[test]
fn worker_gives_the_rows_of_the_sweep() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 2, &[]);
    let output = worker(&tasks(&plan, "out"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let batches: Vec<RecordBatch> =
        StreamReader::try_new(&output.stdout[..], None).unwrap().map(Result::unwrap).collect();
    let results = plan.table("out");
    let mut at = 0;
    for batch in batches {
        let same = results.slice(at, batch.num_rows());
        assert_eq!(batch.columns(), same.columns());
        at += batch.num_rows();
    }
    assert_eq!(at, 18);
}

#[test]
fn worker_ends_with_its_input_and_names_what_is_wrong_with_it() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 2, &[]);
    let output = worker(b"");
    assert!(output.status.success());
    assert_eq!(StreamReader::try_new(&output.stdout[..], None).unwrap().count(), 0);
    let whole = tasks(&plan, "out");
    for (input, says) in [
        (&b"this is no Arrow stream at all, but text"[..], "the tasks on standard input"),
        (&whole[..whole.len() / 2], "the tasks on standard input"),
        (&worker(&whole).stdout, "there is no column folder"),
    ] {
        let output = worker(input);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn worker_ends_when_nobody_reads() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 2, &[]);
    let input = tasks(&plan, "out");
    let mut child = Command::new(env!("CARGO_BIN_EXE_iocast"))
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    // The schema comes before the first task does.
    let (tell, read) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // A message begins with a mark and the length of what follows.
        let mut begin = [0; 8];
        out.read_exact(&mut begin).unwrap();
        let length = u32::from_le_bytes(*begin.last_chunk().unwrap()) as usize;
        let is_there = out.read_exact(&mut vec![0; length]).is_ok();
        drop(out);
        tell.send(is_there)
    });
    assert!(read.recv_timeout(Duration::from_secs(60)).expect("no schema came"));
    // Standard input stays open, so that only the closed pipe can end it.
    pipe.write_all(&input[..input.len() - 8]).unwrap();
    let mut waited = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        waited += 1;
        assert!(waited < 6_000, "it goes on for nobody");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(0));
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(error, "");
}
