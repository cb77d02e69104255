//! `iocast replay` on block devices: devices in use are refused, requests reach the device as the kernel counts them,
//! and devices that fail or disappear end as the documentation says.
//!
//! Needs root, loop devices and e2fsprogs.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod live;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use live::{Loop, errors, iocast, need, ran, run, until};
use serde_json::Value;

/// `O_EXCL`, with which a mount or a RAID opens its devices.
const EXCLUSIVE: i32 = 0o200;

type Line = (u64, &'static str, u64, u64);

/// Writes a trace of lines `arrival in us, operation, first sector, sectors`, and returns its path.
fn trace(folder: &Path, lines: impl IntoIterator<Item = Line>) -> String {
    flagged(folder, "", lines)
}

/// Writes a trace whose requests have `flags`.
fn flagged(folder: &Path, flags: &str, lines: impl IntoIterator<Item = Line>) -> String {
    let mut text = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                    completed_ns,error\n"
        .to_owned();
    for (arrival, operation, lba, sectors) in lines {
        text.push_str(&format!("{},{operation},{lba},{sectors},{flags},0,0,1,0,,,,0\n", arrival * 1000));
    }
    let path = folder.join("trace.csv");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn figures(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(output)))
}

#[test]
fn devices_in_use_are_refused_with_their_holders() {
    need("mkfs.ext4", "e2fsprogs");
    let device = Loop::new(64);
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), [(0, "read", 0, 8), (10, "write", 0, 8)]);
    let arguments = ["replay", &trace, "--device", device.str(), "--allow-writes"];
    let refused = |reason: &str| {
        let output = ran(&arguments);
        let said = errors(&output);
        assert!(output.status.code() == Some(1) && said.contains("is in use: "), "{reason}: {said}");
        assert!(said.contains(reason), "{reason}: {said}");
    };
    run("mkfs.ext4", &["-q", device.str()]);
    let place = folder.path().join("a place");
    fs::create_dir(&place).unwrap();
    run("mount", &[device.str(), place.to_str().unwrap()]);
    refused(&format!("mounted at {}", place.display()));
    // The file below a loop device is in use, too.
    let image = device.folder.path().join("image");
    let said = errors(&ran(&["replay", &trace, "--device", image.to_str().unwrap()]));
    assert!(said.contains(&format!("loop device {}", device.name())), "{said}");
    run("umount", &[place.to_str().unwrap()]);

    run("mkswap", &[device.str()]);
    run("swapon", &[device.str()]);
    refused("swap");
    run("swapoff", &[device.str()]);

    run("addpart", &[device.str(), "1", "2048", "8192"]);
    refused(&format!("partition {}p1", device.name()));
    run("delpart", &[device.str(), "1"]);

    let above = run("losetup", &["-f", "--show", device.str()]);
    refused(&format!("loop device {}", above.trim().trim_start_matches("/dev/")));
    run("losetup", &["-d", above.trim()]);

    let exclusive = OpenOptions::new().read(true).custom_flags(EXCLUSIVE).open(&device.path).unwrap();
    refused("opened it exclusively");
    drop(exclusive);
    let output = ran(&arguments);
    assert!(output.status.success(), "{}", errors(&output));
}

/// The kernel's counters of a device: reads, sectors read, writes, sectors written, flushes.
fn counters(device: &Loop) -> [u64; 5] {
    let text = fs::read_to_string(format!("/sys/block/{}/stat", device.name())).unwrap();
    let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
    [0, 2, 4, 6, 15].map(|field| fields[field])
}

#[test]
fn the_kernel_counts_the_requests_of_the_trace() {
    let device = Loop::new(64);
    let folder = tempfile::tempdir().unwrap();
    let line = |number: u64| match number % 10 {
        0..6 => (number * 100, "read", number * 128, 16),
        6..9 => (number * 100, "write", number * 128, 8),
        _ => (number * 100, "flush", 0, 0),
    };
    let trace = trace(folder.path(), (0..500).map(line));
    for backend in ["io_uring", "threads"] {
        let before = counters(&device);
        let arguments = ["replay", &trace, "--device", device.str(), "--allow-writes", "--output-format", "json"];
        // One at a time, so that the kernel merges nothing.
        let output = ran(&[&arguments[..], &["--backend", backend, "--pacing", "asap=1"]].concat());
        assert!(output.status.success(), "{}", errors(&output));
        let live = &figures(&output)["runs"][0]["live"];
        assert_eq!((&live["backend"], &live["direct"]), (&backend.into(), &true.into()));
        assert_eq!(live["failed_requests"], serde_json::json!({}));
        let after = counters(&device);
        let grown: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        // The kernel counts a flush as a write without data as well.
        assert_eq!(grown, [300, 300 * 16, 150 + 50, 150 * 8, 50], "{backend}");
    }
}

