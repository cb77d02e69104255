//! Infers which processes wait while other processes' writes are outstanding.
//!
//! A process that changes a file waits while the journal writes the block that it would change. In Linux,
//! `do_get_write_access` of `fs/jbd2/transaction.c` waits for a buffer that a commit is writing. The process resumes
//! when the journal's write completes, not after its own think time. On a busier device the journal takes longer, so
//! the process waits nearly always, and resumes together with all others that waited.
//!
//! Such a wait is therefore a second condition beside the dependency of a request, not the dependency itself. A kind of
//! writes *blocks* a process if two conditions hold. While such writes are outstanding, the process starts hardly any
//! batch, although it would start many by chance. Soon after these writes complete, it starts more batches than by
//! chance: about as many as were missing while they were outstanding.
//!
//! The inference distinguishes kinds of writes (a process's plain or durable ones), not blocks. A process that waits
//! for only some writes of a kind is not detected.

use std::ops::{Range, RangeInclusive};

use traces::{Nanos, Timestamp};

use crate::isolated_trace::TracedRequest;
use crate::twin::workload::dependencies::{After, Dependency, Streams, batches};

/// Number of kinds of writes: plain and durable ones of each of 32 processes.
pub(crate) const WRITE_KINDS: usize = 64;
/// Fewest starts that chance has to expect during such writes. Set by judgement; not varied.
const EXPECTED_STARTS_MIN: f64 = 30.0;
/// Largest share of the expected starts that may be observed during such writes. Set by judgement; not varied.
const OBSERVED_STARTS_SHARE_MAX: f64 = 0.05;
/// Longest time from the completion of such writes to the start of a process that waited for it. Set by judgement; not
/// varied.
const RESUME_DELAY_MAX: Nanos = Nanos::from_ms(2);
/// Starts soon after such writes, beyond chance, for each start expected during them. Below, the two run in step by
/// chance. Above, the process starts after such writes for another reason. The upper end was chosen on the pairs of
/// the lab over virtio (docs/validation/forecasts.md), on which 2 was worse.
const RESUMED_PER_EXPECTED_START: RangeInclusive<f64> = 0.5..=3.0;
/// Share of periods of such writes that starts follow at or above which the process depends on them and does not wait.
/// Set by judgement; not varied.
const RESUMED_PER_PERIOD_MAX: f64 = 0.9;
/// Marks a request that is no write.
const NO_KIND: u8 = u8::MAX;

/// Which kinds of writes block which processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalWaits {
    /// The process of each request.
    pub(crate) process: Vec<u8>,
    /// The kind of each request, or [`NO_KIND`].
    kind: Vec<u8>,
    /// By process: the kinds that block it, a bit each.
    blocked_by: Vec<u64>,
    /// By process: the time from the end of the blocking writes to its start.
    resume_delay: Vec<Nanos>,
}

impl JournalWaits {
    /// No process is blocked by any writes.
    #[cfg(test)]
    pub(crate) const NO_WAITS: JournalWaits =
        JournalWaits { process: Vec::new(), kind: Vec::new(), blocked_by: Vec::new(), resume_delay: Vec::new() };

    /// The kind of writes that a request is of, if it is a write.
    pub(crate) fn kind(&self, index: usize) -> Option<usize> {
        self.kind.get(index).filter(|kind| **kind != NO_KIND).map(|kind| usize::from(*kind))
    }

    /// The kinds that block the process of a request, a bit each, and the time from their end to its start.
    pub(crate) fn blockers(&self, index: usize) -> (u64, Nanos) {
        self.process.get(index).map_or((0, Nanos::ZERO), |process| {
            (self.blocked_by[usize::from(*process)], self.resume_delay[usize::from(*process)])
        })
    }

    /// The waits of a range of the requests.
    pub(crate) fn within(&self, requests: Range<usize>) -> JournalWaits {
        JournalWaits {
            process: self.process[requests.clone()].to_vec(),
            kind: self.kind[requests].to_vec(),
            blocked_by: self.blocked_by.clone(),
            resume_delay: self.resume_delay.clone(),
        }
    }
}

