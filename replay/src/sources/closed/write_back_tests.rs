//! How many writes of the page cache are outstanding: of one thread or several, merged or not.

use super::tests::{arrivals, closed_over};
use super::*;
use traces::{Lba, Observed, Sectors};

const MS: u64 = 1_000_000;

/// A write of 4 KiB that nobody waits for; times in milliseconds.
fn write_back(stream: u32, lba: u64, arrival: u64, completed: u64) -> Record {
    let mut request = Request::new(Timestamp::from_ns(arrival * MS), Operation::Write, Lba::new(lba), Sectors::new(8));
    request.stream = StreamId(stream);
    Record {
        request,
        observed: Observed { completed: Some(Timestamp::from_ns(completed * MS)), ..Observed::default() },
    }
}

/// A replay of these, behind a read that shows that the trace has flags.
fn replay(writes: Vec<Record>) -> Closed {
    let mut read = write_back(0, 0, 0, 0);
    (read.request.operation, read.request.flags) = (Operation::Read, Flags::META);
    closed_over([vec![read], writes].concat())
}

/// When the writes arrive if each takes `service` milliseconds, and the most that are outstanding.
fn replayed(mut source: Closed, service: u64) -> (Vec<u64>, usize) {
    let times: Vec<u64> =
        arrivals(&mut source, service * MS).into_iter().filter(|(_, stream)| *stream > 0).map(|(at, _)| at).collect();
    let outstanding = |at: &u64| times.iter().filter(|other| *other <= at && **other + service * MS > *at).count();
    let most = times.iter().map(outstanding).max().unwrap_or(0);
    (times.into_iter().map(|at| at / MS).collect(), most)
}

/// A burst of four scattered writes of a thread, of which two are outstanding.
fn burst(stream: u32, begin: u64) -> Vec<Record> {
    let write = |n: u64| write_back(stream, (begin + n) * 100, begin + 2 * n, begin + 2 * n + 4);
    (0..4).map(write).collect()
}

#[test]
fn threads_that_take_turns_are_one_and_threads_side_by_side_are_not() {
    let turns: Vec<Record> = [1, 2, 3].into_iter().flat_map(|thread| burst(thread, u64::from(thread) * 500)).collect();
    // On a device that takes a second for each, a burst goes on when the next one is due.
    assert_eq!(replayed(replay(turns), 1000).1, 2);
    let mut beside: Vec<Record> = (1..5).flat_map(|n| [burst(1, n * 500), burst(2, n * 500 + 1)].concat()).collect();
    beside.sort_by_key(|record| record.request.arrival);
    assert_eq!(replayed(replay(beside), 1000).1, 4);
}

#[test]
fn merged_writes_count_as_one() {
    let merged = (0..3).map(|n| write_back(1, 1000 + 8 * n, 0, 10));
    let single = [write_back(1, 0, 20, 30), write_back(1, 5000, 40, 50), write_back(1, 9000, 60, 70)];
    let writes: Vec<Record> = merged.chain(single).collect();
    assert_eq!(replayed(replay(writes), 1000).0, [0, 0, 0, 1000, 2000, 3000]);
    // Neither are writes merged that only complete at once, nor neighbours that complete one after the other.
    let mut scattered: Vec<Record> = (0..3).map(|n| write_back(1, 1000 + 80 * n, 0, 10)).collect();
    scattered.extend(single);
    assert_eq!(replayed(replay(scattered), 1000).0, [0, 0, 0, 1000, 1020, 1040]);
    let mut one_by_one: Vec<Record> = (0..3).map(|n| write_back(1, 1000 + 8 * n, 0, 10 + n)).collect();
    one_by_one.extend(single);
    assert_eq!(replayed(replay(one_by_one), 1000).0, [0, 0, 0, 1000, 1020, 1040]);
}

#[test]
fn a_known_depth_takes_the_place_of_the_traces() {
    let writes = || burst(1, 0);
    assert_eq!(replayed(replay(writes()), 1000).1, 2);
    let with = |depth: u32| replayed(replay(writes()).with_write_back_depth(&[VmId(0)], depth), 1000);
    assert_eq!(with(1), (vec![0, 1000, 2000, 3000], 1));
    assert_eq!(with(3).1, 3);
    // It is another VM's.
    assert_eq!(replayed(replay(writes()).with_write_back_depth(&[VmId(1)], 1), 1000).1, 2);
}