#[test]
fn forced_unit_access_reaches_the_device() {
    let device = Loop::new(64);
    let folder = tempfile::tempdir().unwrap();
    for (backend, flags) in [("io_uring", "fua"), ("threads", "fua"), ("io_uring", ""), ("threads", "")] {
        let trace = flagged(folder.path(), flags, (0..20).map(|number| (number * 100, "write", number * 128, 8)));
        let before = counters(&device);
        let arguments = ["replay", &trace, "--device", device.str(), "--allow-writes", "--backend", backend];
        let output = ran(&[&arguments[..], &["--pacing", "asap=1"]].concat());
        assert!(output.status.success(), "{}", errors(&output));
        // A loop device has no forced unit access, so that the kernel flushes after the write.
        let flushes = counters(&device)[4] - before[4];
        assert!(if flags.is_empty() { flushes == 0 } else { flushes >= 20 }, "{backend} {flags}: {flushes}");
    }
}

#[test]
fn requests_are_widened_to_the_blocks_of_the_device() {
    let device = Loop::new(64);
    device.detach();
    let image = device.folder.path().join("image");
    run("losetup", &["-b", "4096", device.str(), image.to_str().unwrap()]);
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), [(0, "read", 3, 1), (10, "read", 8, 8), (20, "read", 15, 2), (30, "read", 16, 8)]);
    let output = ran(&["replay", &trace, "--device", device.str(), "--output-format", "json", "--merge", "off"]);
    let live = &figures(&output)["runs"][0]["live"];
    assert_eq!((&live["widened_requests"], &live["failed_requests"]), (&2.into(), &serde_json::json!({})));
    let said = ran(&["replay", &trace, "--device", device.str(), "--merge", "off"]).stdout;
    assert!(String::from_utf8(said).unwrap().contains("2 requests were widened to whole blocks of the device."));
}

/// A replay of 10 s of reads in the background, which has sent its first request.
fn begun(device: &Loop, folder: &Path, more: &[&str]) -> std::process::Child {
    let trace = trace(folder, (0..10_000).map(|ms| (ms * 1000, "read", ms * 8 % 65_536, 8)));
    let before = counters(device)[0];
    let mut command = iocast();
    command.args(["replay", &trace, "--device", device.str(), "--output-format", "json", "--merge", "off"]).args(more);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it does not begin", || counters(device)[0] > before);
    child
}

#[test]
fn failed_requests_are_counted_or_stop_the_replay() {
    let device = Loop::new(64);
    let folder = tempfile::tempdir().unwrap();
    let image = device.folder.path().join("image");
    for (on_error, code, ending) in [("go-on", 0, "complete"), ("stop", 1, "failed")] {
        OpenOptions::new().write(true).open(&image).unwrap().set_len(64 << 20).unwrap();
        let pacing = if on_error == "stop" { "recorded" } else { "scaled=0.2" };
        let replayed = folder.path().join("replayed.csv");
        let output = ["-o", replayed.to_str().unwrap(), "--force"];
        let child =
            begun(&device, folder.path(), &[&["--on-error", on_error, "--pacing", pacing], &output[..]].concat());
        // The loop device keeps its size, and answers reads beyond the end of its file with EIO.
        OpenOptions::new().write(true).open(&image).unwrap().set_len(1 << 20).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", errors(&output));
        let run = &figures(&output)["runs"][0];
        let (live, completed) = (&run["live"], run["read"]["requests"].as_u64().unwrap());
        assert_eq!(live["ending"], ending);
        assert!(live["failed_requests"]["EIO"].as_u64().unwrap() > 0, "{live}");
        assert_eq!(completed == 10_000, on_error == "go-on", "{completed}");
        assert_eq!(live["faithful"], false);
        // The trace of the replay has the error number of each, EIO.
        let text = fs::read_to_string(replayed).unwrap();
        let failed = text.lines().filter(|line| line.ends_with(",5")).count();
        assert_eq!((text.lines().count() - 1, failed as u64), (completed as usize, failures(live)));
    }
}

fn failures(live: &Value) -> u64 {
    live["failed_requests"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn a_device_that_disappears_ends_the_replay() {
    let device = Loop::new(64);
    let folder = tempfile::tempdir().unwrap();
    let child = begun(&device, folder.path(), &[]);
    // As when a disk is unplugged, the kernel sets the device's size to zero and fails its requests with EIO.
    let image = device.folder.path().join("image");
    OpenOptions::new().write(true).open(&image).unwrap().set_len(0).unwrap();
    run("losetup", &["-c", device.str()]);
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert!(output.status.code() == Some(1) && said.contains("has disappeared, which ended the replay"), "{said}");
    let run = &figures(&output)["runs"][0];
    assert_eq!(run["live"]["ending"], "device_gone");
    assert!(run["read"]["requests"].as_u64().unwrap() < 10_000);
}

#[test]
fn a_read_only_device_takes_no_writes() {
    let device = Loop::new(16);
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), [(0, "read", 0, 8), (10, "write", 0, 8)]);
    run("blockdev", &["--setro", device.str()]);
    assert!(ran(&["replay", &trace, "--device", device.str()]).status.success());
    let output = ran(&["replay", &trace, "--device", device.str(), "--allow-writes"]);
    let said = errors(&output);
    assert!(output.status.code() == Some(1) && said.contains("it is read-only; leave --allow-writes out"), "{said}");
    assert!(Command::new("blockdev").args(["--setrw", device.str()]).status().unwrap().success());
}
