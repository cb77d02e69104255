//! When a VM counts as having used up its trace.

use super::journal_tests::{JOURNAL, THINKS, record, replayed as replayed_by_stream, synced};
use super::tests::{arrivals, closed_over};
use super::used_up::UsedUpEarly;
use super::*;
use traces::{Lba, Observed, Sectors};

const MS: u64 = 1_000_000;

/// A request of 4 KiB; times in milliseconds.
fn request(stream: u32, operation: Operation, arrival: u64, completed: u64) -> Record {
    let mut request = Request::new(Timestamp::from_ns(arrival * MS), operation, Lba::new(arrival * 8), Sectors::new(8));
    request.stream = StreamId(stream);
    Record {
        request,
        observed: Observed { completed: Some(Timestamp::from_ns(completed * MS)), ..Observed::default() },
    }
}

/// A reader, 100 reads of 10 ms with think times of 1 ms; write-back every 100 ms, which nobody waits for; and a process
/// that reads in the first half.
fn records() -> Vec<Record> {
    let mut first = request(3, Operation::Read, 0, 10);
    // Shows that the trace has flags.
    first.request.flags = Flags::META;
    let reader = (0..100).map(|n| request(1, Operation::Read, n * 11, n * 11 + 10));
    let write_back = (1..=11).map(|n| request(2, Operation::Write, n * 100 - 1, n * 100));
    let stopped = (1..50).map(|n| request(3, Operation::Read, n * 11 + 1, n * 11 + 11));
    let mut records: Vec<Record> = reader.chain(write_back).chain(stopped).collect();
    records.sort_by_key(|record| record.request.arrival);
    records.insert(0, first);
    records
}

/// Replays them on a drive that takes `service` milliseconds.
fn replayed(service: u64) -> Closed {
    let mut source = closed_over(records());
    arrivals(&mut source, service * MS);
    source
}

#[test]
fn vm_is_used_up_when_a_process_that_was_active_to_the_end_has_sent_its_last_request() {
    let mut source = replayed(1);
    assert_eq!(source.used_up().collect::<Vec<_>>(), [Some(Timestamp::from_ns(198 * MS))]);
    assert_eq!(source.ended_vm(), Some(VmId(0)));
    assert_eq!(source.ended_vm(), None);
    // 100 reads and 50 of the process that stops, at its pace; one write came by then.
    let early = UsedUpEarly {
        trace: "listed".to_owned(),
        after: Nanos::from_ms(198),
        arrivals_per_s: 151.0 / 0.198,
        replayed: Nanos::from_ms(1100),
    };
    assert_eq!(source.used_up_early(), [early]);
}

#[test]
fn vm_on_the_drive_of_its_trace_is_used_up_at_the_end() {
    let source = replayed(10);
    assert_eq!(source.used_up().collect::<Vec<_>>(), [Some(Timestamp::from_ns(1089 * MS))]);
    assert_eq!(source.used_up_early(), []);
}

#[test]
fn vm_ends_while_its_write_back_goes_on() {
    let mut source = closed_over(records());
    let mut at = Timestamp::ZERO;
    for id in (0..).map(RequestId) {
        let Next::At(due) = source.next().unwrap() else { panic!("every request completes at once") };
        at = due;
        let request = source.take(at, id).unwrap();
        source.completed(at, id, &request);
        if source.ended_vm().is_some() {
            break;
        }
    }
    assert_eq!(at, Timestamp::from_ns(99 * MS));
    assert!(!source.has_exhausted_vm());
    assert_eq!(source.next().unwrap(), Next::At(Timestamp::from_ns(199 * MS)));
}

#[test]
fn journal_uses_up_no_trace_since_it_repeats_commits() {
    let mut records = synced(&THINKS, 50, 1_000_000);
    let at = records.partition_point(|record| record.request.arrival < Timestamp::from_ns(950_000));
    // A block of the log that is not in memory.
    records.insert(at, record(JOURNAL, 950_000, 50, Operation::Read, Flags::META));
    let mut source = closed_over(records);
    let arrivals = replayed_by_stream(&mut source, 5_000);
    let last = (0..THINKS.len() as u32).map(|process| arrivals[&process].last().copied().unwrap()).min();
    assert_eq!(source.used_up().collect::<Vec<_>>(), [last.map(Timestamp::from_ns)]);
}

#[test]
fn pause_of_a_process_is_no_end_though_nothing_further_is_read_and_an_end_before_the_last_read_counts() {
    let every_10_ms = (0..100).map(|n| request(1, Operation::Read, n * 10, n * 10 + 5));
    let pauses = [500, 985].map(|at| request(2, Operation::Read, at, at + 4));
    let ends = (0..93).map(|n| request(3, Operation::Read, n * 10 + 1, n * 10 + 6));
    let mut records: Vec<Record> = every_10_ms.chain(pauses).chain(ends).collect();
    records.sort_by_key(|record| record.request.arrival);
    let mut source = closed_over(records);
    source.buffered_max = 4;
    arrivals(&mut source, 5 * MS);
    assert_eq!(source.used_up().collect::<Vec<_>>(), [Some(Timestamp::from_ns(921 * MS))]);
}
