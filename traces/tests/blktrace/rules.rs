//! One rule of pairing after another, in captures of a few events. Times are in microseconds, one
//! per line.

use iocast_traces::events::{Event, PENDING_RECORDS};
use iocast_traces::formats::{self, blktrace::ByteOrder};
use iocast_traces::{Flags, Operation, Record, Timestamp};

use crate::writer::{Capture, Whole, at_issued, strict};

/// First sector, sectors, and the microseconds of Q, I, D and C; -1 where there is none.
fn row(record: &Record) -> [i64; 6] {
    let us = |time: Option<Timestamp>| time.map_or(-1, |time| time.as_ns() as i64 / 1000);
    let Record { request, observed } = record;
    let (lba, sectors) = (request.lba.sector() as i64, request.sectors().count() as i64);
    [lba, sectors, us(Some(request.arrival)), us(observed.inserted), us(observed.issued), us(observed.completed)]
}

fn queued(lines: &str) -> Whole {
    Capture::lines(lines).read(&strict()).unwrap()
}

fn rows(lines: &str) -> Vec<[i64; 6]> {
    queued(lines).records.iter().map(row).collect()
}

#[test]
fn a_request_goes_through_its_events() {
    assert_eq!(rows("Q R 8 8\nG R 8 8\nI R 8 8\nD R 8 8\nC R 8 8"), [[8, 8, 0, 2, 3, 4]]);
    // Without a scheduler there is no I.
    assert_eq!(rows("Q R 8 8\nG R 8 8\nD R 8 8\nC R 8 8"), [[8, 8, 0, -1, 2, 3]]);
}

#[test]
fn requests_at_one_address_are_served_first_come_first() {
    let same =
        "Q R 8 8\nG R 8 8\nQ R 8 8\nG R 8 8\nD R 8 8\nD R 8 8\nC R 8 8\nQ R 8 8\nG R 8 8\nC R 8 8\nD R 8 8\nC R 8 8";
    assert_eq!(rows(same), [[8, 8, 0, -1, 4, 6], [8, 8, 2, -1, 5, 9], [8, 8, 7, -1, 10, 11]]);
}

#[test]
fn requests_at_one_address_are_told_apart_by_operation_and_length() {
    let apart = "Q R 8 8\nQ W 8 8\nQ D 8 8\nQ R 8 16\nG R 8 16\nG W 8 8\nG R 8 8\nG D 8 8
D W 8 8\nD R 8 16\nC R 8 16\nC W 8 8\nD D 8 8\nD R 8 8\nC D 8 8\nC R 8 8";
    let expected = [[8, 8, 0, -1, 13, 15], [8, 8, 1, -1, 8, 11], [8, 8, 2, -1, 12, 14], [8, 16, 3, -1, 9, 10]];
    assert_eq!(rows(apart), expected);
    let operations: Vec<_> = queued(apart).records.iter().map(|record| record.request.operation).collect();
    assert_eq!(operations, [Operation::Read, Operation::Write, Operation::Discard, Operation::Read]);
}

#[test]
fn merged_bios_complete_with_their_request() {
    let back = "Q W 8 8\nG W 8 8\nQ W 16 8\nM W 16 8\nI W 8 16\nQ W 24 8\nM W 24 8\nD W 8 24\nC W 8 24";
    // The last joins a request that the scheduler has already.
    assert_eq!(rows(back), [[8, 8, 0, 4, 7, 8], [16, 8, 2, 4, 7, 8], [24, 8, 5, 6, 7, 8]]);
    let front = "Q W 16 8\nG W 16 8\nQ W 8 8\nF W 8 8\nQ W 24 8\nM W 24 8\nD W 8 24\nC W 8 24";
    assert_eq!(rows(front), [[16, 8, 0, -1, 6, 7], [8, 8, 2, -1, 6, 7], [24, 8, 4, -1, 6, 7]]);
}

#[test]
fn merged_requests_complete_as_one() {
    let said =
        "Q W 8 8\nG W 8 8\nQ W 24 8\nG W 24 8\nQ W 32 8\nM W 32 8\nQ W 16 8\nM W 16 8\nM W 24 16\nD W 8 32\nC W 8 32";
    let expected = [[8, 8, 0], [24, 8, 2], [32, 8, 4], [16, 8, 6]].map(|[lba, length, q]| [lba, length, q, -1, 9, 10]);
    assert_eq!(rows(said), expected);
    // Older kernels do not say so.
    let unsaid = said.replace("M W 24 16", "P N 0 0");
    assert_eq!(rows(&unsaid), expected);
}

