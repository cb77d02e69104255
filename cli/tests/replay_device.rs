//! `iocast replay` on scratch files, without root.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;
mod scratch;

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use program::{failure, iocast, json, stdout};
use scratch::{SECTORS, Scratch};
use serde_json::Value;

/// 200 reads and, in between, 100 writes within 30 ms. The sectors that the writes touch lie in the second half.
fn mixed(number: u64) -> (u64, &'static str, u64, u64, u64) {
    let (arrival, place) = (number * 100, number * 16);
    if number % 3 == 2 { (arrival, "write", SECTORS / 2 + place, 8, 900) } else { (arrival, "read", place, 16, 300) }
}

fn replayed<'a>(trace: &'a str, disk: &'a str, more: &[&'a str]) -> Value {
    json(&[&["replay", trace, "--device", disk], more].concat())
}

#[test]
fn a_replay_has_the_figures_of_a_comparison_and_its_own() {
    let scratch = Scratch::new();
    let (trace, disk) = (scratch.trace("mixed.csv", (0..300).map(mixed)), scratch.str("disk"));
    for pacing in ["recorded", "scaled=0.5", "closed", "asap=4"] {
        let result = replayed(&trace, &disk, &["--pacing", pacing, "--allow-writes"]);
        assert_eq!(result["schema_version"], 1);
        let run = &result["runs"][0];
        assert_eq!((&run["read"]["requests"], &run["write"]["requests"]), (&200.into(), &100.into()), "{pacing}");
        assert_eq!(run["read"]["bytes"], 200 * 16 * 512);
        let live = &run["live"];
        assert_eq!((&live["ending"], &live["asked_requests"]), (&"complete".into(), &300.into()));
        assert_eq!((&live["unfinished_requests"], &live["direct"]), (&0.into(), &true.into()));
        assert_eq!(live["recorded"]["read"]["mean_ns"], 300_000.0, "{pacing}");
        assert_eq!(live["recorded"]["write"]["mean_ns"], 900_000.0);
        let punctuality = &live["punctuality"];
        if pacing == "asap=4" {
            assert_eq!((punctuality, &live["faithful"]), (&Value::Null, &Value::Null));
        } else {
            assert_eq!(punctuality["issue_time_error"]["count"], 300);
            let broken = live["not_faithful_because"].as_array().unwrap();
            assert_eq!(live["faithful"], broken.is_empty());
        }
    }
}

#[test]
fn times_are_those_of_the_trace() {
    let scratch = Scratch::new();
    let (trace, disk) = (scratch.trace("mixed.csv", (0..300).map(mixed)), scratch.str("disk"));
    for (pacing, last_ns) in [("recorded", 29_800_000), ("scaled=0.5", 14_900_000)] {
        let run = scratch.str("run.csv");
        replayed(&trace, &disk, &["--pacing", pacing, "-o", &run, "--force"]);
        let text = fs::read_to_string(&run).unwrap();
        let arrivals: Vec<u64> =
            text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
        assert_eq!(arrivals.len(), 200);
        // Never too soon. How much too late depends on the machine.
        let due = (0..300).map(mixed).filter(|request| request.1 == "read").map(|request| request.0 * 1000);
        let due = due.map(|ns| if pacing == "recorded" { ns } else { ns / 2 });
        assert!(arrivals.iter().zip(due).all(|(arrival, due)| *arrival >= due), "{arrivals:?}");
        assert!(*arrivals.last().unwrap() >= last_ns);
    }
}

#[test]
fn nothing_but_reads_is_sent_without_permission() {
    let scratch = Scratch::new();
    let lines = (0..300).map(mixed).chain([(40_000, "flush", 0, 0, 10), (40_001, "discard", 0, 64, 10)]);
    let (trace, disk) = (scratch.trace("mixed.csv", lines), scratch.str("disk"));
    let before = scratch.disk();
    let live = &replayed(&trace, &disk, &[])["runs"][0]["live"];
    assert_eq!((&live["asked_requests"], &live["left_out_requests"]), (&200.into(), &102.into()));
    assert!(scratch.disk() == before, "reads alone change nothing");
    let said = stdout(&["replay", &trace, "--device", &disk]);
    assert!(said.contains("102 requests that are no reads were left out; --allow-writes sends them."), "{said}");
    let writes = scratch.trace("writes.csv", [(0, "write", 0, 8, 10)]);
    let (code, message) = failure(&["replay", &writes, "--device", &disk]);
    assert!(code == 1 && message.contains("the traces hold no reads; --allow-writes sends"), "{message}");
}

