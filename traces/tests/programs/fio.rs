//! fio replays what we write, as its debug output says request by request and its JSON in totals,
//! and we read what it logs.

use std::collections::BTreeMap;
use std::path::Path;

use iocast_traces::trace::{AddressSpace, ReadOptions, WriteOptions};
use iocast_traces::{Operation, Record, VmId};
use serde_json::Value;

use crate::support::{Whole, read_as};
use crate::{make_disk, mixed, run, write, write_with};

const OPERATIONS: [&str; 3] = ["read", "write", "trim"];

/// Runs one job and gives its figures.
fn job(folder: &Path, arguments: &[&str]) -> Value {
    run(folder, "fio", &[arguments, &["--name=job", "--output-format=json", "--output=totals.json"]].concat());
    let totals: Value = serde_json::from_slice(&std::fs::read(folder.join("totals.json")).unwrap()).unwrap();
    totals["jobs"][0].clone()
}

/// Requests and bytes per direction, and syncs, as fio counts them.
fn totals(job: &Value) -> BTreeMap<&'static str, (u64, u64)> {
    let of = |name: &str, figure: &str| job[name][figure].as_u64().unwrap_or(0);
    let mut totals: BTreeMap<_, _> =
        OPERATIONS.into_iter().map(|name| (name, (of(name, "total_ios"), of(name, "io_bytes")))).collect();
    totals.insert("sync", (of("sync", "total_ios"), 0));
    totals
}

/// The same of records.
fn counted(records: &[Record]) -> BTreeMap<&'static str, (u64, u64)> {
    let mut totals: BTreeMap<_, _> = OPERATIONS.into_iter().chain(["sync"]).map(|name| (name, (0, 0))).collect();
    for record in records {
        let name = ["read", "write", "sync", "trim"][record.request.operation as usize];
        let (requests, bytes) = totals.get_mut(name).unwrap();
        *requests += 1;
        *bytes += record.request.sectors().bytes();
    }
    totals
}

/// A request as fio's debug output has it: file, direction (0 read, 1 write, 2 trim, 3 sync),
/// offset and length.
type Seen = (String, u64, u64, u64);

/// The requests that fio prepares, in order.
fn seen(printed: &str) -> Vec<Seen> {
    let lines = printed.lines().filter_map(|line| line.split_once("prep: io_u ").map(|(_, rest)| rest));
    lines
        .map(|line| {
            let field = |name: &str| {
                let from = line.find(name).unwrap() + name.len();
                line[from..].split(',').next().unwrap().to_owned()
            };
            let hexadecimal = |name| u64::from_str_radix(field(name).trim_start_matches("0x"), 16).unwrap();
            (field("file="), field("ddir=").parse().unwrap(), hexadecimal("off="), hexadecimal(",len="))
        })
        .collect()
}

fn expected(records: &[Record]) -> Vec<Seen> {
    let one = |record: &Record| {
        let request = &record.request;
        let direction = [0, 1, 3, 2][request.operation as usize];
        ("disk".to_owned(), direction, request.lba.sector() * 512, request.sectors().bytes())
    };
    records.iter().map(one).collect()
}

const REPLAY: [&str; 3] = ["--read_iolog=trace.iolog", "--ioengine=null", "--replay_no_stall=1"];

/// The output of fio while it replays.
fn replay(folder: &Path) -> String {
    make_disk(&folder.join("disk"));
    let output = run(folder, "fio", &[&REPLAY[..], &["--debug=io", "--name=job"]].concat());
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn fio_replays_the_requests_that_we_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = mixed(0, &[Operation::Read, Operation::Write, Operation::Flush, Operation::Write]);
    // fio ends with the last byte, before a sync behind it.
    while records.last().unwrap().request.operation == Operation::Flush {
        records.pop();
    }
    write("fio-iolog", &folder.path().join("trace.iolog"), &records);
    assert_eq!(seen(&replay(folder.path())), expected(&records));
    assert_eq!(totals(&job(folder.path(), &REPLAY)), counted(&records));
}

