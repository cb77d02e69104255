//! `iocast serve` with the real nbdkit: clients, signals, and error messages.
//!
//! Needs Debian's nbdkit and libnbd-bin; no root.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin_cmd;
use tempfile::TempDir;

fn iocast() -> Command {
    Command::new(cargo_bin_cmd!("iocast").get_program())
}

/// Starts `iocast serve` in `folder` and waits until it serves. Returns its messages so far.
#[expect(clippy::zombie_processes, reason = "the caller waits for it; a test that fails may leave one")]
fn start(folder: &Path, arguments: &[&str]) -> (Child, Vec<String>) {
    let mut command = iocast();
    command.current_dir(folder).arg("serve").args(["--listen", "unix:socket"]).args(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = Vec::new();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    loop {
        let mut line = String::new();
        assert!(err.read_line(&mut line).unwrap() > 0, "it ended: {said:?}");
        said.push(line.trim_end().to_owned());
        if line.contains("nbd+unix:") {
            // Drain later messages, so that a full pipe does not block the server.
            std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
            return (child, said);
        }
    }
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

fn refusal(folder: &TempDir, arguments: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } =
        iocast().current_dir(folder.path()).arg("serve").args(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn serves_until_a_signal_and_prints_the_lateness() {
    let folder = tempfile::tempdir().unwrap();
    for (name, format) in [("TERM", "json"), ("INT", "table")] {
        let arguments = ["--drive", "fixed:service=1ms", "--image", "memory:1m", "--log", "log.parquet", "--force"];
        let report = ["--report", "report.json", "--output-format", format];
        let (child, said) = start(folder.path(), &[arguments.as_slice(), &report].concat());
        assert!(said.iter().any(|line| line.contains("serving fixed:service=1ms")), "{said:?}");
        let socket = folder.path().join("socket");
        let copied = Command::new("nbdcopy")
            .arg(format!("nbd+unix:///?socket={}", socket.display()))
            .arg(folder.path().join("copy"))
            .status()
            .expect("nbdcopy is not installed; Debian's package libnbd-bin has it");
        assert!(copied.success());
        // A connected client does not keep the server running.
        let _connected = UnixStream::connect(&socket).unwrap();
        let begin = Instant::now();
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert_eq!(output.status.code(), Some(0), "SIG{name}");
        assert!(!socket.exists(), "the socket is gone");
        let text = String::from_utf8(output.stdout).unwrap();
        let report = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(json["vms"][0]["read_bytes"], 1 << 20);
        assert_eq!(json["schema_version"], 1);
        if format == "json" {
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json);
        } else {
            assert!(text.contains("lateness") && text.contains("in the log"), "{text}");
        }
        assert!(folder.path().join("log.parquet").exists());
    }
}

#[test]
fn log_is_complete_even_if_iocast_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--drive", "fixed:service=1ms", "--image", "memory:1m", "--log", "log.parquet"];
    let (mut child, _) = start(folder.path(), &arguments);
    signal(&child, "KILL");
    child.wait().unwrap();
    let log = folder.path().join("log.parquet");
    let begin = Instant::now();
    while !log.exists() {
        assert!(begin.elapsed() < Duration::from_secs(10), "no log after {:?}", begin.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The stale socket does not prevent a new server.
    let (child, _) = start(folder.path(), &arguments[..4]);
    signal(&child, "TERM");
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn invalid_arguments_are_refused_before_serving() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "no socket").unwrap();
    let _other = UnixListener::bind(folder.path().join("taken")).unwrap();
    let serve = ["--drive", "cheetah-15k4", "--image", "memory:1m", "--listen", "unix:socket"];
    for (changed, code, expected) in [
        (["--drive", "cheetah-15k44"], 1, "did you mean cheetah-15k4"),
        (["--image", "memory:100g"], 1, "does not fit cheetah-15k4 of 73407868928 bytes"),
        (["--image", "disk"], 1, "--create SIZE makes a sparse one"),
        (["--image", "memory:much"], 2, "size in bytes"),
        (["--listen", "unix:file"], 1, "exists and is no socket"),
        (["--listen", "unix:taken"], 1, "a server listens on"),
        (["--listen", "unix:no/such/socket"], 1, "there is no folder"),
        (["--listen", "udp:7"], 2, "expected unix:PATH or tcp:PORT"),
    ] {
        let mut arguments = serve;
        let place = arguments.iter().position(|argument| *argument == changed[0]).unwrap();
        arguments[place + 1] = changed[1];
        let (found, text) = refusal(&folder, &arguments);
        assert!(found == code && text.contains(expected), "{changed:?}: {found}, {text}");
    }
    for (added, code, expected) in [
        (["--log", "file"], 2, "--force overwrites it"),
        (["--log", "log.txt"], 1, "a log ends in .parquet"),
        (["--report", "no/such/report"], 1, "there is no folder"),
        (["--scheduler", "dedline"], 1, "did you mean deadline"),
        (["--export", "web"], 2, "expected NAME@START:SIZE"),
        (["--listen-address", "127.0.0.2"], 2, "goes with --listen tcp:PORT"),
    ] {
        let (found, text) = refusal(&folder, &[serve.as_slice(), &added].concat());
        assert!(found == code && text.contains(expected), "{added:?}: {found}, {text}");
    }
}

#[test]
fn missing_nbdkit_is_reported_with_its_package() {
    let output = iocast()
        .args(["serve", "--drive", "linear", "--image", "memory:1m", "--listen", "unix:/tmp/iocast-none"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("Debian's package nbdkit has it"), "{text}");
}

#[test]
fn second_server_on_the_same_image_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--drive", "cheetah-15k4", "--image", "disk", "--create", "1m"];
    let (child, _) = start(folder.path(), &arguments);
    let other = ["--drive", "cheetah-15k4", "--image", "disk", "--listen", "unix:other"];
    let (code, text) = refusal(&folder, &other);
    assert!(code == 1 && text.contains("another server uses it"), "{text}");
    signal(&child, "TERM");
    assert!(child.wait_with_output().unwrap().status.success());
}
