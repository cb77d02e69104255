//! What `iocast predict` asks for before it answers.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use program::{iocast, sample};
use serde_json::Value;

/// The first line of a trace as CSV.
const HEADER: &str = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                      completed_ns,error\n";

fn json_of(arguments: &[&str]) -> Value {
    program::json(&[&["predict"], arguments].concat())
}

fn refused(arguments: &[&str]) -> (String, i32) {
    let (code, message) = program::failure(&[&["predict"], arguments].concat());
    (message, code)
}

#[test]
fn answer_comes_first_then_the_questions_and_baselines_are_marked() {
    let (mail, web, oltp) = (sample("mail.parquet"), sample("web.parquet"), sample("oltp.parquet"));
    let table = |arguments: &[&str]| {
        let output = iocast().arg("predict").args(arguments).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let printed = table(&[&mail, &web]);
    let at = |text: &str| printed.find(text).unwrap_or_else(|| panic!("no {text:?} in {printed}"));
    assert_eq!(at("Together, says twin: mail's reads take "), 0);
    let order = [
        "Where on the device does the disk of each VM begin (mail, web)?",
        &format!("{mail}@0"),
        "Assumed: the",
        "Which other VMs ran alone on this device? Add the trace of each with --also",
        "mail, web together, forecast by twin (recommended; its intervals should hold 90 % of true values)",
        "mail with web",
        "Alone, as traced: rates",
    ];
    assert!(order.map(at).is_sorted(), "{printed}");
    // The answer holds the twin's figures of the JSON, with a unit that fits.
    let twin = json_of(&[&mail, &web])["pairs"][0]["predictors"]["twin"].clone();
    let [from, to] = [0, 1].map(|end| twin["intervals_90"]["read_response_ns"][0][end].as_f64().unwrap() / 1e6);
    let read = twin["read_response_ns"][0].as_f64().unwrap() / 1e6;
    let answer = &printed[at(", forecast by twin")..at("mail with web")];
    let row = answer.lines().find(|line| line.contains("read, mean")).unwrap();
    assert!(row.contains(&format!("{read:.1}ms")) && row.contains(&format!("{from:.1}ms to {to:.1}ms")), "{row}");
    for row in printed.lines().filter(|line| line.contains("baseline")) {
        assert!(["sum", "isolation", "constant"].iter().any(|name| row.contains(name)), "{row}");
    }
    assert_eq!(printed.matches("┆ baseline").count(), 6, "{printed}");
    assert_eq!(printed.matches("┆ recommended").count(), 2, "{printed}");
    // Nothing is asked for where nothing is missing.
    let placed = [format!("{mail}@0"), format!("{web}@17g"), format!("{oltp}@34g")];
    let printed = table(&[&placed[0], &placed[1], "--also", &placed[2]]);
    assert!(printed.starts_with("Together, says twin: "), "{printed}");
    assert!(!printed.contains('?'), "{printed}");
    // The twin learns seeks from further VMs, so it has to know where their disks are.
    let asked = json_of(&[&placed[0], &placed[1], "--also", &oltp])["missing"].to_string();
    assert!(asked.contains("does the disk of each VM begin (oltp)?"), "{asked}");
    assert!(asked.contains(&format!("{mail}@0 {web}@17g --also {oltp}@")), "{asked}");
}

#[test]
fn trace_without_requests_is_named_and_not_the_window() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.csv").display().to_string();
    std::fs::write(&empty, HEADER).unwrap();
    let (said, code) = refused(&[&sample("mail.parquet"), &empty]);
    assert!(code == 1 && said.contains("empty.csv: it holds no request") && !said.contains("--start"), "{said}");
    let warned = |arguments: &[&str]| {
        let output = iocast().args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let written = folder.path().join("none.parquet").display().to_string();
    for arguments in [&["stat", &empty][..], &["convert", &empty, &written]] {
        let said = warned(arguments);
        assert!(said.contains("warning: ") && said.contains("empty.csv holds no request"), "{arguments:?}: {said}");
    }
    let (_, said) = program::failure(&["compare", &empty]);
    assert!(said.contains("the traces hold no request: ") && said.contains("empty.csv"), "{said}");
}

#[test]
fn trace_without_completions_is_asked_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bare.csv").display().to_string();
    let rows: String =
        (0..100).map(|row| format!("{},read,{},8,,0,0,5,0,,,,0\n", row * 1_000_000, row * 800)).collect();
    std::fs::write(&path, format!("{HEADER}{rows}")).unwrap();
    let (said, code) = refused(&[&sample("mail.parquet"), &path]);
    assert!(said.contains("bare.csv: when did the requests of bare complete?") && code == 1, "{said}");
    assert!(said.contains("Of 100 requests none has a completion time"), "{said}");
}

