//! Beginnings of real captures; every number is from blkparse's text of the same file.

use std::path::{Path, PathBuf};

use iocast_traces::trace::ReadOptions;
use iocast_traces::{Flags, Layer, Operation, Record};

use crate::writer::{Whole, at_issued, read, strict};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/blktrace").join(format!("{name}.blktrace.0.gz"))
}

fn fixture(name: &str, options: &ReadOptions) -> Whole {
    read(&data(name), options).unwrap()
}

/// Requests and sectors of an operation.
fn sum(whole: &Whole, operation: Operation) -> (usize, u64) {
    let of = || whole.records.iter().filter(|record| record.request.operation == operation);
    (of().count(), of().map(|record| record.request.sectors().count()).sum())
}

/// Arrival, issue and completion, nanoseconds.
fn times(record: &Record) -> (u64, u64, u64) {
    let ns = |time: Option<iocast_traces::Timestamp>| time.unwrap().as_ns();
    (record.request.arrival.as_ns(), ns(record.observed.issued), ns(record.observed.completed))
}

fn arrived_at(whole: &Whole, ns: u64) -> &Record {
    whole.records.iter().find(|record| record.request.arrival.as_ns() == ns).unwrap()
}

#[test]
fn queued_requests_are_as_many_and_as_long_as_blkparse_prints() {
    let expected = [
        ("virtio-mail", (92, 1_128), (85, 888), 37),
        ("virtio-file", (208, 16_960), (343, 47_992), 0),
        ("iscsi-mail", (58, 768), (28, 272), 18),
    ];
    for (name, reads, writes, flushes) in expected {
        let whole = fixture(name, &strict());
        assert_eq!(sum(&whole, Operation::Read), reads, "{name}");
        assert_eq!(sum(&whole, Operation::Write), writes, "{name}");
        assert_eq!(sum(&whole, Operation::Flush), (flushes, 0), "{name}");
        assert_eq!(whole.losses.total(), 0, "{name}");
        assert_eq!(whole.meta.layer, Layer::GuestQueue);
    }
}

#[test]
fn issued_requests_are_as_many_and_as_long_as_blkparse_prints() {
    // Of D events, the flush machinery's (`D FN`) among them; sectors of the others.
    for (name, all, flushes, sectors) in
        [("virtio-mail", 182, 56, 2_000), ("virtio-file", 498, 26, 64_896), ("iscsi-mail", 84, 17, 1_024)]
    {
        let whole = fixture(name, &at_issued());
        assert_eq!(whole.records.len(), all, "{name}");
        assert_eq!(sum(&whole, Operation::Flush), (flushes, 0), "{name}");
        assert_eq!(sum(&whole, Operation::Read).1 + sum(&whole, Operation::Write).1, sectors, "{name}");
        assert!(whole.records.iter().all(|record| record.observed.issued == Some(record.request.arrival)));
        assert_eq!(whole.meta.layer, Layer::GuestIssued);
    }
}

#[test]
fn a_flush_ends_with_the_zero_length_completion_without_the_flush_bit() {
    let whole = fixture("virtio-mail", &strict());
    let flush = arrived_at(&whole, 25_052_399);
    assert_eq!(times(flush), (25_052_399, 25_297_092, 25_558_078));
    assert_eq!((flush.request.operation, flush.request.stream.0), (Operation::Flush, 120));
    assert_eq!(flush.request.flags, Flags::PREFLUSH | Flags::SYNC);
}

#[test]
fn a_write_with_flushes_around_it_is_issued_with_its_data_and_ends_last() {
    let whole = fixture("virtio-mail", &strict());
    let both = arrived_at(&whole, 76_453_961);
    assert_eq!(times(both), (76_453_961, 78_360_226, 79_145_145));
    assert_eq!(both.request.flags, Flags::PREFLUSH | Flags::FUA | Flags::SYNC | Flags::META);
    assert_eq!((both.request.lba.sector(), both.request.sectors().count()), (2_140_872, 8));
    // Only a flush after it, which stands in for FUA.
    assert_eq!(times(arrived_at(&whole, 79_697_008)), (79_697_008, 79_798_004, 80_351_888));
    // On a disk with FUA: a flush before it, and none at all.
    let whole = fixture("iscsi-mail", &strict());
    assert_eq!(times(arrived_at(&whole, 92_175_429)), (92_175_429, 97_060_277, 105_835_983));
    assert_eq!(times(arrived_at(&whole, 106_084_294)), (106_084_294, 106_155_191, 109_285_889));
}

