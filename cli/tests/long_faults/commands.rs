//! Commands that write files.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rayon::prelude::*;
use tempfile::TempDir;

use super::short::Short;
use super::strace::{Call, Fault, INTERRUPTED, KILL, calls, faults, hit, traced};
use super::{Files, files, judge, server, wire, write};

const TRACE: &str = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                     completed_ns,error\n";

/// A trace of a few requests, as text.
fn trace(step: u64) -> Vec<u8> {
    let mut text = TRACE.to_owned();
    for number in 0..40 {
        let (arrival, operation) = (number * 50_000_000, if number % 3 == 0 { "write" } else { "read" });
        let (issued, completed) = (arrival + 100_000, arrival + 600_000 + number % 5 * 70_000);
        let lba = number * step % 20_000 * 8;
        text.push_str(&format!("{arrival},{operation},{lba},8,,0,0,1,0,,{issued},{completed},0\n"));
    }
    text.into_bytes()
}

/// What a command may leave of an output when it fails.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    /// What was there before, or all of the output.
    OldOrNew,
    /// It is changed in place. Its next run completes it.
    InPlace,
}

/// A command with its inputs, and outputs of an earlier run.
struct Case {
    arguments: Vec<String>,
    before: Files,
    leaves: Leaves,
}

impl Case {
    fn new(arguments: &str, before: &Files) -> Case {
        let arguments = arguments.split(' ').map(str::to_owned).collect();
        Case { arguments, before: before.clone(), leaves: Leaves::OldOrNew }
    }

    fn in_place(self) -> Case {
        Case { leaves: Leaves::InPlace, ..self }
    }
}

fn cases() -> Vec<Case> {
    let data = Path::new("../traces/tests/data");
    let mut inputs = Files::from([("a.csv".to_owned(), trace(7919)), ("b.csv".to_owned(), trace(104_729))]);
    for name in ["small.parquet", "blktrace/iscsi-mail.blktrace.0.gz"] {
        inputs.insert(name.replace("blktrace/", ""), std::fs::read(data.join(name)).unwrap());
    }
    let packets = tempfile::NamedTempFile::new().unwrap();
    wire::capture(packets.path());
    inputs.insert("wire.pcap".to_owned(), std::fs::read(packets.path()).unwrap());
    let mut older = inputs.clone();
    for name in ["out.parquet", "out.csv", "out.pcap", "0-fifo.tsv", "1-sstf.tsv", "out-a.json", "out.svg"] {
        older.insert(name.to_owned(), b"of an earlier run".to_vec());
    }
    let compare = "compare a.csv --schedulers fifo,sstf";
    let (killed, torn) = server::killed_logs();
    vec![
        Case::new("convert a.csv out.parquet", &inputs),
        Case::new("convert a.csv out.parquet --force", &older),
        Case::new("convert small.parquet out.csv", &inputs),
        Case::new("convert a.csv out.csv --force", &older),
        Case::new("convert iscsi-mail.blktrace.0.gz out.csv --limit 20", &inputs),
        Case::new("convert a.csv out.replay.0 --lossy", &inputs),
        Case::new("capture scrub wire.pcap out.pcap", &inputs),
        Case::new("capture scrub wire.pcap out.pcap --force", &older),
        Case::new("capture scrub wire.pcap out.pcap.gz --output-format json", &inputs),
        Case::new("capture iscsi --read wire.pcap -o out.parquet", &inputs),
        Case::new("stat a.csv --series out.parquet --output-format json", &inputs),
        Case::new(&format!("{compare} --decision-log ."), &inputs),
        Case::new(&format!("{compare} --decision-log . --force"), &older),
        Case::new(&format!("{compare} --output out"), &inputs),
        Case::new(&format!("{compare} --output out --force"), &older),
        Case::new("predict a.csv b.csv --predictors casale --output out", &inputs),
        Case::new("predict a.csv b.csv --predictors casale --output out --force", &older),
        Case::new("calibrate --drive cheetah-15k4 --reads 400 --models linear --output out", &inputs),
        Case::new("capture recover log.parquet", &killed),
        Case::new("capture recover log.parquet", &torn).in_place(),
    ]
}

/// Folders of one run: where it works, and for temporary files.
struct Place {
    whole: TempDir,
}

impl Place {
    fn new(before: &Files) -> Place {
        let whole = tempfile::tempdir().unwrap();
        let place = Place { whole };
        std::fs::create_dir(place.work()).unwrap();
        std::fs::create_dir(place.temporary()).unwrap();
        write(&place.work(), before);
        place
    }

    fn work(&self) -> PathBuf {
        std::fs::canonicalize(self.whole.path()).unwrap().join("work")
    }

    fn temporary(&self) -> PathBuf {
        self.whole.path().join("temporary")
    }

    fn run(&self, case: &Case, fault: Option<&Fault>) -> (Output, Vec<Call>) {
        self.run_with(case, fault, |_| ())
    }

    fn run_with(&self, case: &Case, fault: Option<&Fault>, change: impl Fn(&mut Command)) -> (Output, Vec<Call>) {
        let record = self.whole.path().join("record");
        let mut command = traced(&self.work(), &record, fault);
        change(command.args(&case.arguments).env("TMPDIR", self.temporary()));
        let output = command.output().expect("strace is not installed; Debian's package strace has it");
        (output, calls(&record))
    }
}

/// What a command leaves if nothing fails.
struct Clean {
    output: Output,
    after: Files,
}

