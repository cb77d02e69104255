//! The formats of published traces: what is written reads back as it was, a device can be chosen, what
//! is a little out of order is put in order, and each is recognised by what it is.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use iocast_traces::formats::parquet::ParquetReader;
use iocast_traces::formats::{self, FORMATS};
use iocast_traces::trace::{AddressSpace, ReadOptions};
use iocast_traces::{Lba, Observed, Operation, Record, Request, Sectors, StreamId, Timestamp, VmId};
use proptest::prelude::*;
use support::published::{PUBLISHED, Published, ZERO_UNIX_NS, device, of, read, regular};
use support::{data, read_as, simple_records};

#[test]
fn devices_are_vms_with_addresses_of_their_own() {
    for (format, vms) in [
        ("msr", vec!["left.0", "left.1", "right.0"]),
        ("spc", vec!["asu0", "asu2", "asu1"]),
        ("fiu", vec!["6:0", "1:0", "8:17"]),
        ("alibaba", vec!["41", "0", "72", "999"]),
        ("tencent", vec!["23", "15", "10", "1063"]),
    ] {
        let whole = read_as(format, &data(of(format).fixture), &ReadOptions::default()).unwrap();
        assert_eq!((whole.meta.vms, whole.meta.address_space), (vms.map_owned(), AddressSpace::PerVm), "{format}");
    }
}

trait MapOwned {
    fn map_owned(self) -> Vec<String>;
}

impl MapOwned for Vec<&str> {
    fn map_owned(self) -> Vec<String> {
        self.into_iter().map(str::to_owned).collect()
    }
}

#[test]
fn dates_begin_at_zero_and_the_clock_says_when_that_was() {
    for (format, zero_unix_ns) in [
        // 128,500,000,000,000,000 · 100 ns since 1601.
        ("msr", Some((128_500_000_000_000_000 - 116_444_736_000_000_000) * 100)),
        ("alibaba", Some(1_577_900_000_000_000_000)),
        ("tencent", Some(1_538_400_000_000_000_000)),
        ("spc", None),
        ("fiu", None),
        ("oracle-general", None),
    ] {
        let whole = read_as(format, &data(of(format).fixture), &ReadOptions::default()).unwrap();
        assert_eq!(whole.meta.clock.zero_unix_ns, zero_unix_ns, "{format}");
        if zero_unix_ns.is_some() {
            assert_eq!(whole.records[0].request.arrival, Timestamp::ZERO, "{format}");
        }
    }
}

#[test]
fn the_first_name_of_a_process_is_kept() {
    let whole = read_as("fiu", &data("small.fiu"), &ReadOptions::default()).unwrap();
    let names = [(0, "idle"), (30, "journal/0"), (101, "logger"), (2020, "packer")];
    assert_eq!(whole.meta.streams, names.map(|(pid, name)| (pid, name.to_owned())).into());
}

#[test]
fn a_device_that_is_asked_for_is_given_alone_as_vm_zero() {
    for published in PUBLISHED.iter().filter(|published| published.has_devices) {
        let all = read_as(published.format, &data(published.fixture), &ReadOptions::default()).unwrap();
        for (vm, name) in all.meta.vms.iter().enumerate() {
            let one = read_as(published.format, &data(published.fixture), &device(name)).unwrap();
            let mut expected: Vec<Record> = all.records.clone();
            expected.retain(|record| usize::from(record.request.vm.0) == vm);
            expected.iter_mut().for_each(|record| record.request.vm = VmId(0));
            assert_eq!(arrivals_from_zero(one.records), arrivals_from_zero(expected), "{} {name}", published.format);
            assert_eq!(one.meta.vms, std::slice::from_ref(name), "{}", published.format);
        }
        let missing = read_as(published.format, &data(published.fixture), &device("nobody")).unwrap_err().to_string();
        assert!(missing.contains("no request is of device `nobody`: there are "), "{missing}");
        assert!(missing.contains(&all.meta.vms[1]), "{missing}");
    }
}

/// A date is zero at the first record that is given, whichever that is.
fn arrivals_from_zero(records: Vec<Record>) -> Vec<(u64, Request)> {
    let zero = records[0].request.arrival;
    let from_zero = |mut record: Record| {
        let arrival_ns = record.request.arrival.since(zero).as_ns();
        record.request.arrival = Timestamp::ZERO;
        (arrival_ns, record.request)
    };
    records.into_iter().map(from_zero).collect()
}

