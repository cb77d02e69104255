//! `iocast capture iscsi --interface` with both engines, on the loopback device of a namespace. Needs root, dumpcap and
//! tshark.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[path = "../../capture/tests/live/mod.rs"]
mod conversation;
mod live;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use live::{errors, iocast, need, ran, read, run, until};
use serde_json::Value;

const COMMANDS: u32 = 8000;
const ENGINES: [&str; 2] = ["iocast", "tshark"];

fn capture(engine: &str, trace: &Path) -> Command {
    let mut command = iocast();
    command.args(["capture", "iscsi", "--interface", "lo", "--engine", engine, "--output-format", "json", "-o"]);
    command.arg(trace).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The number of capture sockets in this namespace.
fn listening() -> usize {
    fs::read_to_string("/proc/thread-self/net/packet").unwrap().lines().count() - 1
}

/// Interrupts the capture with its process group, as a terminal does.
fn interrupt(capture: Child) -> Output {
    run("kill", &["-INT", "--", &format!("-{}", capture.id())]);
    capture.wait_with_output().unwrap()
}

#[test]
fn both_engines_record_the_same_commands_until_they_are_interrupted() {
    need("dumpcap", "wireshark-common");
    need("tshark", "tshark");
    if !conversation::in_namespace("both_engines_record_the_same_commands_until_they_are_interrupted") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = |engine: &str| folder.path().join(engine).with_extension("parquet");
    let captures = ENGINES.map(|engine| capture(engine, &trace(engine)).process_group(0).spawn().unwrap());
    until("the captures do not begin", || listening() == ENGINES.len());
    // The sockets exist before packets are read from them.
    thread::sleep(Duration::from_secs(1));
    conversation::converse(COMMANDS);
    thread::sleep(Duration::from_secs(1));
    for (capture, engine) in captures.into_iter().zip(ENGINES) {
        let output = interrupt(capture);
        assert!(output.status.success(), "{engine}: {}", errors(&output));
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(figures["engine"], engine);
        assert_eq!(
            (&figures["commands"]["paired"], &figures["packets"]["dropped"]),
            (&COMMANDS.into(), &0.into()),
            "{engine}"
        );
        let (records, losses, meta) = read(&trace(engine), None);
        for (number, record) in (0..COMMANDS).zip(&records) {
            let request = &record.request;
            let found = (request.operation, request.lba.sector(), request.sectors().count());
            assert_eq!(found, conversation::access(number), "{engine}: {number}");
            assert!(record.response_time().is_some_and(|time| time.as_ns() > 0), "{engine}: {number}");
        }
        assert_eq!((records.len(), losses.lost_events), (COMMANDS as usize, 0), "{engine}");
        // In the file's end, which is written last.
        assert_eq!(meta.provenance["captured_on"], "lo");
    }
}

#[test]
fn missing_tshark_is_named_with_its_package() {
    need("dumpcap", "wireshark-common");
    if !conversation::in_namespace("missing_tshark_is_named_with_its_package") {
        return;
    }
    // In this mount namespace the program folders hold dumpcap only.
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    fs::copy("/usr/bin/dumpcap", programs.join("dumpcap")).unwrap();
    let trace = folder.path().join("trace.csv");
    let program = capture("tshark", &trace);
    let script = r#"for folder in /usr/local/bin /usr/sbin /usr/bin; do mount --bind "$0" $folder; done; exec "$@""#;
    let mut without = Command::new("sh");
    without.args(["-c", script]).arg(&programs).arg(program.get_program()).args(program.get_args());
    let output = without.env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(errors(&output).contains("tshark: not installed: apt-get install tshark"), "{}", errors(&output));
    assert!(!trace.exists());
}

#[test]
fn missing_interface_is_named_in_the_error_of_both_engines() {
    need("dumpcap", "wireshark-common");
    let folder = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        let trace = folder.path().join("trace.csv");
        let arguments =
            ["capture", "iscsi", "--interface", "nosuch0", "--engine", engine, "-o", trace.to_str().unwrap()];
        let output = ran(&arguments);
        assert_eq!(output.status.code(), Some(1), "{engine}: {}", errors(&output));
        assert!(errors(&output).contains("dumpcap cannot capture on nosuch0"), "{engine}: {}", errors(&output));
    }
}

#[test]
fn capture_without_packets_is_an_error_if_the_interface_carried_some_and_else_a_warning() {
    need("dumpcap", "wireshark-common");
    if !conversation::in_namespace(
        "capture_without_packets_is_an_error_if_the_interface_carried_some_and_else_a_warning",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let idle = capture("iocast", &folder.path().join("idle.csv")).args(["-w", "1s"]).output().unwrap();
    assert!(idle.status.success(), "{}", errors(&idle));
    assert!(errors(&idle).contains("warning: lo was idle"), "{}", errors(&idle));
    let capture = capture("iocast", &folder.path().join("x.csv")).process_group(0).spawn().unwrap();
    until("the capture does not begin", || listening() == 1);
    thread::sleep(Duration::from_secs(1));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"no iSCSI", socket.local_addr().unwrap()).unwrap();
    let output = interrupt(capture);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    // One packet, sent and received.
    let why = "lo: the kernel counted 2 packets during the capture, but none from or to TCP port 3260; name the target's port with --port";
    assert!(errors(&output).contains(why), "{}", errors(&output));
}
