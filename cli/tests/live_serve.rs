//! `iocast serve`: clients, signals, kills and error messages.
//!
//! Needs Debian's libnbd-bin, fio and util-linux, and root for a full disk.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod plugins;
mod program;
mod served;

use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin_cmd;
use served::{iocast, signal, start};
use tempfile::TempDir;

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

/// fio, which reads and writes until it is killed or the server ends.
fn load(folder: &Path, export: &str) -> Child {
    let mut fio = Command::new("fio");
    fio.args(["--thread", "--name=load", "--ioengine=nbd", "--rw=randrw", "--bs=4k", "--iodepth=8", "--time_based"]);
    fio.args(["--runtime=60", "--size=1m", "--write_lat_log=lat", "--log_offset=1"]).current_dir(folder);
    fio.arg(format!("--uri=nbd+unix:///{export}?socket={}", folder.join("socket").display()));
    let started = fio.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.expect("fio is not installed; Debian's package fio has it")
}

fn stat(folder: &Path, log: &str) -> (serde_json::Value, String) {
    let output = iocast().current_dir(folder).args(["stat", log, "--output-format", "json"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

/// Writes and reads every sector of an export once. Returns when all replies have come.
fn copy_both_ways(folder: &Path, export: &str, bytes: usize) {
    let uri = format!("nbd+unix:///{export}?socket={}", folder.join("socket").display());
    std::fs::write(folder.join("data"), vec![7; bytes]).unwrap();
    for (from, to) in [("data", uri.as_str()), (uri.as_str(), "back")] {
        let copied = Command::new("nbdcopy").args(["--request-size=4096", from, to]).current_dir(folder).status();
        assert!(copied.expect("nbdcopy is not installed; Debian's package libnbd-bin has it").success());
    }
}

#[test]
fn log_of_a_killed_server_has_all_that_it_served() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let arguments = ["--drive", "fixed:service=1us", "--image", "memory:256m", "--log", "log.parquet"];
    let exports = ["--export", "mail@0:255m", "--export", "web@255m:1m"];
    let (mut child, _) = start(place, &[&arguments[..], &exports].concat());
    copy_both_ways(place, "web", 1 << 20);
    // More than a row group of 65,536 requests, and requests that are outstanding at the end.
    copy_both_ways(place, "mail", 255 << 20);
    let tail = || {
        let entries = std::fs::read_dir(place).unwrap().map(Result::unwrap);
        let tails = entries.filter(|entry| entry.file_name().to_string_lossy().contains(".tail-"));
        tails.map(|entry| entry.metadata().unwrap().len()).sum::<u64>()
    };
    let (before, begun) = (tail(), Instant::now());
    let mut load = load(place, "web");
    while tail() < before + (1 << 16) {
        assert!(begun.elapsed() < Duration::from_secs(20), "fio does nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "KILL");
    child.wait().unwrap();
    load.wait().unwrap();
    // The row groups can be read at once, with a warning. The rest is restored.
    let (before, said) = stat(place, "log.parquet");
    assert!(said.contains("iocast capture recover"), "{said}");
    let recovered = iocast().current_dir(place).args(["capture", "recover", "log.parquet"]).output().unwrap();
    let text = String::from_utf8(recovered.stdout).unwrap();
    assert!(recovered.status.success() && text.contains("is complete with"), "{text}");
    let (after, said) = stat(place, "log.parquet");
    assert!(!said.contains("recover"), "{said}");
    let whole = traces::formats::open(&place.join("log.parquet"), &traces::trace::ReadOptions::default());
    let mut reader = whole.unwrap();
    let (mut arrivals, mut bytes) = (Vec::new(), [[0; 2]; 2]);
    while let Some(record) = reader.next().unwrap() {
        arrivals.push(record.request.arrival);
        bytes[usize::from(record.request.vm.0)][record.request.operation as usize] += record.request.sectors().bytes();
    }
    assert_eq!(reader.meta().vms, ["mail", "web"]);
    assert!(arrivals.is_sorted() && arrivals.len() as u64 > 65_536, "{}", arrivals.len());
    assert!(before != after);
    // nbdcopy got a reply to each of its requests, and fio to those in its log.
    assert_eq!(bytes[0], [255 << 20, 255 << 20]);
    let replied = std::fs::read_to_string(place.join("lat_clat.1.log")).map_or(0, |text| text.lines().count() as u64);
    let logged = (bytes[1][0] + bytes[1][1] - (2 << 20)) / 4096;
    assert!(logged > 100 && logged >= replied, "{logged} requests of fio's {replied}");
    let left: Vec<String> = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("log."))
        .collect();
    assert_eq!(left, ["log.parquet"]);
    let again = iocast().current_dir(place).args(["capture", "recover", "log.parquet"]).output().unwrap();
    assert!(String::from_utf8(again.stdout).unwrap().contains("is complete already"));
    // The stale socket does not prevent a new server, nor does the old log with --force.
    let (child, _) = start(place, &[&arguments[..], &exports, &["--force"]].concat());
    signal(&child, "TERM");
    assert!(child.wait_with_output().unwrap().status.success());
}

/// fio's verified writes to an export, or their check alone.
fn verify(folder: &Path, more: &str) -> bool {
    let mut fio = Command::new("fio");
    fio.args(["--thread", "--name=verify", "--ioengine=nbd", "--rw=randwrite", "--bsrange=4k-64k", "--iodepth=8"]);
    fio.args(["--size=24m", "--verify=crc32c", more]).current_dir(folder).stdout(Stdio::null());
    fio.arg(format!("--uri=nbd+unix:///?socket={}", folder.join("socket").display()));
    fio.status().expect("fio is not installed; Debian's package fio has it").success()
}

#[test]
fn a_restarted_server_has_every_write_in_its_image() {
    let image = ["--drive", "nvme-ssd", "--image", "disk.img"];
    for ending in ["TERM", "KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let (mut server, _) = start(folder.path(), &[&image[..], &["--create", "24m"]].concat());
        assert!(verify(folder.path(), "--do_verify=0"), "writes before {ending}");
        signal(&server, ending);
        server.wait().unwrap();
        let (mut server, _) = start(folder.path(), &image);
        assert!(verify(folder.path(), "--verify_only"), "reads after {ending}");
        signal(&server, "TERM");
        server.wait().unwrap();
    }
}

#[test]
fn server_ends_when_its_scheduler_does_what_no_scheduler_may() {
    let folder = tempfile::tempdir().unwrap();
    let scheduler = format!("{}:fault=2", plugins::faulty(&folder, "libfaulty.so", &[]));
    let mut server = iocast();
    server.args(["serve", "--drive", "fixed:service=1us", "--image", "memory:1m", "--scheduler", &scheduler]);
    server.args(["--listen", "unix:socket"]).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let server = server.spawn().unwrap();
    let begun = Instant::now();
    while !folder.path().join("socket").exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Its first 21 answers are right.
    let socket = format!("nbd+unix:///?socket={}", folder.path().join("socket").display());
    let copied = Command::new("nbdcopy").args(["--request-size=4096", &socket, "null:"]).stderr(Stdio::null()).status();
    assert!(!copied.expect("nbdcopy is not installed; Debian's package libnbd-bin has it").success());
    let ended = server.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("the scheduler is at fault") && said.contains("which does not wait"), "{said}");
}

#[test]
fn image_on_a_full_disk_fails_writes_and_serves_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount =
        |arguments: &[&str]| assert!(Command::new(arguments[0]).args(&arguments[1..]).status().unwrap().success());
    mount(&["mount", "-t", "tmpfs", "-o", "size=4m", "none", small.to_str().unwrap()]);
    let arguments =
        ["--drive", "fixed:service=0", "--image", "small/disk", "--create", "64m", "--report", "report.json"];
    let (child, said) = start(folder.path(), &arguments);
    let doubt = said.iter().find(|line| line.contains("iocast: warning: the image may grow to 64 MiB"));
    assert!(doubt.is_some_and(|line| line.contains("has 4 MiB free; writes beyond that fail")), "{said:?}");
    let uri = format!("nbd+unix:///?socket={}", folder.path().join("socket").display());
    let commands = ["write -P 1 0 4k", "write -P 2 4M 16M", "read -P 1 0 4k", "discard 4M 16M", "write -P 3 1M 1M"];
    let mut io = Command::new("qemu-io");
    io.args(["-f", "raw", "-t", "none"]).args(commands.iter().flat_map(|command| ["-c", command])).arg(&uri);
    let output = io.args(["-c", "read -P 3 1M 1M"]).output();
    signal(&child, "TERM");
    let ended = child.wait_with_output().unwrap();
    mount(&["umount", small.to_str().unwrap()]);
    let output = output.expect("qemu-io is not installed; Debian's package qemu-utils has it");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.matches("failed").count(), 1, "{said}");
    assert!(said.contains("write failed: No space left on device"), "{said}");
    assert_eq!(said.matches("ops; ").count(), 5, "{said}");
    assert!(ended.status.success());
    let report = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["failed"], 1);
}

