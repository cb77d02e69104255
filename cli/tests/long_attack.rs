//! `iocast serve` under attack: thousands of clients that hang up, stall, flood it, send nonsense and are killed, all
//! at once, beside one client that knows what it wrote. At the end the server is killed.
//!
//! Needs Debian's fio.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod served;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use served::client::{Client, READ, Random, WRITE, ZERO, option, request};
use served::verifier::Verifier;
use served::{Killed, iocast, start};
use traces::formats;
use traces::trace::ReadOptions;

/// Connections that end early.
const CLOSED: u64 = 10_000;
/// Clients that stay in the middle of the handshake.
const HALF: usize = 200;
/// Clients that ask for data and do not take them.
const STALLED: usize = 100;
/// Clients at once beyond the server's own limit, 1,024 (`serve/src/server/limits.rs`).
const FLOOD: usize = 1100;
const CONNECTIONS_MAX: usize = 1024;
/// fio's processes that are killed, so many at once.
const FIO: usize = 60;
const FIO_AT_ONCE: usize = 4;
/// What the server may take. Replies that wait may hold 256 MiB, and each of 1,280 connections has two buffers of a
/// piece, 128 KiB, at most; the flood does not fill them.
const THREADS_MAX: u64 = 3;
const RESIDENT_KIB_MAX: u64 = 400 << 10;
/// Connections, handshakes, files of the server's own; nobody connects over vhost-user.
const FILES_MAX: u64 = (CONNECTIONS_MAX + 256 + 64) as u64;
/// Requests that the verifying client has at once.
const DEPTH: usize = 16;

/// The most that the server was seen to take.
#[derive(Debug, Default)]
struct Taken {
    threads: u64,
    children: u64,
    resident_kib: u64,
    files: u64,
}

impl Taken {
    /// Looks once more. Fails if the server has ended.
    fn look(&mut self, server: u32) {
        let folder = PathBuf::from(format!("/proc/{server}"));
        let status = std::fs::read_to_string(folder.join("status")).expect("the server has ended");
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let count = |folder: &Path| std::fs::read_dir(folder).unwrap().count() as u64;
        let tasks = std::fs::read_dir(folder.join("task")).unwrap().flatten();
        let children = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
        self.children = self.children.max(children.map(|ids| ids.split_whitespace().count() as u64).sum());
        self.threads = self.threads.max(value("Threads:"));
        self.resident_kib = self.resident_kib.max(value("VmHWM:"));
        self.files = self.files.max(count(&folder.join("fd")));
    }
}

/// The attack on the server in `folder`.
struct Attack<'a> {
    folder: &'a Path,
    is_over: AtomicBool,
    refused: AtomicU64,
}

