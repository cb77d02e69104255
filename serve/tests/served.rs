//! A served drive: data, times, exports, the log.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[path = "support/guest.rs"]
#[allow(dead_code, reason = "each test target uses its part")]
mod guest;
#[allow(dead_code, reason = "each test target uses its part")]
mod support;

use std::thread;
use std::time::{Duration, Instant};

use drive_models::throttle::ThrottleScale;
use guest::{Guest, ONE_QUEUE};
use iocast_serve::log::Log;
use iocast_serve::log::recovery::recover;
use iocast_serve::{Description, ImagePlacement, ServedDrive, VmBy, check};
use support::{Client, EINVAL, FLUSH, FUA, NO_HOLE, READ, TRIM, TestServer, ZERO, read_log};
use traces::{Flags, Layer, Lba, Operation, Record, TraceMeta};

/// A drive that takes 3 ms for every request and supports flushes and discards.
const FLAT: &str = "fixed:service=3ms";

fn described(drive: &str) -> Description {
    support::described(drive, "memory:32m")
}

fn refusal(description: Description) -> String {
    check(description).err().expect("it is refused").to_string()
}

#[test]
fn written_data_are_read_back_and_no_reply_is_early() {
    let server = TestServer::start(described(FLAT));
    let mut client = server.client("");
    let begin = Instant::now();
    client.write(1000, b"seven bytes", 0);
    assert_eq!(client.read(996, 20), b"\0\0\0\0seven bytes\0\0\0\0\0");
    assert!(begin.elapsed() >= Duration::from_millis(6), "two requests of 3 ms each");
    let (report, _folder) = server.end();
    assert_eq!(report.lateness.count, 2);
    let BytesMoved { read_bytes, written_bytes } = moved(&report);
    assert_eq!((read_bytes, written_bytes), (512, 512), "partial sectors count as whole sectors");
}

#[test]
fn a_drive_k_times_slower_takes_k_times_as_long_and_its_log_has_the_hosts_times() {
    for (k, expected) in [(4_000_000, 12), (500_000, 1)] {
        let server =
            TestServer::start(Description { k: ThrottleScale::from_millionths(k), ..described("fixed:service=3ms") });
        let mut client = server.client("");
        let (zero, begin) = (monotonic_ns(), Instant::now());
        client.read(0, 4096);
        let took = begin.elapsed();
        client.read(4096, 4096);
        assert!(took >= Duration::from_millis(expected), "{took:?}");
        let log = server.log();
        let (report, _folder) = server.end();
        let service = 3 * k;
        assert_eq!((report.options["k"].as_str(), report.lateness.count), (if k > 1_000_000 { "4" } else { "0.5" }, 2));
        let (records, meta) = read_log(&log);
        assert_eq!(meta.provenance["option.k"], report.options["k"]);
        for record in &records {
            // The model's times to the nanosecond, k times as long; on the host's clock.
            let [issued, completed] = [record.observed.issued, record.observed.completed].map(Option::unwrap);
            assert!(completed.since(issued).as_ns().abs_diff(service) <= k.div_ceil(1_000_000), "{record:?}");
            assert!(record.request.arrival.as_ns() > zero && completed.as_ns() < monotonic_ns(), "{record:?}");
        }
        assert!(report.response_time.moments.mean_ns.unwrap() >= service as f64 - 1.0);
        assert!(report.span_ns.as_ns() >= 2 * service);
    }
}

fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct BytesMoved {
    read_bytes: u64,
    written_bytes: u64,
}

fn moved(report: &traces::results::serving::Serving) -> BytesMoved {
    let vm = &report.vms[0];
    BytesMoved { read_bytes: vm.read_bytes, written_bytes: vm.written_bytes }
}