/// The local addresses at which this host listens on a TCP port, as the kernel writes them: 0100007F is 127.0.0.1.
fn listening(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let sockets = rows.filter_map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        // State 0A is LISTEN (proc_net_tcp(5)).
        words[1].split_once(':').filter(|(_, at)| words[3] == "0A" && *at == format!("{port:04X}"))
    });
    sockets.map(|(address, _)| address.to_owned()).collect()
}

#[test]
fn socket_of_a_running_server_is_refused_and_nothing_else_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tcp = format!("tcp:{port}");
    for listen in ["unix:socket", &tcp] {
        let serve = ["--drive", "linear", "--listen", listen, "--image"];
        let mut command = iocast();
        command.current_dir(folder.path()).arg("serve").args(serve).arg("memory:1m");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("serving nbd") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0);
        }
        if listen == tcp {
            assert!(line.contains(&format!("nbd://127.0.0.1:{port}/")), "{line}");
            assert_eq!(listening(port), ["0100007F"]);
        }
        let (code, text) = refusal(&folder, &[&serve[..], &["disk", "--create", "1m"]].concat());
        assert!(code == 1 && text.contains("listens on"), "{text}");
        assert!(!folder.path().join("disk").exists());
        signal(&child, "TERM");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn nothing_listens_beyond_loopback_without_permission() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0", "::", "192.0.2.1"] {
        let arguments = ["--drive", "linear", "--image", "memory:1m", "--listen", "tcp:1", "--listen-address", address];
        let (code, text) = refusal(&folder, &arguments);
        assert!(code == 2 && text.contains("--listen-public"), "{address}: {text}");
    }
    // An address that this host does not have; permission alone does not help.
    let arguments = ["--drive", "linear", "--image", "memory:1m", "--listen", "tcp:1", "--listen-address", "192.0.2.1"];
    let (code, text) = refusal(&folder, &[&arguments[..], &["--listen-public"]].concat());
    assert!(code == 1 && text.contains("cannot listen on 192.0.2.1:1"), "{text}");
}

