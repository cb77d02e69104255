//! `iocast validate decisions` on a small ftrace text.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// Reads at 500, 900, 100 and 600 of process 1 wait while 400 is served; the capture takes them upwards.
const CAPTURE: &str = include_str!("program/decisions.txt");

fn validate(folder: &Path, capture: &str, arguments: &[&str]) -> Output {
    let path = folder.join("capture.txt");
    std::fs::write(&path, capture).unwrap();
    let program =
        Command::cargo_bin("iocast").unwrap().args(["validate", "decisions"]).arg(&path).args(arguments).output();
    program.unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn agreement_is_printed_with_baselines_and_differing_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let json_of =
        |scheduler: &str| json(&validate(folder.path(), CAPTURE, &["--scheduler", scheduler, "--output-format=json"]));
    // 600 and 900 are chosen from three and two; 500 was chosen when it came, alone, and 100 is left.
    let upwards = json_of("cscan");
    for (field, value) in [("schema_version", 1), ("decisions", 2), ("agreed", 2)] {
        assert_eq!(upwards[field], value, "{field}");
    }
    assert_eq!((&upwards["agreement"], &upwards["baseline_cscan"]), (&1.0.into(), &1.0.into()));
    assert_eq!((&upwards["scheduler"], &upwards["baseline_fifo"]), (&"cscan".into(), &0.5.into()));
    let oldest = json_of("fifo");
    assert_eq!((&oldest["agreed"], oldest["misses"].as_array().unwrap().len()), (&1.into(), 1));
    let miss = &oldest["misses"][0];
    assert_eq!((&miss["at_ns"], &miss["kernel"]["sector"]), (&2_001_000.into(), &600.into()));
    assert_eq!(miss["ours"]["sector"], 900);
    let table = validate(folder.path(), CAPTURE, &["--scheduler", "fifo"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("50.000 %") && table.contains("read 600+8 of 1"), "{table}");
}

#[test]
fn too_little_agreement_ends_with_code_3_after_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let least = |percent: &str| {
        let output = validate(folder.path(), CAPTURE, &["--scheduler", "fifo", "--min-agreement", percent]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("50.000 %"), "the result is printed in any case");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(least("50%").0, Some(0));
    let (code, said) = least("50.1");
    assert!(
        code == Some(3) && said.contains("50.000 % of the decisions agree, fewer than --min-agreement 50.1 %"),
        "{said}"
    );
}

#[test]
fn a_free_run_is_printed_beside_the_captures() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--scheduler", "fifo", "--free", "--output-format=json"];
    let run = json(&validate(folder.path(), CAPTURE, &arguments));
    assert_eq!((&run["requests"], &run["depth"]), (&5.into(), &1.into()));
    assert!((run["throughput"]["ratio"].as_f64().unwrap() - 1.0).abs() < 0.01, "{run}");
    // 100 goes before 600: a millisecond earlier for process 2.
    let of_2 = &run["processes"][1];
    assert_eq!((&of_2["process"], &of_2["kernel"]["max_ns"]), (&2.into(), &4_996_000.into()));
    assert!((3_900_000..4_000_000).contains(&of_2["ours"]["max_ns"].as_u64().unwrap()), "{of_2}");
    let table = validate(folder.path(), CAPTURE, &["--scheduler", "fifo", "--free", "--pacing", "recorded"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("process 2") && table.contains("class best effort"), "{table}");
}

#[test]
fn captures_without_decisions_are_refused_and_lost_events_cause_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let without: String = CAPTURE.split_inclusive('\n').filter(|line| !line.contains("block_rq_insert")).collect();
    for more in [&[][..], &["--free"]] {
        let output = validate(folder.path(), &without, &[&["--scheduler", "none"], more].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("capture.txt") && message.contains("no insertions"), "{message}");
    }
    let damaged = CAPTURE.replace("900 + 8 be,0,4 [fio]\n fio-2", "900 + x be,0,4 [fio]\n fio-2");
    let output = validate(folder.path(), &damaged, &["--scheduler", "fifo"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("line 6") && output.status.code() == Some(1), "{message}");
    let output = validate(folder.path(), &damaged, &["--scheduler", "fifo", "--lenient"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("skipped 1") && output.status.success(), "{message}");
    for arguments in [&["--scheduler", "bqf"][..], &["--scheduler", "bfq", "--pacing", "closed"]] {
        let output = validate(folder.path(), CAPTURE, arguments);
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn validate_drive(drive: &str, trace: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    validate_drive_with(folder.path(), drive, trace, &[])
}

/// The same with a trace in `folder` and more arguments.
fn validate_drive_with(folder: &Path, drive: &str, trace: &str, more: &[&str]) -> Output {
    let path = folder.join("measured.trace");
    std::fs::write(&path, trace).unwrap();
    let mut program = Command::cargo_bin("iocast").unwrap();
    let program = program.current_dir(folder).args(["validate", "drive", drive]).arg(&path).args(more);
    program.args(["--output-format", "json"]).output().unwrap()
}

#[test]
fn times_of_every_request_are_written_and_think_time_option_is_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "R Hit 1000 8 4000.0 9000.0\nW Hit 9000000 16 7000.0 16000.0\n";
    let issued = |more: &[&str]| {
        let output =
            validate_drive_with(folder.path(), "cheetah-15k5", trace, &[more, &["--requests", "r.csv"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let judged: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = std::fs::read_to_string(folder.path().join("r.csv")).unwrap();
        let lines: Vec<Vec<String>> = text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
        assert_eq!(lines[0].join(","), "operation,lba,sectors,issued_ns,measured_ns,closed_loop_ns,time_line_ns");
        assert_eq!(lines[2][..3], ["write", "9000000", "16"].map(str::to_owned));
        assert_eq!(lines[2][4], "7000000");
        assert!(
            lines[1..].iter().all(|line| line[5].parse::<u64>().unwrap() > 0 && line[6].parse::<u64>().unwrap() > 0)
        );
        (judged["think_time"].as_str().unwrap().to_owned(), lines[1][3].clone(), lines[2][3].clone())
    };
    let of = |think: &str, first: &str, second: &str| (think.to_owned(), first.to_owned(), second.to_owned());
    assert_eq!(issued(&["--think-time", "after"]), of("after", "0", "13000000"));
    assert_eq!(issued(&["--think-time", "before"]), of("before", "9000000", "29000000"));
    let output = validate_drive_with(folder.path(), "cheetah-15k5", trace, &["--requests", "absent/r.csv"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && message.contains("absent/r.csv"), "{message}");
}

#[test]
fn a_drive_is_judged_against_measured_times() {
    let judged = json(&validate_drive("cheetah-15k5", "R Hit 1000 8 4000.0 9.0\nW Hit 9000000 8 7000.0 16000.0\n"));
    assert_eq!((&judged["requests"], &judged["measured_mean_ns"]), (&2.into(), &5_500_000.into()));
    for key in ["mean_abs_error_ns", "within_250us", "within_1ms", "missed_rotations", "period_ns", "offset_ns"] {
        assert!(judged["per_request"][key].is_number(), "{key}: {judged}");
    }
    for figure in ["/rms_ns", "/relative_rms", "/floor/rms_ns", "/empirical/rms_ns", "/empirical/within_250us"] {
        assert!(judged.pointer(figure).is_some_and(Value::is_number), "{figure}: {judged}");
    }
}

#[test]
fn drive_that_cannot_be_judged_is_refused_with_the_reason() {
    let output = validate_drive("cheetah-15k5", "R Hit 999999999 8 4000.0 9.0\n");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("request 1 ends at sector 1000000007, but the drive has 286749488"), "{message}");
    assert_eq!(validate_drive("cheetah-15k55", "").status.code(), Some(2));
}

/// Reads of five processes of as many priorities wait while 400 is served; they go one at a time.
fn of_classes(order: &[(&str, u64)]) -> String {
    let waiting =
        [("none,0,0", 100), ("idle,0,0", 200), ("be,0,7", 300), ("rt,0,5", 800), ("rt,0,0", 900), ("idle,0,7", 150)];
    let mut text = "# tracer: nop\n".to_owned();
    let mut line = |us: u64, what: &str, sector: u64, priority: &str, whose: u64| {
        let (bytes, end) = if what == "complete" { ("", "[0]") } else { ("4096 ", "[fio]") };
        text += &format!(
            " fio-{whose} [000] ..... 10.{us:06}: block_rq_{what}: 7,0 R {bytes}() {sector} + 8 {priority} {end}\n"
        );
    };
    line(0, "insert", 400, "be,0,4", 1);
    line(1, "issue", 400, "be,0,4", 1);
    for (n, (priority, sector)) in (2..).zip(waiting) {
        line(n, "insert", sector, priority, n);
    }
    let mut in_flight = ("be,0,4", 400);
    for (us, &(priority, sector)) in (100..).step_by(100).zip(order) {
        line(us, "complete", in_flight.1, in_flight.0, 1);
        line(us + 1, "issue", sector, priority, 1);
        in_flight = (priority, sector);
    }
    text
}

#[test]
fn priority_classes_and_levels_are_those_of_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let run = |scheduler: &str, order: &[(&str, u64)]| {
        json(&validate(folder.path(), &of_classes(order), &["--scheduler", scheduler, "--output-format=json"]))
    };
    // Real time while any waits or is in flight, then best effort and requests without a class, then idle.
    let order =
        [("none,0,0", 100), ("rt,0,5", 800), ("rt,0,0", 900), ("be,0,7", 300), ("idle,0,7", 150), ("idle,0,0", 200)];
    let by_class = run("mq-deadline", &order);
    assert_eq!(by_class["misses"].as_array().unwrap().len(), 0, "{by_class}");
    let missed = run("mq-deadline", &[("none,0,0", 100), ("idle,0,0", 200)]);
    assert_eq!(missed["misses"][0]["reason"], "I/O class 3 instead of 1", "{missed}");
    // Class in the upper bits, level in the lower three, as the records have them.
    assert_eq!(missed["misses"][0]["kernel"]["priority"], 3 << 3);
    assert_eq!(missed["misses"][0]["ours"]["priority"], 1 << 3 | 5);
}
