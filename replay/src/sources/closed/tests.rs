//! The rules of dependencies, on short traces written out.

use std::path::PathBuf;

use traces::{InMemoryTrace, Layer, Lba, Observed, Sectors, TraceMeta};

use super::super::{AddressMap, TimeWindow, VmTrace};
use super::dependencies::{Recorded, Since};
use super::*;

/// A read of a stream with its arrival and completion.
fn read((arrival, completed, stream): (u64, Option<u64>, u32)) -> Record {
    let mut request = Request::new(Timestamp::from_ns(arrival), Operation::Read, Lba::ZERO, Sectors::new(8));
    request.stream = StreamId(stream);
    Record { request, observed: Observed { completed: completed.map(Timestamp::from_ns), ..Observed::default() } }
}

/// A write of stream 1 with these flags.
fn write(arrival: u64, completed: u64, flags: Flags) -> Record {
    let mut record = read((arrival, Some(completed), 1));
    (record.request.operation, record.request.flags) = (Operation::Write, flags);
    record
}

/// A replay of reads, given by arrival, completion and stream.
fn closed(records: &[(u64, Option<u64>, u32)]) -> Closed {
    closed_over(records.iter().copied().map(read).collect())
}

pub(super) fn closed_over(records: Vec<Record>) -> Closed {
    closed_over_vms(vec![records])
}

/// A replay of the VMs with these records.
pub(super) fn closed_over_vms(vms: Vec<Vec<Record>>) -> Closed {
    let traces = vms.into_iter().map(trace).collect();
    Closed::new(MergedTraces::new(traces, TimeWindow::default(), Sectors::new(1 << 20)))
}

fn trace(records: Vec<Record>) -> VmTrace {
    let reader = InMemoryTrace::new(TraceMeta::new("listed", Layer::GuestQueue, "none"), records);
    VmTrace {
        name: "vm".to_owned(),
        path: PathBuf::from("listed"),
        reader: Box::new(reader),
        map: AddressMap::Shift { place: Sectors::ZERO },
    }
}

/// Arrival times when every request takes `service` and all run in parallel.
pub(super) fn arrivals(source: &mut Closed, service: u64) -> Vec<(u64, u32)> {
    let mut running: Vec<(u64, u32)> = Vec::new();
    let mut arrivals = Vec::new();
    let mut id = 0;
    loop {
        running.sort();
        let completion = running.first().map(|r| r.0);
        let arrival = match source.next().unwrap() {
            Next::At(time) => Some(time.as_ns()),
            Next::Exhausted if running.is_empty() => return arrivals,
            Next::Blocked | Next::Exhausted | Next::Stopped => None,
        };
        if completion.is_some_and(|done| arrival.is_none_or(|next| done <= next)) {
            let (done, id) = running.remove(0);
            let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
            source.completed(Timestamp::from_ns(done), RequestId(id), &request);
        } else {
            let now = arrival.expect("something happens");
            let request = source.take(Timestamp::from_ns(now), RequestId(id)).unwrap();
            arrivals.push((now, request.stream.0));
            running.push((now + service, id));
            id += 1;
        }
    }
}

#[test]
fn chain_keeps_its_think_times() {
    // In the trace each took 10, with think times of 5 and 7. The first arrival is time zero.
    let records = [(100, Some(110), 1), (115, Some(125), 1), (132, Some(142), 1)];
    assert_eq!(arrivals(&mut closed(&records), 50), [(0, 1), (55, 1), (112, 1)]);
    assert_eq!(arrivals(&mut closed(&records), 1), [(0, 1), (6, 1), (14, 1)]);
}

#[test]
fn batch_stays_together_on_a_slower_drive() {
    // Two more arrive while the first is outstanding. The fourth waits for all of them, whichever completes last.
    let records = [(0, Some(100), 1), (3, Some(120), 1), (4, Some(110), 1), (130, Some(140), 1)];
    assert_eq!(arrivals(&mut closed(&records), 1000), [(0, 1), (3, 1), (4, 1), (1014, 1)]);
}