#[test]
fn a_bio_joins_the_request_that_was_allocated_first_of_those_it_follows() {
    let once = "Q W 0 16\nQ W 8 8\nG W 8 8\nG W 0 16\nQ W 16 8\nM W 16 8\nD W 8 16\nD W 0 16\nC W 8 16\nC W 0 16";
    assert_eq!(rows(once), [[0, 16, 0, -1, 7, 9], [8, 8, 1, -1, 6, 8], [16, 8, 4, -1, 6, 8]]);
    // The first merge of a capture and any other.
    let later = [[0, 16, 10, -1, 17, 19], [8, 8, 11, -1, 16, 18], [16, 8, 14, -1, 16, 18]];
    assert_eq!(rows(&format!("{once}\n{once}"))[3..], later);
}

#[test]
fn a_split_bio_completes_with_its_last_part() {
    let split = "Q W 0 24\nX W 0 8 8\nG W 0 8\nX W 8 8 16\nG W 8 8\nG W 16 8\nD W 16 8\nD W 0 8\nD W 8 8\n\
                 C W 0 8\nC W 16 8\nC W 8 8";
    assert_eq!(rows(split), [[0, 24, 0, -1, 6, 11]]);
}

#[test]
fn the_rest_of_a_split_bio_queued_again_is_no_arrival() {
    let again = "Q W 0 16\nX W 0 8 8\nG W 0 8\nQ W 8 8\nG W 8 8\nQ W 8 8\nG W 8 8\nD W 0 8\nD W 8 8\nD W 8 8\n\
                 C W 0 8\nC W 8 8\nC W 8 8";
    assert_eq!(rows(again), [[0, 16, 0, -1, 7, 11], [8, 8, 5, -1, 9, 12]]);
}

#[test]
fn of_a_requeued_request_the_last_issue_counts() {
    let requeued = "Q R 8 8\nG R 8 8\nI R 8 8\nD R 8 8\nR R 8 8\nI R 8 8\nD R 8 8\nC R 8 8";
    assert_eq!(rows(requeued), [[8, 8, 0, 2, 6, 7]]);
    let issued = Capture::lines(requeued).read(&at_issued()).unwrap();
    // Zero is still the first event of the capture.
    assert_eq!(issued.records.iter().map(row).collect::<Vec<_>>(), [[8, 8, 6, -1, 6, 7]]);
    assert_eq!(issued.meta.provenance["blktrace.requeues"], "1");
}

#[test]
fn parts_of_a_request_may_complete_one_by_one() {
    let partly = "Q R 8 8\nG R 8 8\nQ R 16 8\nM R 16 8\nD R 8 16\nC R 8 8\nC R 16 8";
    assert_eq!(rows(partly), [[8, 8, 0, -1, 4, 5], [16, 8, 2, -1, 4, 6]]);
}

#[test]
fn flushes_are_coalesced() {
    let flushes = "Q FWS 0 0\nG FWS 0 0\nQ FWS 0 0\nG FWS 0 0\nD FN 0 0\nQ FWS 0 0\nC FN 0 0\nC WS 0 0\nC WS 0 0
G FWS 0 0\nD FN 0 0\nC FN 0 0\nC WS 0 0";
    assert_eq!(rows(flushes), [[0, 0, 0, -1, 4, 7], [0, 0, 2, -1, 4, 8], [0, 0, 5, -1, 10, 12]]);
    let issued = Capture::lines(flushes).read(&at_issued()).unwrap();
    assert_eq!(issued.records.iter().map(row).collect::<Vec<_>>(), [[0, 0, 4, -1, 4, 6], [0, 0, 10, -1, 10, 11]]);
}

#[test]
fn the_end_of_a_flush_from_before_the_capture_ends_none_of_it() {
    let edge = queued("Q FWS 0 0\nC FN 0 0\nC WS 0 0\nG FWS 0 0\nD FN 0 0\nC FN 0 0\nC WS 0 0");
    assert_eq!(edge.records.iter().map(row).collect::<Vec<_>>(), [[0, 0, 0, -1, 4, 6]]);
    assert_eq!((edge.unmatched("C FN without D FN"), edge.unmatched("C of a flush without Q")), (1, 1));
}

#[test]
fn the_end_of_a_flush_sent_before_another_was_queued_ends_not_that() {
    let edge = queued("D FN 0 0\nQ FWS 0 0\nC FN 0 0\nC WS 0 0\nG FWS 0 0\nD FN 0 0\nC FN 0 0\nC WS 0 0");
    assert_eq!(edge.records.iter().map(row).collect::<Vec<_>>(), [[0, 0, 1, -1, 5, 7]]);
    assert_eq!(edge.unmatched("C of a flush without Q"), 1);
}