/// Ends the attack when the test fails, too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Attack<'_> {
    fn going(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn socket(&self) -> UnixStream {
        UnixStream::connect(self.folder.join("socket")).unwrap()
    }

    /// A client of the export that the attack may spoil. While the server is full, it is refused.
    fn client(&self) -> Option<Client> {
        let connected = Client::connect(&self.folder.join("socket"), "others");
        self.refused.fetch_add(u64::from(connected.is_err()), Ordering::Relaxed);
        connected.inspect_err(|said| assert!(said.contains("connections already"), "{said}")).ok()
    }

    /// Connections that end at once, after a read, in the middle of a reply, and before many replies.
    fn close_early(&self, count: u64) {
        for turn in 0..count {
            let (reads, bytes) = [(0, 0), (1, 512), (1, 1 << 20), (40, 4096)][turn as usize % 4];
            if reads == 0 {
                drop(self.socket());
                continue;
            }
            let Some(mut client) = self.client() else { continue };
            (0..reads).for_each(|at| _ = client.send(READ, 0, at << 20, bytes, &[]));
            match bytes {
                512 => _ = client.receive(),
                _ => client.socket.read_exact(&mut [0; 100]).unwrap(),
            }
        }
    }

    /// Half handshakes that stay. The server ends them in time; others take their place.
    fn stay_half(&self) {
        let open = || {
            let mut socket = self.socket();
            let _ = socket.write_all(&[&3u32.to_be_bytes()[..], &option(7, &[0; 10])[..9]].concat());
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let mut half: Vec<UnixStream> = (0..HALF).map(|_| open()).collect();
        while self.going() {
            for socket in &mut half {
                // The greeting, or nothing yet, or the end.
                let ended = match socket.read(&mut [0; 64]) {
                    Ok(count) => count == 0,
                    Err(error) => error.kind() != ErrorKind::WouldBlock,
                };
                if ended {
                    *socket = open();
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Random bytes: at once, behind valid flags, behind an option's head, and behind a request's.
    fn send_nonsense(&self) {
        let mut random = Random(0x0001_0ca5_7bad);
        while self.going() {
            let kind = random.next() % 4;
            let (mut socket, mut bytes) = match kind {
                0 => (self.socket(), Vec::new()),
                1 => (self.socket(), 3u32.to_be_bytes().to_vec()),
                2 => {
                    let head = option(random.next() as u32 % 9, &[0; 10]);
                    (self.socket(), [&3u32.to_be_bytes()[..], &head].concat())
                }
                _ => {
                    let Some(client) = self.client() else { continue };
                    let command = random.next() as u16 % 8;
                    (client.socket, request(command, random.next() as u16 % 4, 1, random.next() % (49 << 20), 4096))
                }
            };
            bytes.extend((0..random.next() % 5000).map(|_| random.next() as u8));
            // The server may have ended the connection already.
            let _ = socket.write_all(&bytes);
        }
    }

    /// Writes whose data end in the middle, and zeroing that nobody waits for.
    fn stop_in_writes(&self) {
        let mut random = Random(0x00d1_5c09);
        while self.going() {
            let Some(mut client) = self.client() else { continue };
            let length = 1 + random.next() as u32 % (1 << 20);
            let _ = client.socket.write_all(&request(ZERO, 0, 0, 16 << 20, 16 << 20));
            let _ = client.socket.write_all(&request(WRITE, 0, 1, 0, length));
            let _ = client.socket.write_all(&vec![1; random.next() as usize % length as usize]);
        }
    }

    /// Clients that ask for as much as they may, and take nothing.
    fn stall(&self) {
        let mut stalled = Vec::new();
        while self.going() {
            if stalled.len() < STALLED
                && let Some(mut client) = self.client()
            {
                (0..64).for_each(|at| _ = client.send(READ, 0, at << 17, 128 << 10, &[]));
                stalled.push(client);
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// fio's processes, which are killed in the middle.
    fn kill_clients(&self, count: usize) {
        for turn in 0..count as u64 {
            let mut load = Killed(self.fio());
            std::thread::sleep(Duration::from_millis(300 + turn * 37 % 200));
            assert!(load.0.try_wait().unwrap().is_none(), "fio has ended by itself");
        }
    }

    /// fio, which reads and writes until it is killed or the server ends. Its job is a thread, so that a kill ends it.
    fn fio(&self) -> Child {
        let mut fio = Command::new("fio");
        fio.args(["--thread", "--name=load", "--ioengine=nbd", "--rw=randrw", "--bsrange=512-64k", "--iodepth=16"]);
        fio.args(["--size=48m", "--time_based", "--runtime=600"]).current_dir(self.folder);
        fio.arg(format!("--uri=nbd+unix:///others?socket={}", self.folder.join("socket").display()));
        let started = fio.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        started.expect("fio is not installed; Debian's package fio has it")
    }

    /// More clients at once than the server takes. Returns how many it took.
    fn flood(&self) -> usize {
        let admitted: Vec<Client> = (0..FLOOD).filter_map(|_| self.client()).collect();
        admitted.len()
    }
}

/// Lets this process have as many connections as the attack needs.
fn raise_file_limit() {
    let found = getrlimit(Resource::Nofile);
    let needed = 4096;
    if found.current.is_some_and(|current| current < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..found }).expect("4,096 files are permitted");
    }
}

#[test]
fn client_is_served_and_nothing_is_lost_while_thousands_of_others_attack() {
    raise_file_limit();
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--drive", "fixed:service=10us", "--image", "disk", "--create", "64m", "--log", "log.parquet"];
    let exports = ["--export", "mine@0:16m", "--export", "others@16m:48m"];
    let server = Killed(start(folder.path(), &[&arguments[..], &exports].concat()).0);
    let attack = Attack { folder: folder.path(), is_over: AtomicBool::new(false), refused: AtomicU64::new(0) };
    let mut verifier = Verifier::new(Client::connect(&folder.path().join("socket"), "mine").unwrap(), 42);
    let begun = Instant::now();
    let (taken, admitted, last) = std::thread::scope(|scope| {
        let (attack, id) = (&attack, server.0.id());
        let verifying = scope.spawn(|| assert!(!verifier.run(DEPTH, u64::MAX)));
        let over = Over(&attack.is_over);
        let mut going: Vec<_> = [Attack::stay_half, Attack::send_nonsense, Attack::stop_in_writes, Attack::stall]
            .map(|attacker| scope.spawn(move || attacker(attack)))
            .into();
        let watching = scope.spawn(move || {
            let mut taken = Taken::default();
            while attack.going() {
                taken.look(id);
                std::thread::sleep(Duration::from_millis(20));
            }
            taken
        });
        let closing = (0..2).map(|_| scope.spawn(|| attack.close_early(CLOSED / 2)));
        let killing = (0..FIO_AT_ONCE).map(|_| scope.spawn(|| attack.kill_clients(FIO / FIO_AT_ONCE)));
        let finite: Vec<_> = closing.chain(killing).collect();
        finite.into_iter().for_each(|attacker| attacker.join().unwrap());
        let admitted = attack.flood();
        assert!(!verifying.is_finished(), "the verifying client has ended");
        drop(over);
        going.drain(..).for_each(|attacker| attacker.join().unwrap());
        let taken = watching.join().unwrap();
        // Killed with requests of several clients outstanding.
        let last: Vec<Killed> = (0..FIO_AT_ONCE).map(|_| Killed(attack.fio())).collect();
        std::thread::sleep(Duration::from_secs(1));
        drop(server);
        verifying.join().unwrap();
        (taken, admitted, last)
    });
    drop(last);
    let seconds = begun.elapsed().as_secs();
    println!("{taken:?}; {admitted} of {FLOOD} admitted; {} served in {seconds} s", verifier.served());
    assert!(taken.threads <= THREADS_MAX && taken.children == 0, "{taken:?}");
    assert!(taken.resident_kib <= RESIDENT_KIB_MAX && taken.files <= FILES_MAX, "{taken:?}");
    assert!((1..=CONNECTIONS_MAX).contains(&admitted) && attack.refused.into_inner() > 0, "{admitted}");
    check_what_is_left(folder.path(), &verifier);
}

/// The image and the log of the killed server have all that the verifying client was told.
fn check_what_is_left(folder: &Path, verifier: &Verifier) {
    assert!(verifier.served() > 10_000 && verifier.refused == 0, "{}", verifier.served());
    assert_eq!(verifier.lost_in_image(&folder.join("disk")), None);
    let recovered = iocast().current_dir(folder).args(["capture", "recover", "log.parquet"]).output().unwrap();
    assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let mut reader = formats::open(&folder.join("log.parquet"), &ReadOptions::default()).unwrap();
    let (mut mine, mut others) = (Vec::new(), 0u64);
    while let Some(record) = reader.next().unwrap() {
        match record.request.vm.0 {
            0 => mine.push(record),
            _ => others += 1,
        }
    }
    assert_eq!(reader.meta().vms, ["mine", "others"]);
    println!("{} requests of the verifying client and {others} others in the log", mine.len());
    assert!(others > CLOSED, "{others}");
    assert_eq!(verifier.wrong_in_log(mine.iter()), None);
    let left: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with("log.") && name != "log.parquet"), "{left:?}");
}