#[test]
fn fio_replays_each_device_onto_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = mixed(0, &[Operation::Read, Operation::Write]);
    for (at, record) in records.iter_mut().enumerate() {
        record.request.vm = VmId(if at < 100 { 0 } else { (at % 3) as u16 });
    }
    let options = WriteOptions { address_space: AddressSpace::PerVm, ..WriteOptions::default() };
    write_with("fio-iolog", &folder.path().join("trace.iolog"), &records, &options);
    for file in ["vm0", "vm1", "vm2"] {
        make_disk(&folder.path().join(file));
    }
    let mut onto_files = expected(&records);
    for (request, record) in onto_files.iter_mut().zip(&records) {
        request.0 = format!("vm{}", record.request.vm.0);
    }
    assert_eq!(seen(&replay(folder.path())), onto_files);
}

/// fio 3.33 says of every trim that it is no direction it replays, and goes on; later ones replay them.
#[test]
fn discards_are_trims_which_old_versions_skip_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let records = mixed(0, &[Operation::Read, Operation::Discard]);
    write("fio-iolog", &folder.path().join("trace.iolog"), &records);
    let printed = replay(folder.path());
    let (all, seen) = (expected(&records), seen(&printed));
    let without: Vec<Seen> = all.iter().filter(|request| request.1 != 2).cloned().collect();
    let refused = printed.matches("bad ddir: 2").count();
    assert!((seen == all && refused == 0) || (seen == without && refused == all.len() - without.len()), "{printed}");
}

/// The gap behind the very first request too, which fio forgets if that is at zero.
#[test]
fn fio_waits_as_long_as_the_trace_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = mixed(0, &[Operation::Read]);
    records.truncate(2);
    records[1].request.arrival = iocast_traces::Timestamp::from_ns(400_000_000);
    write("fio-iolog", &folder.path().join("trace.iolog"), &records);
    make_disk(&folder.path().join("disk"));
    let job = job(folder.path(), &["--read_iolog=trace.iolog", "--ioengine=null"]);
    let ms = job["job_runtime"].as_u64().unwrap();
    assert!((390..5_000).contains(&ms), "{ms} ms");
}

fn read(folder: &Path, format: &str, name: &str) -> Whole {
    let path = folder.join(name);
    assert_eq!(iocast_traces::formats::recognise(&path, &ReadOptions::default()).unwrap().name, format);
    let whole = read_as(format, &path, &ReadOptions::default()).unwrap();
    assert_eq!(whole.losses.total(), 0, "{name}");
    whole
}

#[test]
fn we_read_in_fios_log_what_fio_did() {
    let folder = tempfile::tempdir().unwrap();
    // At a depth fio's null engine has each request logged twice.
    let load = ["--ioengine=null", "--filename=a:b", "--size=1m", "--iodepth=1", "--write_iolog=fio.iolog"];
    let mixed: &[&str] = &["--rw=randrw", "--bsrange=512-64k", "--fsync=5"];
    let trims: &[&str] = &["--rw=randtrim", "--bs=4k"];
    let durable: &[&str] = &["--rw=write", "--bs=4k", "--fdatasync=7"];
    for (further, files) in [(mixed, 2), (trims, 2), (durable, 2)] {
        let _ = std::fs::remove_file(folder.path().join("fio.iolog"));
        let job = job(folder.path(), &[&load, further].concat());
        let whole = read(folder.path(), "fio-iolog", "fio.iolog");
        assert_eq!((whole.meta.vms.len(), whole.meta.vms[0].as_str()), (files, "a"), "{further:?}");
        assert!(whole.records.len() > 50, "{further:?}");
        let (counted, mut totals) = (counted(&whole.records), totals(&job));
        if further == durable {
            // fio 3.33 does not count those in its totals: one for every seven pages.
            totals.insert("sync", (256 / 7, 0));
        }
        assert_eq!(counted, totals, "{further:?}");
    }
}

/// The lines that a second run appends have times that begin anew.
#[test]
fn a_log_of_two_runs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        job(folder.path(), &["--ioengine=null", "--rw=write", "--bs=4k", "--size=16k", "--write_iolog=fio.iolog"]);
    }
    let error = read_as("fio-iolog", &folder.path().join("fio.iolog"), &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("a second title: fio has appended the log of another run"), "{error}");
}