#[test]
fn writes_change_the_sectors_of_the_trace_with_data_of_the_seed() {
    let lines = || (0..300).map(mixed).chain([(40_000, "flush", 0, 0, 10), (41_000, "discard", 8000, 64, 10)]);
    let after = |more: &[&str]| {
        let scratch = Scratch::new();
        let (trace, disk) = (scratch.trace("mixed.csv", lines()), scratch.str("disk"));
        let result = replayed(&trace, &disk, &[&["--allow-writes"], more].concat());
        assert_eq!(result["runs"][0]["other"]["requests"], 2);
        assert_eq!(result["runs"][0]["live"]["failed_requests"], serde_json::json!({}));
        scratch.disk()
    };
    let data = after(&[]);
    let touched = |operation: &str, sector: u64| {
        lines().any(|(_, op, lba, sectors, _)| op == operation && (lba..lba + sectors).contains(&sector))
    };
    for (sector, bytes) in (0..).zip(data.chunks(512)) {
        let (sevens, zeros) = (bytes.iter().all(|byte| *byte == 7), bytes.iter().all(|byte| *byte == 0));
        assert_eq!(zeros, touched("discard", sector), "sector {sector}");
        assert_eq!(!sevens && !zeros, touched("write", sector), "sector {sector}");
    }
    assert!(data == after(&["--backend", "threads", "--pacing", "asap"]), "the same data on any way");
    assert!(data != after(&["--seed", "2"]));
}

#[test]
fn addresses_beyond_the_device_are_an_error_before_the_first_request() {
    let scratch = Scratch::new();
    // Only the last of several, so that nothing but the reading in advance notices it in time.
    let writes = (0..10).map(|number| (number * 10, "write", number * 16, 8, 10));
    let lines = writes.chain([(100, "write", SECTORS, 8, 10)]);
    let (trace, disk) = (scratch.trace("far.csv", lines), scratch.str("disk"));
    let before = scratch.disk();
    let arguments = ["replay", &trace, "--device", &disk, "--allow-writes"];
    let (code, message) = failure(&arguments);
    assert!(code == 1 && message.contains("request 11 ") && message.contains("--map wrap|scale|remap"), "{message}");
    assert!(scratch.disk() == before, "the first write was not sent");
    for map in ["wrap", "scale"] {
        let result = replayed(&trace, &disk, &["--allow-writes", "--map", map]);
        assert_eq!(result["runs"][0]["write"]["requests"], 11);
    }
}

#[test]
fn several_traces_go_to_one_device() {
    let scratch = Scratch::new();
    let reads = |number: u64| (number * 100, "read", number * 8, 8, 300);
    let (web, mail) = (scratch.trace("web.csv", (0..50).map(reads)), scratch.trace("mail.csv", (0..70).map(reads)));
    let disk = scratch.str("disk");
    let (web, mail) = (format!("web={web}@1m"), format!("mail={mail}"));
    let arguments = ["replay", "--vm", &web, "--vm", &mail, "--device", &disk, "--per-vm", "--until", "last"];
    let result = json(&arguments);
    let vms = result["runs"][0]["vms"].as_array().unwrap();
    let requests: Vec<(&str, u64)> =
        vms.iter().map(|vm| (vm["vm"].as_str().unwrap(), vm["read"]["requests"].as_u64().unwrap())).collect();
    assert_eq!(requests, [("web", 50), ("mail", 70)]);
    assert_eq!(result["provenance"]["traces"][0]["addresses"], "shifted by 2048 sectors");
    assert!(stdout(&arguments).contains("│ none ┆ mail ┆"));
}

