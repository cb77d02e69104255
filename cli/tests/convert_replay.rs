//! The command line that `iocast convert` prints replays what was converted, with the program itself: fio, btreplay,
//! blkreplay. Each must be installed (`make tools`).
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// As large as the samples' disks.
const DISK_BYTES: u64 = 4 << 30;
/// How long a program may take for three seconds of a trace.
const PATIENCE: Duration = Duration::from_secs(120);

fn sample(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "traces", "samples", name].iter().collect()
}

fn iocast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iocast")).args(arguments).output().unwrap()
}

/// Converts the beginning of a sample; the command line and all messages.
fn converted(sample_name: &str, output: &Path, extra: &[&str]) -> (String, String) {
    let (input, output) = (sample(sample_name).display().to_string(), output.display().to_string());
    let ran = iocast(&[&["convert", &input, &output, "--end", "3s", "--lossy"], extra].concat());
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{said}");
    let line = said.lines().find_map(|line| line.strip_prefix("iocast: replay with: "));
    (line.unwrap_or_else(|| panic!("no command line in\n{said}")).to_owned(), said)
}

fn disk(folder: &Path) -> String {
    let path = folder.join("disk");
    std::fs::File::create(&path).unwrap().set_len(DISK_BYTES).unwrap();
    path.display().to_string()
}

fn sh(folder: &Path, command: &str) -> Output {
    Command::new("sh").args(["-c", command]).current_dir(folder).output().unwrap()
}

/// Requests and bytes by direction.
type Totals = BTreeMap<String, (u64, u64)>;

/// Those of the trace, as `iocast stat` counts them.
fn in_trace(path: &Path) -> Totals {
    let ran = iocast(&["stat", "--output-format=json", &path.display().to_string()]);
    let figures: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let of = |name: &str| {
        let of = &figures["arrivals"][name];
        (name.to_owned(), (of["requests"].as_u64().unwrap_or(0), of["bytes"].as_u64().unwrap_or(0)))
    };
    ["read", "write"].into_iter().map(of).collect()
}

/// Those of fio's replay.
fn by_fio(folder: &Path, command: &str, extra: &str) -> Totals {
    let ran = sh(folder, &format!("{command} --output-format=json --output=totals.json {extra}"));
    assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    let totals: Value = serde_json::from_slice(&std::fs::read(folder.join("totals.json")).unwrap()).unwrap();
    let of = |name: &str| {
        let of = &totals["jobs"][0][name];
        (name.to_owned(), (of["total_ios"].as_u64().unwrap(), of["io_bytes"].as_u64().unwrap()))
    };
    ["read", "write"].into_iter().map(of).collect()
}

#[test]
fn fio_replays_every_request_by_the_printed_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("my mail.iolog");
    let disk = disk(folder.path());
    let (command, said) = converted("mail.parquet", &log, &["--replay-device", &disk]);
    assert!(!said.contains("warning"), "{said}");
    let expected = in_trace(&log);
    assert!(expected["read"].0 > 100 && expected["write"].0 > 100, "{expected:?}");
    // At the recorded times, with a queue: fio issues all. Its figures may miss the very last one in flight.
    let timed = by_fio(folder.path(), &command, "");
    for name in ["read", "write"] {
        assert_eq!(timed[name].0, expected[name].0, "{name}");
        assert!(timed[name].1 * 100 >= expected[name].1 * 99, "{name}: {timed:?} {expected:?}");
    }
    assert_eq!(by_fio(folder.path(), &command, "--replay_no_stall=1 --iodepth=1"), expected);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "fio created a file: {left:?}");
}

#[test]
fn without_a_device_the_command_line_redirects_and_creates_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("web.iolog");
    let (command, said) = converted("web.parquet", &log, &[]);
    assert!(command.contains("--replay_redirect=DEVICE") && said.contains("DEVICE stands for a device"), "{said}");
    let missing = sh(folder.path(), &format!("{command} --replay_no_stall=1"));
    assert!(!missing.status.success(), "{}", String::from_utf8_lossy(&missing.stdout));
    assert!(!folder.path().join("DEVICE").exists() && !folder.path().join("disk").exists());
    let onto = command.replace("DEVICE", &disk(folder.path()));
    assert_eq!(by_fio(folder.path(), &onto, "--replay_no_stall=1 --iodepth=1"), in_trace(&log));
}

