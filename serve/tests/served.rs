//! A served drive without nbdkit: data, times, exports, the log.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serve::served::Zeroing;
use serve::{Description, ImagePlacement, ImageSource, ServedDrive, VmBy, check};
use traces::trace::ReadOptions;
use traces::{Flags, Lba, Operation, Record, Sectors, TraceMeta, formats};

/// A drive that takes 3 ms for every request and supports flushes and discards.
const FLAT: &str = "fixed:service=3ms";

fn described(drive: &str) -> Description {
    Description::new(drive.parse().unwrap(), ImageSource::Memory(Sectors::new(1 << 16)))
}

fn begun(description: Description) -> ServedDrive {
    let drive = ServedDrive::begin(check(description).unwrap());
    drive.open_log().unwrap();
    drive
}

fn refusal(description: Description) -> String {
    check(description).err().expect("it is refused").to_string()
}

fn read_log(path: &Path) -> (Vec<Record>, TraceMeta) {
    let mut reader = formats::open(path, &ReadOptions::default()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(record);
    }
    (records, reader.meta().clone())
}

#[test]
fn written_data_are_read_back_and_no_reply_is_early() {
    let drive = begun(described(FLAT));
    let connection = drive.connect("").unwrap();
    let begin = Instant::now();
    drive.write(&connection, b"seven bytes", 1000, false).unwrap();
    let mut bytes = [1; 20];
    drive.read(&connection, &mut bytes, 996).unwrap();
    assert_eq!(&bytes, b"\0\0\0\0seven bytes\0\0\0\0\0");
    assert!(begin.elapsed() >= Duration::from_millis(6), "two requests of 3 ms each");
    let report = drive.report();
    assert_eq!(report.lateness.count, 2);
    let BytesMoved { read_bytes, written_bytes } = moved(&report);
    assert_eq!((read_bytes, written_bytes), (512, 512), "partial sectors count as whole sectors");
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
    let drive = begun(description);
    let (mail, web) = (drive.connect("mail").unwrap(), drive.connect("web").unwrap());
    assert_eq!(drive.length(&web), Sectors::new(2048));
    drive.write(&mail, &[1; 512], 0, false).unwrap();
    drive.write(&web, &[2; 512], 0, false).unwrap();
    let mut bytes = [0; 512];
    drive.read(&mail, &mut bytes, 0).unwrap();
    assert_eq!(bytes, [1; 512]);
    assert!(drive.read(&mail, &mut bytes, (1 << 20) - 511).is_err(), "beyond the end of the export");
    assert!(drive.read(&mail, &mut bytes, u64::MAX).is_err());
    let Err(error) = drive.connect("db") else { panic!("there is no such export") };
    assert_eq!(error.to_string(), "there is no export `db`; there are `mail`, `web`");
    assert!(drive.connect("").is_err(), "the empty name is ambiguous");
}

#[test]
fn zeros_and_discards_read_as_zeros() {
    let drive = begun(described("sata-ssd"));
    assert!(drive.discards());
    let connection = drive.connect("").unwrap();
    drive.write(&connection, &[7; 16384], 0, false).unwrap();
    drive.zero(&connection, 1000, 3000, Zeroing { may_discard: false, fua: true }).unwrap();
    drive.discard(&connection, 8192, 4096).unwrap();
    drive.zero(&connection, 12288, 512, Zeroing { may_discard: true, fua: false }).unwrap();
    let mut bytes = vec![0; 16384];
    drive.read(&connection, &mut bytes, 0).unwrap();
    for (index, byte) in bytes.into_iter().enumerate() {
        let zero = (1000..4000).contains(&index) || (8192..12800).contains(&index);
        assert_eq!(byte, if zero { 0 } else { 7 }, "byte {index}");
    }
    let vm = &drive.report().vms[0];
    assert_eq!((vm.reads, vm.writes, vm.discards), (1, 2, 2));
}

#[test]
fn log_has_every_request_in_arrival_order_with_the_drives_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.parquet");
    let description = Description {
        exports: vec!["mail@0:8m".parse().unwrap(), "web@16m:8m".parse().unwrap()],
        placement: ImagePlacement::At(Lba::new(5000)),
        log: Some(path.clone()),
        ..described("cheetah-15k4-mechanical:queue_depth=8")
    };
    let drive = begun(description);
    thread::scope(|scope| {
        for name in ["mail", "web", "mail"] {
            let drive = &drive;
            scope.spawn(move || {
                let connection = drive.connect(name).unwrap();
                for number in 0..20u64 {
                    let offset = number * 7919 * 512 % (8 << 20);
                    drive.write(&connection, &[1; 512], offset, number == 3).unwrap();
                }
                drive.flush(&connection).unwrap();
            });
        }
    });
    assert!(!path.exists(), "it takes its name when it is complete");
    let report = drive.finish();
    assert_eq!((report.logged, report.log_error), (Some(63), None));
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.parquet");
    let description =
        Description { vm_by: VmBy::Connection, log: Some(path.clone()), ..described("fixed:service=10us") };
    let drive = begun(description);
    for _ in 0..3 {
        let connection = drive.connect("").unwrap();
        drive.write(&connection, &[1; 512], 0, false).unwrap();
    }
    drive.finish();
    let (records, meta) = read_log(&path);
    assert_eq!(meta.vms, ["connection-0", "connection-1", "connection-2"]);
    assert_eq!(records.iter().map(|record| record.request.vm.0).collect::<Vec<u16>>(), [0, 1, 2]);
}

#[test]
fn flush_of_a_volatile_cache_is_served_by_the_drive() {
    let drive = begun(described("cheetah-15k4-mechanical:write_cache=back"));
    let connection = drive.connect("").unwrap();
    for place in [0u64, 3, 1] {
        drive.write(&connection, &[1; 512], place << 22, false).unwrap();
    }
    let before = drive.report().response_time.count;
    drive.flush(&connection).unwrap();
    let after = drive.report();
    assert_eq!(after.response_time.count, before + 1, "the drive has served it");
    assert_eq!(after.vms[0].flushes, 1);
}

/// Many concurrent clients, on drives that complete out of order: no reply is early, and every request is answered.
#[test]
fn every_request_of_many_clients_is_answered_and_none_early() {
    for (drive, depth) in
        [("sata-ssd", u32::MAX), ("cheetah-15k4:queue_depth=16,queue_order=look", 40), ("fixed:service=50us", 2)]
    {
        let description = Description {
            depth,
            scheduler: "deadline".parse().unwrap(),
            placement: ImagePlacement::Spread,
            ..described(drive)
        };
        let served = begun(description);
        thread::scope(|scope| {
            for client in 0..24u64 {
                let served = &served;
                scope.spawn(move || {
                    let connection = served.connect("").unwrap();
                    let mut bytes = [0; 512];
                    for number in 0..10u64 {
                        let offset = (client * 7919 + number * 104_729) * 512 % (32 << 20);
                        served.read(&connection, &mut bytes, offset).unwrap();
                    }
                });
            }
        });
        let report = served.report();
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
    let drive = ServedDrive::begin(check(description).unwrap());
    let error = drive.open_log().unwrap_err().to_string();
    assert!(error.contains("/no/such/folder/log.parquet"), "{error}");
}