#[test]
fn a_scheduler_decides_the_order_on_the_device() {
    let scratch = Scratch::new();
    // All at one time; cscan sends the first and then the others in order of address.
    let places = [800, 4000, 160, 2400, 8, 3200, 1600];
    let trace = scratch.trace("burst.csv", places.map(|place| (0, "read", place, 8, 10)));
    let disk = scratch.str("disk");
    let order = |scheduler: &str| {
        let run = scratch.str("run.csv");
        let more = ["--scheduler", scheduler, "--depth", "1", "-o", &run, "--force"];
        let result = replayed(&trace, &disk, &more);
        assert_eq!(result["runs"][0]["scheduler"]["name"], scheduler);
        let text = fs::read_to_string(&run).unwrap();
        let column = |line: &str, number: usize| line.split(',').nth(number).unwrap().parse::<u64>().unwrap();
        let mut issued: Vec<(u64, u64)> =
            text.lines().skip(1).map(|line| (column(line, 10), column(line, 2))).collect();
        issued.sort_unstable();
        issued.into_iter().map(|(_, place)| place).collect::<Vec<u64>>()
    };
    assert_eq!(order("fifo"), places);
    assert_eq!(order("cscan"), [8, 160, 800, 1600, 2400, 3200, 4000]);
}

#[test]
fn the_trace_of_a_replay_holds_its_requests() {
    let scratch = Scratch::new();
    let (trace, disk, run) =
        (scratch.trace("mixed.csv", (0..300).map(mixed)), scratch.str("disk"), scratch.str("run.parquet"));
    replayed(&trace, &disk, &["-o", &run]);
    let (code, message) = failure(&["replay", &trace, "--device", &disk, "-o", &run]);
    assert!(code == 1 && message.contains("run.parquet exists; overwrite it with --force"), "{message}");
    let (code, message) = failure(&["replay", &trace, "--device", &disk, "-o", &scratch.str("run.txt")]);
    assert!(code == 1 && message.contains("ends in .parquet"), "{message}");
    let csv = scratch.str("again.csv");
    stdout(&["convert", &run, &csv]);
    let text = fs::read_to_string(csv).unwrap();
    let replayed: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let asked: Vec<_> = (0..300).map(mixed).filter(|request| request.1 == "read").collect();
    assert_eq!(replayed.len(), asked.len());
    for (line, (_, _, lba, sectors, _)) in replayed.iter().zip(asked) {
        assert_eq!((line[1], line[2], line[3]), ("read", lba.to_string().as_str(), sectors.to_string().as_str()));
        let time = |column: usize| line[column].parse::<u64>().unwrap();
        assert!(time(0) <= time(10) && time(10) < time(11), "{line:?}");
        assert_eq!(line[12], "0", "no error");
    }
}

#[test]
fn failures_are_counted_by_error_and_stop_the_replay_if_they_are_to() {
    let scratch = Scratch::new();
    let reads = |number: u64| (number * 2000, "read", number * 8, 8, 300);
    let (trace, disk) = (scratch.trace("reads.csv", (0..1000).map(reads)), scratch.path("disk"));
    let run = |more: &[&str]| {
        fs::write(&disk, vec![7; SECTORS as usize * 512]).unwrap();
        let mut child = background(&scratch, &trace, &[&["--output-format", "json"], more].concat());
        wait_until_it_begins(child.id());
        // The device becomes shorter while it is in use: reads beyond its end transfer nothing.
        fs::OpenOptions::new().write(true).open(&disk).unwrap().set_len(4096).unwrap();
        let mut out = Vec::new();
        std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut out).unwrap();
        let code = child.wait().unwrap().code().unwrap();
        let result: Value = serde_json::from_slice(&out).unwrap();
        (code, result["runs"][0]["live"].clone(), result["runs"][0]["read"]["requests"].as_u64().unwrap())
    };
    let (code, live, requests) = run(&["--pacing", "scaled=0.2"]);
    let short = live["failed_requests"]["short"].as_u64().unwrap();
    assert_eq!((code, &live["ending"], requests), (0, &"complete".into(), 1000));
    assert!(short > 0 && live["faithful"] == (short <= 10), "{live}");
    let (code, live, requests) = run(&["--on-error", "stop"]);
    assert_eq!((code, &live["ending"]), (1, &"failed".into()));
    assert!(live["failed_requests"]["short"].as_u64().unwrap() >= 1 && requests < 1000, "{live}");
}

