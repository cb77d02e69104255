//! Processes that wait for a journal, recorded on one device and replayed on another, against the same processes on that
//! device.

use std::collections::BTreeMap;

use traces::{Lba, Observed, Sectors};

use super::tests::closed_over;
use super::*;

pub(super) const JOURNAL: u32 = 9;

/// A request of a stream.
pub(super) fn record(stream: u32, arrival: u64, took: u64, operation: Operation, flags: Flags) -> Record {
    let mut request = Request::new(Timestamp::from_ns(arrival), operation, Lba::ZERO, Sectors::new(8));
    (request.stream, request.flags) = (StreamId(stream), flags);
    let completed = Some(Timestamp::from_ns(arrival + took));
    Record { request, observed: Observed { completed, ..Observed::default() } }
}

/// What processes do that write, sync and think for these times each, over and over, on a device that takes `service`
/// for each request. The journal's commit is a write, then a durable one. The plain version: one step after another.
pub(super) fn synced(thinks: &[u64], service: u64, until: u64) -> Vec<Record> {
    synced_at_random(thinks, service, until, |think, _| think)
}

/// The same processes, whose think times are drawn: `think` has the time of the process, and the number of the commit.
fn synced_at_random(thinks: &[u64], service: u64, until: u64, think: fn(u64, u64) -> u64) -> Vec<Record> {
    synced_by_commits(thinks, service, until, think, 2)
}

/// The same processes, whose commits have so many writes.
pub(super) fn synced_by_commits(
    thinks: &[u64],
    service: u64,
    until: u64,
    think: fn(u64, u64) -> u64,
    writes: u64,
) -> Vec<Record> {
    let mut commits = 0;
    let mut records = Vec::new();
    let mut begins: Vec<u64> = thinks.iter().enumerate().map(|(number, _)| number as u64 * 137).collect();
    // When each process asked for a commit.
    let mut asked: Vec<Option<u64>> = vec![None; thinks.len()];
    let mut free = 0;
    loop {
        // Every process that thinks writes next; then the journal serves those that had asked by its beginning.
        for (number, begin) in begins.iter().enumerate() {
            if asked[number].is_none() && *begin < until {
                records.push(record(number as u32, *begin, service, Operation::Write, Flags::SYNC));
                asked[number] = Some(begin + service);
            }
        }
        let Some(first) = asked.iter().flatten().min().copied() else { break };
        let begin = first.max(free);
        for write in 1..=writes {
            let durable = if write == writes { Flags::PREFLUSH | Flags::FUA } else { Flags::empty() };
            let at = begin + (write - 1) * service;
            records.push(record(JOURNAL, at, service, Operation::Write, Flags::SYNC | Flags::META | durable));
        }
        free = begin + writes * service;
        commits += 1;
        for (number, since) in asked.iter_mut().enumerate() {
            if since.is_some_and(|since| since < begin || since == first) {
                *since = None;
                begins[number] = free + think(thinks[number], commits);
            }
        }
    }
    records.sort_by_key(|record| record.request.arrival);
    records
}

/// By stream: the arrivals of a replay on a device that takes `service` for each request.
pub(super) fn replayed(source: &mut Closed, service: u64) -> BTreeMap<u32, Vec<u64>> {
    let mut arrivals: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (at, stream) in super::tests::arrivals(source, service) {
        arrivals.entry(stream).or_default().push(at);
    }
    arrivals
}

/// By stream: the arrivals of a trace.
pub(super) fn recorded(records: &[Record]) -> BTreeMap<u32, Vec<u64>> {
    let mut arrivals: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for Record { request, .. } in records {
        arrivals.entry(request.stream.0).or_default().push(request.arrival.as_ns());
    }
    arrivals
}

pub(super) const THINKS: [u64; 3] = [3_011, 5_023, 1_707];

#[test]
fn processes_that_sync_do_on_another_device_what_they_would_have_done_there() {
    for (from, to) in [(1_000, 1_000), (1_000, 90), (1_000, 7_000), (50, 2_000), (9_000, 20)] {
        let trace = synced(&THINKS, from, 1_000_000);
        let truth = recorded(&synced(&THINKS, to, 1_000_000));
        let mut source = closed_over(trace.clone());
        let found = replayed(&mut source, to);
        assert_eq!(source.late(), 0);
        for stream in 0..THINKS.len() as u32 {
            assert_eq!(found[&stream].len(), recorded(&trace)[&stream].len(), "all of stream {stream}");
        }
        // Until the first process has used up its requests.
        let last = (0..THINKS.len() as u32).map(|stream| *found[&stream].last().unwrap()).min().unwrap();
        let until = last.min(1_000_000);
        for stream in [0, 1, 2, JOURNAL] {
            let shared = |arrivals: &[u64]| arrivals.iter().filter(|at| **at < until).copied().collect::<Vec<_>>();
            assert_eq!(shared(&found[&stream]), shared(&truth[&stream]), "stream {stream} from {from} to {to}");
        }
    }
}