#[test]
fn exports_have_separate_data_and_refuse_access_beyond_their_end() {
    let description = Description {
        exports: vec!["mail@0:1m".parse().unwrap(), "web@2m:1m".parse().unwrap()],
        ..described("fixed:service=10us")
    };
    let server = TestServer::start(description);
    let (mut mail, mut web) = (server.client("mail"), server.client("web"));
    assert_eq!(web.size, 1 << 20);
    mail.write(0, &[1; 512], 0);
    web.write(0, &[2; 512], 0);
    assert_eq!(mail.read(0, 512), [1; 512]);
    assert_eq!(web.read(0, 512), [2; 512]);
    for offset in [(1 << 20) - 511, u64::MAX] {
        assert_eq!(mail.fail(READ, 0, offset, 512, &[]), EINVAL, "beyond the end of the export");
    }
    let refused = |name| Client::connect(&server.socket(), name).err().expect("it is refused");
    assert_eq!(refused("db"), "0x80000006: there is no export `db`; there are `mail`, `web`");
    assert!(refused("").contains("there is no export ``"), "the empty name is ambiguous");
    server.end();
}

#[test]
fn zeros_and_discards_read_as_zeros() {
    let server = TestServer::start(described("sata-ssd"));
    let mut client = server.client("");
    client.write(0, &[7; 16384], 0);
    client.ask(ZERO, FUA | NO_HOLE, 1000, 3000, &[]);
    client.ask(TRIM, 0, 8192, 4096, &[]);
    client.ask(ZERO, 0, 12288, 512, &[]);
    for (index, byte) in client.read(0, 16384).into_iter().enumerate() {
        let zero = (1000..4000).contains(&index) || (8192..12800).contains(&index);
        assert_eq!(byte, if zero { 0 } else { 7 }, "byte {index}");
    }
    let (report, _folder) = server.end();
    let vm = &report.vms[0];
    assert_eq!((vm.reads, vm.writes, vm.discards), (1, 2, 2));
}

#[test]
fn log_has_every_request_in_arrival_order_with_the_drives_times() {
    let description = Description {
        exports: vec!["mail@0:8m".parse().unwrap(), "web@16m:8m".parse().unwrap()],
        placement: ImagePlacement::At(Lba::new(5000)),
        ..described("cheetah-15k4-mechanical:queue_depth=8")
    };
    let server = TestServer::start(description);
    thread::scope(|scope| {
        for name in ["mail", "web", "mail"] {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client(name);
                for number in 0..20u64 {
                    let offset = number * 7919 * 512 % (8 << 20);
                    client.write(offset, &[1; 512], if number == 3 { FUA } else { 0 });
                }
                client.ask(FLUSH, 0, 0, 0, &[]);
            });
        }
    });
    let path = server.log();
    let (report, folder) = server.end();
    assert_eq!((report.logged, report.log_error), (Some(63), None));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the log and the socket: {left:?}");
    let (records, meta) = read_log(&path);
    assert_eq!(records.len(), 63);
    assert_eq!(meta.vms, ["mail", "web"]);
    assert_eq!(meta.layer, traces::Layer::Wire);
    assert_eq!(meta.provenance["place_sectors.web"], (5000 + (16 << 11)).to_string());
    assert!(meta.provenance.contains_key("lateness_p99_ns"));
    assert!(records.is_sorted_by_key(|record| record.request.arrival));
    for vm in [0, 1] {
        let of_vm = records.iter().filter(|record| record.request.vm.0 == vm);
        assert_eq!(of_vm.clone().count(), if vm == 0 { 42 } else { 21 });
        let begin = 5000 + u64::from(vm) * (16 << 11);
        assert!(
            of_vm
                .clone()
                .filter(|record| record.request.operation == Operation::Write)
                .all(|record| { (begin..begin + (8 << 11)).contains(&record.request.lba.sector()) })
        );
        let fua = of_vm.filter(|record| record.request.flags.contains(Flags::FUA)).count();
        assert_eq!(fua, if vm == 0 { 2 } else { 1 });
    }
    let is_flush = |record: &&Record| record.request.operation == Operation::Flush;
    assert!(records.iter().filter(is_flush).all(|flush| flush.response_time() == Some(traces::Nanos::ZERO)));
    assert!(records.iter().all(|record| record.observed.issued >= Some(record.request.arrival)));
    let streams: std::collections::BTreeSet<u32> = records.iter().map(|record| record.request.stream.0).collect();
    assert_eq!(streams.len(), 3, "a stream for each connection");
}