#[test]
fn a_vm_of_a_parquet_trace_is_given_alone() {
    let path = data("small.parquet");
    let all = read_as("parquet", &path, &ReadOptions::default()).unwrap();
    assert!(all.meta.vms.len() > 1);
    for (vm, name) in all.meta.vms.iter().enumerate() {
        let one = read_as("parquet", &path, &device(name)).unwrap();
        let mut expected = all.records.clone();
        expected.retain(|record| usize::from(record.request.vm.0) == vm);
        expected.iter_mut().for_each(|record| record.request.vm = VmId(0));
        assert_eq!((one.records, one.meta.vms), (expected, vec![name.clone()]));
    }
    // The stored extent is that of all of them.
    assert!(ParquetReader::open(&path, &ReadOptions::default()).unwrap().extent().is_some());
    assert!(ParquetReader::open(&path, &device(&all.meta.vms[1])).unwrap().extent().is_none());
    let missing = read_as("parquet", &path, &device("nobody")).unwrap_err().to_string();
    assert!(missing.contains("no VM of it is called `nobody`: there are "), "{missing}");
}

#[test]
fn arrivals_a_second_out_of_order_are_put_in_order() {
    for published in &PUBLISHED {
        let mut records = regular(4, 1_000_000_000);
        records.swap(1, 2);
        let bytes = published.write(&records, ZERO_UNIX_NS);
        records.swap(1, 2);
        let whole = read(published.format, &bytes, &ReadOptions::default());
        if matches!(published.format, "spc" | "oracle-general") {
            assert!(whole.unwrap_err().to_string().contains("out of order: an arrival at 1.0"), "{}", published.format);
            continue;
        }
        let arrivals: Vec<Timestamp> = whole.unwrap().records.iter().map(|record| record.request.arrival).collect();
        let expected: Vec<Timestamp> = records.iter().map(|record| record.request.arrival).collect();
        assert_eq!(arrivals, expected, "{}", published.format);

        records.swap(0, 2);
        let bytes = published.write(&records, ZERO_UNIX_NS);
        let error = read(published.format, &bytes, &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains(" at line 3: out of order: ") && error.contains("more than 1 s late"), "{error}");
        let lenient = read(published.format, &bytes, &ReadOptions { lenient: true, ..ReadOptions::default() }).unwrap();
        assert_eq!(lenient.losses.skipped["out of order"], 1, "{}", published.format);
        assert_eq!(lenient.records.len(), 3);
    }
}

#[test]
fn a_title_is_passed_over() {
    for (format, title) in [
        ("msr", "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n"),
        ("alibaba", "device_id,opcode,offset,length,timestamp\r\n"),
        ("tencent", "timestamp, offset, size, iotype, volumeid\n"),
    ] {
        let plain = std::fs::read_to_string(data(of(format).fixture)).unwrap();
        let titled = format!("{title}{plain}");
        let expected = read(format, plain.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(read(format, titled.as_bytes(), &ReadOptions::default()).unwrap().records, expected.records);
        assert!((support::format(format).recognises)("input".as_ref(), titled.as_bytes()), "{format}");
        // It is a title nowhere else, and by itself is no trace.
        let twice = format!("{title}{titled}");
        assert_eq!(
            read(format, twice.as_bytes(), &ReadOptions::default()).unwrap_err().place,
            iocast_traces::Place::Line(2)
        );
        assert!(!(support::format(format).recognises)("input".as_ref(), title.as_bytes()), "{format}");
    }
}

#[test]
fn lines_that_are_almost_of_a_format_are_recognised_by_none() {
    for text in [
        "1,2,3,4,5\n",
        // Tencent's, but for: no date, an absurd size, no size, a third operation.
        "1234,105000008,584,1,15\n",
        "1538400000,105000008,65537,1,15\n",
        "1538400000,105000008,0,1,15\n",
        "1538400000,105000008,584,2,15\n",
        // MSR's with another operation, SPC's with a word.
        "128500000000000000,left,0,Flush,1073741824,2048,2833\n",
        "0,1000001,8192,Write,0.5\n",
        // FIU's with something else than a digest.
        "80000000000000 101 logger 1000000 8 W 6 0 digest\n",
        // fio's with a word for a time.
        "0, none, 0, 4096, 0\n",
        // A good line and a bad one.
        "0,1000001,8192,W,0.5\n0,1000001\n",
    ] {
        for format in FORMATS {
            assert!(!(format.recognises)("input".as_ref(), text.as_bytes()), "{} {text}", format.name);
        }
    }
}

#[test]
fn a_file_that_is_cut_in_a_line_is_still_what_it_is() {
    for published in PUBLISHED.iter().filter(|published| published.format != "oracle-general") {
        let whole = std::fs::read(data(published.fixture)).unwrap();
        let cut = &whole[..whole.len() - 12];
        assert!((support::format(published.format).recognises)("input".as_ref(), cut), "{}", published.format);
    }
}

#[test]
fn an_oracle_trace_needs_its_operation() {
    let path = data("small.oracleGeneral");
    let error = formats::open(&path, &ReadOptions::default()).err().unwrap().to_string();
    assert!(
        error.ends_with("does not distinguish reads from writes; --op read treats all requests as reads"),
        "{error}"
    );
    for operation in [Operation::Read, Operation::Write] {
        let options = ReadOptions { operation: Some(operation), ..ReadOptions::default() };
        let whole = read_as("oracle-general", &path, &options).unwrap();
        assert!(whole.records.iter().all(|record| record.request.operation == operation));
    }
}

#[test]
fn an_oracle_trace_is_recognised_by_what_comes_next() {
    let good = std::fs::read(data("small.oracleGeneral")).unwrap();
    let recognised = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        (support::format("oracle-general").recognises)("input".as_ref(), &bytes)
    };
    let next = |record: usize, next: i64| {
        move |bytes: &mut Vec<u8>| bytes[record * 24 + 16..][..8].copy_from_slice(&next.to_le_bytes())
    };
    assert!(recognised(&|_| ()));
    // Object 4096 comes as number 6 counted from 1, as number 5 from 0; there is no more of 8192.
    for (record, number) in [(1, 6), (1, 5), (1, -1), (1, i64::MAX), (6, 9_000)] {
        assert!(recognised(&next(record, number)), "{record} {number}");
    }
    for (record, number) in [(1, 7), (1, 4), (1, 1), (1, 0), (1, -2), (1, 1 << 41)] {
        assert!(!recognised(&next(record, number)), "{record} {number}");
    }
    // Time steps back, no size, an absurd size, too few records.
    assert!(!recognised(&|bytes| bytes[0] = 1));
    assert!(!recognised(&|bytes| bytes[12..16].fill(0)));
    assert!(!recognised(&|bytes| bytes[12..16].fill(0xff)));
    assert!(!recognised(&|bytes| bytes.truncate(3 * 24)));
    assert!(recognised(&|bytes| bytes.truncate(4 * 24 + 5)));
}

