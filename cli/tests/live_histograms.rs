//! Histograms of a loop device by second and VM, on this host's kernel. Needs root, tracefs and fio.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod live;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use live::{Loop, Running, errors, fio, instances, is_of, need, ran, read, run, until};
use serde_json::Value;
use traces::histograms::{ERROR_SHARE, LineReader};
use traces::results::histograms::SecondOfVm;
use traces::{Operation, Record};

/// A device on which each request of fio is one device request: neighbours are not merged.
fn unmerged(mib: u64) -> Loop {
    let device = Loop::new(mib);
    device.set("nomerges", "2");
    device
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A capture of histograms that has begun.
fn begin(device: &Loop, file: &Path, more: &[&str]) -> Running {
    let always = ["capture", "block", device.str(), "--histograms", "--output-format", "json", "-o", text(file)];
    Running::begin(&[&always[..], more].concat())
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", errors(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stat(path: &Path) -> Value {
    json(&ran(&["stat", text(path), "--output-format", "json"]))
}

fn lines(path: &Path) -> Vec<SecondOfVm> {
    let mut reader = LineReader::open(path, false).unwrap();
    std::iter::from_fn(|| reader.next_line().unwrap()).collect()
}

/// Runs fio and returns its own figures.
fn measured_fio(device: &Loop, seconds: u32, more: &[&str]) -> Value {
    let mut command = fio(device, seconds, more);
    let output = command.args(["--output-format=json"]).stdout(Stdio::piped()).output().unwrap();
    json(&output)["jobs"][0].clone()
}

/// Times from issue to completion.
fn d2c(records: &[Record], operation: Operation) -> Vec<u64> {
    let of = records.iter().filter(|record| record.request.operation == operation);
    let times = of.map(|record| {
        let (issued, completed) = (record.observed.issued.unwrap(), record.observed.completed.unwrap());
        completed.as_ns() - issued.as_ns()
    });
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    times
}

#[test]
fn counts_are_those_of_fio_and_times_those_of_a_trace() {
    let (device, folder) = (unmerged(256), tempfile::tempdir().unwrap());
    let (file, trace) = (folder.path().join("x.jsonl"), folder.path().join("x.parquet"));
    let parquet = ["capture", "block", device.str(), "--backend", "tracefs", "-o", text(&trace)];
    let parquet = Running::begin(&parquet);
    let capture = begin(&device, &file, &[]);
    let load = measured_fio(&device, 3, &["--rate_iops=3000,2000"]);
    let (ended, parquet) = (capture.interrupt(), parquet.interrupt());
    assert!(parquet.status.success(), "{}", errors(&parquet));
    let summary = json(&ended);
    let (records, losses, _) = read(&trace, None);
    assert_eq!((summary["lost_events"].as_u64(), losses.lost_events), (Some(0), 0), "{summary}");
    assert_eq!(summary["unmatched"], serde_json::json!({}));
    let figures = stat(&file);
    for (name, operation) in [("read", Operation::Read), ("write", Operation::Write)] {
        let of = &figures["vms"][0]["operations"][name];
        assert_eq!((&of["requests"], &of["bytes"]), (&load[name]["total_ios"], &load[name]["io_bytes"]), "{name}");
        // The trace has exact times of the same requests.
        let exact = d2c(&records, operation);
        assert_eq!(of["requests"].as_u64(), Some(exact.len() as u64));
        // Each capture's events have times of their own.
        let most = of["d2c_max_ns"].as_u64().unwrap();
        assert!(most.abs_diff(*exact.last().unwrap()) < 5_000_000, "{most}, exactly {exact:?}");
        for (percentile, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            let expected = exact[(exact.len() as f64 * share).ceil() as usize - 1];
            let found = of["d2c_percentiles_ns"][percentile].as_u64().unwrap();
            let error = expected.abs_diff(found) as f64;
            let most = expected as f64 * ERROR_SHARE + 2_000.0;
            assert!(error <= most, "{name} {percentile}: {found}, exactly {expected}");
        }
        // fio's time of a request begins before the issue and ends after the completion. Its completion latency alone
        // begins when the system call has returned, which may be later.
        let whole = load[name]["lat_ns"]["mean"].as_f64().unwrap();
        let mean = of["d2c_mean_ns"].as_f64().unwrap();
        assert!(mean < whole && whole < 4.0 * mean + 100_000.0, "{name}: {mean} ns, fio {whole} ns");
    }
    // Whole seconds but for the first and the last, without a gap under the load.
    let all = lines(&file);
    let inner = &all[1..all.len() - 1];
    assert!(inner.len() >= 2 && inner.iter().all(|line| line.length_ns == 1_000_000_000), "{inner:?}");
    assert!(inner.iter().all(|line| line.start_unix_ns % 1_000_000_000 == 0));
    assert!(all.last().unwrap().length_ns < 1_000_000_000);
    let busy = figures["devices"][0]["in_flight_max"].as_u64().unwrap();
    assert!((2..=16).contains(&busy), "fio keeps 16 requests: {busy}");
}

#[test]
fn requests_belong_to_the_processes_that_queued_them() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    device.set("scheduler", "mq-deadline");
    let file = folder.path().join("x.jsonl");
    let capture = begin(&device, &file, &["--vm-by", "process"]);
    need("fio", "fio");
    // A program under qemu's name, with libvirt's arguments. Its requests are issued by kernel threads, too.
    let mut guest = Command::new("fio");
    guest.arg0("/usr/bin/qemu-system-x86_64").args(["-name", "guest=web,debug-threads=on", "--filename"]);
    guest.args([device.str(), "--direct=1", "--rw=randread", "--bs=4k", "--thread", "--output-format=json"]);
    guest.args(["--ioengine=libaio", "--iodepth=8", "--rate_iops=500", "--runtime=2", "--time_based"]);
    let load = json(&guest.output().unwrap())["jobs"][0].clone();
    // Kernel threads write the page cache back, in merged requests, and flush.
    run("dd", &["if=/dev/zero", &format!("of={}", device.str()), "bs=64k", "count=64", "conv=fsync"]);
    let summary = json(&capture.interrupt());
    assert_eq!(summary["lost_events"], 0, "{summary}");
    let figures = stat(&file);
    let vms = figures["vms"].as_array().unwrap();
    let of = |vm: &str| &vms.iter().find(|of| of["vm"] == vm).unwrap()["operations"];
    // Two neighbours may have been merged.
    assert_eq!(of("web")["read"]["bytes"], load["read"]["io_bytes"]);
    let written = |of: &Value| of["operations"]["write"]["bytes"].as_u64().unwrap_or(0);
    assert_eq!(vms.iter().map(written).sum::<u64>(), 64 * 65_536, "{figures}");
    assert!(of("unattributed")["flush"]["requests"].as_u64() >= Some(1), "{figures}");
}