#[test]
fn btreplay_replays_every_request_by_the_printed_command_line() {
    let folder = tempfile::Builder::new().prefix("iocast-replay-").tempdir().unwrap();
    let disk = disk(folder.path());
    assert!(!disk.contains('_'), "btreplay cannot replay onto {disk}: set TMPDIR to a path without `_`");
    let file = folder.path().join("web.replay.0");
    let (command, _) = converted("web.parquet", &file, &["--replay-device", &disk]);
    let requests: u64 = in_trace(&file).values().map(|of| of.0).sum();
    let name = format!("..{disk}").replace('/', "_");
    let report = folder.path().join(format!("{name}.replay.0.rep"));
    // Only the options that make it write a report are added.
    let command = command.replace("btreplay ", "exec btreplay -v -v -N ");
    let mut program = Command::new("sh").args(["-c", &command]).stderr(Stdio::null()).spawn().unwrap();
    let sent = || {
        let report = std::fs::read_to_string(&report).unwrap_or_default();
        report.lines().filter(|line| line.split_whitespace().nth(1) == Some("+")).count() as u64
    };
    let begun = Instant::now();
    // It may wait for ever when its last request is done before it has seen that it is the last.
    while program.try_wait().unwrap().is_none() && sent() < requests && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(200));
    let _ = program.kill();
    program.wait().unwrap();
    assert_eq!(sent(), requests);

    let own_name = folder.path().join(format!("{name}.replay.0"));
    let (command, _) = converted("web.parquet", &own_name, &["--replay-device", &disk, "--force"]);
    assert!(command.starts_with("btreplay -d "), "{command}");
}

#[test]
fn blkreplay_replays_every_request_by_the_printed_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let load = folder.path().join("web.load");
    let (command, _) = converted("web.parquet", &load, &["--replay-device", &disk(folder.path())]);
    let command = command.replace("blkreplay ", "blkreplay --threads=8 --start-grace=1 ");
    let ran = sh(folder.path(), &command);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let replayed = String::from_utf8_lossy(&ran.stdout)
        .lines()
        .filter(|line| {
            line.split(';').nth(3).is_some_and(|letter| ["R", "W"].contains(&letter.trim().to_uppercase().as_str()))
        })
        .count() as u64;
    assert_eq!(replayed, in_trace(&load).values().map(|of| of.0).sum::<u64>());
}

#[test]
fn devices_that_cannot_be_used_are_refused_or_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let refused = |output: &str, device: &str, expected: &str| {
        let input = sample("web.parquet").display().to_string();
        let ran = iocast(&["convert", &input, &path(output), "--replay-device", device]);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.code() == Some(2) && said.contains(expected), "{said}");
        assert!(!folder.path().join(output).exists());
    };
    refused("web.csv", "/dev/sdb", "--replay-device is for btreplay, fio-iolog, blkreplay; leave it out to write csv");
    refused("web.iolog", "/dev/s db", "without blanks");
    refused("web.replay.0", "/dev/my_disk", "btreplay makes a `/` of each `_`");
    refused("web.replay.0", "disk", "the full path");

    let small = folder.path().join("small");
    std::fs::write(&small, [0; 4096]).unwrap();
    let (_, said) =
        converted("web.parquet", &folder.path().join("web.iolog"), &["--replay-device", &small.display().to_string()]);
    assert!(said.contains("small has 4096 bytes, but the requests reach to"), "{said}");
}

/// Two volumes of a trace stay apart unless one is chosen.
#[test]
fn one_device_is_not_named_for_several() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line = |at: u64| format!("{},R,{},4096,{}\n", at % 2, at * 4096, 1_577_808_000_000_000 + at * 1_000);
    std::fs::write(path("two.csv"), (0..40).map(line).collect::<String>()).unwrap();
    let convert = |extra: &[&str]| {
        let arguments = ["convert", &path("two.csv"), &path("two.iolog"), "--from", "alibaba", "--force"];
        let ran = iocast(&[&arguments[..], extra].concat());
        (ran.status.success(), String::from_utf8(ran.stderr).unwrap())
    };
    let (done, said) = convert(&["--replay-device", "/dev/sdx"]);
    assert!(!done && said.contains("--device"), "{said}");
    let (done, said) = convert(&[]);
    assert!(done && !said.contains("--replay_redirect") && said.contains("vm0 to vm1"), "{said}");
    let (done, _) = convert(&["--replay-device", "/dev/sdx", "--device", "1"]);
    let log = std::fs::read_to_string(path("two.iolog")).unwrap();
    assert!(done && log.lines().skip(1).all(|line| line.split(' ').nth(1) == Some("/dev/sdx")), "{log}");
}

#[test]
fn json_has_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let web = sample("web.parquet").display().to_string();
    let log = folder.path().join("web.iolog").display().to_string();
    let ran = iocast(&["convert", &web, &log, "--align", &web, "--output-format", "json"]);
    let printed: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let command = printed["replay_command"].as_str().unwrap();
    assert!(command.starts_with("fio --name=replay ") && printed["matched"].as_u64().unwrap() > 10_000, "{printed}");
}
