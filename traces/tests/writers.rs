//! What is written reads back as it was, but for what its format documents that it loses; what a
//! format cannot express is an error or is counted; and an output is there as a whole or not at all.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use std::path::Path;

use iocast_traces::formats::FORMATS;
use iocast_traces::trace::{AddressSpace, ReadOptions, WriteOptions};
use iocast_traces::{Flags, Lba, Operation, Priority, Record, Request, Sectors, StreamId, Timestamp, VmId};
use proptest::prelude::*;
use support::written::{kept, through, write, written_formats};
use support::{any_records, format, line, read_as};

const LOSSY: WriteOptions = WriteOptions { lossy: true, address_space: AddressSpace::Shared, replay_device: None };
const DEVICES: WriteOptions = WriteOptions { lossy: true, address_space: AddressSpace::PerVm, replay_device: None };

fn text(format_name: &str, records: &[Record], options: &WriteOptions) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    write(format_name, &path, records, options).unwrap();
    String::from_utf8(std::fs::read(path).unwrap()).unwrap()
}

/// Records such as readers give: flushes have no address, others some sectors within 63 bits of bytes.
fn records() -> impl Strategy<Value = Vec<Record>> {
    (any_records(), 0u32..48).prop_map(|(mut records, shift)| {
        for record in &mut records {
            let request = &mut record.request;
            // Seldom more than 213 days, and now and then at the same time.
            request.arrival = Timestamp::from_ns(request.arrival.as_ns() >> (16 + shift));
            request.lba = Lba::new(request.lba.sector() >> (12 + shift / 2));
            request.set_sectors(Sectors::new(request.sectors().count().max(1) >> (shift / 2)).max(Sectors::new(1)));
            if request.operation == Operation::Flush {
                request.lba = Lba::ZERO;
                request.set_sectors(Sectors::ZERO);
            }
            let later =
                |time: Timestamp| request.arrival.saturating_add(iocast_traces::Nanos::from_ns(time.as_ns() >> 34));
            let observed = &mut record.observed;
            for time in [&mut observed.inserted, &mut observed.issued, &mut observed.completed] {
                *time = time.map(later);
            }
        }
        records
    })
}

proptest! {
    // Every output is made durable, which takes its time.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_reads_back_but_for_what_is_documented(records in records()) {
        for name in written_formats() {
            // Whether one is kept decides the beginning of fio's log.
            let first = records.iter().find(|record| kept(name, record, record).is_some());
            let expected: Vec<Record> =
                records.iter().filter_map(|record| kept(name, record, first.unwrap_or(record))).collect();
            // Without a title, a trace without requests is an empty file, and no trace.
            if name == "disksim-ascii" && expected.is_empty() {
                continue;
            }
            let (written, whole) = through(name, &records, &LOSSY);
            let lines = |records: &[Record]| records.iter().map(line).collect::<Vec<_>>();
            prop_assert_eq!(lines(&whole.records), lines(&expected), "{}", name);
            prop_assert_eq!(written.extent.map_or(0, |extent| extent.records), expected.len() as u64, "{}", name);
            let left_out = (records.len() - expected.len()) as u64;
            prop_assert_eq!(written.left_out.values().sum::<u64>(), left_out, "{}", name);
            if let Some(extent) = written.extent {
                let expected = records.iter().filter(|record| kept(name, record, record).is_some());
                let mut arrivals = expected.clone().map(|record| record.request.arrival);
                prop_assert_eq!(Some(extent.first_arrival), arrivals.clone().next());
                prop_assert_eq!(Some(extent.last_arrival), arrivals.next_back());
                prop_assert_eq!(Some(extent.lba_end), expected.clone().map(|record| record.request.end()).max());
                let addressed = expected.filter(|record| record.request.operation != Operation::Flush);
                let lowest = addressed.map(|record| record.request.lba).min();
                prop_assert_eq!(extent.lba_min, lowest.unwrap_or(Lba::ZERO));
            }
        }
    }
}

