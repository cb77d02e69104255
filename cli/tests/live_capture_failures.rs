//! Captures that would record nothing: a failing blktrace, an idle device, a scheduler without a choice. Needs root,
//! tracefs and fio.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod live;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output};

use live::{Loop, errors, fio, iocast, ran, read};
use serde_json::Value;

const RUNS_ON: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A load on a device while it lives.
struct Load(Child);

impl Load {
    fn on(device: &Loop, more: &[&str]) -> Load {
        Load(fio(device, 60, more).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // fio ends its jobs at this signal.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Runs `iocast` where debugfs is mounted and `script` stands in for blktrace.
fn with_blktrace(script: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("blktrace");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mount = "[ -d /sys/kernel/debug/block ] || mount -t debugfs none /sys/kernel/debug; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mount, "sh"]).arg(iocast().get_program()).args(arguments);
    command.env("PATH", path).output().unwrap()
}

#[test]
fn failing_blktrace_is_left_for_the_next_backend_with_its_own_words() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let _load = Load::on(&device, &["--rate_iops=500"]);
    let words = "BLKTRACESETUP: Operation not permitted";
    let complaint = format!("echo '{words}' >&2");
    for (script, said) in [
        (format!("{complaint}; exit 1"), words),
        (format!("{complaint}; exit 0"), words),
        (format!("{complaint}; {RUNS_ON}"), words),
        ("exit 0".to_owned(), "it ended at once with exit status: 0"),
        // After the capture has begun.
        ("sleep 1; exit 0".to_owned(), "it ended before the capture did, with exit status: 0"),
        (format!("sleep 1; {complaint}; {RUNS_ON}"), words),
    ] {
        let capture = ["capture", "block", device.str(), "-w", "3", "--force", "-o", text(&trace)];
        let output = with_blktrace(&script, &capture);
        let message = errors(&output);
        assert!(output.status.success(), "{script}: {message}");
        assert!(message.contains("iocast: backend blktrace does not work: "), "{script}: {message}");
        assert!(message.contains(said) && message.contains("captured by backend tracefs"), "{script}: {message}");
        let (records, losses, meta) = read(&trace, None);
        assert!(records.len() > 100 && losses.total() == 0, "{script}: {} {losses:?}", records.len());
        assert_eq!(meta.provenance["capture.backend"], "tracefs", "{script}");
    }
    let named = ["capture", "block", device.str(), "-w", "3", "--backend", "blktrace", "--force", "-o", text(&trace)];
    for begin in ["", "sleep 1; "] {
        let output = with_blktrace(&format!("{begin}{complaint}; {RUNS_ON}"), &named);
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let why = format!("backend blktrace cannot trace {}: {words}", device.name());
        assert!(message.contains(&why) && message.contains("without --backend"), "{message}");
    }
}

#[test]
fn raw_files_of_a_failed_backend_do_not_stay_beside_those_of_the_next() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let _load = Load::on(&device, &["--rate_iops=500"]);
    let raw = folder.path().join("raw");
    let script = format!("touch {}.blktrace.0; sleep 1; exit 1", raw.display());
    let output = with_blktrace(&script, &["capture", "block", device.str(), "-w", "3", "--raw", "-o", text(&raw)]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(!folder.path().join("raw.blktrace.0").exists());
    assert!(read(&raw, None).0.len() > 100);
}

#[test]
fn capture_without_events_is_an_error_if_the_kernel_counted_ios_and_else_a_warning() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let capture = |more: &[&str]| {
        let usual = ["capture", "block", device.str(), "-w", "2", "--force", "--output-format", "json", "-o"];
        let output = with_blktrace(RUNS_ON, &[&usual[..], &[text(&trace)], more].concat());
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["events"], 0, "{summary}");
        (output.status.code(), errors(&output), summary)
    };
    let (code, message, summary) = capture(&[]);
    assert_eq!((code, &summary["kernel_ios"]), (Some(0), &0.into()), "{message}");
    assert!(message.contains(&format!("iocast: warning: {} was idle", device.name())), "{message}");
    let _load = Load::on(&device, &["--rate_iops=500"]);
    for more in [&[][..], &["--raw"]] {
        let (code, message, summary) = capture(more);
        let ios = summary["kernel_ios"].as_u64().unwrap();
        assert_eq!(code, Some(1), "{message}");
        assert!(ios > 100, "{summary}");
        let why = format!("{}: the kernel counted {ios} I/Os during the capture, but backend blktrace", device.name());
        assert!(message.contains(&why) && message.contains("--backend tracefs"), "{message}");
    }
    // The counters can be switched off; then nothing is known.
    device.set("iostats", "0");
    let (code, message, summary) = capture(&[]);
    // A loop device keeps its settings for whoever gets it next.
    device.set("iostats", "1");
    assert_eq!((code, &summary["kernel_ios"]), (Some(0), &Value::Null), "{message}");
    assert!(message.contains("whether it was idle cannot be checked") && message.contains("iostats is 0"), "{message}");
}

#[test]
fn one_idle_device_of_several_is_named() {
    let (busy, idle, folder) = (Loop::new(64), Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let _load = Load::on(&busy, &["--rate_iops=500"]);
    let output = ran(&["capture", "block", busy.str(), idle.str(), "-w", "2", "-o", text(&trace)]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains(&format!("warning: {} was idle", idle.name())), "{}", errors(&output));
    assert!(!errors(&output).contains(&format!("{} was idle", busy.name())), "{}", errors(&output));
}

#[test]
fn capture_without_decisions_says_why_and_what_helps() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let stem = folder.path().join("dd");
    let capture = || {
        let output = ran(&["capture", "decisions", device.str(), "-w", "2", "--force", "-o", text(&stem)]);
        (output.status.code(), errors(&output))
    };
    device.set("scheduler", "mq-deadline");
    let (code, message) = capture();
    assert_eq!(code, Some(0), "{message}");
    assert!(message.contains("was idle"), "{message}");
    {
        // One request at a time.
        let _load = Load::on(&device, &["--iodepth=1", "--rate_iops=500"]);
        let (code, message) = capture();
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains("0 decisions: never did two requests wait"), "{message}");
        assert!(message.contains("fio --iodepth=") && message.contains("echo 4 > /sys/block/"), "{message}");
        device.set("scheduler", "none");
        let (code, message) = capture();
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains("has no scheduler, and requests bypass `none`"), "{message}");
    }
    // The remedy that the message names.
    device.set("nr_requests", "4");
    device.set("scheduler", "mq-deadline");
    let _load = Load::on(&device, &["--iodepth=32"]);
    let (code, message) = capture();
    assert_eq!(code, Some(0), "{message}");
    assert!(message.contains("iocast validate decisions"), "{message}");
    // The capture's own tunables are those of the comparison.
    device.set("iosched/fifo_batch", "3");
    let (code, message) = capture();
    assert_eq!(code, Some(0), "{message}");
    let output = ran(&["validate", "decisions", text(&stem), "--scheduler", "mq-deadline"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("queue.json: mq-deadline:fifo_batch=3"), "{}", errors(&output));
}
