//! A server in this process, and clients of it.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod client;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use iocast_serve::{Description, Limits, Listener, ServedDrive, Server, Stopper, check, urgency};
use tempfile::TempDir;
use traces::results::serving::Serving;
use traces::trace::ReadOptions;
use traces::{Record, TraceMeta, formats};

pub use client::*;

/// A command for a required program. Panics with the program's Debian package if it is missing.
pub fn program(name: &str, package: &str) -> Command {
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap();
    assert!(found.status.success(), "{name} is not installed; Debian's package {package} has it");
    Command::new(name)
}

/// Runs a command to its end. Returns its output.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The records and the metadata of a log.
pub fn read_log(path: &Path) -> (Vec<Record>, TraceMeta) {
    let mut reader = formats::open(path, &ReadOptions::default()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(record);
    }
    (records, reader.meta().clone())
}

/// A drive of this specification over an image in memory of this size.
pub fn described(drive: &str, image: &str) -> Description {
    Description::new(drive.parse().unwrap(), image.parse().unwrap())
}

/// A running server.
pub struct TestServer {
    pub folder: TempDir,
    /// The folder of the vhost-user sockets.
    disks: TempDir,
    /// Whether its thread has the priority that keeps replies punctual.
    pub is_realtime: bool,
    stopper: Stopper,
    thread: JoinHandle<ServedDrive>,
}

impl TestServer {
    /// Serves `description` with a log at [`TestServer::log`].
    pub fn start(description: Description) -> TestServer {
        TestServer::limited(description, Limits::default())
    }

    pub fn limited(description: Description, limits: Limits) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let log = description.log.clone().or_else(|| Some(folder.path().join("log.parquet")));
        let drive = ServedDrive::begin(check(Description { log, ..description }).unwrap()).unwrap();
        let disks = tempfile::tempdir().unwrap();
        let mut listeners = vec![Listener::unix(&folder.path().join("socket")).unwrap()];
        for export in 0..drive.exports().len() {
            listeners.push(Listener::vhost_user(&disk_socket(disks.path(), export), export).unwrap());
        }
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || {
            let mut server = Server::new(drive, listeners, limits).unwrap();
            let is_realtime = urgency::take(None).unwrap().is_none();
            sender.send((server.stopper(), is_realtime)).unwrap();
            server.run(None).unwrap();
            server.into_drive()
        });
        let (stopper, is_realtime) = receiver.recv().unwrap();
        TestServer { folder, disks, is_realtime, stopper, thread }
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log.parquet")
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The vhost-user socket of the export with this index.
    pub fn disk(&self, export: usize) -> PathBuf {
        disk_socket(self.disks.path(), export)
    }

    /// The NBD URI of an export.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    pub fn client(&self, export: &str) -> Client {
        Client::connect(&self.socket(), export).unwrap()
    }

    /// Ends serving. Returns the final figures and the log's folder.
    pub fn end(self) -> (Serving, TempDir) {
        self.stopper.stop();
        (self.thread.join().unwrap().finish(), self.folder)
    }
}

fn disk_socket(folder: &Path, export: usize) -> PathBuf {
    folder.join(format!("disk-{export}"))
}
