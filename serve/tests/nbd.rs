//! The NBD server against a client of our own that keeps the protocol, and against clients that do not.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[allow(dead_code, reason = "each test target uses its part")]
mod support;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use iocast_serve::{Description, Limits};
use support::{
    Client, DISCONNECT, EINVAL, ENOSPC, ESHUTDOWN, FLUSH, FUA, NO_HOLE, READ, Random, TRIM, TestServer, WRITE, ZERO,
    described, option, read_log, request, take,
};
use traces::{Flags, Nanos, Operation, Record};

const QUICK: &str = "fixed:service=0";
/// Longer than any test takes.
const STUCK: &str = "fixed:service=100s";
const CAN_FLUSH: u16 = 1 << 2;
const CAN_FUA: u16 = 1 << 3;
const ROTATIONAL: u16 = 1 << 4;
const CAN_TRIM: u16 = 1 << 5;
const CAN_ZERO: u16 = 1 << 6;
const CAN_MULTI_CONN: u16 = 1 << 8;

fn quick() -> TestServer {
    TestServer::start(described(QUICK, "memory:64m"))
}

fn operations(records: &[Record]) -> Vec<Operation> {
    records.iter().map(|record| record.request.operation).collect()
}

/// Reads until the server ends the connection.
fn rest(socket: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        // What the server did not read is lost.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("{error}"),
    }
}

fn connected(server: &TestServer) -> UnixStream {
    let mut socket = UnixStream::connect(server.socket()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _: [u8; 18] = take(&mut socket);
    socket
}

#[test]
fn export_flags_follow_the_drive() {
    for (drive, rotational, trim) in [("cheetah-15k4", ROTATIONAL, 0), ("sata-ssd", 0, CAN_TRIM)] {
        let server = TestServer::start(described(drive, "memory:64m"));
        let client = server.client("");
        assert_eq!(client.size, 64 << 20);
        assert_eq!(client.flags, 1 | CAN_FLUSH | CAN_FUA | CAN_ZERO | CAN_MULTI_CONN | rotational | trim, "{drive}");
        server.end();
    }
}

#[test]
fn longest_requests_move_their_data() {
    let server = quick();
    let mut client = server.client("");
    let bytes: Vec<u8> = (0..32u32 << 20).map(|at| (at / 7919 + at) as u8).collect();
    client.write(4097, &bytes, 0);
    assert!(client.read(4097, 32 << 20) == bytes);
    assert!(client.read(4097 + 131_071, 262_145) == bytes[131_071..131_071 + 262_145]);
    // An outstanding read waits for its payload's reader while the data of many others wait in the image.
    let sent: Vec<u64> = (0..40).map(|at| client.send(READ, 0, at << 20, 1 << 20, &[])).collect();
    let whole = [&[0; 4097][..], &bytes, &vec![0; (64 << 20) - bytes.len() - 4097]].concat();
    for at in 0..sent.len() {
        let (cookie, error, data) = client.receive();
        assert_eq!((cookie, error), (sent[at], 0));
        assert!(data == whole[at << 20..(at + 1) << 20], "read {at}");
    }
    server.end();
}

#[test]
fn invalid_requests_get_an_error_and_the_connection_goes_on() {
    let server = TestServer::start(described("cheetah-15k4", "memory:64m"));
    let mut client = server.client("");
    let end = 64 << 20;
    for (command, flags, offset, length, expected) in [
        (READ, 0, end, 1, EINVAL),
        (READ, 0, u64::MAX, 1, EINVAL),
        (READ, 0, 0, (32 << 20) + 1, EINVAL),
        (READ, 1 << 2, 0, 512, EINVAL),
        (ZERO, 0, end - 512, 513, ENOSPC),
        (ZERO, 1 << 4, 0, 512, EINVAL),
        (TRIM, 0, 0, 512, EINVAL),
        (FLUSH, NO_HOLE, 0, 0, EINVAL),
        (5, 0, 0, 512, EINVAL),
        (77, 0, 0, 0, EINVAL),
        (READ, 0, end, 0, 0),
        (FLUSH, FUA, u64::MAX, 7, 0),
    ] {
        assert_eq!(client.fail(command, flags, offset, length, &[]), expected, "{command} {offset} {length}");
    }
    // The payload of a write that is refused is passed over.
    for (offset, length, expected) in [(end, 512, ENOSPC), (0, (32 << 20) + 1, EINVAL), (end, 0, 0)] {
        let payload = vec![7; length as usize];
        assert_eq!(client.fail(WRITE, 0, offset, length, &payload), expected, "{offset} {length}");
    }
    assert_eq!(client.read(0, 4), [0; 4]);
    let log = server.log();
    let (_, _folder) = server.end();
    assert_eq!(operations(&read_log(&log).0), [Operation::Flush, Operation::Read], "the drive sees valid ones only");
}

#[test]
fn each_of_many_requests_that_fail_at_once_is_answered() {
    let server = quick();
    let mut client = server.client("");
    let mut socket = client.socket.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let requests: Vec<u8> = (0..20_000).flat_map(|cookie| request(READ, 0, cookie, u64::MAX, 1)).collect();
        socket.write_all(&requests).unwrap();
    });
    for cookie in 0..20_000 {
        assert_eq!(client.receive(), (cookie, EINVAL, Vec::new()));
    }
    sending.join().unwrap();
    server.end();
}