#[test]
fn flushes_that_overlap_end_with_the_device_flush_sent_after_them() {
    let whole = fixture("iscsi-mail", &strict());
    assert_eq!(times(arrived_at(&whole, 0)), (0, 626_223, 9_301_878));
    // Queued while the first was at the device.
    assert_eq!(times(arrived_at(&whole, 7_909_233)), (7_909_233, 9_920_875, 10_770_103));
}

#[test]
fn a_split_bio_is_one_arrival_that_ends_with_its_last_part() {
    let whole = fixture("virtio-file", &strict());
    let split = arrived_at(&whole, 462_093_032);
    assert_eq!((split.request.lba.sector(), split.request.sectors().count()), (397_312, 2_048));
    assert_eq!(times(split), (462_093_032, 462_723_438, 463_919_610));
    assert_eq!(split.observed.inserted.unwrap().as_ns(), 462_651_161);
}

#[test]
fn merged_bios_follow_their_request() {
    let whole = fixture("virtio-mail", &strict());
    // Ten bios of the journal in one request of 80 sectors.
    let journal = whole.records.iter().filter(|record| {
        (2_140_792..2_140_872).contains(&record.request.lba.sector()) && record.request.arrival.as_ns() < 76_000_000
    });
    let times: Vec<_> = journal.map(times).collect();
    assert_eq!(times.len(), 10);
    assert!(times.iter().all(|(_, issued, completed)| (*issued, *completed) == (75_704_065, 76_082_442)));
}

#[test]
fn names_clock_and_origin_are_in_the_metadata() {
    let path = data("virtio-mail");
    let whole = read(&path, &strict()).unwrap();
    assert_eq!(whole.meta.clock.name, "monotonic");
    // 1,795,224,429.344,191,904 s at the timestamp record, 2.416387748 s before the first event.
    assert_eq!(whole.meta.clock.zero_unix_ns, Some(1_795_224_431_760_579_652));
    assert_eq!(whole.meta.streams[&120], "fio");
    assert_eq!(whole.meta.streams[&100], "jbd2/vdb-8");
    assert_eq!(whole.meta.provenance["blktrace.device"], "254:16");
    assert_eq!(whole.meta.provenance["blktrace.cpus"], "0");
    assert_eq!(whole.meta.provenance["blktrace.merges"], "50");
    assert_eq!(whole.position_bytes, std::fs::metadata(&path).unwrap().len());
}

/// The binary output of the `blk` tracer in tracefs: events without numbers, of one file.
#[test]
fn events_without_numbers_are_read_and_their_losses_do_not_show() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/blktrace/tracefs.bin.gz");
    let whole = read(&path, &strict()).unwrap();
    // Counted with a few lines of Python over the records.
    assert_eq!(sum(&whole, Operation::Read), (104, 832));
    assert_eq!(whole.unmatched("Q without C"), 16);
    assert_eq!(whole.losses.unmatched.len(), 1, "{:?}", whole.losses);
    assert_eq!(whole.losses.total(), 0);
    let third = &whole.records[50];
    assert_eq!(times(third), (203_949_093, 273_066_179, 291_472_577));
    assert_eq!((third.request.lba.sector(), third.request.stream.0, third.request.cpu), (511_728, 21_201, 1));
    let first = &whole.records[0];
    assert_eq!(times(first), (0, 22_257, 4_793_662));
    assert_eq!(first.observed.inserted.unwrap().as_ns(), 19_351);
    assert_eq!(whole.meta.provenance["blktrace.numbers"], "none, so that lost events do not show");
    assert_eq!(whole.meta.clock.name, "trace clock");
    assert_eq!((whole.meta.provenance["blktrace.cpus"].as_str(), whole.meta.streams.len()), ("1", 0));
    // One with numbers says nothing of the kind.
    assert!(!fixture("virtio-mail", &strict()).meta.provenance.contains_key("blktrace.numbers"));
}
