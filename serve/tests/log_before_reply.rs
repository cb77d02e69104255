//! A reply is sent after its record is in the log's tail, so that a kill of the server loses nothing that a client saw.
//!
//! The tail is a full FIFO here. The server therefore stops where it saves the record. Whatever it sends before that has
//! reached the client's socket by then.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[allow(dead_code, reason = "each test target uses its part")]
mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use support::{READ, TestServer, described};

/// The length of a record in the tail.
const RECORD_BYTES: usize = 64;

/// A FIFO that takes no further byte.
fn full_fifo(path: &Path) -> (File, usize) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let mut fifo = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(path).unwrap();
    let mut filled = 0;
    for piece in [4096, 1] {
        while let Ok(count) = fifo.write(&vec![b'.'; piece]) {
            filled += count;
        }
    }
    (fifo, filled)
}

/// Whether a thread of this process waits in a system call on a file at `path`.
fn waits_for(path: &Path) -> bool {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    // The number of the call, and its arguments.
    let calls = tasks.filter_map(|task| fs::read_to_string(task.path().join("syscall")).ok());
    let mut files = calls.filter_map(|call| {
        let first = call.split(' ').nth(1)?.strip_prefix("0x")?.to_owned();
        fs::read_link(format!("/proc/self/fd/{}", u64::from_str_radix(&first, 16).ok()?)).ok()
    });
    files.any(|file| file == path)
}

#[test]
fn reply_waits_until_its_record_is_in_the_tail() {
    let server = TestServer::start(described("fixed:service=0", "memory:1m"));
    let tail = fs::canonicalize(server.folder.path()).unwrap().join("log.parquet.tail-0");
    let (mut fifo, filled) = full_fifo(&tail);
    let mut client = server.client("");
    let cookie = client.send(READ, 0, 4096, 512, &[]);
    let begun = Instant::now();
    while !waits_for(&tail) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server does not save the record");
        std::thread::sleep(Duration::from_millis(1));
    }
    client.socket.set_nonblocking(true).unwrap();
    let early = client.socket.read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(early, Err(ErrorKind::WouldBlock), "the reply came before the record was saved");
    client.socket.set_nonblocking(false).unwrap();
    // Room for the record lets the server go on.
    fifo.read_exact(&mut vec![0; filled]).unwrap();
    assert_eq!(client.receive(), (cookie, 0, vec![0; 512]));
    let mut record = [0; RECORD_BYTES];
    fifo.read_exact(&mut record).unwrap();
    assert_eq!(record[..8], [0; 8], "it is the record of the first request");
    server.end();
}