/// Runs the command with a fault. Returns what is wrong with what it leaves.
fn problem(case: &Case, clean: &Clean, fault: &Fault) -> Option<String> {
    let place = Place::new(&case.before);
    let (output, calls) = place.run(case, Some(fault));
    let at = hit(&calls, fault);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let after = files(&place.work());
    let wrong = if fault.kind == KILL {
        (output.status.signal() != Some(9)).then(|| "it was not killed".to_owned())
    } else {
        wrong_end(&output, clean, &after, fault, &at)
    };
    let wrong = wrong.or_else(|| partial(case, clean, &after, fault)).or_else(|| wrong_again(case, clean, &place));
    let at: Vec<&str> = at.iter().map(|call| call.arguments.as_str()).collect();
    wrong.map(|wrong| format!("{}: {fault:?} at {at:?}: {wrong}; it said: {said}", case.arguments.join(" ")))
}

/// A run with a fault ends as the clean one, or with an error that names the file.
fn wrong_end(output: &Output, clean: &Clean, after: &Files, fault: &Fault, at: &[&Call]) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let Some(code) = output.status.code() else { return Some(format!("it ended with {}", output.status)) };
    let only_messages = !at.is_empty() && at.iter().all(|call| call.is_message());
    let must_fail = at.iter().any(|call| call.must_succeed()) && fault.kind != INTERRUPTED;
    if code == 0 && must_fail && !only_messages {
        return Some("it does not notice the failure".to_owned());
    }
    if code == 0 || only_messages {
        let is_same = output.stdout == clean.output.stdout && *after == clean.after;
        return (code != 0 || !is_same).then(|| format!("code {code}, and the result is not the clean run's"));
    }
    if fault.kind == INTERRUPTED {
        return Some("it does not survive an interruption".to_owned());
    }
    let is_printing = at.iter().any(|call| call.is_standard_output());
    let names_it = if at.iter().any(|call| call.is_message()) {
        // The message may be what failed, too.
        true
    } else if is_printing {
        said.contains("standard output")
    } else {
        // Or the folder.
        said.starts_with("iocast: .: ") || clean.after.keys().any(|name| said.contains(name.as_str()))
    };
    (code != 1 || !names_it).then(|| format!("code {code} without a proper message"))
}

/// No output is there in part, and no input has changed.
fn partial(case: &Case, clean: &Clean, after: &Files, fault: &Fault) -> Option<String> {
    for (name, bytes) in after {
        let is_old_or_new = case.before.get(name) == Some(bytes) || clean.after.get(name) == Some(bytes);
        let is_hidden = fault.kind == KILL && name.starts_with(".iocast-") && name.ends_with(".part");
        let is_changing = case.leaves == Leaves::InPlace;
        if !is_old_or_new && !is_hidden && !is_changing {
            return Some(format!("{name} is there with {} bytes", bytes.len()));
        }
    }
    let gone = case.before.keys().find(|name| clean.after.contains_key(*name) && !after.contains_key(*name));
    gone.map(|name| format!("{name} is gone"))
}

/// The next run succeeds, and nothing temporary remains.
fn wrong_again(case: &Case, clean: &Clean, place: &Place) -> Option<String> {
    if case.leaves == Leaves::OldOrNew {
        // Without --force a complete output would be kept.
        let outputs = clean.after.keys().filter(|name| !case.before.contains_key(*name));
        outputs.for_each(|name| _ = std::fs::remove_file(place.work().join(name)));
    }
    let (output, _) = place.run(case, None);
    let after = files(&place.work());
    let temporary = std::fs::read_dir(place.temporary()).unwrap().count();
    let said = String::from_utf8_lossy(&output.stderr);
    let names = |files: &Files| files.keys().cloned().collect::<Vec<String>>().join(" ");
    if !output.status.success() {
        return Some(format!("the next run ends with {}: {said}", output.status));
    }
    (after != clean.after || temporary > 0)
        .then(|| format!("the next run leaves {} and {temporary} temporary files", names(&after)))
}

/// Runs the command with short reads and writes. Returns what is wrong with what it leaves.
fn problem_of_short_calls(case: &Case, clean: &Clean, short: &Short) -> Option<String> {
    let place = Place::new(&case.before);
    let (output, calls) = place.run_with(case, None, |command| short.cut(command));
    let is_same = output.stdout == clean.output.stdout && files(&place.work()) == clean.after;
    let said = String::from_utf8_lossy(&output.stderr);
    // The digest of an input reads 64 KiB at a time.
    assert!(!calls.iter().any(|call| call.arguments.contains(", 65536)")), "no call was cut: {calls:?}");
    let is_good = output.status.success() && is_same;
    (!is_good).then(|| format!("{}: short calls: {}: {said}", case.arguments.join(" "), output.status))
}

#[test]
fn outputs_are_whole_or_absent_and_errors_name_them_whichever_call_fails() {
    let cases = cases();
    let mut clean = Vec::new();
    let mut runs = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let place = Place::new(&case.before);
        let (output, calls) = place.run(case, None);
        assert!(output.status.success(), "{:?}: {}", case.arguments, String::from_utf8_lossy(&output.stderr));
        let after = files(&place.work());
        assert!(after != case.before, "{:?} writes nothing", case.arguments);
        let faults = faults(&calls, &place.work());
        println!("{}: {} faults", case.arguments.join(" "), faults.len());
        runs.extend(faults.into_iter().map(|fault| (index, fault)));
        clean.push(Clean { output, after });
    }
    let found = runs.par_iter().filter_map(|(index, fault)| problem(&cases[*index], &clean[*index], fault));
    let short = Short::build();
    let all = cases.iter().zip(&clean);
    let cut: Vec<String> = all.filter_map(|(case, clean)| problem_of_short_calls(case, clean, &short)).collect();
    judge("commands", runs.len() + cases.len(), &[found.collect(), cut].concat());
}