fn record(ns: u64, operation: Operation, lba: u64, sectors: u64) -> Record {
    Record::arrived(Request::new(Timestamp::from_ns(ns), operation, Lba::new(lba), Sectors::new(sectors)))
}

fn of_vm(vm: u16, mut record: Record) -> Record {
    record.request.vm = VmId(vm);
    record
}

const READ: Operation = Operation::Read;
const FLUSH: Operation = Operation::Flush;
const DISCARD: Operation = Operation::Discard;

#[test]
fn what_cannot_be_expressed_is_an_error_unless_it_is_to_be_left_out() {
    let flush = record(7, FLUSH, 0, 0);
    let discard = record(7, DISCARD, 8, 8);
    let far = record(7, READ, u64::MAX / 512, 8);
    for (name, bad, what) in [
        ("blkreplay", flush, "flushes"),
        ("blkreplay", discard, "discards"),
        ("disksim-ascii", flush, "flushes"),
        ("disksim-ascii", discard, "discards"),
        ("disksim-ascii", record(7, READ, (1 << 31) - 8, 8), "addresses from 1 TiB on"),
        ("fio-iolog", record(7, READ, 0, 1 << 23), "lengths of 4 GiB and more"),
        ("fio-iolog", far, "addresses beyond 8 EiB"),
        ("btreplay", discard, "discards"),
        ("btreplay", record(7, READ, 0, 0x7fff_f000 / 512 + 1), "lengths of 2 GiB and more"),
        ("btreplay", far, "addresses beyond 8 EiB"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let good = record(5, READ, 0, 8);
        let error = write(name, &path, &[good, bad], &WriteOptions::default()).unwrap_err().to_string();
        let expected = format!("output: record 1: {name} cannot express {what}; --lossy leaves such records out");
        assert!(error.contains(&expected), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{name} leaves something behind");

        let written = write(name, &path, &[good, bad, good_after(bad), bad_after(bad)], &LOSSY).unwrap();
        assert_eq!(written.left_out.into_iter().collect::<Vec<_>>(), [(what.to_owned(), 2)], "{name}");
        assert_eq!(read_as(name, &path, &ReadOptions::default()).unwrap().records.len(), 2, "{name}");
    }
}

fn good_after(record: Record) -> Record {
    self::record(record.request.arrival.as_ns() + 1, READ, 16, 8)
}

fn bad_after(mut record: Record) -> Record {
    record.request.arrival = Timestamp::from_ns(record.request.arrival.as_ns() + 2);
    record
}

#[test]
fn the_largest_that_can_be_expressed_is() {
    for (name, record) in [
        ("disksim-ascii", record(7, READ, (1 << 31) - 9, 8)),
        ("fio-iolog", record(7_000, READ, 0, (1 << 23) - 1)),
        ("fio-iolog", record(7_000, DISCARD, u64::MAX / 1024 - 8, 8)),
        ("btreplay", record(7, READ, 0, 0x7fff_f000 / 512)),
        ("btreplay", record(7, READ, u64::MAX / 1024 - 8, 8)),
    ] {
        let (written, whole) = through(name, &[record], &WriteOptions::default());
        assert_eq!((whole.records, written.left_out.len()), (vec![record], 0), "{name}");
    }
}

#[test]
fn records_out_of_order_are_refused() {
    for name in written_formats() {
        let folder = tempfile::tempdir().unwrap();
        let records = [record(5, READ, 0, 8), record(5, READ, 8, 8), record(4, READ, 16, 8)];
        let error = write(name, &folder.path().join("output"), &records, &LOSSY).unwrap_err().to_string();
        assert!(
            error.contains("out of order: record 2 arrives at 0.000000004 s, after one at 0.000000005 s"),
            "{error}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn devices_with_addresses_of_their_own_are_kept_apart_or_refused() {
    let records = [of_vm(2, record(5_000, READ, 0, 8)), of_vm(0, record(6_000, READ, 0, 8))];
    for (name, vms) in [("csv", ["vm2", "vm0"]), ("fio-iolog", ["vm2", "vm0"]), ("disksim-ascii", ["2", "0"])] {
        let (_, whole) = through(name, &records, &DEVICES);
        assert_eq!((whole.meta.address_space, whole.meta.vms), (AddressSpace::PerVm, vms.map(str::to_owned).to_vec()));
        assert_eq!(whole.records.iter().map(|record| record.request.vm.0).collect::<Vec<_>>(), [0, 1], "{name}");
        // Of one device there is only it.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        write(name, &path, &records, &DEVICES).unwrap();
        let options = ReadOptions { device: Some(vms[1].to_owned()), ..ReadOptions::default() };
        let whole = read_as(name, &path, &options).unwrap();
        assert_eq!((whole.records.len(), whole.records[0].request.arrival.as_ns()), (1, 6_000), "{name}");
    }
    for name in ["blkreplay", "btreplay"] {
        let folder = tempfile::tempdir().unwrap();
        let error = write(name, &folder.path().join("output"), &records, &DEVICES).unwrap_err().to_string();
        assert!(error.contains(&format!("a {name} trace holds one; choose one of them with --device NAME")), "{error}");
        let one = write(name, &folder.path().join("output"), &records[..1], &DEVICES).unwrap();
        assert_eq!(one.extent.unwrap().records, 1);
    }
}

#[test]
fn vms_that_share_a_device_stay_on_it() {
    let records = [of_vm(2, record(5_000, READ, 0, 8)), of_vm(0, record(6_000, READ, 64, 8))];
    for (name, vms) in [("fio-iolog", "disk"), ("disksim-ascii", "0"), ("blkreplay", "vm0"), ("btreplay", "vm0")] {
        let (_, whole) = through(name, &records, &WriteOptions::default());
        assert_eq!(whole.meta.vms, [vms], "{name}");
        assert!(whole.records.iter().all(|record| record.request.vm == VmId(0)), "{name}");
    }
    let log = text("fio-iolog", &records, &WriteOptions::default());
    assert_eq!(log.matches("disk add").count(), 1, "{log}");
    let (_, whole) = through("csv", &records, &WriteOptions::default());
    assert_eq!(
        (whole.meta.address_space, whole.meta.vms),
        (AddressSpace::Shared, ["vm0", "vm1", "vm2"].map(str::to_owned).to_vec())
    );
    assert_eq!(whole.records, records);
}

#[test]
fn each_text_is_what_its_program_documents() {
    let mut write = record(1_234_567_890, Operation::Write, 16, 8);
    write.request.flags = Flags::SYNC | Flags::FUA | Flags::PREFLUSH;
    write.request.priority = Priority::new(2, 4).unwrap();
    write.request.stream = StreamId(9);
    write.observed.issued = Some(Timestamp::from_ns(1_234_567_990));
    write.observed.completed = Some(Timestamp::from_ns(1_235_000_000));
    let all =
        [record(999, READ, 0, 8), write, record(2_000_000_999, FLUSH, 0, 0), record(2_000_001_000, DISCARD, 32, 1)];
    let data = &all[..2];
    let options = WriteOptions::default();
    assert_eq!(
        text("csv", &all, &options),
        "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,completed_ns,\
         error\n\
         999,read,0,8,,0,0,0,0,,,,0\n\
         1234567890,write,16,8,sync|fua|preflush,20,0,9,0,,1234567990,1235000000,0\n\
         2000000999,flush,0,0,,0,0,0,0,,,,0\n\
         2000001000,discard,32,1,,0,0,0,0,,,,0\n"
    );
    assert_eq!(
        text("blkreplay", data, &options),
        "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n    0.000000999 ;            0 ;    8 ; R ; \
         0.000000000 ; 0.000000000\n    1.234567890 ;           16 ;    8 ; WFS ; 0.000000100 ; 0.000432010\n"
    );
    assert_eq!(text("disksim-ascii", data, &options), "0.000999 0 0 8 1\n1234.567890 0 16 8 80\n");
    assert_eq!(
        text("fio-iolog", &all, &options),
        "fio version 3 iolog\n1 disk add\n1 disk open\n1 disk read 0 4096\n1234568 disk write 8192 4096\n\
         2000001 disk sync 0 0\n2000002 disk trim 16384 512\n2000002 disk close\n"
    );
}

/// Clocks that disagree make no times that step back, which a load file has no way to say.
#[test]
fn a_load_file_says_nothing_of_what_happened_before_it_could() {
    let times = |arrival, issued, completed| {
        let mut record = record(arrival, READ, 0, 8);
        record.observed.issued = Some(Timestamp::from_ns(issued));
        record.observed.completed = Some(Timestamp::from_ns(completed));
        record
    };
    let text = text("blkreplay", &[times(10, 9, 12), times(20, 25, 24), times(30, 29, 28)], &WriteOptions::default());
    let spans = |line: &str| line.split(';').skip(4).map(|field| field.trim().to_owned()).collect::<Vec<_>>();
    let (none, two, five) = ("0.000000000", "0.000000002", "0.000000005");
    assert_eq!(text.lines().skip(1).map(spans).collect::<Vec<_>>(), [[none, two], [five, none], [none, none]]);
}

/// fio forgets the gap behind a time of zero; a log that begins later is not touched.
#[test]
fn a_log_for_fio_never_begins_at_zero() {
    let first_time = |ns| {
        let text = text("fio-iolog", &[record(ns, READ, 0, 8)], &WriteOptions::default());
        text.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!([0, 999, 1_000, 1_999, 2_000].map(first_time), ["1", "1", "1", "1", "2"]);
}

#[test]
fn a_bunch_for_btreplay_holds_what_arrives_together_and_no_more_than_512() {
    let mut records = vec![record(5, READ, 0, 8); 600];
    records.push(record(6, READ, 0, 8));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.replay.0");
    write("btreplay", &path, &records, &WriteOptions::default()).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!([0, 8, 16, 24].map(word), [0x10000, 5, 3, 601]);
    assert_eq!([32, 40].map(word), [512, 5]);
    let second = 32 + 16 + 512 * 24;
    assert_eq!([second, second + 8].map(word), [88, 5]);
    let third = second + 16 + 88 * 24;
    assert_eq!(([third, third + 8].map(word), bytes.len()), ([1, 6], third + 16 + 24));
}

#[test]
fn an_output_is_there_as_a_whole_or_not_at_all() {
    for format in FORMATS.iter().filter(|format| format.create.is_some()) {
        let (name, folder) = (format.name, tempfile::tempdir().unwrap());
        let path = folder.path().join("output");
        std::fs::write(&path, "precious").unwrap();
        let mut writer = (format.create.unwrap())(&path, &WriteOptions::default()).unwrap();
        writer.write(&record(5, READ, 0, 8)).unwrap();
        drop(writer);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious", "{name}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{name} leaves something behind");
        write(name, &path, &[], &WriteOptions::default()).unwrap();
        assert_ne!(std::fs::read(&path).unwrap(), b"precious", "{name}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{name} leaves something behind");

        let create = |path: &Path| (format.create.unwrap())(path, &WriteOptions::default()).map(|_| ()).unwrap_err();
        let missing = create(&folder.path().join("none/output")).to_string();
        assert!(missing.contains("No such file"), "{name}: {missing}");
        for no_file in [Path::new("/dev/null"), folder.path()] {
            let refused = create(no_file).to_string();
            assert!(refused.contains("what stands there is no regular file; name a file"), "{name}: {refused}");
        }
    }
}

#[test]
fn formats_that_are_no_text_are_not_written_to_standard_output() {
    for name in ["parquet", "btreplay"] {
        let created = (format(name).create.unwrap())(Path::new("-"), &WriteOptions::default());
        let refused = created.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("cannot write -: this format is written to files only"), "{refused}");
    }
}