/// By kind: the periods in which its writes were outstanding, in order and without overlap.
fn periods(requests: &[TracedRequest], kinds: &[u8]) -> Vec<Vec<(Timestamp, Timestamp)>> {
    let mut periods: Vec<Vec<(Timestamp, Timestamp)>> = vec![Vec::new(); WRITE_KINDS];
    for (request, kind) in requests.iter().zip(kinds).filter(|(_, kind)| **kind != NO_KIND) {
        let of_kind = &mut periods[usize::from(*kind)];
        match of_kind.last_mut().filter(|last| last.1 >= request.arrival) {
            Some(last) => last.1 = last.1.max(request.completed),
            None => of_kind.push((request.arrival, request.completed)),
        }
    }
    periods
}

/// The last period that began before `at`.
fn last_before(periods: &[(Timestamp, Timestamp)], at: Timestamp) -> Option<(Timestamp, Timestamp)> {
    periods.partition_point(|period| period.0 < at).checked_sub(1).map(|index| periods[index])
}

/// How often a process started a batch: in all, while a kind of writes was outstanding, and soon after.
#[derive(Clone, Debug, Default)]
struct Starts {
    all: f64,
    during: f64,
    soon_after: f64,
}

impl Starts {
    /// Whether the writes block the process. They are outstanding for the share `during` of the time, in `periods`
    /// periods; the windows soon after these cover the share `soon_after`.
    fn are_blocked(&self, during: f64, soon_after: f64, periods: usize) -> bool {
        let expected = self.all * during;
        let resumed = self.soon_after - self.all * soon_after;
        let seldom = expected >= EXPECTED_STARTS_MIN && self.during <= OBSERVED_STARTS_SHARE_MAX * expected;
        seldom
            && RESUMED_PER_EXPECTED_START.contains(&(resumed / expected))
            && self.soon_after < RESUMED_PER_PERIOD_MAX * periods as f64
    }
}

/// Infers the waits and removes them from `dependencies`: a process that waited gets its usual think time instead.
pub(crate) fn infer(requests: &[TracedRequest], dependencies: &mut [Dependency]) -> JournalWaits {
    let streams = Streams::of(requests);
    let process: Vec<u8> = requests.iter().map(|request| streams.number(request) as u8).collect();
    let kind = |(request, process): (&TracedRequest, &u8)| {
        let writes = request.moves_data() && request.operation != traces::Operation::Read;
        if writes { process * 2 + u8::from(request.durable) } else { NO_KIND }
    };
    let kinds: Vec<u8> = requests.iter().zip(&process).map(kind).collect();
    let periods = periods(requests, &kinds);
    let batches = batches(requests, dependencies);
    let starts: Vec<usize> = (0..requests.len()).filter(|&index| batches[index] as usize == index).collect();
    let blocked_by = blocked_by(requests, &starts, &process, &kinds, &periods, streams.count);
    let resume_delay = remove_waits(requests, dependencies, &process, &starts, &|process: usize, at: Timestamp| {
        let kinds = (0..WRITE_KINDS).filter(|kind| blocked_by[process] >> kind & 1 == 1);
        let ends = kinds.filter_map(|kind| last_before(&periods[kind], at)).map(|period| period.1);
        ends.filter(|end| *end <= at && at.since(*end) <= RESUME_DELAY_MAX).max()
    });
    JournalWaits { process, kind: kinds, blocked_by, resume_delay }
}

/// By process: the kinds of writes that block it, a bit each. `starts` are the first requests of batches.
fn blocked_by(
    requests: &[TracedRequest],
    starts: &[usize],
    process: &[u8],
    kinds: &[u8],
    periods: &[Vec<(Timestamp, Timestamp)>],
    processes: usize,
) -> Vec<u64> {
    let span = requests.last().map_or(Timestamp::ZERO, |last| last.arrival).saturating_since(Timestamp::ZERO);
    let mut blocked_by = vec![0u64; processes];
    // A process that only reads changes no file and is never blocked.
    let mut writes = vec![false; processes];
    kinds.iter().zip(process).filter(|(kind, _)| **kind != NO_KIND).for_each(|(_, process)| {
        writes[usize::from(*process)] = true;
    });
    for (kind, periods) in periods.iter().enumerate().filter(|(_, periods)| !periods.is_empty()) {
        let busy: u64 = periods.iter().map(|period| period.1.since(period.0).as_ns()).sum();
        let during = busy as f64 / span.as_ns().max(1) as f64;
        let soon_after = (periods.len() as u64 * RESUME_DELAY_MAX.as_ns()) as f64 / span.as_ns().max(1) as f64;
        let mut count = vec![Starts::default(); processes];
        for &index in starts {
            let at = requests[index].arrival;
            let of_process = &mut count[usize::from(process[index])];
            of_process.all += 1.0;
            match last_before(periods, at) {
                Some(period) if at < period.1 => of_process.during += 1.0,
                Some(period) if at.since(period.1) <= RESUME_DELAY_MAX => of_process.soon_after += 1.0,
                _ => {}
            }
        }
        // A process does not block itself.
        for (process, starts) in count.iter().enumerate().filter(|(process, _)| process * 2 != kind & !1) {
            if writes[process] && starts.are_blocked(during, soon_after, periods.len()) {
                blocked_by[process] |= 1 << kind;
            }
        }
    }
    blocked_by
}