#[test]
fn replay_that_begins_within_a_trace_goes_on_as_recorded() {
    let mut trace = synced(&THINKS, 1_000, 200_000);
    // A process that keeps two reads outstanding.
    trace.extend((0..360).map(|round| record(5, round * 550, 1_000, Operation::Read, Flags::empty())));
    trace.sort_by_key(|record| record.request.arrival);
    let roles = StreamRoles::of(&trace);
    let mut waited = 0;
    for start in (10_000..60_000).step_by(317) {
        let source = || closed_over(trace.clone()).with_roles(roles.clone()).starting_at(Timestamp::from_ns(start));
        let after: Vec<Record> =
            trace.iter().filter(|record| record.request.arrival.as_ns() >= start).copied().collect();
        let mut expected = recorded(&after);
        let mut found = replayed(&mut source(), 1_000);
        // Requests of the commit that runs at the start are not made again.
        let [journal, of_trace] = [&mut found, &mut expected].map(|of| of.remove(&JOURNAL).unwrap());
        assert!(of_trace.ends_with(&journal) && of_trace.len() - journal.len() <= 1, "from {start}");
        assert_eq!(found, expected, "from {start}, on the same device");
        // On a slow one, what waits for a request that is made again waits longer.
        let found = replayed(&mut source(), 50_000);
        for stream in 0..THINKS.len() as u32 {
            let first = expected[&stream][0];
            let commit = journal.chunks(2).map(|pair| pair[1] + 1_000).take_while(|end| *end <= first).last();
            if let Some(end) = commit.filter(|end| first - end == THINKS[stream as usize]) {
                assert!(found[&stream][0] > start + 50_000, "stream {stream} from {start}: commit until {end}");
                waited += 1;
            }
        }
    }
    assert!(waited > 50, "{waited}");
}

#[test]
fn commits_are_shared_on_a_slow_device_and_repeated_on_a_fast_one() {
    let counts = |from, to| {
        let mut source = closed_over(synced(&THINKS, from, 1_000_000));
        replayed(&mut source, to);
        let commits = source.journal_commits();
        // A commit has two requests.
        assert_eq!(
            (commits.requests_left_out, commits.requests_repeated),
            (2 * commits.left_out, 2 * commits.repeated)
        );
        (commits.recorded, commits.recorded - commits.left_out + commits.repeated)
    };
    let (recorded, made) = counts(1_000, 1_000);
    assert_eq!(recorded, made);
    // Until the fastest process has used up its requests, and for the others after that.
    let (recorded, made) = counts(50, 5_000);
    assert!(10 * made < 9 * recorded, "{made} of {recorded}");
    let (recorded, made) = counts(5_000, 50);
    assert!(10 * made > 12 * recorded, "{made} of {recorded}");
}

#[test]
fn commit_that_nobody_waits_for_comes_by_its_timer() {
    // The journal commits every 50 us while nobody wants it, and the process's commits begin the time anew.
    let mut trace = synced(&[3_011], 100, 200_000);
    let end = trace.last().unwrap().request.arrival.as_ns();
    for round in 1..=10 {
        let durable = Flags::SYNC | Flags::PREFLUSH | Flags::FUA;
        trace.push(record(JOURNAL, end + round * 50_000, 100, Operation::Write, durable));
    }
    let mut source = closed_over(trace);
    let found = replayed(&mut source, 900);
    assert_eq!(source.late(), 0);
    let last = &found[&JOURNAL][found[&JOURNAL].len() - 10..];
    assert!(last.windows(2).all(|pair| pair[1] - pair[0] == 50_000), "{last:?}");
}