#[test]
fn each_connection_can_be_a_vm_of_the_log() {
    let description = Description { vm_by: VmBy::Connection, ..described("fixed:service=10us") };
    let server = TestServer::start(description);
    for _ in 0..3 {
        server.client("").write(0, &[1; 512], 0);
    }
    let path = server.log();
    let (_, _folder) = server.end();
    let (records, meta) = read_log(&path);
    assert_eq!(meta.vms, ["connection-0", "connection-1", "connection-2"]);
    assert_eq!(records.iter().map(|record| record.request.vm.0).collect::<Vec<u16>>(), [0, 1, 2]);
}

/// What a killed server leaves is what its files hold at the time of the kill.
#[test]
fn log_of_a_killed_server_recovers_to_all_requests_that_were_answered() {
    let left = tempfile::tempdir().unwrap();
    let keep = |server: &TestServer| {
        for entry in std::fs::read_dir(server.folder.path()).unwrap().map(Result::unwrap) {
            if entry.file_name() != "socket" {
                std::fs::copy(entry.path(), left.path().join(entry.file_name())).unwrap();
            }
        }
    };
    let server = TestServer::start(Description {
        vm_by: VmBy::Connection,
        ..described("fixed:service=1us,write_cache=volatile")
    });
    let (mut one, mut two) = (server.client(""), server.client(""));
    for number in 0..100 {
        one.write(number * 512, &[1; 512], FUA);
        two.read(number * 512, 512);
    }
    keep(&server);
    let log = left.path().join("log.parquet");
    assert_eq!(recover(&log).unwrap(), Some(300));
    assert_eq!(recover(&log).unwrap(), None, "there is no tail any more");
    let path = server.log();
    // The files of a server that runs are left alone.
    assert!(recover(&path).unwrap_err().to_string().contains("is being written by a running server"));
    let Err(second) = Log::begin(&path, TraceMeta::new("parquet", Layer::Wire, "monotonic")) else {
        panic!("two servers write one log");
    };
    assert!(second.to_string().contains("another server is writing this log"), "{second}");
    let (report, _folder) = server.end();
    assert_eq!(report.logged, Some(300));
    let ((recovered, after), (whole, meta)) = (read_log(&log), read_log(&path));
    assert!(recovered == whole);
    assert_eq!((&after.vms, &after.streams), (&meta.vms, &meta.streams));
    assert_eq!(after.provenance["drive"], "fixed:service=1us,write_cache=volatile");
}

/// A killed recovery leaves the old log with its tail, or the new one with a tail that it does not need any more.
#[test]
fn recovery_that_is_killed_can_be_repeated() {
    let server = TestServer::start(described("fixed:service=1us"));
    let mut client = server.client("");
    (0..10).for_each(|number| _ = client.read(number * 512, 512));
    let left = tempfile::tempdir().unwrap();
    let (log, tail) = (left.path().join("log.parquet"), left.path().join("log.parquet.tail-0"));
    std::fs::copy(server.log(), &log).unwrap();
    // The third request was outstanding: the records behind it have numbers above their count.
    let mut records = std::fs::read(server.folder.path().join("log.parquet.tail-0")).unwrap();
    records.drain(2 * 64..3 * 64);
    std::fs::write(&tail, &records).unwrap();
    assert_eq!(recover(&log).unwrap(), Some(9));
    let recovered = std::fs::read(&log).unwrap();
    std::fs::write(&tail, &records).unwrap();
    assert_eq!(recover(&log).unwrap(), None);
    assert!(!tail.exists() && std::fs::read(&log).unwrap() == recovered);
    server.end();
}