#[test]
fn the_number_of_a_cgroup_before_a_payload_is_passed_over() {
    let mut capture = Capture::new(1);
    capture.line(0, "Q W 0 16");
    let split = Event { action: 13 | 1 << 8 | 2 << 16, bytes: 1024, time: 1_001_000, pid: 7, ..Event::default() };
    capture.add(split, &[&[9; 8][..], &8u64.to_be_bytes()].concat());
    for (after, line) in ["G W 0 8", "G W 8 8", "D W 0 8", "D W 8 8", "C W 0 8", "C W 8 8"].into_iter().enumerate() {
        capture.line(2 + after as u64, line);
    }
    let whole = capture.read(&strict()).unwrap();
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[0, 16, 0, -1, 4, 7]]);
    assert!(whole.losses.unmatched.is_empty(), "{:?}", whole.losses);
}

#[test]
fn of_the_sector_of_a_split_the_kernel_keeps_32_bits() {
    let (start, middle) = ((5u64 << 32) - 8, 5u64 << 32);
    let lines = format!(
        "Q W {start} 16\nX W {start} 8 0\nG W {start} 8\nG W {middle} 8\nD W {start} 8\nD W {middle} 8
C W {start} 8\nC W {middle} 8"
    );
    let whole = queued(&lines);
    assert!(whole.losses.unmatched.is_empty(), "{:?}", whole.losses);
    assert_eq!(whole.records.iter().map(row).collect::<Vec<_>>(), [[start as i64, 16, 0, -1, 4, 7]]);
}

#[test]
fn a_device_of_bios_has_no_requests() {
    let bios = "Q R 8 8\nQ FWS 0 0\nC R 8 8\nC FWS 0 0\nQ FWFS 16 8\nC WFS 16 8";
    assert_eq!(rows(bios), [[8, 8, 0, -1, -1, 2], [0, 0, 1, -1, -1, 3], [16, 8, 4, -1, -1, 5]]);
}

#[test]
fn errors_are_kept() {
    let failed =
        queued("Q R 8 8\nG R 8 8\nD R 8 8\nC R 8 8 -5\nQ FWFS 8 8\nG FWFS 8 8\nD FN 0 0\nC FN 0 0 -5\nC WFS 8 8 -5");
    assert_eq!(failed.records.iter().map(|record| record.observed.error).collect::<Vec<_>>(), [5, 5]);
    assert_eq!(failed.records.iter().map(row).collect::<Vec<_>>(), [[8, 8, 0, -1, 2, 3], [8, 8, 4, -1, -1, 8]]);
}

#[test]
fn what_has_no_partner_is_counted_by_kind() {
    let edges = queued(
        "D R 8 8\nC R 8 8\nG R 8 8\nI R 8 8\nR R 8 8\nM R 8 8\nX R 8 8 16\nC WS 0 0\n? R 8 8\nQ R 16 8\nM R 16 8\n\
         Q W 24 8",
    );
    let kinds = [
        "D without Q",
        "C without D",
        "G without Q",
        "I without Q",
        "R without D",
        "M without Q",
        "X without Q",
        "C of a flush without Q",
        "unknown action 99",
        "M without its request",
        "Q without C",
    ];
    for kind in kinds {
        assert_eq!(edges.unmatched(kind), 1, "{kind}: {:?}", edges.losses);
    }
    assert_eq!(edges.losses.unmatched.len(), kinds.len(), "{:?}", edges.losses);
    assert_eq!(edges.losses.total(), 0);
    assert_eq!(edges.records.iter().map(row).collect::<Vec<_>>(), [[16, 8, 9, -1, -1, -1], [24, 8, 11, -1, -1, -1]]);
}

#[test]
fn remaps_and_passed_through_commands_are_counted_and_left_out() {
    let aside = queued("A R 8 8\nQ R 8 8\nD P 0 1\nC P 0 1\nQ W 0 0");
    assert_eq!(aside.records.len(), 1);
    let counted = |what: &str| aside.meta.provenance[&format!("blktrace.{what}")].clone();
    assert_eq!(counted("remaps"), "1");
    assert_eq!(counted("passthrough_events"), "2");
    assert_eq!(counted("requests_without_data"), "1");
}

