//! Processes with a pace of their own, recorded on one device and replayed on another.

use traces::{Lba, Sectors};

use super::journal_tests::{JOURNAL, record, recorded, replayed};
use super::pace::Pace;
use super::tests::closed_over;
use super::*;

/// The stream beside others.
const STREAM: u32 = 5;
/// The distance between batches.
const PERIOD: u64 = 80_000;
const BATCHES: u64 = 300;

/// Number `n` of a series of values from 0 to below `range`; each `salt` has its own.
fn drawn(range: u64, salt: u64, n: u64) -> u64 {
    let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % range
}

/// The batch that was sent last.
#[derive(Clone, Copy, Default)]
struct Last {
    begun: u64,
    done: u64,
    /// When the batch before it was done.
    before_done: u64,
}

/// What decides when batch number `n` begins.
type Begin = fn(u64, Last) -> u64;

/// The program thinks, and waits for its requests.
fn thinking(n: u64, last: Last) -> u64 {
    last.done + PERIOD / 2 + drawn(1_000, 1, n)
}

/// The program thinks for exactly as long each time.
fn thinking_evenly(_: u64, last: Last) -> u64 {
    last.done + PERIOD / 2
}

/// The program thinks for a shorter and a longer time in turn.
fn thinking_in_turns(n: u64, last: Last) -> u64 {
    last.done + PERIOD / 2 + n % 2 * 2_000
}

/// The program reads a file through read-ahead. It sends the second batch from within the first. Then it goes through
/// the batch before the last one.
fn reading_ahead(n: u64, last: Last) -> u64 {
    gone_through(n, last, PERIOD + drawn(400, 2, n))
}

/// The same program goes through a batch faster than most are read.
fn reading_ahead_fast(n: u64, last: Last) -> u64 {
    gone_through(n, last, 3_000 + drawn(400, 2, n))
}

fn gone_through(n: u64, last: Last, takes: u64) -> u64 {
    if n == 1 { last.done + takes } else { last.begun.max(last.before_done) + takes }
}

/// The program reads files of ten batches. At the end of a file it goes through all that it has left.
fn reading_files(n: u64, last: Last) -> u64 {
    match n % 10 {
        0 => reading_ahead(n, last).max(last.done) + 60_000,
        1 => last.done + 60_000,
        _ => reading_ahead(n, last),
    }
}

/// The program sends by the clock, or at once if it is late.
fn by_clock(n: u64, last: Last) -> u64 {
    (n * PERIOD + drawn(400, 3, n)).max(last.done)
}

/// The requests of a stream. Each batch has so many, one after the other. One takes `service`, and up to `more`.
fn sent(begin: Begin, batch: u64, service: u64, more: u64) -> Vec<Record> {
    let mut last = Last::default();
    let mut place = Lba::ZERO;
    let mut records = Vec::new();
    for n in 0..BATCHES {
        let begun = if n == 0 { 0 } else { begin(n, last) };
        let mut done = begun;
        for request in 0..batch {
            let took = service + if more > 0 { drawn(more, 4, batch * n + request) } else { 0 };
            let mut read = record(STREAM, done, took, Operation::Read, Flags::empty());
            read.request.lba = place;
            place = read.request.end();
            records.push(read);
            done += took;
        }
        last = Last { begun, done, before_done: last.done };
    }
    records
}

/// The same requests, of files of ten batches, which lie apart.
fn in_files(mut records: Vec<Record>) -> Vec<Record> {
    for (number, record) in records.iter_mut().enumerate() {
        record.request.lba = Lba::new(record.request.lba.sector() + number as u64 / 10 * 1_000);
    }
    records
}

/// The same requests, none of which begins where another ends.
fn scattered(mut records: Vec<Record>) -> Vec<Record> {
    for (number, record) in records.iter_mut().enumerate() {
        record.request.lba = Lba::new(number as u64 * 64);
    }
    records
}

fn pace(records: &[Record]) -> Option<Pace> {
    StreamRoles::of(records).paced(VmId(0), StreamId(STREAM)).map(|paced| paced.by)
}

#[test]
fn pace_is_told_from_thinking() {
    for batch in [1, 3] {
        for (service, more) in [(4_000, 8_000), (300, 3_000)] {
            let pace_of = |begin| pace(&sent(begin, batch, service, more));
            assert_eq!(pace_of(thinking), None, "{batch} requests of {service} to {more} more");
            assert_eq!(pace_of(thinking_evenly), None, "{batch} requests of {service} to {more} more");
            assert_eq!(pace_of(thinking_in_turns), None, "{batch} requests of {service} to {more} more");
            assert_eq!(pace_of(reading_ahead), Some(Pace::ReadAhead), "{batch} requests of {service} to {more} more");
            assert_eq!(pace_of(by_clock), Some(Pace::Clock), "{batch} requests of {service} to {more} more");
        }
    }
}

