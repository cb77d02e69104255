//! `iocast compare --per-request`: the rows give every figure of the result, whatever the number of threads.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;
mod scratch;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use program::{failure, iocast, json, sample, stdout};
use scratch::Scratch;
use serde_json::Value;

/// A row by the names of its columns; absent values are left out.
type Row = BTreeMap<String, Field>;

fn rows(path: &str) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let columns = row.unwrap().into_columns().into_iter();
        columns.filter(|(_, value)| !matches!(value, Field::Null)).collect()
    });
    rows.collect()
}

fn number(row: &Row, column: &str) -> u64 {
    match row[column] {
        Field::ULong(value) => value,
        Field::UInt(value) => value.into(),
        Field::UByte(value) => value.into(),
        ref other => panic!("{column} is {other:?}"),
    }
}

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    match &row[column] {
        Field::Str(text) => text,
        other => panic!("{column} is {other:?}"),
    }
}

fn holds(row: &Row, column: &str) -> bool {
    matches!(row[column], Field::Bool(true))
}

/// Compares a class of a result with the rows that it is over.
fn check_class(what: &str, figures: &Value, rows: &[&Row]) {
    let mut responses: Vec<u64> = rows.iter().map(|row| number(row, "response_ns")).collect();
    responses.sort_unstable();
    let count = responses.len() as u64;
    assert_eq!(figures["requests"], count, "{what}");
    let bytes: u64 = rows.iter().map(|row| number(row, "sectors") * 512).sum();
    assert_eq!(figures["bytes"], bytes, "{what}");
    if count == 0 {
        return;
    }
    let sum: u128 = responses.iter().map(|&response| u128::from(response)).sum();
    let times = &figures["response_time"];
    assert_eq!(times["mean_ns"].as_f64().unwrap(), sum as f64 / count as f64, "{what}");
    assert_eq!([&times["min_ns"], &times["max_ns"]], [responses[0], responses[count as usize - 1]], "{what}");
    for (name, share) in [("p50", 5_000), ("p90", 9_000), ("p99", 9_900), ("p99.9", 9_990)] {
        // A histogram of three digits answers with the upper end of a bucket.
        let exact = responses[(count * share).div_ceil(10_000) as usize - 1];
        let found = figures["response_percentiles_ns"][name].as_u64().unwrap();
        assert!((exact..=exact + exact / 1000 + 1).contains(&found), "{what}, {name}: {found} for {exact}");
    }
}

/// Compares every class of a run, or of one of its VMs, with the rows.
fn check_classes(what: &str, figures: &Value, rows: &[&Row]) {
    let classes: [(&str, &[&str]); 4] =
        [("read", &["read"]), ("write", &["write"]), ("all", &["read", "write"]), ("other", &["flush", "discard"])];
    for (class, operations) in classes {
        let of_class: Vec<&Row> =
            rows.iter().copied().filter(|row| operations.contains(&text(row, "operation"))).collect();
        check_class(&format!("{what} {class}"), &figures[class], &of_class);
    }
}

/// The sums of a run's figures over device requests of all classes: their number, and the way of the head.
fn device_sums(run: &Value) -> (u64, f64) {
    let classes = ["read", "write", "other"].map(|class| &run[class]);
    let requests = |class: &Value| class["device_requests"].as_u64().unwrap();
    let way = |class: &Value| class["seek_distance_mean_sectors"].as_f64().unwrap_or(0.0) * requests(class) as f64;
    (classes.iter().map(|class| requests(class)).sum(), classes.iter().map(|class| way(class)).sum())
}

