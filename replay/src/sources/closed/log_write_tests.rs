//! Processes that a journal keeps out while it writes its log, recorded on one device and replayed on another, against
//! the same processes on that device.

use super::journal_tests::{JOURNAL, record, recorded, replayed, synced};
use super::log_writes::KeptOut;
use super::tests::closed_over;
use super::*;

/// Think times of processes that sync so seldom that the log is written for a tenth of the time.
const THINKS: [u64; 3] = [23_011, 35_023, 18_707];

/// The stream that writes past the page cache.
const WRITER: u32 = 5;
/// From the end of a log write to the write that waited for it.
const RESUMES: u64 = 20;

/// Think time number `n`, from half to one and a half of the mean.
fn drawn(mean: u64, n: u64) -> u64 {
    let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mean / 2 + ((mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % mean
}

/// When the journal of [`synced`] writes its log: from the first write of each commit to the second.
fn log_writes(records: &[Record], service: u64) -> Vec<(u64, u64)> {
    let durable = records.iter().filter(|record| record.request.flags.contains(Flags::FUA));
    durable.map(|record| record.request.arrival.as_ns()).map(|at| (at - service, at)).collect()
}

/// Processes that sync, and a writer that they do not wait for. It thinks for these times on average, and is kept out.
fn with_writer(kept_out: Option<KeptOut>, think: u64, service: u64, until: u64) -> Vec<Record> {
    beside(synced(&THINKS, service, until), |_| kept_out, think, service, until)
}

/// A writer beside processes that sync. After think time number `n` it is kept out so.
fn beside(
    mut records: Vec<Record>,
    kept_out: impl Fn(u64) -> Option<KeptOut>,
    think: u64,
    service: u64,
    until: u64,
) -> Vec<Record> {
    let log = log_writes(&records, service);
    let (mut at, mut n) = (0, 0);
    while at < until {
        records.push(record(WRITER, at, service, Operation::Write, Flags::SYNC));
        let since = at + service;
        at = since + drawn(think, n);
        for &(begin, end) in &log {
            match kept_out(n) {
                Some(KeptOut::AtSend) if begin < at && at < end => at = end + RESUMES,
                Some(KeptOut::Throughout) if begin < at && since < end => at += end - begin.max(since),
                _ => {}
            }
        }
        n += 1;
    }
    records.sort_by_key(|record| record.request.arrival);
    records
}

/// The arrivals of a stream before `until`.
fn before(arrivals: &BTreeMap<u32, Vec<u64>>, stream: u32, until: u64) -> Vec<u64> {
    arrivals[&stream].iter().copied().filter(|at| *at < until).collect()
}

/// The journal that keeps a stream out, and when.
fn found(records: &[Record], stream: u32) -> Option<(u32, KeptOut)> {
    StreamRoles::of(records).kept_out(VmId(0), StreamId(stream)).map(|(journal, when)| (journal.0, when))
}

#[test]
fn writer_is_kept_out_for_as_long_as_the_other_device_writes_the_log() {
    for (from, to) in [(700, 700), (700, 2_000), (700, 100), (2_000, 300)] {
        for kept_out in [KeptOut::AtSend, KeptOut::Throughout] {
            let trace = with_writer(Some(kept_out), 9_000, from, 8_000_000);
            assert_eq!(found(&trace, WRITER), Some((JOURNAL, kept_out)), "from {from}");
            let truth = recorded(&with_writer(Some(kept_out), 9_000, to, 16_000_000));
            let free = recorded(&with_writer(None, 9_000, to, 16_000_000));
            let replay = replayed(&mut closed_over(trace), to);
            // While the processes that sync go on, and so their commits.
            let until = (0..3)
                .map(|stream| *replay[&stream].last().unwrap())
                .min()
                .unwrap()
                .min(*replay[&WRITER].last().unwrap());
            let [seen, truth, free] = [&replay, &truth, &free].map(|of| before(of, WRITER, until));
            if kept_out == KeptOut::Throughout {
                assert_eq!(seen, truth, "from {from} to {to}");
            } else {
                // When it would have written during a log write is in no trace.
                let off = seen.len().abs_diff(truth.len());
                assert!(50 * off <= truth.len(), "from {from} to {to}: {} for {}", seen.len(), truth.len());
            }
            assert_ne!(truth, free, "from {from} to {to}: the log writes matter");
        }
    }
}

#[test]
fn writer_that_sends_during_log_writes_is_not_kept_out() {
    for service in [300, 700, 2_000] {
        assert_eq!(found(&with_writer(None, 9_000, service, 2_000_000), WRITER), None, "a request takes {service}");
        // Nor are processes that wait for each commit that begins after their writes.
        assert!((0..3).all(|stream| found(&synced(&THINKS, service, 2_000_000), stream).is_none()), "{service}");
    }
}

#[test]
fn writer_that_is_kept_out_of_some_log_writes_only_is_not() {
    let of_three = |n: u64| (!n.is_multiple_of(3)).then_some(KeptOut::AtSend);
    let trace = beside(synced(&THINKS, 2_000, 8_000_000), of_three, 9_000, 2_000, 8_000_000);
    assert_eq!(found(&trace, WRITER), None);
}

#[test]
fn writer_that_stands_still_is_told_apart_where_the_log_is_written_all_the_time() {
    // Then most writes come soon after a log write, whatever their process does.
    let busy = synced(&[3_011, 5_023, 1_707], 700, 8_000_000);
    for kept_out in [KeptOut::AtSend, KeptOut::Throughout] {
        let trace = beside(busy.clone(), |_| Some(kept_out), 9_000, 700, 8_000_000);
        assert_eq!(found(&trace, WRITER), Some((JOURNAL, kept_out)));
    }
}

#[test]
fn commits_of_one_write_keep_nobody_out() {
    let trace = super::journal_tests::synced_by_commits(&THINKS, 700, 2_000_000, |think, _| think, 1);
    assert!((0..3).all(|stream| found(&trace, stream).is_none()));
}

/// What processes do that stand still while the log is written, and otherwise think for these times on average, write and
/// sync. The plain version: from one commit to the next.
fn standing_still(thinks: &[u64], service: u64, until: u64) -> Vec<Record> {
    let mut records = Vec::new();
    let mut write = |process: usize, at: u64| {
        records.push(record(process as u32, at, service, Operation::Write, Flags::SYNC));
        at + service
    };
    let mut left: Vec<u64> = thinks.iter().enumerate().map(|(process, _)| 137 * process as u64).collect();
    let mut asked: Vec<Option<u64>> = vec![None; thinks.len()];
    let (mut free, mut commits) = (0, Vec::new());
    while free < until {
        let wants = |process: usize| asked[process].unwrap_or(free + left[process] + service);
        let first = (0..thinks.len()).map(wants).min().unwrap();
        let begin = first.max(free);
        // Thinking goes on until the log is written, and after that.
        for (since, to) in [(free, begin), (begin + service, begin + 2 * service)] {
            for process in 0..thinks.len() {
                match (asked[process], since + left[process]) {
                    (Some(_), _) => {}
                    (None, at) if at < to => asked[process] = Some(write(process, at)),
                    (None, _) => left[process] -= to - since,
                }
            }
        }
        free = begin + 2 * service;
        commits.push(begin);
        for process in 0..thinks.len() {
            if asked[process].is_some_and(|since| since < begin || since == first) {
                asked[process] = None;
                left[process] = drawn(thinks[process], commits.len() as u64);
            }
        }
    }
    for begin in commits {
        let flags = Flags::SYNC | Flags::META;
        records.push(record(JOURNAL, begin, service, Operation::Write, flags));
        let durable = flags | Flags::PREFLUSH | Flags::FUA;
        records.push(record(JOURNAL, begin + service, service, Operation::Write, durable));
    }
    records.sort_by_key(|record| record.request.arrival);
    records
}

#[test]
fn processes_that_sync_stand_still_while_others_are_committed() {
    let thinks = [6_011, 5_023, 7_707];
    for (from, to) in [(700, 700), (700, 2_000), (2_000, 400)] {
        let trace = standing_still(&thinks, from, 4_000_000);
        for stream in 0..3 {
            assert_eq!(found(&trace, stream), Some((JOURNAL, KeptOut::Throughout)), "stream {stream} from {from}");
        }
        // Their commits are other ones, with other think times, so that only the rates are the same.
        let rates = |arrivals: &BTreeMap<u32, Vec<u64>>, until: u64| -> usize {
            (0..3).map(|stream| before(arrivals, stream, until).len()).sum()
        };
        let replay = replayed(&mut closed_over(trace), to);
        let until = (0..3).map(|stream| *replay[&stream].last().unwrap()).min().unwrap();
        let truth = rates(&recorded(&standing_still(&thinks, to, 2 * until)), until);
        let seen = rates(&replay, until);
        assert!(100 * seen.abs_diff(truth) <= 2 * truth, "from {from} to {to}: {seen} for {truth}");
    }
}
