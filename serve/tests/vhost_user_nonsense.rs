//! vhost-user clients that break the protocol, and guests that break their rings. Each loses what is its own only.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[path = "support/guest.rs"]
#[allow(dead_code, reason = "each test target uses its part")]
mod guest;
#[allow(dead_code, reason = "each test target uses its part")]
mod support;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use guest::{
    FLUSH, Guest, IN, INDIRECT, IOERR, MEMORY_BEGIN, NEXT, OK, ONE_QUEUE, Setup, WRITABLE, negotiate, sealed_memory,
};
use iocast_serve::Limits;
use rustix::fs::{MemfdFlags, memfd_create};
use support::{Client, TestServer, described, take};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

fn server() -> TestServer {
    TestServer::start(described("fixed:service=0", "memory:1m"))
}

fn connected(server: &TestServer) -> UnixStream {
    let socket = UnixStream::connect(server.disk(0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// A message as it goes over the socket.
fn message(code: u32, payload: &[u8]) -> Vec<u8> {
    [&code.to_le_bytes()[..], &1u32.to_le_bytes(), &(payload.len() as u32).to_le_bytes(), payload].concat()
}

/// Waits until the server has ended the connection.
fn ends(socket: &mut UnixStream) -> bool {
    match socket.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        // What the server did not read is lost.
        Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
    }
}

#[test]
fn message_may_come_in_parts_and_holds_up_nobody() {
    let server = server();
    let mut staying = Guest::start(&server.disk(0), ONE_QUEUE);
    let mut slow = connected(&server);
    for code in [1u32, 15] {
        for byte in message(code, &[]) {
            slow.write_all(&[byte]).unwrap();
            assert_eq!(staying.read_sectors(0, 0, 512), [0; 512]);
        }
        let reply: [u8; 20] = take(&mut slow);
        assert_eq!(reply[..4], code.to_le_bytes());
    }
    // SET_VRING_NUM without its payload's end.
    let whole = message(8, &[0, 0, 0, 0, 128, 0, 0, 0]);
    slow.write_all(&whole[..19]).unwrap();
    assert_eq!(staying.read_sectors(0, 0, 512), [0; 512]);
    slow.write_all(&[&whole[19..], &message(1, &[])].concat()).unwrap();
    let _: [u8; 20] = take(&mut slow);
    slow.write_all(&whole[..7]).unwrap();
    drop(slow);
    assert_eq!(staying.read_sectors(0, 0, 512), [0; 512]);
    server.end();
}

#[test]
fn nonsense_ends_the_connection() {
    let server = server();
    let mut staying = Guest::start(&server.disk(0), ONE_QUEUE);
    let huge = [&1u32.to_le_bytes()[..], &1u32.to_le_bytes(), &u32::MAX.to_le_bytes()].concat();
    let unknown_feature = message(2, &(1u64 << 63).to_le_bytes());
    let queue_out_of_range = message(8, &[16, 0, 0, 0, 128, 0, 0, 0]);
    let odd_queue = message(8, &[0, 0, 0, 0, 127, 0, 0, 0]);
    let address_without_memory = message(9, &[0; 40]);
    let kick_without_file = message(12, &0u64.to_le_bytes());
    let polled_queue = message(12, &0x100u64.to_le_bytes());
    for bytes in [
        vec![0; 64],
        vec![0xff; 64],
        huge,
        unknown_feature,
        queue_out_of_range,
        odd_queue,
        address_without_memory,
        kick_without_file,
        polled_queue,
        message(31, &[0; 24]),
        message(5, &[0; 8]),
        message(24, &[0xff; 12]),
    ] {
        let mut socket = connected(&server);
        socket.write_all(&bytes).unwrap();
        assert!(ends(&mut socket), "after {bytes:?}");
        assert_eq!(staying.read_sectors(0, 0, 512), [0; 512]);
    }
    server.end();
}

#[test]
fn random_messages_disturb_no_other_client() {
    let server = server();
    let mut staying = Guest::start(&server.disk(0), ONE_QUEUE);
    // A seeded xorshift generator.
    let mut state = 0x0001_0ca5_7badu64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for turn in 0..500 {
        let mut socket = connected(&server);
        for _ in 0..next() % 8 {
            let length = [0, 8, 8, 8, 40, 12, next() as usize % 300][next() as usize % 7];
            let payload: Vec<u8> = (0..length).map(|_| [0, 1, next() as u8][next() as usize % 3]).collect();
            let mut bytes = message(next() as u32 % 44, &payload);
            if turn % 5 == 0 {
                bytes.truncate(next() as usize % (bytes.len() + 1));
            }
            // The server may have ended the connection already.
            let _ = socket.write_all(&bytes);
        }
        assert_eq!(staying.read_sectors(0, turn % 2048, 512), [0; 512]);
    }
    server.end();
}

#[test]
fn client_that_reads_no_replies_is_dropped() {
    let server = server();
    let mut staying = Guest::start(&server.disk(0), ONE_QUEUE);
    let mut flooding = connected(&server);
    flooding.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let requests = message(1, &[]).repeat(1000);
    let failed = (0..1000).find_map(|_| flooding.write_all(&requests).err()).expect("the server stops reading");
    assert!(matches!(failed.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{failed}");
    assert_eq!(staying.read_sectors(0, 0, 512), [0; 512]);
    server.end();
}

#[test]
fn memory_that_could_vanish_is_refused() {
    let server = server();
    let on_disk = tempfile::tempfile().unwrap();
    let unsealed = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
    on_disk.set_len(1 << 20).unwrap();
    unsealed.set_len(1 << 20).unwrap();
    let sealed = sealed_memory(1 << 20);
    let region = |file: &File, memory_size: u64, mmap_offset: u64| VhostUserMemoryRegionInfo {
        guest_phys_addr: MEMORY_BEGIN,
        memory_size,
        userspace_addr: 1 << 30,
        mmap_offset,
        mmap_handle: file.as_raw_fd(),
    };
    let cases: [(Vec<VhostUserMemoryRegionInfo>, bool); 6] = [
        (vec![region(&sealed, 1 << 20, 0)], true),
        (vec![region(&unsealed, 1 << 20, 0)], false),
        (vec![region(&on_disk, 1 << 20, 0)], false),
        (vec![region(&sealed, (1 << 20) + 4096, 0)], false),
        (vec![region(&sealed, 1 << 20, 4096)], false),
        (vec![region(&sealed, 1 << 20, 0), region(&sealed, 1 << 20, 0)], false),
    ];
    for (index, (regions, is_taken)) in cases.into_iter().enumerate() {
        let (frontend, _) = negotiate(&server.disk(0), ONE_QUEUE).unwrap();
        assert_eq!(frontend.set_mem_table(&regions).is_ok(), is_taken, "case {index}");
    }
    // A sparse file costs its owner nothing, but the mapping would cost the server its address space.
    let vast = sealed_memory((1 << 40) + 4096);
    for (bytes, is_taken) in [(1 << 40, true), ((1 << 40) + 4096, false)] {
        let (frontend, _) = negotiate(&server.disk(0), ONE_QUEUE).unwrap();
        assert_eq!(frontend.set_mem_table(&[region(&vast, bytes, 0)]).is_ok(), is_taken, "{bytes}");
    }
    server.end();
}

#[test]
fn only_event_counters_announce_requests() {
    let server = server();
    let (other, _) = UnixStream::pair().unwrap();
    let kick = message(12, &0u64.to_le_bytes());
    let counter = EventFd::new(0).unwrap();
    for (file, is_taken) in [(counter.as_raw_fd(), true), (other.as_raw_fd(), false)] {
        let mut socket = connected(&server);
        socket.send_with_fd(&kick[..], file).unwrap();
        if is_taken {
            socket.write_all(&message(1, &[])).unwrap();
            let _: [u8; 20] = take(&mut socket);
        } else {
            assert!(ends(&mut socket));
        }
    }
    server.end();
}

/// A request whose chain is broken, in queue 0. The descriptors from 0 on are free; the header is that of a read.
type Breakage = fn(&mut Guest, u64);

const BROKEN: [(&str, Breakage); 11] = [
    ("a loop", |guest, header| {
        guest.describe(0, 0, (header, 16), NEXT, 1);
        guest.describe(0, 1, (guest.data_at(0, 0), 512), NEXT | WRITABLE, 1);
        guest.offer(0, 0);
    }),
    ("a header outside the memory", |guest, header| {
        guest.describe(0, 0, (header - MEMORY_BEGIN, 16), NEXT, 2);
        guest.describe(0, 2, (header + 16, 1), WRITABLE, 0);
        guest.offer(0, 0);
    }),
    ("data that end outside the memory", |guest, header| {
        guest.describe(0, 0, (header, 16), NEXT, 1);
        guest.describe(0, 1, (guest.data_at(1, 31), 2 << 20), NEXT | WRITABLE, 2);
        guest.describe(0, 2, (header + 16, 1), WRITABLE, 0);
        guest.offer(0, 0);
    }),
    ("an address that overflows", |guest, header| {
        guest.describe(0, 0, (header, 16), NEXT, 1);
        guest.describe(0, 1, (u64::MAX - 5, 4096), NEXT | WRITABLE, 2);
        guest.describe(0, 2, (header + 16, 1), WRITABLE, 0);
        guest.offer(0, 0);
    }),
    ("no byte for the status", |guest, header| {
        guest.describe(0, 0, (header, 16), 0, 0);
        guest.offer(0, 0);
    }),
    ("a header behind data", |guest, header| {
        guest.describe(0, 0, (guest.data_at(0, 0), 512), NEXT | WRITABLE, 1);
        guest.describe(0, 1, (header, 16), NEXT, 2);
        guest.describe(0, 2, (header + 16, 1), WRITABLE, 0);
        guest.offer(0, 0);
    }),
    ("a descriptor beyond the table", |guest, header| {
        guest.describe(0, 0, (header, 16), NEXT, 500);
        guest.offer(0, 0);
    }),
    ("a head beyond the table", |guest, _| guest.offer(0, 4000)),
    ("more requests than the ring has", |guest, _| guest.claim(0, 5000)),
    ("a table in a table", |guest, header| {
        let table = guest.data_at(0, 1);
        guest.describe(0, 0, (table, 32), INDIRECT, 0);
        guest.descriptor(table, (table, 32), INDIRECT, 0);
        guest.descriptor(table + 16, (header + 16, 1), WRITABLE, 0);
        guest.offer(0, 0);
    }),
    ("a table of more descriptors than a request may have", |guest, header| {
        let table = guest.data_at(0, 1);
        guest.describe(0, 0, (table, 60_000 * 16), INDIRECT, 0);
        guest.descriptor(table, (header, 16), NEXT, 1);
        for index in 1..60_000u16 {
            guest.descriptor(table + u64::from(index) * 16, (guest.data_at(0, 0), 1), NEXT | WRITABLE, index + 1);
        }
        guest.descriptor(table + 59_999 * 16, (header + 16, 1), WRITABLE, 0);
        guest.offer(0, 0);
    }),
];

#[test]
fn broken_ring_is_given_up_and_the_others_go_on() {
    let server = server();
    let mut staying = Guest::start(&server.disk(0), ONE_QUEUE);
    for (what, breakage) in BROKEN {
        let mut guest = Guest::start(&server.disk(0), Setup { queues: 2, ..ONE_QUEUE });
        let header = guest.header_at(0, 0);
        guest.write(u64::from(IN), header);
        guest.write(0u64, header + 8);
        breakage(&mut guest, header);
        guest.force_kick(0);
        assert!(guest.is_given_up(0), "{what}");
        assert_eq!(guest.read_sectors(1, 0, 512), [0; 512], "the other queue, after {what}");
        guest.request(0, 1, (IN, 0), &[], 512);
        guest.force_kick(0);
        assert_eq!(staying.read_sectors(0, 0, 512), [0; 512], "the other guest, after {what}");
        assert_eq!(guest.poll(0), None, "{what}");
        // A driver that starts over is served.
        let stopped = guest.frontend.get_vring_base(0).unwrap() as u16;
        assert!(stopped <= 2, "{what}");
    }
    server.end();
}

#[test]
fn request_in_any_cut_is_served() {
    let server = server();
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    guest.write_sectors(0, 0, &[9; 1024]);
    let (header, data, table) = (guest.header_at(0, 0), guest.data_at(0, 0), guest.data_at(0, 1));
    guest.write(u64::from(IN), header);
    guest.write(0u64, header + 8);
    guest.memory.write_slice(&[0; 1026], GuestAddress(data)).unwrap();
    // The header in three parts, one of them empty; the status behind the data, in one descriptor; all in a table.
    guest.descriptor(table, (header, 3), NEXT, 1);
    guest.descriptor(table + 16, (header + 3, 0), NEXT, 2);
    guest.descriptor(table + 32, (header + 3, 13), NEXT, 4);
    guest.descriptor(table + 64, (data, 1000), NEXT | WRITABLE, 3);
    guest.descriptor(table + 48, (data + 1000, 25), WRITABLE, 0);
    guest.write(0xffu8, data + 1024);
    guest.describe(0, 0, (table, 80), INDIRECT, 0);
    guest.offer(0, 0);
    guest.kick(0);
    assert_eq!(guest.wait(0), (0, 1025));
    assert_eq!(guest.data(0, 0, 1026), [&[9; 1024][..], &[OK, 0]].concat());
    // A header that is too short is an error of the request only.
    guest.describe(0, 0, (header, 15), NEXT, 1);
    guest.describe(0, 1, (header + 16, 1), WRITABLE, 0);
    guest.offer(0, 0);
    guest.kick(0);
    assert_eq!((guest.wait(0), guest.status(0, 0)), ((0, 1), IOERR));
    server.end();
}

#[test]
fn request_has_the_payload_that_nbd_permits() {
    let server = TestServer::start(described("fixed:service=0", "memory:64m"));
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    for (megabytes, status) in [(32, OK), (33, IOERR)] {
        guest.request(0, 0, (IN, 0), &[], 512);
        // All segments lie at one place; the chain ends in the slot's status.
        let data = (guest.data_at(0, 0), 1 << 20);
        guest.describe(0, 1, data, NEXT | WRITABLE, 64);
        for at in 64..62 + megabytes {
            guest.describe(0, at, data, NEXT | WRITABLE, at + 1);
        }
        guest.describe(0, 62 + megabytes, data, NEXT | WRITABLE, 2);
        guest.kick(0);
        guest.wait(0);
        assert_eq!(guest.status(0, 0), status, "{megabytes} MiB");
    }
    server.end();
}

#[test]
fn clients_beyond_the_limit_are_refused_until_one_goes() {
    let limits = Limits { devices: 2, ..Limits::default() };
    let server = TestServer::limited(described("fixed:service=0", "memory:1m"), limits);
    let mut first = Guest::start(&server.disk(0), ONE_QUEUE);
    let second = Guest::start(&server.disk(0), ONE_QUEUE);
    assert!(negotiate(&server.disk(0), ONE_QUEUE).is_err());
    drop(second);
    assert_eq!(first.read_sectors(0, 0, 512), [0; 512]);
    let mut third = Guest::start(&server.disk(0), ONE_QUEUE);
    assert_eq!(third.read_sectors(0, 0, 512), [0; 512]);
    server.end();
}

#[test]
fn client_that_has_gone_counts_while_the_drive_has_its_request() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let server = TestServer::limited(described("fixed:service=100s", "memory:1m"), limits);
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    guest.request(0, 0, (IN, 0), &[], 512);
    // The drive completes a flush at once, so that its answer says that the read has arrived.
    guest.request(0, 1, (FLUSH, 0), &[], 0);
    guest.kick(0);
    assert_eq!(guest.wait(0).0, 3);
    drop(guest);
    for _ in 0..30 {
        let refused = Client::connect(&server.socket(), "").err().expect("it is refused");
        assert!(refused.contains("the server has its 1 connections already"), "{refused}");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.end();
}
