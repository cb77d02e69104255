//! nbdkit with the plugin, and an NBD client that sends exactly the commands that a test names.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serve::StatusLine;
use tempfile::TempDir;
use traces::results::serving::Serving;

/// The plugin as cargo builds it for tests: in the folder of the test program.
pub fn plugin() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let plugin = test.with_file_name("libserve.so");
    assert!(plugin.is_file(), "{} is missing; cargo builds it with this package's tests", plugin.display());
    plugin
}

/// A command for a required program. Panics with the program's Debian package if it is missing.
pub fn program(name: &str, package: &str) -> Command {
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap();
    assert!(found.status.success(), "{name} is not installed; Debian's package {package} has it");
    Command::new(name)
}

/// Whether SCHED_FIFO is permitted.
pub fn is_realtime_permitted() -> bool {
    let permitted = Command::new("chrt").args(["--fifo", "10", "true"]).stderr(Stdio::null()).status();
    permitted.is_ok_and(|status| status.success())
}

/// The program as `iocast serve` runs it: with SCHED_FIFO, where that is permitted.
fn urgent(program: Command) -> Command {
    if !is_realtime_permitted() {
        return program;
    }
    let mut chrt = Command::new("chrt");
    chrt.args(["--fifo", "10"]).arg(program.get_program());
    chrt
}

/// A running nbdkit.
pub struct Server {
    pub folder: TempDir,
    pub child: Child,
    out: BufReader<ChildStdout>,
}

impl Server {
    /// Starts nbdkit with `settings` (`key=value`) and waits until clients can connect. The log goes to
    /// [`Server::log`].
    pub fn start(settings: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let log = format!("log={}", folder.path().join("log.parquet").display());
        let mut child = urgent(program("nbdkit", "nbdkit"))
            .args(["--foreground", "--threads", "64", "--unix"])
            .arg(folder.path().join("socket"))
            .arg(plugin())
            .args(settings)
            .args([&log, "ends-with-input=on"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<StatusLine>(&line).unwrap(), StatusLine::Ready, "{settings:?}");
        Server { folder, child, out }
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log.parquet")
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The NBD URI of an export.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    pub fn client(&self, export: &str) -> Client {
        Client::connect(&self.socket(), export)
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Ends serving by closing standard input.
    pub fn end(mut self) -> (Serving, TempDir) {
        drop(self.child.stdin.take());
        self.ended()
    }

    /// The final figures, after the server has ended.
    pub fn ended(mut self) -> (Serving, TempDir) {
        let mut last = None;
        for line in self.out.by_ref().lines() {
            if let StatusLine::Ended(report) = serde_json::from_str(&line.unwrap()).unwrap() {
                last = Some(*report);
            }
        }
        assert!(self.child.wait().unwrap().success());
        (last.expect("the final status line"), self.folder)
    }
}

/// Features of the server (NBD protocol, transmission flags).
pub const CAN_FLUSH: u16 = 1 << 2;
pub const CAN_FUA: u16 = 1 << 3;
pub const ROTATIONAL: u16 = 1 << 4;
pub const CAN_TRIM: u16 = 1 << 5;
pub const CAN_ZERO: u16 = 1 << 6;
pub const CAN_MULTI_CONN: u16 = 1 << 8;

/// Commands and their flags.
pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const ZERO: u16 = 6;
pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;

/// A client that can have several requests in flight.
pub struct Client {
    socket: UnixStream,
    pub size: u64,
    pub flags: u16,
    sent: u64,
    /// Lengths of reads in flight, by cookie.
    reads: BTreeMap<u64, usize>,
}

impl Client {
    fn connect(path: &Path, export: &str) -> Client {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let greeting: [u8; 18] = take(&mut socket);
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle, no zeroes. Then NBD_OPT_GO with the export's name and no information requests.
        let mut go = 3u32.to_be_bytes().to_vec();
        go.extend(b"IHAVEOPT");
        go.extend(7u32.to_be_bytes());
        go.extend((export.len() as u32 + 6).to_be_bytes());
        go.extend((export.len() as u32).to_be_bytes());
        go.extend(export.as_bytes());
        go.extend(0u16.to_be_bytes());
        socket.write_all(&go).unwrap();
        let mut client = Client { socket, size: 0, flags: 0, sent: 0, reads: BTreeMap::new() };
        loop {
            let head: [u8; 20] = take(&mut client.socket);
            let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
            let length = u32::from_be_bytes(head[16..].try_into().unwrap());
            let mut data = vec![0; length as usize];
            client.socket.read_exact(&mut data).unwrap();
            match kind {
                1 => return client,
                3 if data[..2] == [0, 0] => {
                    client.size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    client.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                3 => {}
                error => panic!("{error:#x}: {}", String::from_utf8_lossy(&data)),
            }
        }
    }

    /// Sends a command. Returns its cookie.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        let cookie = self.sent;
        self.sent += 1;
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.socket.write_all(&bytes).unwrap();
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

fn take<const N: usize>(socket: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes).unwrap();
    bytes
}