#[test]
fn streams_do_not_wait_for_each_other() {
    let records = [(0, Some(10), 1), (2, Some(4), 2), (5, Some(7), 2), (20, Some(30), 1)];
    assert_eq!(arrivals(&mut closed(&records), 10), [(0, 1), (2, 2), (13, 2), (20, 1)]);
}

#[test]
fn request_without_completion_is_not_waited_for() {
    let records = [(0, None, 1), (5, Some(6), 1), (8, Some(9), 1)];
    assert_eq!(arrivals(&mut closed(&records), 100), [(0, 1), (5, 1), (107, 1)]);
}

#[test]
fn trace_without_completions_is_refused() {
    let error = closed(&[(0, None, 1), (5, None, 1)]).next().unwrap_err();
    assert!(error.to_string().starts_with("listed: none of its first 2 requests has a completion time"), "{error}");
}

#[test]
fn small_buffer_delays_and_counts_arrivals_but_loses_none() {
    let mut records: Vec<(u64, Option<u64>, u32)> = (0..50).map(|i| (i * 10, Some(i * 10 + 5), 1)).collect();
    records.push((500, Some(505), 2));
    let mut source = closed(&records);
    source.buffered_max = 4;
    let arrivals = arrivals(&mut source, 1000);
    assert_eq!(arrivals.len(), 51);
    assert!(arrivals.iter().any(|&(time, stream)| stream == 2 && time > 500));
    assert_eq!(source.late(), 1);
}

#[test]
fn completion_at_the_time_of_an_arrival_is_its_dependency() {
    // The second arrives with the first one's completion, the third with no completion.
    let records = [(0, Some(10), 1), (10, Some(30), 1), (12, Some(20), 1)];
    assert_eq!(arrivals(&mut closed(&records), 100), [(0, 1), (100, 1), (102, 1)]);
}

#[test]
fn arrivals_of_a_stream_keep_their_order() {
    // The third waited for the first, which now completes before the second even arrives.
    let records = [(0, Some(40), 1), (30, Some(200), 1), (45, Some(50), 1)];
    let mut source = closed(&records);
    assert_eq!(arrivals(&mut source, 1), [(0, 1), (30, 1), (30, 1)]);
    assert_eq!(source.late(), 0, "it came when it could");
}

#[test]
fn arrivals_due_at_once_come_in_the_order_they_became_known() {
    let records = [(0, Some(5), 9), (0, Some(5), 3), (0, Some(5), 5)];
    assert_eq!(arrivals(&mut closed(&records), 1), [(0, 9), (0, 3), (0, 5)]);
    // Both are due at 20: stream 2's since its arrival at 5, stream 1's since its completion at 10.
    let records = [(0, Some(5), 1), (5, Some(100), 2), (15, Some(16), 1), (20, Some(120), 2)];
    assert_eq!(arrivals(&mut closed(&records), 10), [(0, 1), (5, 2), (20, 2), (20, 1)]);
}

#[test]
fn number_of_kept_completions_stays_bounded() {
    let records: Vec<(u64, Option<u64>, u32)> = (0..50_000u64)
        .map(|index| (index * 10, (index % 7 != 0).then_some(index * 10 + index % 40), (index % 5) as u32))
        .collect();
    let mut source = closed(&records);
    source.buffered_max = 100;
    assert_eq!(arrivals(&mut source, 25).len(), records.len());
    let kept: usize = source.streams.iter().flat_map(|stream| &stream.completions).map(|done| done.times.len()).sum();
    assert!(kept < 100, "{kept} completions");
    let kept: usize = source.streams.iter().map(|stream| stream.recorded.kept()).sum();
    assert!(kept < 100, "{kept} recorded completions");
}