#[test]
fn process_that_does_not_wait_is_not_made_to() {
    // A writer past the page cache, a reader, and two processes that sync.
    let mut trace = synced(&THINKS[..2], 700, 1_000_000);
    for round in 0..800u64 {
        let shift = round * 7_919 % 500;
        trace.push(record(5, round * 1_200 + shift, 400, Operation::Write, Flags::SYNC));
        trace.push(record(6, round * 1_150 + shift, 300, Operation::Read, Flags::empty()));
    }
    trace.sort_by_key(|record| record.request.arrival);
    let roles = StreamRoles::of(&trace);
    let awaited = |stream| roles.awaited(VmId(0), StreamId(stream));
    assert_eq!([0, 1, 5, 6].map(awaited), [Some(StreamId(JOURNAL)), Some(StreamId(JOURNAL)), None, None]);
    assert!(roles.is_journal(VmId(0), StreamId(JOURNAL)) && !roles.is_journal(VmId(0), StreamId(0)));
    // On a fast device it is not seen in arrivals during commits, but in commits that begin at once.
    let fast = synced(&[40_011], 30, 4_000_000);
    assert_eq!(StreamRoles::of(&fast).awaited(VmId(0), StreamId(0)), Some(StreamId(JOURNAL)));
}

#[test]
fn process_with_random_think_times_is_seen_to_wait() {
    // Up to twice the mean time, so that counted from the commit they are no steadier than from the write.
    let drawn = |mean: u64, commit: u64| commit.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (2 * mean);
    for service in [3_000, 15] {
        let trace = synced_at_random(&[9_000], service, 6_000_000, drawn);
        let awaited = StreamRoles::of(&trace).awaited(VmId(0), StreamId(0));
        assert_eq!(awaited, Some(StreamId(JOURNAL)), "a request takes {service}");
    }
    // Several share commits, which then begin late after most of their writes.
    let trace = synced_at_random(&[9_000, 7_001, 11_003], 5_000, 6_000_000, drawn);
    let roles = StreamRoles::of(&trace);
    assert_eq!([0, 1, 2].map(|of| roles.awaited(VmId(0), StreamId(of))), [Some(StreamId(JOURNAL)); 3]);
    // On a slow device another process would go on during commits.
    let mut trace = synced_at_random(&[9_000], 3_000, 6_000_000, drawn);
    let other = |n: u64| record(5, n * 9_500 + n * 7_919 % 4_000, 400, Operation::Write, Flags::SYNC);
    trace.extend((0..600).map(other));
    trace.sort_by_key(|record| record.request.arrival);
    assert_eq!(StreamRoles::of(&trace).awaited(VmId(0), StreamId(5)), None);
}

#[test]
fn process_that_thinks_for_long_or_syncs_seldom_is_not_made_to_wait() {
    let awaited = |own: Vec<Record>| {
        let mut trace = synced(&THINKS[..2], 700, 2_000_000);
        trace.extend(own);
        trace.sort_by_key(|record| record.request.arrival);
        StreamRoles::of(&trace).awaited(VmId(0), StreamId(5))
    };
    // It writes past the page cache and thinks for several commits: one always ends before it goes on.
    let shift = |n: u64| n * 7_919 % 5_000;
    let thinks = |n: u64| record(5, n * 17_000 + shift(n), 400, Operation::Write, Flags::SYNC);
    assert_eq!(awaited((0..110).map(thinks).collect()), None);
    // It writes often, and goes on during commits as often as not.
    let often = |n: u64| record(5, n * 3_900 + shift(n) / 4, 400, Operation::Write, Flags::SYNC);
    assert_eq!(awaited((0..500).map(often).collect()), None);
    // It waits for a commit after one write of four, and not for the others.
    let (mut own, mut at) = (Vec::new(), 0);
    let commits: Vec<(u64, u64)> = synced(&THINKS[..2], 700, 2_000_000)
        .iter()
        .filter(|record| record.request.stream == StreamId(JOURNAL) && record.request.flags.contains(Flags::FUA))
        .map(|record| record.request.arrival.as_ns())
        .map(|durable| (durable - 700, durable + 700))
        .collect();
    for n in 0..400 {
        own.push(record(5, at, 100, Operation::Write, Flags::SYNC));
        at += 150;
        if n % 4 == 0 {
            at = commits.iter().find(|(begin, _)| *begin >= at).map_or(at, |(_, end)| *end) + 50;
        }
    }
    assert_eq!(awaited(own), None);
}