#[test]
fn where_requests_always_take_the_same_time_only_the_clock_shows() {
    for batch in [1, 3] {
        let pace_of = |begin| pace(&sent(begin, batch, 500, 0));
        assert_eq!(pace_of(thinking), None);
        assert_eq!(pace_of(thinking_evenly), None);
        assert_eq!(pace_of(thinking_in_turns), None);
        assert_eq!(pace_of(reading_ahead), None);
        assert_eq!(pace_of(by_clock), Some(Pace::Clock));
    }
}

#[test]
fn think_times_that_end_on_the_turns_of_a_platter_are_no_clock() {
    // Each completion is a whole number of turns after the one before. So distances make up for one another.
    let turn = 4_000;
    let (mut at, mut records) = (0u64, Vec::new());
    for n in 0..BATCHES {
        let done = (at + 1_000).next_multiple_of(turn);
        records.push(record(STREAM, at, done - at, Operation::Read, Flags::empty()));
        at = done + PERIOD / 2 + drawn(1_500, 5, n);
    }
    assert_eq!(pace(&records), None);
}

#[test]
fn few_or_irregular_batches_show_no_pace() {
    let records = scattered(sent(by_clock, 1, 4_000, 8_000));
    let some = |keep: fn(usize) -> bool| -> Vec<Record> {
        records.iter().enumerate().filter(|(n, _)| keep(*n)).map(|(_, record)| *record).collect()
    };
    assert_eq!(pace(&some(|n| n < 64)), None, "63 distances");
    assert_eq!(pace(&some(|n| n < 65)), Some(Pace::Clock));
    // The page cache had every tenth, or every third.
    assert_eq!(pace(&some(|n| n % 10 != 3)), Some(Pace::Clock));
    assert_eq!(pace(&some(|n| n % 3 != 0)), None);
    let early: Begin =
        |n, last| by_clock(n, last).saturating_sub(if n % 10 == 5 { PERIOD / 2 } else { 0 }).max(last.done);
    assert_eq!(pace(&scattered(sent(early, 1, 4_000, 8_000))), Some(Pace::Clock), "every tenth comes early");
    let wild: Begin = |n, last| (n * PERIOD + drawn(PERIOD / 2, 6, n)).max(last.done);
    assert_eq!(pace(&scattered(sent(wild, 1, 4_000, 8_000))), None, "distances differ by a third");
}

#[test]
fn pace_stays_on_a_slower_and_on_a_faster_device() {
    for (begin, by) in [(reading_ahead as Begin, Pace::ReadAhead), (by_clock, Pace::Clock)] {
        for batch in [1, 3] {
            let trace = sent(begin, batch, 4_000, 8_000);
            assert_eq!(pace(&trace), Some(by));
            for service in [100, 12_000] {
                let mut source = closed_over(trace.clone());
                let found = replayed(&mut source, service);
                assert_eq!(source.late(), 0);
                let begins = |arrivals: &[u64]| arrivals.iter().step_by(batch as usize).copied().collect::<Vec<_>>();
                let truth = recorded(&sent(begin, batch, service, 0));
                assert_eq!(begins(&found[&STREAM]), begins(&truth[&STREAM]), "{by:?}, {service}");
            }
        }
    }
}

#[test]
fn program_that_reads_ahead_waits_for_what_it_goes_through() {
    let trace = sent(reading_ahead, 1, 4_000, 8_000);
    for service in [PERIOD + 20_000, 2 * PERIOD, 5 * PERIOD] {
        let truth = recorded(&sent(reading_ahead, 1, service, 0));
        let found = replayed(&mut closed_over(trace.clone()), service);
        assert_eq!(found[&STREAM], truth[&STREAM], "a request takes {service}");
    }
}

#[test]
fn program_that_is_faster_than_the_device_reads_ahead_by_two_batches() {
    let trace = sent(reading_ahead_fast, 1, 4_000, 8_000);
    assert_eq!(pace(&trace), Some(Pace::ReadAhead));
    for service in [100, 2_000, 9_000, 40_000] {
        let truth = recorded(&sent(reading_ahead_fast, 1, service, 0));
        let found = replayed(&mut closed_over(trace.clone()), service);
        assert_eq!(found[&STREAM], truth[&STREAM], "a request takes {service}");
    }
}

