//! `iocast serve`: what was acknowledged is in image and log, whichever call fails.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rayon::prelude::*;
use traces::formats;
use traces::trace::ReadOptions;

use super::served::client::Client;
use super::served::verifier::Verifier;
use super::served::{Killed, iocast, start};
use super::short::Short;
use super::strace::{Call, Fault, INTERRUPTED, KILL, calls, faults, hit, traced};
use super::{Files, files, judge};

const SERVE: [&str; 11] = [
    "serve",
    "--drive",
    "fixed:service=0",
    "--image",
    "disk",
    "--listen",
    "unix:socket",
    "--log",
    "log.parquet",
    "--report",
    "report.json",
];
/// Requests of the client.
const REQUESTS: u64 = 12;
/// How long a server may take.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Logs of killed servers: one with requests outside any row group, of which some that arrived earlier are missing, and
/// one that was cut in the middle of a row group.
pub fn killed_logs() -> (Files, Files) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--drive", "cheetah-15k4-mechanical:queue_depth=32", "--image", "memory:64m"];
    let server = Killed(start(folder.path(), &[&arguments[..], &["--log", "log.parquet"]].concat()).0);
    let mut verifier = Verifier::new(Client::connect(&folder.path().join("socket"), "").unwrap(), 7);
    std::thread::scope(|scope| {
        scope.spawn(|| verifier.run(16, u64::MAX));
        let tail = folder.path().join("log.parquet.tail-0");
        while std::fs::metadata(&tail).map_or(0, |tail| tail.len()) < 64 * 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(server);
    });
    let killed = files(folder.path());
    let mut torn = Files::from([("log.parquet".to_owned(), killed["log.parquet"].clone())]);
    torn.get_mut("log.parquet").unwrap().extend([7; 5000]);
    (killed, torn)
}

/// How serving ended.
struct Served {
    status: ExitStatus,
    said: String,
    calls: Vec<Call>,
    /// `None` if the server did not begin.
    verifier: Option<Verifier>,
}

/// Serves a client until it has its replies, or the server ends.
fn serve(folder: &Path, more: &[&str], fault: Option<&Fault>) -> Served {
    serve_with(folder, more, fault, |_| ())
}