/// A replay in the background, with pipes.
fn background(scratch: &Scratch, trace: &str, more: &[&str]) -> std::process::Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("iocast"));
    command.args(["replay", trace, "--device", &scratch.str("disk")]).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the process handles SIGINT, which a replay does right before it begins.
fn wait_until_it_begins(process: u32) {
    wait_for(|| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 2 > 0
    });
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_interrupt_ends_it_with_the_results_so_far() {
    let scratch = Scratch::new();
    // An hour, if it is not interrupted.
    let trace = scratch.trace("long.csv", (0..3600).map(|second| (second * 1_000_000, "read", 0, 8, 300)));
    for signal in ["INT", "TERM"] {
        let run = scratch.str("run.parquet");
        let child = background(&scratch, &trace, &["--output-format", "json", "-o", &run, "--force"]);
        wait_until_it_begins(child.id());
        std::thread::sleep(Duration::from_millis(50));
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap().success()
        );
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let live = &result["runs"][0]["live"];
        assert_eq!((&live["ending"], &live["faithful"]), (&"interrupted".into(), &false.into()));
        let completed = result["runs"][0]["read"]["requests"].as_u64().unwrap();
        let said = &live["not_faithful_because"][0];
        assert!(completed < 3600 && said.as_str().unwrap().contains("of 3600 arrivals"), "{said}");
        // The trace of the replay holds the requests that have completed. There is none if it was stopped before.
        let csv = scratch.str("run.csv");
        stdout(&["convert", &run, &csv, "--force"]);
        assert_eq!(fs::read_to_string(csv).unwrap().lines().skip(1).count() as u64, completed);
    }
}