/// As over NBD: a guest has an answer only to what is in the files.
#[test]
fn log_of_a_killed_server_has_what_guests_got_answers_to() {
    let left = tempfile::tempdir().unwrap();
    let server = TestServer::start(described("fixed:service=1us"));
    let mut guest = Guest::start(&server.disk(0), ONE_QUEUE);
    for sector in 0..100 {
        guest.write_sectors(0, sector, &[1; 512]);
    }
    for entry in std::fs::read_dir(server.folder.path()).unwrap().map(Result::unwrap) {
        if entry.file_name() != "socket" {
            std::fs::copy(entry.path(), left.path().join(entry.file_name())).unwrap();
        }
    }
    assert_eq!(recover(&left.path().join("log.parquet")).unwrap(), Some(100));
    server.end();
}

#[test]
fn flush_of_a_volatile_cache_is_served_by_the_drive() {
    for (cache, served) in [("write_cache=back", 4), ("write_cache=through", 3)] {
        let server = TestServer::start(described(&format!("cheetah-15k4-mechanical:{cache}")));
        let mut client = server.client("");
        for place in [0u64, 3, 1] {
            client.write(place << 22, &[1; 512], 0);
        }
        client.ask(FLUSH, 0, 0, 0, &[]);
        let (report, _folder) = server.end();
        assert_eq!((report.response_time.count, report.vms[0].flushes), (served, 1), "{cache}");
    }
}

/// Many concurrent clients, on drives that complete out of order: no reply is early, and every request is answered.
#[test]
fn every_request_of_many_clients_is_answered_and_none_early() {
    for (drive, depth) in [
        ("sata-ssd", None),
        ("cheetah-15k4:queue_depth=16,queue_order=look", Some(40)),
        ("fixed:service=50us", Some(2)),
    ] {
        let description = Description {
            depth,
            scheduler: "deadline".parse().unwrap(),
            placement: ImagePlacement::Spread,
            ..described(drive)
        };
        let server = TestServer::start(description);
        thread::scope(|scope| {
            for number in 0..24u64 {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.client("");
                    for turn in 0..10u64 {
                        client.read((number * 7919 + turn * 104_729) * 512 % (32 << 20), 512);
                    }
                });
            }
        });
        let (report, _folder) = server.end();
        // An early reply would panic with "time went backwards".
        assert_eq!((report.lateness.count, report.failed), (240, 0), "{drive}");
    }
}

#[test]
fn invalid_descriptions_are_refused_with_a_reason() {
    let exports = |texts: [&str; 2]| Description {
        exports: texts.iter().map(|text| text.parse().unwrap()).collect(),
        ..described(FLAT)
    };
    for (description, expected) in [
        (described("cheetah-15k44"), "did you mean cheetah-15k4"),
        (described("cheetah-15k4:cache=maybe"), "cache"),
        (Description { scheduler: "dedline".parse().unwrap(), ..described(FLAT) }, "did you mean deadline"),
        (described("linear:capacity=1m"), "does not fit linear of 1048576 bytes"),
        (
            Description { placement: ImagePlacement::At(Lba::new(1 << 40)), ..described("linear") },
            "from byte 562949953421312",
        ),
        (exports(["a@0:1m", "a@8m:1m"]), "exports a and a have the same name"),
        (exports(["a@0:1m", "b@1023k:1m"]), "exports a and b share a part of the image"),
        (exports(["a@0:1m", "b@31m:2m"]), "export b ends at byte 34603008, but the image ends at byte 33554432"),
        (Description { log: Some("x.txt".into()), ..described(FLAT) }, "a log ends in .parquet"),
    ] {
        let error = refusal(description);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn unwritable_log_is_refused_at_the_start() {
    let description = Description { log: Some("/no/such/folder/log.parquet".into()), ..described(FLAT) };
    let error = ServedDrive::begin(check(description).unwrap()).err().expect("it is refused").to_string();
    assert!(error.contains("/no/such/folder/log.parquet"), "{error}");
}