/// Records that a format can hold: VMs numbered as they occur, whole ticks, no other operations.
fn holdable(published: &Published, simple: Vec<support::Simple>, vms: &[u16]) -> Vec<Record> {
    let tick = published.tick_ns();
    let mut numbers: Vec<u16> = Vec::new();
    let mut ns = 0;
    let mut records = Vec::new();
    for (at, (operation, lba, sectors, gap, response, pid)) in simple.into_iter().enumerate() {
        ns += if at == 0 { 0 } else { gap / tick * tick };
        let operation = match operation {
            _ if published.format == "oracle-general" => Operation::Read,
            Operation::Read | Operation::Discard => Operation::Read,
            Operation::Write | Operation::Flush => Operation::Write,
        };
        // In bytes an address has nine bits less.
        let mut request = Request::new(Timestamp::from_ns(ns), operation, Lba::new(lba >> 10), Sectors::new(sectors));
        if published.has_devices {
            let vm = vms[at % vms.len()];
            let number = numbers.iter().position(|known| *known == vm).unwrap_or_else(|| {
                numbers.push(vm);
                numbers.len() - 1
            });
            request.vm = VmId(number as u16);
        }
        let mut observed = Observed::default();
        if published.format == "msr" {
            observed.completed = Some(Timestamp::from_ns(ns + response / tick * tick));
        }
        if published.format == "fiu" {
            request.stream = StreamId(pid as u32);
        }
        records.push(Record { request, observed });
    }
    records
}

proptest! {
    #[test]
    fn records_written_in_a_published_format_read_back_equal(
        simple in simple_records(),
        vms in prop::collection::vec(0u16..5, 1..20),
        which in 0..PUBLISHED.len(),
    ) {
        let published = &PUBLISHED[which];
        let records = holdable(published, simple, &vms);
        let bytes = published.write(&records, ZERO_UNIX_NS);
        let options = ReadOptions { units: published.units(), ..ReadOptions::default() };
        let whole = read(published.format, &bytes, &options).unwrap();
        prop_assert_eq!(whole.records, records);
        prop_assert_eq!(whole.losses.total(), 0);
        let zero = published.zero_to_unix_ns.map(|_| ZERO_UNIX_NS as i64);
        prop_assert_eq!(whole.meta.clock.zero_unix_ns, zero);
    }
}