#[test]
fn flags_are_those_of_the_category() {
    let whole = queued("Q FWFSM 8 8\nQ RA 16 8\nQ W 24 8");
    let flags: Vec<Flags> = whole.records.iter().map(|record| record.request.flags).collect();
    assert_eq!(flags, [Flags::all() - Flags::AHEAD, Flags::AHEAD, Flags::empty()]);
    assert!(whole.records.iter().all(|record| record.request.stream.0 == 7 && record.request.cpu == 0));
}

#[test]
fn a_record_that_never_completes_holds_back_no_more_than_so_many() {
    let mut capture = Capture::new(1);
    capture.line(0, "Q R 8 8");
    for number in 0..PENDING_RECORDS + 10 {
        capture.line(number / 1_000, "Q R 16 8");
        capture.line(number / 1_000, "C R 16 8");
    }
    // Events long after: its C is no longer waited for, and a new request there is its own.
    let end = 1_000_000;
    for (after, line) in ["Q R 8 8", "C R 8 8"].into_iter().enumerate() {
        capture.line(end + after as u64, line);
    }
    let whole = capture.read(&strict()).unwrap();
    assert_eq!(row(&whole.records[0]), [8, 8, 0, -1, -1, -1]);
    assert_eq!(row(whole.records.last().unwrap()), [8, 8, 1_000_000, -1, -1, 1_000_001]);
    assert_eq!(whole.unmatched("Q without C"), 1);
}

#[test]
fn a_record_is_not_waited_for_too_long() {
    let mut capture = Capture::new(1);
    capture.line(0, "Q R 8 8");
    capture.line(120_000_001, "Q R 16 8");
    capture.line(120_000_002, "C R 8 8");
    capture.line(120_000_003, "C R 16 8");
    let whole = capture.read(&strict()).unwrap();
    assert_eq!(row(&whole.records[0])[5], -1);
    assert_eq!((whole.unmatched("Q without C"), whole.unmatched("C without Q")), (1, 1));
}

#[test]
fn what_was_merged_into_a_record_that_is_not_waited_for_completes_all_the_same() {
    let mut capture = Capture::new(1);
    for (time, line) in [
        (0, "Q W 8 8"),
        (1, "G W 8 8"),
        (120_000_000, "Q W 16 8"),
        (120_000_000, "M W 16 8"),
        (120_000_001, "Q R 64 8"),
        (120_000_002, "C R 64 8"),
        (120_000_003, "D W 8 16"),
        (120_000_004, "C W 8 16"),
    ] {
        capture.line(time, line);
    }
    let whole = capture.read(&strict()).unwrap();
    assert_eq!(row(&whole.records[0])[5], -1);
    assert_eq!(row(&whole.records[1])[4..], [120_000_003, 120_000_004]);
    assert_eq!((whole.unmatched("Q without C"), whole.unmatched("C without Q")), (1, 0));
}

#[test]
fn a_record_leaves_when_it_and_all_before_it_are_complete() {
    let mut capture = Capture::new(1);
    for n in 0..20_000 {
        capture.line(2 * n, "Q R 8 8");
        capture.line(2 * n + 1, "C R 8 8");
    }
    let path = capture.write();
    let bytes = std::fs::metadata(capture.member(0)).unwrap().len();
    let mut reader = formats::open(&path, &strict()).unwrap();
    for n in 1..=20_000u64 {
        assert!(reader.next().unwrap().is_some());
        // The events that are read ahead and buffered are fewer than this.
        assert!(reader.position_bytes() < bytes * n / 20_000 + 500_000, "{n}: {}", reader.position_bytes());
    }
}

#[test]
fn a_capture_of_another_byte_order_reads_alike() {
    let lines = "Q W 0 16\nX W 0 8 8\nG W 0 8\nG W 8 8\nD W 0 8\nD W 8 8\nC W 0 8\nC W 8 8";
    let mut big = Capture::new(1);
    big.order = ByteOrder::Big;
    let notify = |code: u32| Event { action: code | 0x400 << 16, pid: 7, time: 500_000, ..Event::default() };
    big.add(notify(0), b"writer\0garbage.");
    big.add(notify(1), &[0, 0, 0, 2, 0, 0, 0, 3]);
    big.add(notify(2), b"text that is not kept");
    for (number, line) in lines.lines().enumerate() {
        big.line(number as u64, line);
    }
    let whole = big.read(&strict()).unwrap();
    assert_eq!(whole.records, queued(lines).records);
    assert_eq!(whole.meta.streams[&7], "writer");
    assert_eq!(whole.meta.clock.zero_unix_ns, Some(2_000_500_003));
    assert_eq!(whole.meta.provenance["blktrace.byte_order"], "big-endian");
    assert_eq!(whole.meta.provenance["blktrace.messages"], "1");
}