#[test]
fn program_alone_in_a_folder_serves() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("iocast");
    std::fs::copy(cargo_bin_cmd!("iocast").get_program(), &program).unwrap();
    let mut command = Command::new(&program);
    command.env("PATH", "/nowhere").current_dir(folder.path());
    command.args(["serve", "--drive", "linear", "--image", "memory:1m", "--listen", "unix:socket"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    while !line.contains("serving nbd") {
        line.clear();
        assert!(err.read_line(&mut line).unwrap() > 0);
    }
    assert!(UnixStream::connect(folder.path().join("socket")).is_ok());
    signal(&child, "TERM");
    assert!(child.wait().unwrap().success());
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
        (["--listen", "udp:7"], 2, "expected unix:PATH, tcp:PORT, vhost-user:PATH[=EXPORT] or ublk[:N][=EXPORT]"),
        (["--listen", "ublk:first"], 2, "ublk[:N][=EXPORT]"),
        (["--listen", "ublk7"], 2, "ublk[:N][=EXPORT]"),
        (["--listen", "unix:"], 2, "the path of the socket is missing"),
        (["--listen", "vhost-user:=web"], 2, "the path of the socket is missing"),
        (["--listen", "vhost-user:file"], 1, "exists and is no socket"),
        (["--listen", "vhost-user:taken"], 1, "a server listens on"),
        (["--listen", "vhost-user:no/such/socket"], 1, "there is no folder"),
        (
            ["--listen", "vhost-user:disk=web"],
            2,
            "there are no exports; add --export web@START:SIZE, or leave out =web",
        ),
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
        (["--export", "web@512k:1m"], 1, "export web ends at byte 1572864, but the image ends at byte 1048576"),
        (["--listen-address", "127.0.0.2"], 2, "goes with --listen tcp:PORT"),
        (["--listen", "vhost-user:socket"], 2, "the address is given twice"),
        (["--listen", "vhost-user:taken"], 1, "a server listens on"),
    ] {
        let (found, text) = refusal(&folder, &[serve.as_slice(), &added].concat());
        assert!(found == code && text.contains(expected), "{added:?}: {found}, {text}");
    }
}

