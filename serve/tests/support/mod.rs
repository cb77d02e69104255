//! A server in this process, and an NBD client that sends exactly the commands that a test names.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use serve::{Description, Limits, Listener, ServedDrive, Server, Stopper, check, urgency};
use tempfile::TempDir;
use traces::results::serving::Serving;
use traces::trace::ReadOptions;
use traces::{Record, TraceMeta, formats};

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

/// Errors of replies.
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ESHUTDOWN: u32 = 108;
/// Commands.
pub const FLUSH: u16 = 3;
pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const TRIM: u16 = 4;
pub const ZERO: u16 = 6;
/// Flags of commands.
pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;

/// A request as it goes over the wire, without its payload.
pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// An option of the handshake as it goes over the wire.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// A client that can have several outstanding requests.
pub struct Client {
    pub socket: UnixStream,
    pub size: u64,
    pub flags: u16,
    sent: u64,
    /// Lengths of outstanding reads, by cookie.
    reads: BTreeMap<u64, usize>,
}

impl Client {
    /// Opens an export by NBD_OPT_GO. The error is the server's message.
    pub fn connect(path: &Path, export: &str) -> Result<Client, String> {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let greeting: [u8; 18] = take(&mut socket);
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle, no zeroes; no information requests.
        let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes(), &[0, 0]].concat();
        socket.write_all(&[&3u32.to_be_bytes()[..], &option(7, &name)].concat()).unwrap();
        let mut client = Client { socket, size: 0, flags: 0, sent: 0, reads: BTreeMap::new() };
        loop {
            let head: [u8; 20] = take(&mut client.socket);
            let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
            let length = u32::from_be_bytes(head[16..].try_into().unwrap());
            let mut data = vec![0; length as usize];
            client.socket.read_exact(&mut data).unwrap();
            match kind {
                1 => return Ok(client),
                3 if data[..2] == [0, 0] => {
                    client.size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    client.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                3 => {}
                error => return Err(format!("{error:#x}: {}", String::from_utf8_lossy(&data))),
            }
        }
    }

    /// Sends a command. Returns its cookie.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        let cookie = self.sent;
        self.sent += 1;
        let head = request(command, flags, cookie, offset, length);
        self.socket.write_all(&[&head, data].concat()).unwrap();
        if command == READ {
            self.reads.insert(cookie, length as usize);
        }
        cookie
    }

    /// The next reply: cookie, error, data.
    pub fn receive(&mut self) -> (u64, u32, Vec<u8>) {
        let head: [u8; 16] = take(&mut self.socket);
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
        let length = self.reads.remove(&cookie).filter(|_| error == 0).unwrap_or(0);
        let mut data = vec![0; length];
        self.socket.read_exact(&mut data).unwrap();
        (cookie, error, data)
    }

    /// Sends a command and waits for its reply. Returns its error.
    pub fn fail(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u32 {
        let sent = self.send(command, flags, offset, length, data);
        let (cookie, error, _) = self.receive();
        assert_eq!(cookie, sent);
        error
    }

    /// Sends a command and waits for its reply, which must be no error. Returns its data.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Vec<u8> {
        let sent = self.send(command, flags, offset, length, data);
        let (cookie, error, data) = self.receive();
        assert_eq!((cookie, error), (sent, 0));
        data
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.ask(READ, 0, offset, length, &[])
    }

    pub fn write(&mut self, offset: u64, data: &[u8], flags: u16) {
        self.ask(WRITE, flags, offset, data.len() as u32, data);
    }
}

pub fn take<const N: usize>(socket: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes).unwrap();
    bytes
}