/// Thinking between requests spreads them over the time, so that ms tell them apart.
const LATENCIES: [&str; 10] = [
    "--ioengine=psync",
    "--filename=disk",
    "--rw=randrw",
    "--bs=4k",
    "--size=256k",
    "--thinktime=5000",
    "--write_iolog=fio.iolog",
    "--write_lat_log=fio",
    "--log_offset=1",
    "--fallocate=none",
];

#[test]
fn latency_logs_hold_the_requests_of_the_io_log() {
    for further in [&[][..], &["--log_prio=1"], &["--log_unix_epoch=1"]] {
        let folder = tempfile::tempdir().unwrap();
        make_disk(&folder.path().join("disk"));
        let job = job(folder.path(), &[&LATENCIES, further].concat());
        let issued = read(folder.path(), "fio-iolog", "fio.iolog").records;
        let first = issued[0].request.arrival;
        for name in ["fio_lat.1.log", "fio_clat.1.log"] {
            let whole = read(folder.path(), "fio-latency", name);
            assert_eq!(counted(&whole.records), totals(&job), "{name} {further:?}");
            let zero = whole.records[0].request.arrival;
            for (logged, issued) in whole.records.iter().zip(&issued) {
                let (logged_at, issued_at) = (logged.request.arrival.since(zero), issued.request.arrival.since(first));
                let request = |record: &Record| {
                    let request = &record.request;
                    (request.operation, request.lba, request.sectors())
                };
                assert_eq!(request(logged), request(issued), "{name} {further:?}");
                // The first is known to 1 ms, the others too.
                let apart = logged_at.as_ns().abs_diff(issued_at.as_ns());
                assert!(apart < 2_500_000, "{name} {further:?}: {logged_at} and {issued_at}");
                assert!(logged.response_time().is_some());
            }
            let dated = whole.meta.clock.zero_unix_ns;
            assert_eq!(dated.is_some_and(|ns| ns > 1_700_000_000_000_000_000), further == ["--log_unix_epoch=1"]);
        }
    }
}

#[test]
fn logs_without_offsets_or_of_averages_say_what_is_wrong() {
    for (further, message) in [
        ("--log_offset=0", "the log does not say where requests went; fio logs it with log_offset=1"),
        ("--log_avg_msec=10", "a length of zero: what log_avg_msec has averaged is no request"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        make_disk(&folder.path().join("disk"));
        job(folder.path(), &[&LATENCIES[..], &[further]].concat());
        let error = read_as("fio-latency", &folder.path().join("fio_lat.1.log"), &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// fio waits until so many ms after its start, not for so many us as its manual says; its start is
/// some time before the log's zero.
#[test]
fn waits_of_version_2_are_read_as_fio_waits() {
    let folder = tempfile::tempdir().unwrap();
    make_disk(&folder.path().join("disk"));
    let log = "fio version 2 iolog\ndisk add\ndisk open\ndisk wait 700 0\ndisk read 0 4096\ndisk wait 300 0\n\
               disk read 4096 4096\ndisk wait 1300 0\ndisk read 8192 4096\ndisk close\n";
    std::fs::write(folder.path().join("two.iolog"), log).unwrap();
    job(folder.path(), &["--read_iolog=two.iolog", "--ioengine=psync", "--write_lat_log=fio", "--log_offset=1"]);
    let gaps_ms = |whole: Whole| {
        let at: Vec<u64> = whole.records.iter().map(|record| record.request.arrival.as_ns() / 1_000_000).collect();
        [at[1] - at[0], at[2] - at[1]]
    };
    assert_eq!(gaps_ms(read(folder.path(), "fio-iolog", "two.iolog")), [0, 600]);
    let [none, some] = gaps_ms(read(folder.path(), "fio-latency", "fio_lat.1.log"));
    assert!(none < 100 && (500..700).contains(&some), "{none} and {some} ms");
}