#[test]
fn journal_of_a_file_system_in_a_file_waits_for_no_other_journal() {
    // Its commits are followed by those of the journal below, for which it waits like its processes.
    let inner = synced_by_commits(&THINKS, 1_000, 1_000_000, |think, _| think, 1);
    let end = inner.last().unwrap().request.arrival.as_ns();
    let durable = Flags::SYNC | Flags::PREFLUSH | Flags::FUA;
    let below = inner.iter().filter(|record| record.request.flags.contains(Flags::FUA)).map(|request| {
        let completed = request.observed.completed.unwrap().as_ns();
        record(8, completed + 10, 30, Operation::Write, durable)
    });
    let mut trace: Vec<Record> = inner.iter().copied().chain(below).collect();
    // The upper one commits a few times by its timer, too.
    trace.extend((1..=5).map(|n| record(JOURNAL, end + n * 100_000, 100, Operation::Write, durable)));
    trace.sort_by_key(|record| record.request.arrival);
    let roles = StreamRoles::of(&trace);
    let awaited = [0, 1, 2, JOURNAL].map(|stream| roles.awaited(VmId(0), StreamId(stream)));
    let upper = Some(StreamId(JOURNAL));
    assert_eq!(awaited, [upper, upper, upper, None]);
}

#[test]
fn programs_that_make_their_own_writes_durable_have_no_journal() {
    let writes = |stream: u32| {
        (0..300u64).map(move |n| {
            let (at, took) = (n * (900 + u64::from(stream) * 13), 100 + n * 7_919 % 300);
            record(stream, at, took, Operation::Write, Flags::SYNC | Flags::FUA)
        })
    };
    let mut trace: Vec<Record> = (1..=4).flat_map(writes).collect();
    trace.sort_by_key(|record| record.request.arrival);
    let roles = StreamRoles::of(&trace);
    for stream in (1..=4).map(StreamId) {
        assert!(!roles.is_journal(VmId(0), stream));
        assert_eq!((roles.awaited(VmId(0), stream), roles.kept_out(VmId(0), stream)), (None, None));
    }
}

#[test]
fn whatever_the_trace_every_request_but_those_of_commits_arrives_once() {
    let mixed = |n: u64, below: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % below;
    let mut with_journal = 0;
    for seed in 0..40u64 {
        // Processes that sync, cut and disturbed: requests get other streams, flags and times.
        let service = 100 + mixed(seed, 3_000);
        let mut trace = synced(&THINKS, service, 300_000);
        for (number, record) in trace.iter_mut().enumerate() {
            let dice = mixed(seed * 1_000_003 + number as u64, 100);
            match dice {
                0 => record.request.stream = StreamId(mixed(number as u64, 5) as u32),
                1 => record.request.flags = Flags::SYNC,
                2 => record.request.flags = Flags::SYNC | Flags::FUA,
                3 => record.observed.completed = None,
                4 => record.request.operation = Operation::Read,
                5 => record.request.flags = Flags::META,
                _ => {}
            }
        }
        for buffered_max in [300, BUFFERED_MAX] {
            let mut source = closed_over(trace.clone());
            source.buffered_max = buffered_max;
            let found = replayed(&mut source, 1 + mixed(seed + 7, 5_000));
            let is_commit = |record: &&Record| {
                let Request { stream, operation, .. } = record.request;
                let writes = operation == Operation::Write && record.request.is_sync();
                source.roles.as_ref().unwrap().is_journal(VmId(0), stream) && writes
            };
            let commits = source.journal_commits();
            with_journal += u32::from(commits.recorded > 0);
            let mut more = commits.requests_repeated as i64 - commits.requests_left_out as i64;
            for (stream, arrivals) in &recorded(&trace) {
                let of_stream = || trace.iter().filter(|record| record.request.stream.0 == *stream);
                let difference = found.get(stream).map_or(0, Vec::len) as i64 - arrivals.len() as i64;
                assert!(difference == 0 || of_stream().any(|record| is_commit(&record)), "{seed}, stream {stream}");
                more -= difference;
            }
            assert_eq!(more, 0, "{seed}: the counts of commits tell how many requests there are");
        }
    }
    assert!(with_journal > 40, "{with_journal} of 80");
}

#[test]
fn each_vm_has_a_journal_of_its_own() {
    // The device serves all at once, so that neither VM delays the other.
    let vms = [(&THINKS[..], 1_000), (&[2_207, 901], 600)];
    let traces: Vec<Vec<Record>> = vms.iter().map(|(thinks, service)| synced(thinks, *service, 400_000)).collect();
    let alone: Vec<usize> =
        traces.iter().map(|trace| replayed(&mut closed_over(trace.clone()), 2_500)[&JOURNAL].len()).collect();
    let mut together = super::tests::closed_over_vms(traces);
    let commits = replayed(&mut together, 2_500)[&JOURNAL].len();
    assert_eq!(commits, alone.iter().sum::<usize>());
}