fn serve_with(folder: &Path, more: &[&str], fault: Option<&Fault>, change: impl Fn(&mut Command)) -> Served {
    let record = folder.with_file_name("record");
    // A kill shows whether a record that could not be saved at first was saved later.
    let kill = fault.is_some_and(|fault| is_of_tail(fault) && fault.kind != KILL);
    let mut command = traced(folder, &record, fault);
    change(&mut command);
    command.args(SERVE).args(more).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut strace = Killed(command.spawn().expect("strace is not installed; Debian's package strace has it"));
    let id = strace.0.id();
    let (done, watched) = channel::<()>();
    let watching = std::thread::spawn(move || {
        let hangs = watched.recv_timeout(TIME_MAX) == Err(RecvTimeoutError::Timeout);
        if hangs {
            end(id, "KILL");
        }
        hangs
    });
    let client = loop {
        match Client::connect(&folder.join("socket"), "") {
            Ok(client) => break Some(client),
            Err(_) if strace.0.try_wait().unwrap().is_some() => break None,
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let verifier = client.map(|client| {
        let mut verifier = Verifier::new(client, 11);
        if verifier.run(1, REQUESTS) {
            end(id, if kill { "KILL" } else { "TERM" });
        }
        verifier
    });
    let mut said = String::new();
    strace.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let status = strace.0.wait().unwrap();
    drop(done);
    if watching.join().unwrap() {
        said.push_str("it hangs");
    }
    Served { status, said, calls: calls(&record), verifier }
}

/// Whether it is at the log's tail, and not at the last request.
fn is_of_tail(fault: &Fault) -> bool {
    fault.file.as_deref().is_some_and(|file| file.contains(".tail-")) && fault.number < REQUESTS as usize
}

/// Sends a signal to the server that a strace of this id has started.
fn end(strace: u32, signal: &str) {
    let children = std::fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap_or_default();
    if let Some(server) = children.split_whitespace().next() {
        // It may have been killed meanwhile.
        let _ = Command::new("kill").args([&format!("-{signal}"), server]).stderr(Stdio::null()).status();
    }
}

/// Serves with a fault. Returns what is wrong.
fn problem(fault: &Fault) -> Option<String> {
    let whole = tempfile::tempdir().unwrap();
    let folder = std::fs::canonicalize(whole.path()).unwrap().join("work");
    std::fs::create_dir(&folder).unwrap();
    let served = serve(&folder, &["--create", "256k"], Some(fault));
    let at = hit(&served.calls, fault);
    let wrong = wrong_end(&served, fault, &at).or_else(|| lost(&folder, &served)).or_else(|| wrong_again(&folder));
    let at: Vec<&str> = at.iter().map(|call| call.arguments.as_str()).collect();
    wrong.map(|wrong| format!("{fault:?} at {at:?}: {wrong}; {}, it said: {}", served.status, served.said))
}

/// Serves with short reads and writes. Returns what is wrong.
fn problem_of_short_calls(short: &Short) -> Option<String> {
    let whole = tempfile::tempdir().unwrap();
    let folder = std::fs::canonicalize(whole.path()).unwrap().join("work");
    std::fs::create_dir(&folder).unwrap();
    let served = serve_with(&folder, &["--create", "256k"], None, |command| short.cut(command));
    let is_good = served.status.success() && served.verifier.as_ref().is_some_and(|verifier| verifier.refused == 0);
    let wrong = lost(&folder, &served).or_else(|| wrong_again(&folder));
    wrong.or_else(|| (!is_good).then(|| format!("short calls: {}, it said: {}", served.status, served.said)))
}

/// The server serves on, or ends with an error that names the file.
fn wrong_end(served: &Served, fault: &Fault, at: &[&Call]) -> Option<String> {
    if fault.kind == KILL || is_of_tail(fault) {
        return (served.status.signal() != Some(9)).then(|| "it was not killed".to_owned());
    }
    let is_data = at.iter().any(|call| call.name.starts_with('p') && call.arguments.contains("/disk>"));
    let refused = served.verifier.as_ref().map_or(0, |verifier| verifier.refused);
    let expected = u64::from(is_data && fault.kind != INTERRUPTED);
    if refused != expected {
        return Some(format!("{refused} requests got an error"));
    }
    let names_it =
        ["standard output", "log.parquet", "disk", "report.json"].iter().any(|name| served.said.contains(name));
    // A record that is not in the tail comes into the log when serving ends.
    let is_tail = |call: &&Call| call.arguments.contains(".tail-");
    let may_fail = |call: &&Call| is_data || is_tail(call) || call.is_message() || !call.must_succeed();
    let must_fail = fault.kind != INTERRUPTED && !at.iter().all(may_fail);
    match served.status.code() {
        Some(0) if must_fail => Some("it does not notice the failure".to_owned()),
        Some(0) => None,
        // The message may be what failed.
        Some(1) if at.iter().any(|call| call.is_message()) => None,
        Some(1) if fault.kind != INTERRUPTED && served.said.contains("iocast: ") && names_it => None,
        code => Some(format!("code {code:?}")),
    }
}

/// What was acknowledged is in the image, and what was completed is in the log.
fn lost(folder: &Path, served: &Served) -> Option<String> {
    let verifier = served.verifier.as_ref()?;
    let lost = verifier.lost_in_image(&folder.join("disk"));
    if lost.is_some() {
        return lost;
    }
    if has_tail(folder) || served.status.code() != Some(0) {
        let recovered = iocast().current_dir(folder).args(["capture", "recover", "log.parquet"]).output().unwrap();
        if !recovered.status.success() {
            return Some(format!("recovery: {}", String::from_utf8_lossy(&recovered.stderr)));
        }
    }
    let mut reader = formats::open(&folder.join("log.parquet"), &ReadOptions::default()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(record);
    }
    let wrong = verifier.wrong_in_log(records.iter());
    wrong.or_else(|| has_tail(folder).then(|| "the tail of the log is left".to_owned()))
}

fn has_tail(folder: &Path) -> bool {
    files(folder).keys().any(|name| name.contains(".tail-"))
}

/// The next server serves, whatever the one before has left.
fn wrong_again(folder: &Path) -> Option<String> {
    let has_image = std::fs::metadata(folder.join("disk")).is_ok_and(|image| image.len() > 0);
    let image: &[&str] = if has_image { &[] } else { &["--create", "256k"] };
    let again = serve(folder, &[image, &["--force"]].concat(), None);
    let is_good = again.status.success() && again.verifier.is_some_and(|verifier| verifier.refused == 0);
    let left: Vec<String> = files(folder).into_keys().collect();
    let is_clean = left == ["disk", "log.parquet", "report.json"];
    (!is_good || !is_clean).then(|| format!("the next server: {}, {left:?}, it said: {}", again.status, again.said))
}

#[test]
fn nothing_acknowledged_is_lost_whichever_call_of_the_server_fails() {
    let whole = tempfile::tempdir().unwrap();
    let folder = std::fs::canonicalize(whole.path()).unwrap().join("work");
    std::fs::create_dir(&folder).unwrap();
    let served = serve(&folder, &["--create", "256k"], None);
    assert!(served.status.success() && served.verifier.is_some(), "{}", served.said);
    let faults = faults(&served.calls, &folder);
    let found = faults.par_iter().filter_map(problem).collect::<Vec<String>>();
    let cut: Vec<String> = problem_of_short_calls(&Short::build()).into_iter().collect();
    judge("serve", faults.len() + 1, &[found, cut].concat());
}