#[test]
fn rows_give_the_figures_of_every_scheduler_class_and_vm() {
    let scratch = Scratch::new();
    let path = scratch.str("requests.parquet");
    let (mail, web) = (format!("mail={}", sample("mail.parquet")), format!("web={}@32g", sample("web.parquet")));
    let compare = ["compare", "--vm", &mail, "--vm", &web, "--pacing", "closed", "--per-vm", "--per-request", &path];
    for until in ["first", "last"] {
        let more = ["--end", "20s", "--schedulers", "fifo,deadline:fifo_batch=4", "--until", until, "--force"];
        let result = json(&[&compare[..], &more].concat());
        let rows = rows(&path);
        let runs = result["runs"].as_array().unwrap();
        let mut seen = 0;
        for run in runs {
            let name = run["scheduler"]["name"].as_str().unwrap();
            let rows: Vec<&Row> = rows.iter().filter(|row| text(row, "scheduler") == name).collect();
            seen += rows.len();
            check_classes(name, run, &rows);
            assert!(run["queue"]["merged"].as_u64().unwrap() > 0, "nothing was merged");
            let way: u64 =
                rows.iter().filter(|row| row.contains_key("seek_sectors")).map(|row| number(row, "seek_sectors")).sum();
            let (_, expected) = device_sums(run);
            assert!((way as f64 - expected).abs() <= expected * 1e-12, "{name}: {way} for {expected}");
            for vm in run["vms"].as_array().unwrap() {
                let of_vm = |row: &&&Row| text(row, "vm") == vm["vm"] && holds(row, "all_active");
                let of_vm: Vec<&Row> = rows.iter().filter(of_vm).copied().collect();
                check_classes(&format!("{name} {until} {}", vm["vm"]), vm, &of_vm);
            }
            assert_eq!(rows.iter().all(|row| holds(row, "all_active")), until == "last");
        }
        assert_eq!(seen, rows.len());
        assert_eq!(text(&rows[0], "drive"), "cheetah-15k4");
        assert!(rows.iter().any(|row| row.contains_key("process")), "no process has a name");
    }
}

#[test]
fn times_are_in_order_and_add_up_to_device_times() {
    let scratch = Scratch::new();
    let path = scratch.str("requests.parquet");
    let mail = sample("mail.parquet");
    let compare = ["compare", &mail, "--pacing", "closed", "--limit", "6000", "--schedulers", "deadline"];
    for (options, is_alone) in [(&["--merge", "off"][..], true), (&["--max-request", "4k"], false), (&[], false)] {
        let result = json(&[&compare[..], options, &["--per-request", &path, "--force"]].concat());
        let rows = rows(&path);
        // Of commits of the journal there may be more or fewer.
        let commits = |what: &str| result["runs"][0]["journal_commits"][what].as_u64().unwrap();
        let expected = 6000 - commits("requests_left_out") + commits("requests_repeated");
        assert_eq!(rows.len() as u64, expected);
        let mut numbers: Vec<u64> = rows.iter().map(|row| number(row, "number")).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..expected));
        let completions: Vec<u64> = rows.iter().map(|row| number(row, "completed_ns")).collect();
        assert!(completions.is_sorted());
        let mut device = 0;
        for row in &rows {
            let at = |column: &str| number(row, column);
            assert_eq!(at("completed_ns") - at("arrival_ns"), at("response_ns"));
            if !row.contains_key("issued_ns") {
                // A flush of a drive without a volatile cache needs no work.
                assert!(at("response_ns") == 0 && text(row, "operation") == "flush");
                continue;
            }
            let steps = ["arrival_ns", "dispatched_ns", "issued_ns", "started_ns", "completed_ns"].map(at);
            assert!(steps.is_sorted(), "{row:?}");
            assert_eq!(at("completed_ns") - at("issued_ns"), at("device_ns"));
            device += at("device_ns");
        }
        let run = &result["runs"][0];
        let (requests, _) = device_sums(run);
        let expected: f64 = ["read", "write", "other"]
            .iter()
            .filter_map(|class| {
                let class = &run[class];
                Some(class["device_time"]["mean_ns"].as_f64()? * class["device_requests"].as_f64()?)
            })
            .sum();
        let served = rows.iter().filter(|row| row.contains_key("issued_ns")).count() as u64;
        if is_alone {
            // Every arrival is one device request.
            assert_eq!(requests, served);
            assert!((device as f64 - expected).abs() <= expected * 1e-12, "{device} for {expected}");
        } else {
            assert_ne!(requests, served);
        }
    }
}

