//! vhost-user-blk devices against a guest of our own, which keeps to virtio, and against guests and clients that do not.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[path = "support/guest.rs"]
#[allow(dead_code, reason = "each test target uses its part")]
mod guest;
#[allow(dead_code, reason = "each test target uses its part")]
mod support;

use guest::{
    DISCARD, EVENT_INDEX, FLUSH, GET_ID, Guest, IN, IOERR, OK, ONE_QUEUE, OUT, PROTOCOL_FEATURES, Setup, UNSUPP,
    WRITE_ZEROES, negotiate,
};
use iocast_serve::Description;
use support::{TestServer, described, read_log};
use traces::{Nanos, Operation, Record, Timestamp};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserConfigFlags;
use vm_memory::{Bytes, GuestAddress};

const QUICK: &str = "fixed:service=0";
/// Longer than any test takes.
const STUCK: &str = "fixed:service=100s";

fn quick() -> TestServer {
    TestServer::start(described(QUICK, "memory:64m"))
}

/// Distinct bytes.
fn pattern(bytes: usize, seed: u32) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at / 509 + at + seed) as u8).collect()
}

/// A range to discard or zero.
fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

fn operations(records: &[Record]) -> Vec<(Operation, u64, u64)> {
    let of = |record: &Record| {
        let request = &record.request;
        (request.operation, request.lba.sector(), request.sectors().count())
    };
    records.iter().map(of).collect()
}

#[test]
fn features_and_configuration_follow_export_and_drive() {
    for (drive, discards) in [("cheetah-15k4", false), ("sata-ssd", true)] {
        let server = TestServer::start(described(drive, "memory:64m"));
        let (mut frontend, features) = negotiate(&server.disk(0), ONE_QUEUE).unwrap();
        for (bit, is_offered) in [
            (2, true),
            (6, true),
            (9, true),
            (12, true),
            (13, discards),
            (14, true),
            (28, true),
            (29, true),
            (32, true),
            (5, false),
        ] {
            assert_eq!(features & (1 << bit) != 0, is_offered, "{drive}: feature {bit}");
        }
        // As long as the newest drivers read it.
        let (_, config) = frontend.get_config(0, 96, VhostUserConfigFlags::empty(), &[0; 96]).unwrap();
        let word = |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().unwrap());
        assert_eq!(config[..8], (131_072u64).to_le_bytes(), "sectors");
        assert_eq!((word(12), word(20), config[34]), (126, 512, 16), "segments, block size, queues");
        assert_eq!((word(36), word(40), word(44)), if discards { (8_388_607, 1, 1) } else { (0, 0, 0) });
        assert_eq!((word(48), word(52), config[56]), (8_388_607, 1, 1));
        assert_eq!(frontend.get_queue_num().unwrap(), 16);
        server.end();
    }
}

#[test]
fn written_data_are_read_back_and_every_request_is_in_the_log() {
    let server = TestServer::start(described("sata-ssd", "memory:64m"));
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    let data = pattern(8192, 0);
    guest.write_sectors(0, 8, &data);
    assert!(guest.read_sectors(0, 8, 8192) == data);
    assert!(guest.read_sectors(0, 9, 512) == data[512..1024]);
    assert_eq!(guest.ask(0, (FLUSH, 0), &[], 0).0, OK);
    assert_eq!(guest.ask(0, (DISCARD, 0), &range(8, 2, 0), 0).0, OK);
    assert_eq!(guest.ask(0, (WRITE_ZEROES, 0), &range(20, 1, 0), 0).0, OK);
    assert_eq!(guest.ask(0, (WRITE_ZEROES, 0), &range(21, 1, 1), 0).0, OK);
    let mut expected = data;
    expected[..1024].fill(0);
    expected[6144..7168].fill(0);
    assert!(guest.read_sectors(0, 8, 8192) == expected);
    let log = server.log();
    let (report, _folder) = server.end();
    let (records, _) = read_log(&log);
    let [read, write, flush, discard] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
    let asked = [
        (write, 8, 16),
        (read, 8, 16),
        (read, 9, 1),
        (flush, 0, 0),
        (discard, 8, 2),
        (write, 20, 1),
        (discard, 21, 1),
        (read, 8, 16),
    ];
    assert_eq!(operations(&records), asked);
    assert!(records.iter().all(|record| record.observed.completed >= Some(record.request.arrival)));
    assert_eq!((report.vms[0].reads, report.vms[0].writes, report.failed), (3, 2, 0));
}