#[test]
fn bytes_that_are_no_request_end_the_connection() {
    let server = quick();
    for garbage in [vec![0; 28], b"IHAVEOPT".repeat(4), request(READ, 0, 0, 0, 512).split_off(1)] {
        let mut client = server.client("");
        client.socket.write_all(&[&garbage[..], &[0; 28]].concat()).unwrap();
        assert!(rest(&mut client.socket).is_empty());
    }
    assert_eq!(server.client("").read(0, 1), [0]);
    server.end();
}

#[test]
fn random_bytes_disturb_no_other_client() {
    let server = quick();
    let mut staying = server.client("");
    let mut random = Random(0x0001_0ca5_7bad);
    for turn in 0..300u64 {
        // Valid beginnings, so that the bytes get beyond the first check: flags, an option's head, an open export.
        let mut socket = if turn % 4 == 3 { server.client("").socket } else { connected(&server) };
        let mut bytes = match turn % 4 {
            0 => Vec::new(),
            1 => 3u32.to_be_bytes().to_vec(),
            2 => [&3u32.to_be_bytes()[..], &option(random.next() as u32 % 9, &[0; 10])].concat(),
            _ => request(random.next() as u16 % 7, random.next() as u16 % 4, 1, random.next() % (65 << 20), 4096),
        };
        bytes.extend((0..random.next() % 400).map(|_| random.next() as u8));
        // The server may have ended the connection already.
        let _ = socket.write_all(&bytes);
        staying.write(turn * 512, &turn.to_be_bytes(), 0);
    }
    for turn in 0..300u64 {
        assert_eq!(staying.read(turn * 512, 8).len(), 8);
    }
    let (report, _folder) = server.end();
    assert!(report.vms[0].writes >= 300);
}

#[test]
fn client_that_hangs_up_in_a_write_leaves_no_part_of_it() {
    let server = quick();
    let mut staying = server.client("");
    staying.write(0, &[1; 65536], 0);
    for sent in [0, 1, 4096, 65535] {
        let mut leaving = server.client("");
        leaving.socket.write_all(&[&request(WRITE, 0, 1, 0, 65536)[..], &vec![2; sent]].concat()).unwrap();
        // A stalled write holds up nobody.
        assert!(staying.read(0, 65536) == [1; 65536]);
        drop(leaving);
        assert!(staying.read(0, 65536) == [1; 65536], "after {sent} bytes");
    }
    let log = server.log();
    let (report, _folder) = server.end();
    assert_eq!(report.vms[0].writes, 1);
    assert_eq!(read_log(&log).0.len(), 9);
}

#[test]
fn other_clients_are_served_after_one_disconnects() {
    let server = TestServer::start(described("fixed:service=2ms", "memory:1m"));
    let mut staying: Client = server.client("");
    let mut leaving = server.client("");
    for number in 0..20 {
        leaving.send(READ, 0, number * 512, 512, &[]);
    }
    // The first reply shows that the requests have arrived.
    leaving.receive();
    drop(leaving);
    staying.write(0, &[1; 512], 0);
    assert_eq!(staying.read(0, 512), [1; 512]);
    let log = server.log();
    let (report, _folder) = server.end();
    assert_eq!(report.vms[0].writes, 1);
    assert!(read_log(&log).0.len() >= 3);
}

#[test]
fn client_that_does_not_take_its_replies_holds_up_nobody_and_gets_them_later() {
    let server = quick();
    let mut stalling = server.client("");
    let sent: Vec<u64> = (0..64).map(|at| stalling.send(READ, 0, at << 19, 1 << 19, &[])).collect();
    let mut staying = server.client("");
    for turn in 0..100u64 {
        staying.write(turn * 512, &[9; 512], 0);
        assert_eq!(staying.read(turn * 512, 512), [9; 512]);
    }
    let replies: Vec<u64> = sent.iter().map(|_| stalling.receive().0).collect();
    assert_eq!(replies, sent);
    server.end();
}