#[test]
fn write_back_is_not_waited_for_once_a_flag_was_seen() {
    // The write completes after the read and before the next, which waits for the read.
    let closed_with = |flags| {
        let mut first = read((0, Some(10), 1));
        first.request.flags = flags;
        closed_over(vec![first, write(5, 11, Flags::empty()), read((12, Some(20), 1))])
    };
    assert_eq!(arrivals(&mut closed_with(Flags::AHEAD), 100), [(0, 1), (5, 1), (102, 1)]);
    // Without a flag the write may have been waited for as well.
    assert_eq!(arrivals(&mut closed_with(Flags::empty()), 100), [(0, 1), (5, 1), (106, 1)]);
}

#[test]
fn synchronous_writes_and_flushes_are_waited_for() {
    let records = vec![write(0, 10, Flags::SYNC), read((12, Some(20), 1))];
    assert_eq!(arrivals(&mut closed_over(records), 100), [(0, 1), (102, 1)]);
    let mut flush = write(1, 10, Flags::empty());
    flush.request.operation = Operation::Flush;
    let records = vec![write(0, 2, Flags::FUA), flush, read((12, Some(20), 1))];
    assert_eq!(arrivals(&mut closed_over(records), 100), [(0, 1), (1, 1), (103, 1)]);
}

#[test]
fn time_of_a_flush_is_think_time_if_the_drive_has_nothing_to_flush() {
    let issued = |mut record: Record, at: u64| {
        record.observed.issued = Some(Timestamp::from_ns(at));
        record
    };
    // The write takes 100. The flush waits from 200 until its issue, and is followed by a read at 350.
    let after_flush_of = |issue: u64, completed: u64| {
        let mut flush = issued(write(200, completed, Flags::empty()), issue);
        flush.request.operation = Operation::Flush;
        let records = vec![issued(write(0, 100, Flags::SYNC), 0), flush, read((350, Some(360), 1))];
        let sent = arrivals(&mut closed_over(records), 1000);
        sent[2].0 - sent[1].0 - 1000
    };
    // Half a write's time is the way; all of the 150 ns after the flush's arrival are think time.
    assert_eq!(after_flush_of(210, 260), 150);
    // More than that is the drive's; only the wait of 10 ns before the issue is think time, with the rest from 261 on.
    assert_eq!(after_flush_of(210, 261), 99);
}

#[test]
fn flusher_keeps_its_distances_and_its_depth() {
    let flags = [Flags::META, Flags::empty(), Flags::empty(), Flags::empty()];
    let records =
        |length: u64| flags.iter().zip(0..).map(|(&flags, n)| write(n * 10, n * 10 + length, flags)).collect();
    // The first came before a flag was seen and is not of the kind that is not waited for.
    let spread = arrivals(&mut closed_over(records(15)), 12);
    assert_eq!(spread, [(0, 1), (10, 1), (20, 1), (30, 1)], "two at a time suffice");
    let spread = arrivals(&mut closed_over(records(5)), 100);
    assert_eq!(spread, [(0, 1), (100, 1), (200, 1), (300, 1)], "it never had two at a time");
}

#[test]
fn flusher_that_is_always_at_its_depth_goes_as_fast_as_the_drive() {
    // Four writes at a time, each sent when an earlier one completes after 100 ns.
    let records = || (0..400).map(|n| write(n / 4 * 100 + n % 4, n / 4 * 100 + n % 4 + 100, Flags::META)).collect();
    for service in [10, 100, 350] {
        let sent = arrivals(&mut closed_over(records()), service);
        // Once it was seen often enough that a write waits for room.
        assert!(sent.windows(5).skip(40).all(|writes| writes[4].0 - writes[0].0 == service), "{service}: {sent:?}");
    }
}

#[test]
fn page_cache_of_processes_that_do_not_sync_is_written_when_it_was() {
    const MS: u64 = 1_000_000;
    let burst = |n: u64| (0..10).map(move |k| write((n * 200 + k) * MS, (n * 200 + k + 4) * MS, Flags::META));
    let mut source = closed_over((0..50).flat_map(burst).collect());
    // Four at a time, so that a burst takes 103 ms and not 9.
    let sent = arrivals(&mut source, 50 * MS);
    let begins: Vec<u64> = sent.chunks_exact(10).map(|writes| writes[0].0 / MS).collect();
    assert_eq!(begins, (0..50).map(|n| n * 200).collect::<Vec<u64>>());
    assert!(sent.chunks_exact(10).all(|writes| writes[9].0 - writes[0].0 > 100 * MS), "{sent:?}");
}