/// Gives each start that followed the end of blocking writes its process's median think time. Returns, by process, the
/// median time from that `end` to the start.
fn remove_waits(
    requests: &[TracedRequest],
    dependencies: &mut [Dependency],
    process: &[u8],
    starts: &[usize],
    end: &dyn Fn(usize, Timestamp) -> Option<Timestamp>,
) -> Vec<Nanos> {
    let processes = process.iter().max().map_or(0, |most| usize::from(*most) + 1);
    let mut latest: Vec<Option<u32>> = vec![None; processes];
    let mut think_times: Vec<Vec<Nanos>> = vec![Vec::new(); processes];
    let mut resume_delays: Vec<Vec<Nanos>> = vec![Vec::new(); processes];
    let mut waited = Vec::new();
    // By request: the latest synchronous request of its process before it.
    let mut previous: Vec<Option<u32>> = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        previous.push(latest[usize::from(process[index])]);
        if request.sync {
            latest[usize::from(process[index])] = Some(index as u32);
        }
    }
    for &index in starts {
        let (own, at) = (usize::from(process[index]), requests[index].arrival);
        let Some(before) = previous[index].filter(|&before| requests[before as usize].completed <= at) else {
            continue;
        };
        let think_time = at.since(requests[before as usize].completed);
        match end(own, at) {
            Some(end) => {
                resume_delays[own].push(at.since(end));
                waited.push((index, before, think_time));
            }
            None => think_times[own].push(think_time),
        }
    }
    let median = |times: &mut Vec<Nanos>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    };
    let usual: Vec<Option<Nanos>> = think_times.iter_mut().map(median).collect();
    for (index, before, think_time) in waited {
        if let Some(usual) = usual[usize::from(process[index])] {
            dependencies[index] = Dependency { after: After::Completion(before), think_time: think_time.min(usual) };
        }
    }
    resume_delays.iter_mut().map(|times| median(times).unwrap_or_default()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use traces::{Operation, StreamId};

    use super::*;
    use crate::twin::workload::dependencies;

    fn write(stream: u32, at_us: u64, took_us: u64) -> TracedRequest {
        TracedRequest::sent(Operation::Write, stream, at_us, took_us)
    }

    /// A journal (process 1) that writes for 10 ms in every 25 to 35 ms, and a writer (process 2) that thinks for 20
    /// ms. If `blocked`, the journal's writes block the writer, which starts 300 us after them.
    pub(crate) fn traced(blocked: bool) -> Vec<TracedRequest> {
        let mixed = |n: u64, below: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % below;
        let mut journal = Vec::new();
        let mut at = 0;
        for n in 0..2000 {
            journal.push(write(1, at, 10_000));
            at += 25_000 + mixed(n, 10_000);
        }
        let mut requests = journal.clone();
        let mut due = 5000;
        for n in 0..1500 {
            let held = journal
                .iter()
                .find(|write| blocked && (write.arrival.as_ns() / 1000..write.completed.as_ns() / 1000).contains(&due));
            let begins = held.map_or(due, |write| write.completed.as_ns() / 1000 + 300);
            let took = 2000 + mixed(n + 77, 4000);
            requests.push(write(2, begins, took));
            due = begins + took + 20_000;
        }
        requests.sort_by_key(|request| request.arrival);
        requests
    }

    #[test]
    fn journal_blocks_a_process_that_resumes_after_it_and_keeps_its_think_time() {
        let requests = traced(true);
        let mut dependencies = dependencies::infer(&requests);
        let journal_waits = infer(&requests, &mut dependencies);
        let own = |stream: u32| requests.iter().position(|request| request.stream == StreamId(stream)).unwrap();
        let journal = journal_waits.kind(own(1)).unwrap();
        assert_eq!(journal_waits.blockers(own(2)), (1 << journal, Nanos::from_us(300)));
        assert_eq!(journal_waits.blockers(own(1)).0, 0);
        // Starts that waited have a think time of at most 20 ms, as the others have.
        let ends: Vec<Timestamp> =
            requests.iter().filter(|request| request.stream == StreamId(1)).map(|request| request.completed).collect();
        let waited = |request: &TracedRequest| {
            request.stream == StreamId(2) && ends.iter().any(|end| *end + Nanos::from_us(300) == request.arrival)
        };
        let waited: Vec<&Dependency> = requests
            .iter()
            .zip(&dependencies)
            .filter(|(request, _)| waited(request))
            .map(|(_, dependency)| dependency)
            .collect();
        assert!(waited.len() > 300, "{}", waited.len());
        for dependency in waited {
            assert!(
                matches!(dependency.after, After::Completion(_)) && dependency.think_time <= Nanos::from_ms(20),
                "{dependency:?}"
            );
        }
    }

    #[test]
    fn process_that_starts_after_every_write_of_another_is_not_blocked() {
        // Process 2 commits with two writes after each write of process 1, which starts again 2 ms after the commit.
        let mixed = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % 10_000;
        let mut requests = Vec::new();
        let mut at = 0;
        for n in 0..1500 {
            let took = 5_000 + mixed(n);
            requests.push(write(1, at, took));
            requests.push(write(2, at + took, 1500));
            requests.push(write(2, at + took + 1500, 9_000));
            at += took + 12_500;
        }
        let mut dependencies = dependencies::infer(&requests);
        let before = dependencies.clone();
        let journal_waits = infer(&requests, &mut dependencies);
        assert!(journal_waits.blocked_by.iter().all(|kinds| *kinds == 0), "{:?}", journal_waits.blocked_by);
        assert!(before.iter().zip(&dependencies).all(|(before, after)| before.after == after.after));
    }

    #[test]
    fn process_that_only_reads_is_not_blocked() {
        let mut requests = traced(true);
        for request in requests.iter_mut().filter(|request| request.stream == StreamId(2)) {
            request.operation = Operation::Read;
        }
        let mut dependencies = dependencies::infer(&requests);
        let journal_waits = infer(&requests, &mut dependencies);
        assert!((0..requests.len()).all(|index| journal_waits.blockers(index).0 == 0));
    }

    #[test]
    fn period_of_writes_lasts_until_the_last_of_them_completes() {
        let requests = [write(1, 0, 20_000), write(1, 5000, 1000), write(1, 30_000, 1000)];
        let us = |us: u64| Timestamp::from_ns(us * 1000);
        let periods = periods(&requests, &[2, 2, 2]);
        assert_eq!(periods[2], [(us(0), us(20_000)), (us(30_000), us(31_000))]);
        assert_eq!(last_before(&periods[2], us(25_000)), Some((us(0), us(20_000))));
        assert_eq!(last_before(&periods[2], us(0)), None);
    }

    #[test]
    fn process_that_starts_at_any_time_is_not_blocked() {
        let requests = traced(false);
        let mut dependencies = dependencies::infer(&requests);
        let before = dependencies.clone();
        let journal_waits = infer(&requests, &mut dependencies);
        assert!((0..requests.len()).all(|index| journal_waits.blockers(index).0 == 0));
        assert_eq!(dependencies, before);
    }

    #[test]
    fn process_in_step_with_writes_is_not_blocked() {
        let none_blocked = |requests: &[TracedRequest]| {
            let mut dependencies = dependencies::infer(requests);
            let journal_waits = infer(requests, &mut dependencies);
            (0..requests.len()).all(|index| journal_waits.blockers(index).0 == 0)
        };
        // Two writers in turn, the second 5 ms after the first completes: neither ever starts while the other writes.
        let in_turn: Vec<TracedRequest> =
            (0..2000).flat_map(|n| [write(1, n * 30_000, 10_000), write(2, n * 30_000 + 15_000, 4000)]).collect();
        assert!(none_blocked(&in_turn));
        // A journal that starts whenever one of three others completes.
        let journal = |n: u64| [write(2 + (n % 3) as u32, n * 30_000, 6000), write(1, n * 30_000 + 6000, 12_000)];
        assert!(none_blocked(&(0..2000).flat_map(journal).collect::<Vec<_>>()));
    }
}