#[test]
fn pieces_are_one_capture_and_a_killed_one_leaves_whole_lines() {
    let (device, folder) = (unmerged(64), tempfile::tempdir().unwrap());
    let file = |name: &str| folder.path().join(name);
    let all = begin(&device, &file("all.jsonl"), &["--rotate", "1s"]);
    let last = begin(&device, &file("last.jsonl"), &["--rotate", "1k", "--keep", "2"]);
    let killed = begin(&device, &file("killed.jsonl"), &[]);
    let load = measured_fio(&device, 4, &["--rate_iops=1000"]);
    let pid = killed.pid();
    killed.signal("KILL");
    until("the supervisor has removed the instance", || !instances().iter().any(|path| is_of(path, pid)));
    let (all, last) = (json(&all.interrupt()), json(&last.interrupt()));
    let (of_all, of_last) = (all["files"].as_array().unwrap(), last["files"].as_array().unwrap());
    assert!(of_all.len() >= 4 && of_last.len() == 2, "{of_all:?} {of_last:?}");
    assert!(of_all.iter().chain(of_last).all(|path| Path::new(path.as_str().unwrap()).is_file()));
    assert!(!file("last.0001.jsonl").exists() && !file("all.jsonl").exists());
    let requests = |figures: &Value| {
        let operations = &figures["vms"][0]["operations"];
        ["read", "write"].map(|name| operations[name]["requests"].as_u64().unwrap_or(0))
    };
    let of_fio = ["read", "write"].map(|name| load[name]["total_ios"].as_u64().unwrap());
    assert_eq!(requests(&stat(&file("all.jsonl"))), of_fio);
    // What the killed capture wrote are whole seconds: all but the last ones.
    let figures = stat(&file("killed.jsonl"));
    let [reads, _] = requests(&figures);
    assert!(reads > of_fio[0] / 4 && reads <= of_fio[0], "{figures}");
    assert!(fs::read(file("killed.jsonl")).unwrap().ends_with(b"\n"));
    // A last line that is cut is tolerated and counted.
    let whole = fs::read(file("killed.jsonl")).unwrap();
    fs::write(file("cut.jsonl"), &whole[..whole.len() - 9]).unwrap();
    let cut = stat(&file("cut.jsonl"));
    assert_eq!(
        (cut["cut_lines"].as_u64(), cut["lines"].as_u64()),
        (Some(1), Some(figures["lines"].as_u64().unwrap() - 1))
    );
    // Of pieces that are there already, none is mixed with new ones.
    let earlier = file("all.jsonl");
    let again = ["capture", "block", device.str(), "--histograms", "-w", "1", "-o", text(&earlier)];
    let refused = ran(&again);
    assert!(refused.status.code() == Some(1) && errors(&refused).contains("exists; --force"), "{}", errors(&refused));
    assert!(ran(&[&again[..], &["--force"]].concat()).status.success());
    assert!(!file("all.0001.jsonl").exists() && file("all.jsonl").exists());
}