#[test]
fn the_file_has_the_same_bytes_for_any_number_of_threads() {
    let scratch = Scratch::new();
    let path = scratch.str("requests.parquet");
    let mail = sample("mail.parquet");
    let schedulers = ["--schedulers", "fifo,sstf,cscan,deadline,cats", "--pacing", "closed", "--limit", "3000"];
    let write = |threads: &str| {
        let mut command = iocast();
        command.args(["compare", &mail, "--per-request", &path, "--force"]).args(schedulers);
        assert!(command.env("RAYON_NUM_THREADS", threads).output().unwrap().status.success());
        fs::read(&path).unwrap()
    };
    let one = write("1");
    assert!(one == write("2") && one == write("7"));
    // In the order of the result.
    let mut found: Vec<String> = rows(&path).iter().map(|row| text(row, "scheduler").to_owned()).collect();
    found.dedup();
    assert_eq!(found, ["fifo", "sstf", "cscan", "deadline", "cats"]);
}

#[test]
fn stacks_and_generated_workloads_have_rows_and_leave_out_what_is_not_known() {
    let scratch = Scratch::new();
    let path = scratch.str("requests.parquet");
    let stack = ["--stack", "guest=cfq@depth=32/lun=fifo@depth=32,write_depth=16", "--limit", "500"];
    let mail = sample("mail.parquet");
    let result = json(&[&["compare", &mail, "--pacing", "closed", "--per-request", &path][..], &stack].concat());
    let of_stack = rows(&path);
    let run = &result["runs"][0];
    check_classes("stack", run, &of_stack.iter().collect::<Vec<&Row>>());
    assert!(of_stack.iter().all(|row| !row.contains_key("issued_ns") && !row.contains_key("cache_hit")));
    assert_eq!(of_stack[0]["scheduler"], Field::Str(run["scheduler"]["name"].as_str().unwrap().to_owned()));
    let generated =
        ["compare", "--workload", "kim2015-dd", "--drive", "sata-500", "--end", "1s", "--schedulers", "fifo"];
    let result = json(&[&generated[..], &["--per-request", &path, "--force"]].concat());
    let of_guests = rows(&path);
    check_classes("workload", &result["runs"][0], &of_guests.iter().collect::<Vec<&Row>>());
    assert!(
        !of_guests.is_empty() && of_guests.iter().all(|row| row.contains_key("vm") && !row.contains_key("process"))
    );
}

#[test]
fn names_of_processes_come_from_formats_that_know_them_only_at_the_end() {
    let scratch = Scratch::new();
    let (path, other, converted) = (scratch.str("a.parquet"), scratch.str("b.parquet"), scratch.str("small.parquet"));
    let text = "../traces/tests/data/small.blkparse".to_owned();
    stdout(&["convert", &text, &converted]);
    for (trace, path) in [(&text, &path), (&converted, &other)] {
        let vm = format!("small={trace}");
        let options = ["--map", "wrap", "--schedulers", "fifo", "--pacing", "closed"];
        stdout(&[&["compare", "--vm", &vm, "--per-request", path][..], &options].concat());
    }
    let names = |path: &str| -> Vec<Option<String>> {
        rows(path).iter().map(|row| row.get("process").map(|name| name.to_string())).collect()
    };
    assert!(names(&path).iter().any(Option::is_some), "no process has a name");
    assert_eq!(names(&path), names(&other));
}

#[test]
fn what_cannot_be_written_is_refused_before_the_replays_and_nothing_is_left() {
    let scratch = Scratch::new();
    let path = scratch.str("requests.parquet");
    let mail = sample("mail.parquet");
    let compare = ["compare", &mail, "--limit", "100", "--schedulers", "fifo", "--pacing", "closed", "--per-request"];
    fs::write(&path, "mine").unwrap();
    let (code, said) = failure(&[&compare[..], &[&path]].concat());
    assert!(code == 1 && said.contains("exists; overwrite it with --force, or choose another --per-request"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    stdout(&[&compare[..], &[&path, "--force"]].concat());
    assert_eq!(rows(&path).len(), 100);
    let (code, said) = failure(&[&compare[..], &[&scratch.str("no/such/folder.parquet")]].concat());
    assert!(code == 1 && said.contains("folder.parquet: cannot be written; choose another --per-request"), "{said}");
    // A comparison that fails leaves no file.
    let empty = scratch.str("empty.csv");
    let header = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,completed_ns,error\n";
    fs::write(&empty, header).unwrap();
    let none = scratch.str("none.parquet");
    let (code, _) = failure(&["compare", &empty, "--schedulers", "fifo", "--per-request", &none]);
    assert!(code == 1 && !Path::new(&none).exists());
}