#[test]
fn vms_on_the_same_addresses_are_reported() {
    let (mail, web) = (sample("mail.parquet"), sample("web.parquet"));
    let shared = |result: &Value, one: usize, other: usize| result["overlap"][one][other].as_f64().unwrap();
    let same = json_of(&[&mail, &web, "--predictors", "isolation"]);
    assert!(shared(&same, 0, 1) > 0.5 && shared(&same, 1, 0) > 0.5 && same["overlap"][0][0].is_null());
    let table = |web: &str| {
        let output = iocast().args(["predict", &mail, web, "--predictors", "isolation"]).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let apart = format!("{web}@17g");
    assert!(table(&web).contains("Two VMs touch the same addresses of the device, most of all mail and web"));
    assert!(!table(&apart).contains("touch the same addresses"));
    assert_eq!(shared(&json_of(&[&mail, &apart, "--predictors", "isolation"]), 0, 1), 0.0);
}

#[test]
fn traces_of_different_length_are_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short.parquet").display().to_string();
    iocast().args(["convert", &sample("web.parquet"), &short, "--end", "20s"]).assert().success();
    let (mail, placed) = (format!("{}@0", sample("mail.parquet")), format!("{short}@64g"));
    let missing =
        |more: &[&str]| json_of(&[&[&mail, &placed, "--predictors", "casale"], more].concat())["missing"].to_string();
    let asked = missing(&[]);
    assert!(asked.contains("The trace of short covers 20.0s") && asked.contains("Add --end 20s"), "{asked}");
    assert!(!missing(&["--end", "20s"]).contains("after their traces end"));
    // Both options count from the first arrival, so that the window is 15 s long.
    let asked = missing(&["--start", "5s"]);
    assert!(asked.contains("The trace of short covers 15.0s") && asked.contains("Add --end 20s"), "{asked}");
}

#[test]
fn places_that_are_asked_for_keep_the_names_of_the_vms() {
    let mail = sample("mail.parquet");
    let (a, b) = (format!("a={mail}"), format!("b={mail}"));
    let asked = json_of(&[&a, &b, "--predictors", "casale"])["missing"].to_string();
    assert!(asked.contains(&format!("a={mail}@0 b={mail}@1g")), "{asked}");
    let (message, code) = refused(&[&format!("{a}@0"), &format!("{b}@64g"), "--capacity", "1g"]);
    assert!(code == 2 && message.contains("VM b: its disk begins at sector 134217728, but --capacity"), "{message}");
}

#[test]
fn percentile_that_too_few_requests_support_is_not_printed() {
    let (mail, web) = (sample("mail.parquet"), sample("web.parquet"));
    let row = |text: &str| {
        let answer = text.split("mail with web").next().unwrap();
        answer.lines().find(|line| line.contains("write, p99")).unwrap().to_owned()
    };
    let arguments = ["predict", &mail, &web, "--drive", "cheetah-15k4", "--end"];
    // Of the replays alone and together, and of the forecast by them. The JSON has the percentile and the count.
    let few = program::stdout(&[&arguments[..], &["3s"]].concat());
    assert_eq!(row(&few).matches('–').count(), 4, "{few}");
    let json = program::json(&[&arguments[..], &["3s"]].concat());
    let measured = json["alone"][0]["writes"]["requests"].as_u64().unwrap();
    assert!((1..299).contains(&measured), "{measured}");
    let truth = &json["pairs"][0]["truth"];
    assert!(truth["write_percentiles_ns"]["p99"][0].is_number() && truth["write_requests"][0].is_number(), "{truth}");
    let many = program::stdout(&[&arguments[..], &["40s"]].concat());
    assert_eq!(row(&many).matches('–').count(), 0, "{many}");
}