#[test]
fn a_drive_without_discards_offers_none_and_zeroes_by_writing() {
    let server = TestServer::start(described("cheetah-15k4", "memory:64m"));
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    guest.write_sectors(0, 0, &[7; 1024]);
    assert_eq!(guest.ask(0, (DISCARD, 0), &range(0, 1, 0), 0).0, UNSUPP);
    assert_eq!(guest.ask(0, (WRITE_ZEROES, 0), &range(0, 1, 1), 0).0, OK);
    assert!(guest.read_sectors(0, 0, 1024) == [[0; 512], [7; 512]].concat());
    let log = server.log();
    let (_, _folder) = server.end();
    let found: Vec<Operation> = read_log(&log).0.iter().map(|record| record.request.operation).collect();
    assert_eq!(found, [Operation::Write, Operation::Write, Operation::Read]);
}

#[test]
fn device_has_the_name_of_its_export() {
    let exports = ["mail@0:1m", "a-name-of-more-than-twenty-bytes@1m:1m"];
    let exports = exports.map(|export| export.parse().unwrap()).to_vec();
    let server = TestServer::start(Description { exports, ..described(QUICK, "memory:2m") });
    for (export, name) in [(0, &b"mail\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..]), (1, b"a-name-of-more-than-")] {
        let mut guest = Guest::start(&server.disk(export), ONE_QUEUE);
        assert_eq!(guest.ask(0, (GET_ID, 0), &[], 20), (OK, name.to_vec()));
        assert_eq!(guest.ask(0, (GET_ID, 0), &[], 19).0, IOERR);
        // The export ends where its slice ends.
        assert_eq!(guest.ask(0, (IN, 2047), &[], 512).0, OK);
        assert_eq!(guest.ask(0, (IN, 2047), &[], 1024).0, IOERR);
    }
    server.end();
    let server = quick();
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    assert_eq!(guest.ask(0, (GET_ID, 0), &[], 20).1[..6], *b"iocast");
    server.end();
}

#[test]
fn slices_are_apart_and_shared_with_clients_over_nbd() {
    let exports = ["mail@0:1m", "web@1m:1m"].map(|export| export.parse().unwrap()).to_vec();
    let server = TestServer::start(Description { exports, ..described(QUICK, "memory:2m") });
    let mut mail = Guest::start(&server.disk(0), ONE_QUEUE);
    let mut web = Guest::start(&server.disk(1), ONE_QUEUE);
    let mut other_mail = server.client("mail");
    mail.write_sectors(0, 0, &[1; 512]);
    web.write_sectors(0, 0, &[2; 512]);
    assert_eq!(mail.read_sectors(0, 0, 512), [1; 512]);
    assert_eq!(other_mail.read(0, 512), [1; 512]);
    other_mail.write(512, &[3; 512], 0);
    assert_eq!(mail.read_sectors(0, 1, 512), [3; 512]);
    assert_eq!(web.read_sectors(0, 0, 1024), [[2; 512], [0; 512]].concat());
    let log = server.log();
    let (report, _folder) = server.end();
    let vms: Vec<(&str, u64, u64)> = report.vms.iter().map(|vm| (vm.vm.as_str(), vm.reads, vm.writes)).collect();
    assert_eq!(vms, [("mail", 3, 2), ("web", 1, 1)]);
    let (records, meta) = read_log(&log);
    assert_eq!(meta.vms, ["mail", "web"]);
    // Three connections, numbered from their first requests on.
    let streams: Vec<u32> = records.iter().map(|record| record.request.stream.0).collect();
    assert_eq!(streams.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
}

#[test]
fn several_queues_with_many_requests_each_move_the_right_data() {
    for without in [0, EVENT_INDEX, PROTOCOL_FEATURES] {
        let server = TestServer::start(described("fixed:service=20us", "memory:64m"));
        let mut guest = Guest::start(&server.disk(0), Setup { queues: 4, entries: 64, slots: 16, without });
        for (code, round) in [(OUT, 0u32), (IN, 0), (OUT, 1), (IN, 1)] {
            for queue in 0..4 {
                for slot in 0..16 {
                    let number = queue as u32 * 16 + slot as u32;
                    let data = pattern(4096, number + 100 * round);
                    let out = if code == OUT { &data[..] } else { &[] };
                    guest.request(queue, slot, (code, u64::from(number) * 8), out, 4096);
                }
                guest.kick(queue);
            }
            for queue in 0..4 {
                for _ in 0..16 {
                    let (head, written) = guest.wait(queue);
                    let slot = u64::from(head / 3);
                    assert_eq!(guest.status(queue, slot), OK);
                    assert_eq!(written, if code == IN { 4097 } else { 1 });
                    let expected = pattern(4096, queue as u32 * 16 + slot as u32 + 100 * round);
                    assert!(guest.data(queue, slot, 4096) == expected, "queue {queue}, slot {slot}");
                }
            }
        }
        let (report, _folder) = server.end();
        assert_eq!((report.vms[0].reads, report.vms[0].writes), (128, 128));
    }
}

#[test]
fn answers_come_at_the_models_times_and_hold_nobody_up() {
    let server = TestServer::start(described("fixed:service=30ms", "memory:64m"));
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    let begun = std::time::Instant::now();
    for slot in 0..4 {
        guest.request(0, slot, (IN, slot * 8), &[], 4096);
    }
    guest.kick(0);
    for slot in 0..4 {
        assert_eq!(guest.wait(0).0, slot * 3, "the drive completes them in their order");
        assert!(begun.elapsed().as_millis() >= 30 * (u128::from(slot) + 1), "no answer is early");
    }
    let log = server.log();
    let (_, _folder) = server.end();
    let (records, _) = read_log(&log);
    // One after another, from the first's arrival on.
    let first = records[0].request.arrival;
    for (at, record) in records.iter().enumerate() {
        let due: Timestamp = first.saturating_add(Nanos::from_ms(30 * (at as u64 + 1)));
        assert_eq!(record.observed.completed, Some(due));
    }
}

#[test]
fn a_long_request_moves_in_pieces_between_two_guests_answers() {
    let server = quick();
    let mut long = Guest::start(&server.disk(0), Setup { slots: 17, ..ONE_QUEUE });
    let mut short = Guest::start(&server.disk(0), ONE_QUEUE);
    // Sixteen segments of 1 MiB; the requests use descriptors from 48 on, and the data areas from slot 0 on.
    let whole = pattern(16 << 20, 5);
    let part = |slot: u64| &whole[(slot as usize) << 20..][..1 << 20];
    for slot in 0..16u64 {
        long.memory.write_slice(part(slot), GuestAddress(long.data_at(0, slot))).unwrap();
    }
    for (code, flags) in [(OUT, 0), (IN, guest::WRITABLE)] {
        long.request(0, 16, (code, 0), &[], 0);
        // The chain of slot 16 goes by the sixteen areas in place of its own.
        for slot in 0..16u16 {
            let data = (long.data_at(0, slot.into()), 1 << 20);
            long.describe(0, 64 + slot, data, flags | guest::NEXT, if slot == 15 { 50 } else { 65 + slot });
        }
        let header = long.header_at(0, 16);
        long.describe(0, 48, (header, 16), guest::NEXT, 64);
        long.kick(0);
        short.write_sectors(0, 65_536, &[1; 512]);
        long.wait(0);
        assert_eq!(long.status(0, 16), OK);
        if code == OUT {
            for slot in 0..16 {
                long.memory.write_slice(&[0; 1 << 20], GuestAddress(long.data_at(0, slot))).unwrap();
            }
        }
    }
    for slot in 0..16u64 {
        assert!(long.data(0, slot, 1 << 20) == *part(slot), "MiB {slot}");
    }
    server.end();
}

#[test]
fn refused_requests_get_a_status_and_the_queue_goes_on() {
    let server = TestServer::start(described("sata-ssd", "memory:1m"));
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    for (request, out, in_bytes, expected) in [
        ((IN, 2048), vec![], 512, IOERR),
        ((IN, u64::MAX), vec![], 512, IOERR),
        ((IN, 1 << 55), vec![], 512, IOERR),
        ((IN, 0), vec![], 511, IOERR),
        ((OUT, 2047), vec![1; 1024], 0, IOERR),
        ((DISCARD, 0), range(0, 2049, 0), 0, IOERR),
        ((DISCARD, 0), range(u64::MAX, 1, 0), 0, IOERR),
        ((DISCARD, 0), range(0, 1, 1), 0, UNSUPP),
        ((DISCARD, 0), vec![0; 15], 0, IOERR),
        ((WRITE_ZEROES, 0), range(0, 1, 2), 0, UNSUPP),
        ((WRITE_ZEROES, 0), range(0, u32::MAX, 0), 0, IOERR),
        ((WRITE_ZEROES, 0), [range(0, 1, 0), range(1, 1, 0)].concat(), 0, IOERR),
        ((2, 0), vec![], 0, UNSUPP),
        ((u32::MAX, 0), vec![], 0, UNSUPP),
        ((IN, 0), vec![], 0, OK),
        ((OUT, 0), vec![], 0, OK),
        ((DISCARD, 0), range(2048, 0, 0), 0, OK),
    ] {
        let (status, data) = guest.ask(0, request, &out, in_bytes);
        assert!(status == expected && data.is_empty(), "{request:?} of {out:?} {in_bytes}: {status}");
    }
    assert_eq!(guest.read_sectors(0, 2047, 512), [0; 512]);
    let (report, _folder) = server.end();
    assert_eq!(report.lateness.count, 1, "the drive sees valid ones only");
}

#[test]
fn requests_beyond_the_limit_wait_in_the_ring() {
    let limits = iocast_serve::Limits { requests: 4, ..iocast_serve::Limits::default() };
    let server = TestServer::limited(described("fixed:service=10ms", "memory:1m"), limits);
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    for slot in 0..12 {
        guest.request(0, slot, (IN, slot), &[], 512);
    }
    guest.kick(0);
    for _ in 0..12 {
        guest.wait(0);
    }
    let log = server.log();
    let (_, _folder) = server.end();
    let (records, _) = read_log(&log);
    let waiting = |at: usize| {
        let arrival = records[at].request.arrival;
        records[..at].iter().filter(|before| before.observed.completed > Some(arrival)).count()
    };
    let most = (0..12).map(waiting).max();
    assert_eq!(most, Some(3), "besides each there are three at most");
}

#[test]
fn stopped_queue_is_at_rest_and_goes_on_where_it_was() {
    let server = TestServer::start(described("fixed:service=20ms", "memory:1m"));
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    for slot in 0..3 {
        guest.request(0, slot, (IN, slot), &[], 512);
    }
    guest.kick(0);
    guest.wait(0);
    // The answer to the stop comes after the answers to the requests.
    assert_eq!(guest.frontend.get_vring_base(0).unwrap(), 3);
    assert!(guest.poll(0).is_some() && guest.poll(0).is_some() && guest.poll(0).is_none());
    guest.request(0, 0, (IN, 0), &[], 512);
    guest.force_kick(0);
    guest.start_queue(0, 3);
    guest.force_kick(0);
    assert_eq!((guest.wait(0).0, guest.status(0, 0)), (0, OK));
    let (report, _folder) = server.end();
    assert_eq!(report.vms[0].reads, 4);
}

#[test]
fn disabled_queue_is_not_served() {
    let server = quick();
    let mut guest = Guest::start(&server.disk(0), Setup { queues: 2, ..ONE_QUEUE });
    guest.frontend.set_vring_enable(0, false).unwrap();
    guest.request(0, 0, (IN, 0), &[], 512);
    guest.force_kick(0);
    assert_eq!(guest.read_sectors(1, 0, 512), [0; 512]);
    assert_eq!(guest.poll(0), None);
    guest.frontend.set_vring_enable(0, true).unwrap();
    guest.force_kick(0);
    assert_eq!(guest.wait(0).0, 0);
    server.end();
}

#[test]
fn killed_guest_costs_nobody_else_anything() {
    let server = TestServer::start(described("fixed:service=2ms", "memory:64m"));
    let mut staying = Guest::start(&server.disk(0), ONE_QUEUE);
    let mut over_nbd = server.client("");
    for _ in 0..5 {
        let mut leaving = Guest::start(&server.disk(0), ONE_QUEUE);
        for slot in 0..20 {
            leaving.request(0, slot, (OUT, 1024 + slot * 2048), &[5; 1 << 20], 0);
        }
        leaving.kick(0);
        leaving.wait(0);
        drop(leaving);
        staying.write_sectors(0, 0, &[1; 512]);
        assert_eq!(staying.read_sectors(0, 0, 512), [1; 512]);
        assert_eq!(over_nbd.read(0, 512), [1; 512]);
    }
    let log = server.log();
    let (report, _folder) = server.end();
    // What had arrived still occupied the drive.
    assert_eq!(report.vms[0].writes, 5 * 21);
    assert_eq!(read_log(&log).0.len(), 5 * 21 + 10);
}

#[test]
fn requests_without_an_answer_stay_in_the_ring_for_the_next_server() {
    let server = TestServer::start(described(STUCK, "memory:1m"));
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    // A drive without a volatile cache completes flushes at once.
    assert_eq!(guest.ask(0, (FLUSH, 0), &[], 0).0, OK);
    guest.request(0, 1, (IN, 0), &[], 512);
    guest.kick(0);
    let (report, _folder) = server.end();
    assert_eq!(report.lateness.count, 0);
    assert_eq!(guest.poll(0), None);
    assert!(guest.frontend.get_vring_base(0).is_err(), "the connection has ended");
    let next = quick();
    guest.reconnect(&next.disk(0), ONE_QUEUE);
    assert_eq!((guest.wait(0).0, guest.status(0, 1)), (3, OK));
    assert_eq!(guest.read_sectors(0, 0, 512), [0; 512]);
    next.end();
}