#[test]
fn long_zeroing_lets_others_go_first() {
    let server = TestServer::start(described("fixed:service=1ms", "memory:1g"));
    let mut client = server.client("");
    let bytes = vec![7; 32 << 20];
    for part in 0..16u64 {
        client.write(part << 25, &bytes, 0);
    }
    // The drive completes the second request 1 ms after the first. To free so many pages takes longer.
    let (long, short) = (request(ZERO, 0, 1000, 0, 1 << 29), request(ZERO, 0, 1001, 1 << 29, 512));
    client.socket.write_all(&[long, short].concat()).unwrap();
    assert_eq!([client.receive().0, client.receive().0], [1001, 1000]);
    assert!(client.read(511 << 20, 1 << 20).iter().all(|&byte| byte == 0));
    server.end();
}

#[test]
fn connection_has_no_more_outstanding_requests_than_permitted() {
    let limits = Limits { requests: 4, ..Limits::default() };
    let server = TestServer::limited(described("fixed:service=1ms", "memory:1m"), limits);
    let mut client = server.client("");
    let sent: Vec<u64> = (0..40).map(|at| client.send(READ, 0, at * 512, 512, &[])).collect();
    let mut replies: Vec<u64> = sent.iter().map(|_| client.receive().0).collect();
    replies.sort_unstable();
    assert_eq!(replies, sent);
    let log = server.log();
    let (_, _folder) = server.end();
    assert_eq!(most_outstanding(&read_log(&log).0), 4);
}

fn most_outstanding(records: &[Record]) -> usize {
    let outstanding = |at: &Record| {
        let is = |other: &&Record| {
            other.request.arrival <= at.request.arrival && other.observed.completed > Some(at.request.arrival)
        };
        records.iter().filter(is).count()
    };
    records.iter().map(outstanding).max().unwrap()
}

#[test]
fn drive_reorders_the_outstanding_requests_of_one_client() {
    let server = TestServer::start(described("cheetah-15k4-mechanical:queue_depth=32", "memory:1g"));
    let mut client = server.client("");
    let sent: Vec<u64> = (0..32u64).map(|n| client.send(READ, 0, n * 7_919 * 4096 % (1 << 30), 4096, &[])).collect();
    let replies: Vec<u64> = sent.iter().map(|_| client.receive().0).collect();
    assert_ne!(replies, sent, "served in the order of arrival");
    let log = server.log();
    let (_, _folder) = server.end();
    let most = most_outstanding(&read_log(&log).0);
    assert!(most > 16, "{most} of 32 at once");
}

#[test]
fn flush_fua_zero_and_trim_reach_the_drive() {
    let server = TestServer::start(described("nvme-ssd", "memory:64m"));
    let mut client = server.client("");
    client.write(0, &[7; 65536], 0);
    client.write(65536, &[7; 4096], FUA);
    client.ask(FLUSH, 0, 0, 0, &[]);
    client.ask(TRIM, 0, 4096, 8192, &[]);
    client.ask(ZERO, 0, 16384, 4096, &[]);
    client.ask(ZERO, NO_HOLE, 24576, 4096, &[]);
    let bytes = client.read(0, 65536);
    for (begin, byte) in [(0, 7), (4096, 0), (8192, 0), (12288, 7), (16384, 0), (20480, 7), (24576, 0), (28672, 7)] {
        assert!(bytes[begin..begin + 4096].iter().all(|&found| found == byte), "from byte {begin} on");
    }
    let log = server.log();
    let (_, _folder) = server.end();
    let (records, _) = read_log(&log);
    use Operation::{Discard, Flush, Read, Write};
    assert_eq!(operations(&records), [Write, Write, Flush, Discard, Discard, Write, Read]);
    assert_eq!(records[1].request.flags, Flags::FUA);
}

#[test]
fn fua_becomes_a_flush_for_a_drive_without_it() {
    let server = TestServer::start(described("fixed:write_cache=volatile,service=100us", "memory:1m"));
    let mut client = server.client("");
    client.write(0, &[1; 512], FUA);
    client.ask(ZERO, FUA, 512, 512, &[]);
    let log = server.log();
    let (_, _folder) = server.end();
    let (records, _) = read_log(&log);
    assert_eq!(operations(&records)[..2], [Operation::Write, Operation::Flush]);
    assert_eq!(operations(&records)[3..], [Operation::Flush], "zeros as well");
    assert_eq!(records[1].response_time(), Some(Nanos::from_ms(1)), "the default of the tunable flush of `fixed`");
}