#[test]
fn program_that_reads_files_waits_for_the_first_batch_of_each() {
    let trace = in_files(sent(reading_files, 1, 4_000, 8_000));
    assert_eq!(pace(&trace), Some(Pace::ReadAhead));
    for service in [100, 9_000, 60_000] {
        let truth = recorded(&sent(reading_files, 1, service, 0));
        let found = &replayed(&mut closed_over(trace.clone()), service)[&STREAM];
        // How long the program takes varies by up to 400, which shows at the end of each file.
        let files = BATCHES / 10;
        let off = found.iter().zip(&truth[&STREAM]).map(|(found, truth)| found.abs_diff(*truth)).max();
        assert!(off <= Some(400 * files), "a request takes {service}: {off:?}");
        assert_eq!(found.len() as u64, BATCHES);
    }
    // Where each batch lies elsewhere nothing is read ahead.
    assert_eq!(pace(&scattered(trace)), None);
}

/// What a program sends that reads `files` through read-ahead, one after another, each of windows of these sizes. A
/// sector takes it `sector_ns`, which may depend on the number of the window. Each read takes `service`. The plain
/// version: it goes through the first half of a file's first window before it sends the second, and later comes to the
/// beginning of each window before it sends the next.
fn through_files(
    files: &[Vec<u64>],
    flags: Flags,
    sector_ns: impl Fn(u64) -> u64,
    service: impl Fn(u64) -> u64,
) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let (mut now, mut place) = (0, Lba::ZERO);
    for windows in files {
        let mut send = |at: u64, window: usize| {
            let Some(&size) = windows.get(window) else { return 0 };
            let took = service(records.len() as u64);
            let mut read = record(STREAM, at, took, Operation::Read, flags);
            read.request.lba = place;
            read.request.set_sectors(Sectors::new(size));
            place = read.request.end();
            records.push(read);
            at + took
        };
        let mut number = 0;
        let mut goes_through = |now: u64, sectors: u64| {
            number += 1;
            now + sectors * sector_ns(number)
        };
        let first = send(now, 0);
        now = goes_through(first, windows[0] / 2);
        let mut done = send(now, 1);
        now = goes_through(now, windows[0] - windows[0] / 2);
        for (window, &size) in windows.iter().enumerate().skip(1) {
            let next = send(now, window + 1);
            now = goes_through(now.max(done), size);
            done = next;
        }
    }
    records
}

/// Files whose windows grow to 512 sectors. Each ends with a smaller one.
fn files(count: u64) -> Vec<Vec<u64>> {
    let windows = [64, 128, 256, 512, 512, 512, 512];
    let of = |file: u64| {
        let whole = drawn(7, 7, file) as usize;
        let rest = [40, 100, 180, 360, 440, 120, 200, 330][whole];
        windows[..whole].iter().copied().chain([rest]).collect()
    };
    (0..count).map(of).collect()
}

#[test]
fn program_that_reads_small_files_does_on_another_device_what_it_would_have_done_there() {
    let files = files(120);
    let sector_ns = |_: u64| 100_000;
    let ms = |ms: u64| ms * 1_000_000;
    let trace = through_files(&files, Flags::AHEAD, sector_ns, |n| 2_000_000 + drawn(6_000_000, 8, n));
    assert_eq!(pace(&trace), Some(Pace::ReadAhead));
    for service in [ms(0), ms(3), ms(20), ms(45), ms(200)] {
        let truth = recorded(&through_files(&files, Flags::AHEAD, sector_ns, |_| service));
        let found = replayed(&mut closed_over(trace.clone()), service);
        assert_eq!(found[&STREAM], truth[&STREAM], "a request takes {service} ns");
    }
}

#[test]
fn page_cache_may_say_that_it_reads_ahead() {
    // How long the program takes differs from window to window, by far more than service times do.
    let trace = |flags| {
        let sector_ns = |n: u64| 20_000 + drawn(400_000, 9, n);
        through_files(&files(120), flags, sector_ns, |n| 2_000_000 + drawn(600_000, 8, n))
    };
    assert_eq!(pace(&trace(Flags::AHEAD)), Some(Pace::ReadAhead));
    assert_eq!(pace(&trace(Flags::empty())), None, "times do not show it");
    assert_eq!(pace(&trace(Flags::AHEAD)[..64]), None, "too few batches");
    // The times of a program that waits contradict it.
    let mut waits = sent(thinking, 1, 4_000, 8_000);
    waits.iter_mut().for_each(|record| record.request.flags = Flags::AHEAD);
    assert_eq!(pace(&waits), None);
}

