//! `iocast serve` as a process of its own.
#![allow(dead_code, reason = "every test uses a part of it")]

#[path = "../../../serve/tests/support/client.rs"]
pub mod client;
pub mod verifier;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assert_cmd::cargo::cargo_bin_cmd;

/// The program, as built for the tests.
pub fn iocast() -> Command {
    Command::new(cargo_bin_cmd!("iocast").get_program())
}

/// Starts `iocast serve` in `folder` and waits until it serves. Returns its messages so far.
#[expect(clippy::zombie_processes, reason = "the caller waits for it; a test that fails may leave one")]
pub fn start(folder: &Path, arguments: &[&str]) -> (Child, Vec<String>) {
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

/// Sends a signal to a process that the test started.
pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

/// A process that is killed when the test is over, however it ends.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