#[test]
fn dependency_counts_completions_in_any_order() {
    // Two at a time: in the trace the third came with the completion of the second. In the replay the first completes
    // first.
    let mut source = closed(&[(0, Some(50), 1), (1, Some(20), 1), (22, Some(30), 1)]);
    let mut take = |now, id| {
        assert_eq!(source.next().unwrap(), Next::At(Timestamp::from_ns(now)));
        source.take(Timestamp::from_ns(now), RequestId(id)).unwrap()
    };
    let first = take(0, 0);
    take(1, 1);
    source.completed(Timestamp::from_ns(7), RequestId(0), &first);
    assert_eq!(source.next().unwrap(), Next::At(Timestamp::from_ns(9)));
}

/// The dependency of the last of 60 arrivals, 10 apart. Each request completes so late that the next one is already
/// outstanding.
fn since_of(lag: fn(u64) -> u64) -> Since {
    let mut recorded = Recorded::default();
    let infer = |n: u64| {
        let completed = Timestamp::from_ns((n + 2) * 10 - lag(n));
        recorded.infer(Timestamp::from_ns(n * 10), Some(completed), WAITED_FOR, None, None).since
    };
    (0..60).map(infer).last().unwrap()
}

#[test]
fn completion_by_chance_within_a_batch_is_no_dependency() {
    assert_eq!(since_of(|_| 1), Since::Completion);
    assert_eq!(since_of(|_| 2), Since::Completion);
    assert_eq!(since_of(|n| n * 7 % 10), Since::Arrival, "it lies anywhere");
}

/// A process that writes 1 ms long and thinks for 9 ms, and a flusher that writes twice every 200 ms, 20 ms apart and
/// 30 us long.
fn writer_and_flusher(writes: Operation, flags: Flags) -> Vec<Record> {
    const MS: u64 = 1_000_000;
    let of = |stream: u32, at: u64, took: u64, operation, flags| {
        let mut record = read((at, Some(at + took), stream));
        (record.request.operation, record.request.flags) = (operation, flags);
        record
    };
    let mut records: Vec<Record> = (0..2000).map(|n| of(1, n * 10 * MS, MS, writes, flags)).collect();
    let at = |n: u64| n / 2 * 200 * MS + n % 2 * 20 * MS;
    records.extend((2..200).map(|n| of(2, at(n), 30_000, Operation::Write, Flags::META)));
    records.sort_by_key(|record| record.request.arrival);
    records
}