#[test]
fn only_the_clock_makes_up_for_what_came_late() {
    for (begin, by, shift) in [(reading_ahead as Begin, Pace::ReadAhead, 20_000), (by_clock, Pace::Clock, 0)] {
        let trace = sent(begin, 1, 4_000, 8_000);
        assert_eq!(pace(&trace), Some(by));
        let truth = &recorded(&sent(begin, 1, 100, 0))[&STREAM];
        // The tenth request takes a quarter longer than the distance to the next one.
        let mut source = closed_over(trace.clone());
        let mut arrivals = Vec::new();
        while let Next::At(at) = source.next().unwrap() {
            let request = source.take(at, RequestId(0)).unwrap();
            let took = if arrivals.len() == 9 { truth[10] - truth[9] + 20_000 } else { 100 };
            source.completed(at + Nanos::from_ns(took), RequestId(0), &request);
            arrivals.push(at.as_ns());
        }
        assert_eq!(arrivals[..10], truth[..10]);
        assert_eq!(arrivals[10], truth[10] + 20_000, "it waits for the request before");
        let later: Vec<u64> = truth[11..].iter().map(|at| at + shift).collect();
        assert_eq!(arrivals[11..], later, "{by:?}");
    }
}

#[test]
fn requests_by_the_clock_may_overlap_as_in_the_trace() {
    // One of them takes as long as several distances.
    let requests = |service: u64, more: u64| -> Vec<Record> {
        let at = |n: u64| if n == 0 { 0 } else { n * PERIOD + drawn(400, 3, n) };
        (0..BATCHES)
            .map(|n| record(STREAM, at(n), service + drawn(more, 4, n), Operation::Read, Flags::empty()))
            .collect()
    };
    let trace = requests(3 * PERIOD, 5 * PERIOD);
    assert_eq!(pace(&trace), Some(Pace::Clock));
    for service in [100, 3 * PERIOD] {
        let mut source = closed_over(trace.clone());
        let found = replayed(&mut source, service);
        assert_eq!(found[&STREAM], recorded(&trace)[&STREAM], "a request takes {service}");
        assert_eq!(source.late(), 0);
    }
}

#[test]
fn process_that_thinks_is_slower_on_a_slower_device_beside_one_that_does_not() {
    let mut trace = sent(by_clock, 1, 4_000, 8_000);
    let thinks = sent(thinking, 1, 4_000, 8_000);
    trace.extend(thinks.iter().map(|record| {
        let mut record = *record;
        record.request.stream = StreamId(1);
        record
    }));
    trace.sort_by_key(|record| record.request.arrival);
    let found = replayed(&mut closed_over(trace.clone()), 20_000);
    assert_eq!(found[&STREAM], recorded(&trace)[&STREAM]);
    assert!(found[&1].last() > Some(&(recorded(&trace)[&1].last().unwrap() + BATCHES * 10_000)));
}

#[test]
fn pace_goes_on_in_a_replay_that_begins_within_the_trace() {
    for (begin, batch) in [(reading_ahead as Begin, 3), (by_clock, 3), (reading_ahead_fast, 1)] {
        // Requests that always take the same time do not show the pace, which is known here.
        let roles = StreamRoles::of(&sent(begin, batch, 4_000, 8_000));
        let trace = sent(begin, batch, 9_000, 0);
        let span = trace.last().unwrap().request.arrival.as_ns();
        for start in (span / 2..span / 2 + 200_000).step_by(7_001) {
            let source = closed_over(trace.clone()).with_roles(roles.clone());
            let found = replayed(&mut source.starting_at(Timestamp::from_ns(start)), 9_000);
            let expected: Vec<u64> = recorded(&trace)[&STREAM].iter().copied().filter(|at| *at >= start).collect();
            assert_eq!(found[&STREAM], expected, "from {start}");
        }
    }
}

#[test]
fn process_that_syncs_by_the_clock_waits_for_its_commit_and_for_the_clock() {
    let device = |service: u64| -> Vec<Record> {
        let mut done = 0;
        let mut syncs = |n: u64| {
            let at = if n == 0 { 0 } else { by_clock(n, Last { done, ..Last::default() }) };
            done = at + 3 * service;
            let commit = Flags::SYNC | Flags::META;
            let durable = commit | Flags::PREFLUSH | Flags::FUA;
            let steps = [(STREAM, Flags::SYNC), (JOURNAL, commit), (JOURNAL, durable)];
            (at..)
                .step_by(service as usize)
                .zip(steps)
                .map(move |(at, (stream, flags))| record(stream, at, service, Operation::Write, flags))
        };
        (0..BATCHES).flat_map(&mut syncs).collect()
    };
    let trace = device(1_000);
    let roles = StreamRoles::of(&trace);
    assert_eq!(roles.awaited(VmId(0), StreamId(STREAM)), Some(StreamId(JOURNAL)));
    assert_eq!(pace(&trace), Some(Pace::Clock));
    // On the last device a commit takes longer than the clock allows.
    for service in [1_000, 200, 7_000, 50_000] {
        let found = replayed(&mut closed_over(trace.clone()), service);
        assert_eq!(found[&STREAM], recorded(&device(service))[&STREAM], "a request takes {service}");
    }
}