#[test]
fn vhost_user_socket_serves_an_export_that_exists() {
    let folder = tempfile::tempdir().unwrap();
    let image = ["--drive", "cheetah-15k4", "--image", "disk", "--create", "2m"];
    let exports = ["--export", "mail@0:1m", "--export", "web@1m:1m"];
    let serve = [&image[..], &exports].concat();
    for (listen, expected) in [
        ("vhost-user:a", "several exports exist; name one as vhost-user:"),
        ("vhost-user:a=db", "there is no export db; the exports are mail, web"),
    ] {
        let (code, text) = refusal(&folder, &[&serve[..], &["--listen", listen]].concat());
        assert!(code == 2 && text.contains(expected), "{listen}: {text}");
        assert!(!folder.path().join("disk").exists());
    }
    let listen = ["--listen", "vhost-user:a=mail", "--listen", "vhost-user:b=web"];
    let (child, said) = start(folder.path(), &[&serve[..], &listen].concat());
    let sockets = ["a", "b", "socket"].map(|name| folder.path().join(name));
    assert!(sockets.iter().all(|socket| socket.exists()), "{said:?}");
    let other = ["--drive", "linear", "--image", "memory:1m", "--listen", "vhost-user:b"];
    let (code, text) = refusal(&folder, &other);
    assert!(code == 1 && text.contains("a server listens on"), "{text}");
    signal(&child, "TERM");
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(!sockets.iter().any(|socket| socket.exists()), "the sockets are gone");
    // Without exports the socket stands for the whole image, and no client over NBD is needed.
    let mut command = iocast();
    command.current_dir(folder.path()).args(["serve", "--drive", "linear", "--image", "memory:1m"]);
    command.args(["--listen", "vhost-user:a"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("serving vhost-user:") {
        line.clear();
        assert!(err.read_line(&mut line).unwrap() > 0);
    }
    assert!(line.trim_end().ends_with("/a (1048576 bytes)"), "{line}");
    signal(&child, "TERM");
    assert!(child.wait().unwrap().success());
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

#[test]
fn statistics_have_a_line_per_second_and_one_for_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--drive", "fixed:service=1us", "--image", "memory:1m", "--statistics", "figures.jsonl"];
    let (child, _) = start(folder.path(), &arguments);
    let lines = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(folder.path().join("figures.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let begun = Instant::now();
    // Line by line while it serves.
    while lines().len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "there are no lines");
        std::thread::sleep(Duration::from_millis(20));
    }
    copy_both_ways(folder.path(), "", 1 << 20);
    signal(&child, "TERM");
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && !ended.stdout.is_empty());
    let lines = lines();
    let number = |line: &serde_json::Value, name: &str| line[name].as_u64().unwrap();
    assert!(lines.iter().all(|line| number(line, "schema_version") == 1), "{lines:?}");
    assert!(lines.is_sorted_by_key(|line| number(line, "span_ns")), "{lines:?}");
    assert_eq!(number(&lines[0]["lateness"], "count"), 0);
    let last = &lines[lines.len() - 1];
    assert_eq!(
        (last["vms"][0]["read_bytes"].as_u64(), last["vms"][0]["written_bytes"].as_u64()),
        (Some(1 << 20), Some(1 << 20))
    );
    assert_eq!(
        number(&last["lateness"], "count"),
        number(&last["vms"][0], "reads") + number(&last["vms"][0], "writes")
    );
    let (code, text) = refusal(&folder, &[&arguments[..], &["--listen", "unix:other"]].concat());
    assert!(code == 2 && text.contains("--statistics figures.jsonl: it exists; --force overwrites it"), "{text}");
}

#[test]
fn statistics_that_cannot_be_written_do_not_end_serving_and_are_reported_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["--drive", "fixed:service=1us", "--image", "memory:1m", "--force", "--statistics"];
    // A full disk, and a pipe whose reader has gone.
    for (target, said) in [("/dev/full", "No space left"), ("-", "Broken pipe")] {
        let mut command = iocast();
        command.current_dir(folder.path()).arg("serve").args(["--listen", "unix:socket"]).args(serve).arg(target);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The figures at the end go to standard output, too, unless the statistics do.
        let _open = child.stdout.take().filter(|_| target != "-");
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("serving nbd") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0);
        }
        // The first line has failed by then.
        std::thread::sleep(Duration::from_millis(1500));
        copy_both_ways(folder.path(), "", 1 << 20);
        signal(&child, "TERM");
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut err, &mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
        assert!(rest.contains("iocast: --statistics: ") && rest.contains(said), "{rest}");
    }
}