#[test]
fn page_cache_is_written_at_the_pace_of_the_processes_that_write() {
    // The flusher's writes until the process has sent 1500 requests, and how far apart the two of a burst are, ms.
    let flushed = |records: Vec<Record>, service_ms: u64| {
        let arrivals = arrivals(&mut closed_over(records), service_ms * 1_000_000);
        let of = |stream: u32| arrivals.iter().filter(move |(_, of)| *of == stream).map(|(at, _)| *at);
        let last = of(1).nth(1500).unwrap();
        let written: Vec<u64> = of(2).filter(|at| *at < last).collect();
        let apart: Vec<u64> = written.chunks_exact(2).map(|burst| (burst[1] - burst[0]) / 1_000_000).collect();
        (written.len(), apart)
    };
    // 1500 requests are as much as 150 of the flusher's writes, however long one takes. A burst stays as it was.
    let syncing = || writer_and_flusher(Operation::Write, Flags::SYNC);
    assert_eq!(flushed(syncing(), 1).0, 148);
    let (written, apart) = flushed(syncing(), 11);
    assert!((148..=150).contains(&written), "{written}");
    assert!(apart.iter().all(|ms| *ms == 20), "{apart:?}");
    // A kernel thread that writes back and at times synchronously has a clock of its own and sets no pace.
    let mut trace = syncing();
    let flags = |n: usize| if n % 4 == 3 { Flags::SYNC } else { Flags::META };
    let others: Vec<Record> = trace.iter().filter(|record| record.request.stream == StreamId(2)).copied().collect();
    trace.extend(others.into_iter().enumerate().map(|(n, mut record)| {
        (record.request.stream, record.request.flags) = (StreamId(3), flags(n));
        record
    }));
    trace.sort_by_key(|record| record.request.arrival);
    let written = flushed(trace, 11).0;
    assert!((148..=150).contains(&written), "{written}");
    // A journal that nobody waits for sets no pace, and a process that reads need not be the one whose pages are
    // written: 30 s are 300 of the flusher's writes, which has 198.
    assert_eq!(flushed(writer_and_flusher(Operation::Write, Flags::SYNC | Flags::META), 11).0, 198);
    assert_eq!(flushed(writer_and_flusher(Operation::Read, Flags::empty()), 11).0, 198);
}

#[test]
fn page_cache_is_written_later_by_as_much_as_the_processes_were_and_not_for_ever_slower() {
    let mut trace = writer_and_flusher(Operation::Write, Flags::SYNC);
    // A second process does the same. They end after a quarter of the trace; until then each is late by 5 s.
    let second = trace.iter().filter(|record| record.request.stream == StreamId(1)).copied().map(|mut record| {
        record.request.stream = StreamId(4);
        record
    });
    trace.extend(second.collect::<Vec<Record>>());
    trace.sort_by_key(|record| record.request.arrival);
    let end = Timestamp::from_ns(5_000_000_000);
    trace.retain(|record| record.request.stream == StreamId(2) || record.request.arrival < end);
    let arrivals = arrivals(&mut closed_over(trace), 11_000_000);
    let flushed: Vec<u64> = arrivals.iter().filter(|(_, of)| *of == 2).map(|(at, _)| at / 1_000_000).collect();
    // The last is due 19.82 s after the first request in the trace.
    assert!((24_700..=24_830).contains(flushed.last().unwrap()), "{:?}", flushed.last());
    assert!(flushed.windows(3).rev().take(100).all(|writes| writes[2] - writes[0] == 200), "{flushed:?}");
}

#[test]
fn writes_without_end_are_those_of_programs_that_were_held_back() {
    let held_back = |took: u64| {
        let flags = |n: u64| if n == 0 { Flags::META } else { Flags::empty() };
        let records = (0..200).map(|n| write(n * 100, n * 100 + took, flags(n))).collect();
        let mut source = closed_over(records);
        arrivals(&mut source, 50);
        source.held_back_writers()
    };
    assert_eq!(held_back(150), ["listed"]);
    assert_eq!(held_back(80), [""; 0]);
}

#[test]
fn the_wait_of_a_flush_behind_the_throttle_of_the_kernel_is_think_time() {
    let flush = |arrival: u64, issued: u64| {
        let mut record = write(arrival, issued + 10, Flags::SYNC | Flags::PREFLUSH);
        record.request.operation = Operation::Flush;
        record.observed.issued = Some(Timestamp::from_ns(issued));
        record
    };
    // It waited for 500 before it was issued, and the process thinks for 90 afterwards.
    let records = vec![flush(0, 500), read((600, Some(650), 1))];
    assert_eq!(arrivals(&mut closed_over(records), 10), [(0, 1), (600, 1)]);
    // While another stream's durable write was outstanding, it waited for that: 200 remain.
    let mut durable = write(0, 300, Flags::SYNC | Flags::FUA);
    durable.request.stream = StreamId(2);
    let records = vec![durable, flush(0, 500), read((600, Some(650), 1))];
    assert_eq!(arrivals(&mut closed_over(records), 10), [(0, 2), (0, 1), (300, 1)]);
}