/// Runs the program without io_uring: a seccomp filter answers `io_uring_setup` with EPERM, as containers do.
#[cfg(target_arch = "x86_64")]
fn without_io_uring(arguments: &[&str]) -> Output {
    const FORBID: &str = r#"
        # Load the number of the system call; if it is 425, return EPERM, else allow it.
        my $filter = pack("SCCL", 0x20, 0, 0, 0) . pack("SCCL", 0x15, 0, 1, 425)
            . pack("SCCL", 0x06, 0, 0, 0x00050001) . pack("SCCL", 0x06, 0, 0, 0x7fff0000);
        my $program = pack("S x6 P", 4, $filter);
        syscall(157, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
        syscall(157, 22, 2, $program) == 0 or die "seccomp: $!";
        exec @ARGV;
    "#;
    let program = assert_cmd::cargo::cargo_bin!("iocast");
    Command::new("perl").args(["-e", FORBID]).arg(program).args(arguments).output().expect("perl is not installed")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn threads_take_over_where_io_uring_is_forbidden_and_it_says_so() {
    let scratch = Scratch::new();
    let (trace, disk) = (scratch.trace("mixed.csv", (0..300).map(mixed)), scratch.str("disk"));
    let arguments = ["replay", &trace, "--device", &disk, "--output-format", "json"];
    let output = without_io_uring(&arguments);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && message.contains("32 threads take its place"), "{message}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let live = &result["runs"][0]["live"];
    assert_eq!((&live["backend"], &result["runs"][0]["read"]["requests"]), (&"threads".into(), &200.into()));
    let reason = live["backend_reason"].as_str().unwrap();
    assert!(reason.starts_with("io_uring is not available: Operation not permitted"), "{reason}");
    let output = without_io_uring(&[&arguments[..], &["--backend", "io_uring"]].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("--backend auto takes threads instead"), "{message}");
}

#[test]
fn a_device_that_cannot_be_used_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let trace = scratch.trace("reads.csv", [(0, "read", 0, 8, 10)]);
    let said = |device: &str| {
        let (code, message) = failure(&["replay", &trace, "--device", device]);
        assert_eq!(code, 1, "{message}");
        message
    };
    assert!(said(&scratch.str("absent")).contains("there is no such device or file"));
    assert!(said("/dev/null").contains("is neither a block device nor a file"));
    assert!(said(scratch.folder.path().to_str().unwrap()).contains("is neither a block device nor a file"));
    fs::File::create(scratch.path("empty")).unwrap().flush().unwrap();
    assert!(said(&scratch.str("empty")).contains("is empty; give a device"));
    let (code, message) = failure(&["replay", &trace, "--device", &scratch.str("disk"), "--max-request", "16m"]);
    assert!(code == 2 && message.contains("--max-request is at most 8m"), "{message}");
    let (code, message) = failure(&["replay", "--device", &scratch.str("disk")]);
    assert!(code == 2 && message.contains("there is nothing to replay"), "{message}");
    let (code, message) = failure(&["replay", &trace]);
    assert!(code == 2 && message.contains("--device <PATH>"), "{message}");
    assert!(
        !iocast().args(["replay", &trace, "--device", "null", "--pacing", "never"]).output().unwrap().status.success()
    );
}

#[test]
fn holes_of_a_file_are_noted() {
    let scratch = Scratch::new();
    let trace = scratch.trace("reads.csv", [(0, "read", 0, 8, 10)]);
    fs::File::create(scratch.path("sparse")).unwrap().set_len(1 << 20).unwrap();
    let output = iocast().args(["replay", &trace, "--device", &scratch.str("sparse")]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && message.contains("only 0 % of the file has blocks"), "{message}");
}

#[test]
fn the_device_null_measures_this_machine_alone() {
    let scratch = Scratch::new();
    let trace = scratch.trace("mixed.csv", (0..300).map(mixed));
    let result = replayed(&trace, "null", &["--allow-writes"]);
    let live = &result["runs"][0]["live"];
    assert_eq!((&live["backend"], &live["ending"]), (&"null".into(), &"complete".into()));
    assert_eq!(result["runs"][0]["write"]["requests"], 100);
}

#[test]
fn a_replay_has_a_picture() {
    let scratch = Scratch::new();
    let trace = scratch.trace("mixed.csv", (0..300).map(mixed));
    let stem = scratch.str("replayed");
    let arguments = ["replay", &trace, "--device", "null", "--picture", &stem, "--picture-size", "640x480"];
    let said = stdout(&arguments);
    assert!(said.contains("replayed.svg") && said.contains("replayed.png"), "{said}");
    let drawn = fs::read_to_string(scratch.path("replayed.svg")).unwrap();
    assert!(drawn.contains("width=\"640\" height=\"480\"") && drawn.contains("null"), "{drawn}");
    let (code, message) = failure(&arguments);
    assert!(code == 1 && message.contains("replayed.svg") && message.contains("--force"), "{message}");
    stdout(&[&arguments[..], &["--force"]].concat());
}

#[test]
fn a_trace_of_several_devices_needs_a_choice() {
    let scratch = Scratch::new();
    let help = stdout(&["help", "replay"]);
    assert!(help.contains("--trace-device <NAME>") && help.contains("--device <PATH>"), "{help}");
    assert_eq!(help.matches("\n  iocast replay ").count(), 3);
    let lines = "fio version 3 iolog\n0 a add\n0 b add\n0 a open\n0 b open\n1 a read 0 4096\n2 b read 4096 4096\n";
    fs::write(scratch.path("two.iolog"), lines).unwrap();
    let (trace, disk) = (scratch.str("two.iolog"), scratch.str("disk"));
    let (_, message) = failure(&["replay", &trace, "--device", &disk]);
    assert!(message.contains("iocast replay: --trace-device NAME"), "{message}");
    let one = replayed(&trace, &disk, &["--trace-device", "b"]);
    assert_eq!(one["runs"][0]["read"]["requests"], 1);
}