#[test]
fn events_that_do_not_fit_the_buffer_are_counted_and_shown() {
    let (device, folder) = (unmerged(64), tempfile::tempdir().unwrap());
    let file = folder.path().join("x.jsonl");
    // A CPU limit forbids the early wake-ups, so that the small buffers are full within a second.
    let capture = begin(&device, &file, &["--buffer", "16k", "--max-cpu", "1"]);
    let load = measured_fio(&device, 3, &["--rate_iops=3000"]);
    let ended = capture.interrupt();
    let (summary, figures) = (json(&ended), stat(&file));
    let lost = summary["lost_events"].as_u64().unwrap();
    assert!(lost > 1_000, "{summary}");
    assert!(errors(&ended).contains(&format!("{lost} events were lost")), "{}", errors(&ended));
    assert_eq!(figures["lost_events"].as_u64(), Some(lost));
    assert_eq!(figures["unmatched"], summary["unmatched"]);
    let unmatched: BTreeMap<String, u64> = serde_json::from_value(summary["unmatched"].clone()).unwrap();
    // Each event is part of a request that was counted, unmatched, or lost.
    let of = |name: &str| figures["vms"][0]["operations"][name]["requests"].as_u64().unwrap_or(0);
    let counted = 2 * (of("read") + of("write")) + unmatched.values().sum::<u64>() + lost;
    let issued = ["read", "write"].iter().map(|name| load[*name]["total_ios"].as_u64().unwrap()).sum::<u64>();
    // The kernel counts a few of the events twice that it drops.
    assert!(counted >= 2 * issued && counted < 2 * issued + issued / 500, "{counted} of {issued}: {summary}");
    let table = ran(&["stat", text(&file)]);
    assert!(errors(&table).contains(&format!("the capture lost {lost} events")));
    assert!(String::from_utf8_lossy(&table.stdout).contains("lost by the capture"));
}

#[test]
fn an_idle_device_has_a_first_and_a_last_line() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let file: PathBuf = folder.path().join("x.jsonl");
    let arguments = ["capture", "block", device.str(), "--histograms", "-w", "3", "-o", text(&file)];
    let ended = ran(&arguments);
    assert!(ended.status.success() && errors(&ended).contains("was idle"), "{}", errors(&ended));
    let all = lines(&file);
    assert!(all.len() == 2 && all[0].begins && !all[1].begins, "{all:?}");
    let captured = stat(&file)["devices"][0]["captured_ns"].as_u64().unwrap();
    assert!(captured.abs_diff(3_000_000_000) < 500_000_000, "{captured} ns");
}

#[test]
fn live_figures_are_those_of_fio_second_by_second() {
    let device = unmerged(64);
    let live = Running::begin(&["stat", "--live", device.str()]);
    let load = measured_fio(&device, 3, &["--rate_iops=2000,500"]);
    let ended = live.interrupt();
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    assert!(ended.status.success(), "{}", errors(&ended));
    // Lines of time, reads per s and so on; the sums are rounded to three digits.
    let (lines, summary) = text.split_once("histograms by second and VM").unwrap();
    let is_second = |line: &&str| line.as_bytes().get(2) == Some(&b':');
    let rates: Vec<f64> =
        lines.lines().filter(is_second).map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap()).collect();
    assert!(lines.starts_with("time       reads/s") && rates.len() >= 3, "{text}");
    assert!(rates.iter().any(|rate| (1_900.0..2_100.0).contains(rate)), "{rates:?}");
    assert!(lines.lines().any(|line| line.contains("  fio ")), "{text}");
    let counted = |operation: &str| {
        let row = summary.lines().find(|line| line.contains("fio on") && line.contains(operation)).unwrap();
        row.split('┆').nth(2).unwrap().trim().parse::<u64>().unwrap()
    };
    assert_eq!(counted("read"), load["read"]["total_ios"].as_u64().unwrap());
    assert_eq!(counted("write"), load["write"]["total_ios"].as_u64().unwrap());
}

#[test]
fn live_screen_ends_by_a_key_and_gives_the_terminal_back() {
    let device = Loop::new(64);
    let program = assert_cmd::cargo::cargo_bin!("iocast");
    let line = format!("stty rows 24 columns 80; exec {} stat --live {}", program.display(), device.str());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("TERM", "xterm");
    let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keyboard = script.stdin.take().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    std::io::Write::write_all(&mut keyboard, b"q").unwrap();
    let output = script.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    let (screen, summary) = shown.split_once("\u{1b}[?1049l").unwrap();
    assert!(screen.contains("\u{1b}[?1049h") && screen.contains("flight"), "{screen}");
    assert!(summary.contains("histograms by second and VM"), "{summary}");
}