#[test]
fn half_handshakes_make_way_for_clients() {
    let limits = Limits { handshakes: 8, handshake_time: Duration::from_secs(1000), ..Limits::default() };
    let server = TestServer::limited(described(QUICK, "memory:1m"), limits);
    let mut idle: Vec<UnixStream> = (0..200).map(|_| connected(&server)).collect();
    let mut client = server.client("");
    assert_eq!(client.read(0, 1), [0]);
    assert!(idle.iter_mut().take(192).all(|socket| rest(socket).is_empty()));
    // A later one can go on.
    let mut socket = idle.pop().unwrap();
    socket.write_all(&[&3u32.to_be_bytes()[..], &option(3, &[])].concat()).unwrap();
    let reply: [u8; 8] = take(&mut socket);
    assert_eq!(reply, 0x0003_e889_0455_65a9u64.to_be_bytes());
    server.end();
}

#[test]
fn half_handshakes_end_in_time() {
    let limits = Limits { handshake_time: Duration::from_millis(300), ..Limits::default() };
    let server = TestServer::limited(described(QUICK, "memory:1m"), limits);
    let mut client = server.client("");
    let (mut silent, mut slow) = (connected(&server), connected(&server));
    slow.write_all(&[0, 0]).unwrap();
    assert!(rest(&mut silent).is_empty() && rest(&mut slow).is_empty());
    // A client that has opened an export may be idle.
    assert_eq!(client.read(0, 1), [0]);
    server.end();
}

#[test]
fn connections_beyond_the_limit_are_refused_with_a_reason() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = TestServer::limited(described(QUICK, "memory:1m"), limits);
    let (mut one, two) = (server.client(""), server.client(""));
    for _ in 0..3 {
        let error = Client::connect(&server.socket(), "").err().expect("it is refused");
        assert_eq!(error, "0x80000002: the server has its 2 connections already");
    }
    drop(two);
    // The server has seen the end of that connection when it answers the next request.
    one.read(0, 1);
    let begun = Instant::now();
    while Client::connect(&server.socket(), "").is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    server.end();
}

#[test]
fn clients_that_go_count_as_long_as_their_requests_are_at_the_drive() {
    let limits = Limits { connections: 8, requests: 2, ..Limits::default() };
    let server = TestServer::limited(described(STUCK, "memory:1m"), limits);
    let begun = Instant::now();
    let mut admitted = 0;
    while let Ok(mut client) = Client::connect(&server.socket(), "") {
        client.send(READ, 0, 0, 512, &[]);
        // The reply shows that the request before has arrived.
        assert_eq!(client.fail(READ, 0, 1 << 20, 512, &[]), EINVAL);
        admitted += 1;
        assert!(admitted <= 8 && begun.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(admitted, 8);
    server.end();
}

#[test]
fn requests_that_are_outstanding_at_the_end_fail() {
    let server = TestServer::start(described(STUCK, "memory:1m"));
    let (mut client, mut idle) = (server.client(""), server.client(""));
    let sent = client.send(READ, 0, 0, 512, &[]);
    let refused = client.fail(READ, 0, 1 << 20, 512, &[]);
    assert_eq!(refused, EINVAL, "the first one has arrived");
    let log = server.log();
    let (report, _folder) = server.end();
    assert_eq!(client.receive(), (sent, ESHUTDOWN, Vec::new()));
    assert!(rest(&mut client.socket).is_empty());
    assert!(rest(&mut idle.socket).is_empty());
    assert_eq!((report.logged, read_log(&log).0.len()), (Some(0), 0));
}

#[test]
fn disconnecting_client_gets_the_replies_to_its_requests() {
    let server = TestServer::start(described("fixed:service=5ms", "memory:1m"));
    let mut client = server.client("");
    let sent: Vec<u64> = (0..3).map(|at| client.send(READ, 0, at * 512, 512, &[])).collect();
    client.send(DISCONNECT, 0, 0, 0, &[]);
    client.send(WRITE, 0, 0, 4, &[1; 4]);
    let replies: Vec<u64> = sent.iter().map(|_| client.receive().0).collect();
    assert_eq!(replies, sent);
    assert!(rest(&mut client.socket).is_empty());
    let (report, _folder) = server.end();
    assert_eq!((report.vms[0].reads, report.vms[0].writes), (3, 0));
}

#[test]
fn file_that_the_log_cannot_grow_in_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.parquet");
    std::fs::create_dir(&log).unwrap();
    let description = Description { log: Some(log), ..described(QUICK, "memory:1m") };
    let begun = iocast_serve::ServedDrive::begin(iocast_serve::check(description).unwrap());
    assert!(begun.err().expect("it is refused").to_string().contains("log.parquet"));
}
