//! What a process never does while another's writes are under way.
//!
//! A process that changes a file waits where the journal is just writing what it would change (in Linux `do_get_write_access` of
//! `fs/jbd2/transaction.c` waits for a buffer that a commit writes). It then goes on with the journal's completion, not after its own
//! think time; and on a busier device, where the journal takes longer, it does so nearly always, together with all others that waited. So
//! such a wait is a second condition beside the cause of a request, and not a cause: a process is *kept out* by a kind of
//! writes if its own requests hardly ever begin while such writes are under way, though by chance many would have, and about as
//! many more begin soon after.

use std::ops::Range;

use traces::{Nanos, Timestamp};

use crate::isolated_trace::TracedRequest;
use crate::twin::workload::dependencies::{After, Dependency, Streams, batches};

/// Kinds of writes: of each process, plain and durable ones.
pub(crate) const KINDS: usize = 64;
/// So many beginnings have to be expected by chance.
const EXPECTED_MIN: f64 = 30.0;
/// And at most this share of them be seen.
const SEEN_MOST: f64 = 0.05;
/// Who begins so soon after has waited.
const SOON: Nanos = Nanos::from_ms(2);
/// Of those that were expected to begin meanwhile, so many times as many begin soon after: these are they. If fewer do, the two go on in
/// step by chance, and if more do, they come after such writes for another reason.
const WAITED: std::ops::RangeInclusive<f64> = 0.5..=3.0;
/// Who begins soon after so many of them comes after them, and has not waited.
const ALWAYS: f64 = 0.9;
/// No kind.
const NONE: u8 = u8::MAX;

/// Who is kept out by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalWaits {
    /// The process of each request.
    pub(crate) process: Vec<u8>,
    /// The kind of each request, or none.
    kind: Vec<u8>,
    /// By process: the kinds that keep it out, a bit each.
    kept_out: Vec<u64>,
    /// By process: how long after them it begins.
    soon: Vec<Nanos>,
}

impl JournalWaits {
    /// Nobody is kept out by anything.
    #[cfg(test)]
    pub(crate) const NO_WAITS: JournalWaits =
        JournalWaits { process: Vec::new(), kind: Vec::new(), kept_out: Vec::new(), soon: Vec::new() };

    /// The kind of writes that a request is of, if it is a write.
    pub(crate) fn kind(&self, index: usize) -> Option<usize> {
        self.kind.get(index).filter(|kind| **kind != NONE).map(|kind| usize::from(*kind))
    }

    /// What keeps the process of a request out, a bit for each kind, and how long after that it begins.
    pub(crate) fn of(&self, index: usize) -> (u64, Nanos) {
        self.process.get(index).map_or((0, Nanos::ZERO), |process| {
            (self.kept_out[usize::from(*process)], self.soon[usize::from(*process)])
        })
    }

    /// Those of some of the requests.
    pub(crate) fn within(&self, requests: Range<usize>) -> JournalWaits {
        JournalWaits {
            process: self.process[requests.clone()].to_vec(),
            kind: self.kind[requests].to_vec(),
            kept_out: self.kept_out.clone(),
            soon: self.soon.clone(),
        }
    }
}

/// When requests of a kind were under way: periods in order, without overlap.
fn periods(requests: &[TracedRequest], kinds: &[u8]) -> Vec<Vec<(Timestamp, Timestamp)>> {
    let mut periods: Vec<Vec<(Timestamp, Timestamp)>> = vec![Vec::new(); KINDS];
    for (request, kind) in requests.iter().zip(kinds).filter(|(_, kind)| **kind != NONE) {
        let of_kind = &mut periods[usize::from(*kind)];
        match of_kind.last_mut().filter(|last| last.1 >= request.arrival) {
            Some(last) => last.1 = last.1.max(request.completed),
            None => of_kind.push((request.arrival, request.completed)),
        }
    }
    periods
}

/// The last period that began before `at`.
fn before(periods: &[(Timestamp, Timestamp)], at: Timestamp) -> Option<(Timestamp, Timestamp)> {
    periods.partition_point(|period| period.0 < at).checked_sub(1).map(|index| periods[index])
}

/// How often a process has begun: at all, while a kind of writes was under way, and soon after.
#[derive(Clone, Debug, Default)]
struct Begun {
    all: f64,
    meanwhile: f64,
    soon: f64,
}

impl Begun {
    /// Whether such writes, which are under way so many `times` for a `share` of the time, keep it out; and `soon` after them is as large
    /// a share.
    fn is_kept_out(&self, share: f64, soon: f64, times: usize) -> bool {
        let expected = self.all * share;
        let waited = self.soon - self.all * soon;
        let seldom = expected >= EXPECTED_MIN && self.meanwhile <= SEEN_MOST * expected;
        seldom && WAITED.contains(&(waited / expected)) && self.soon < ALWAYS * times as f64
    }
}

/// Finds who is kept out, and takes such waits out of `dependencies`: who began soon after has waited for its own think time, as at other times.
pub(crate) fn infer(requests: &[TracedRequest], dependencies: &mut [Dependency]) -> JournalWaits {
    let streams = Streams::of(requests);
    let process: Vec<u8> = requests.iter().map(|request| streams.number(request) as u8).collect();
    let kind = |(request, process): (&TracedRequest, &u8)| {
        let writes = request.moves_data() && request.operation != traces::Operation::Read;
        if writes { process * 2 + u8::from(request.durable) } else { NONE }
    };
    let kinds: Vec<u8> = requests.iter().zip(&process).map(kind).collect();
    let periods = periods(requests, &kinds);
    let span = requests.last().map_or(Timestamp::ZERO, |last| last.arrival).saturating_since(Timestamp::ZERO);
    let batches = batches(requests, dependencies);
    let begins: Vec<usize> = (0..requests.len()).filter(|&index| batches[index] as usize == index).collect();
    let mut kept_out = vec![0u64; streams.count];
    // Who only reads changes nothing.
    let mut writes = vec![false; streams.count];
    kinds.iter().zip(&process).filter(|(kind, _)| **kind != NONE).for_each(|(_, process)| {
        writes[usize::from(*process)] = true;
    });
    for (kind, periods) in periods.iter().enumerate().filter(|(_, periods)| !periods.is_empty()) {
        let busy: u64 = periods.iter().map(|period| period.1.since(period.0).as_ns()).sum();
        let share = busy as f64 / span.as_ns().max(1) as f64;
        let soon_by_chance = (periods.len() as u64 * SOON.as_ns()) as f64 / span.as_ns().max(1) as f64;
        let mut count = vec![Begun::default(); streams.count];
        for &index in &begins {
            let at = requests[index].arrival;
            let begun = &mut count[usize::from(process[index])];
            begun.all += 1.0;
            match before(periods, at) {
                Some(period) if at < period.1 => begun.meanwhile += 1.0,
                Some(period) if at.since(period.1) <= SOON => begun.soon += 1.0,
                _ => {}
            }
        }
        for (process, begun) in count.iter().enumerate().filter(|(process, _)| process * 2 != kind & !1) {
            if writes[process] && begun.is_kept_out(share, soon_by_chance, periods.len()) {
                kept_out[process] |= 1 << kind;
            }
        }
    }
    let soon = take_out(requests, dependencies, &process, &begins, &|process: usize, at: Timestamp| {
        let kinds = (0..KINDS).filter(|kind| kept_out[process] >> kind & 1 == 1);
        let ends = kinds.filter_map(|kind| before(&periods[kind], at)).map(|period| period.1);
        ends.filter(|end| *end <= at && at.since(*end) <= SOON).max()
    });
    JournalWaits { process, kind: kinds, kept_out, soon }
}

/// Gives those that began soon after the `end` of what kept them out their process' usual think time; how soon each process begins.
fn take_out(
    requests: &[TracedRequest],
    dependencies: &mut [Dependency],
    process: &[u8],
    begins: &[usize],
    end: &dyn Fn(usize, Timestamp) -> Option<Timestamp>,
) -> Vec<Nanos> {
    let processes = process.iter().max().map_or(0, |most| usize::from(*most) + 1);
    let mut latest: Vec<Option<u32>> = vec![None; processes];
    let mut thinks: Vec<Vec<Nanos>> = vec![Vec::new(); processes];
    let mut soon: Vec<Vec<Nanos>> = vec![Vec::new(); processes];
    let mut waited = Vec::new();
    let mut of_process: Vec<Option<u32>> = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        of_process.push(latest[usize::from(process[index])]);
        if request.sync {
            latest[usize::from(process[index])] = Some(index as u32);
        }
    }
    for &index in begins {
        let (own, at) = (usize::from(process[index]), requests[index].arrival);
        let Some(before) = of_process[index].filter(|&before| requests[before as usize].completed <= at) else {
            continue;
        };
        let think = at.since(requests[before as usize].completed);
        match end(own, at) {
            Some(end) => {
                soon[own].push(at.since(end));
                waited.push((index, before, think));
            }
            None => thinks[own].push(think),
        }
    }
    let median = |times: &mut Vec<Nanos>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    };
    let usual: Vec<Option<Nanos>> = thinks.iter_mut().map(median).collect();
    for (index, before, think) in waited {
        if let Some(usual) = usual[usize::from(process[index])] {
            dependencies[index] = Dependency { after: After::Completion(before), think_time: think.min(usual) };
        }
    }
    soon.iter_mut().map(|times| median(times).unwrap_or_default()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use traces::{Operation, StreamId};

    use super::*;
    use crate::twin::workload::dependencies;

    fn write(stream: u32, at_us: u64, took_us: u64) -> TracedRequest {
        TracedRequest::sent(Operation::Write, stream, at_us, took_us)
    }

    /// A journal that writes for 10 ms in every 25 to 35, a writer that thinks for 20 ms and is kept out by it if `kept_out`, and
    /// begins 300 us after.
    pub(crate) fn traced(kept_out: bool) -> Vec<TracedRequest> {
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
            let held = journal.iter().find(|write| {
                kept_out && (write.arrival.as_ns() / 1000..write.completed.as_ns() / 1000).contains(&due)
            });
            let begins = held.map_or(due, |write| write.completed.as_ns() / 1000 + 300);
            let took = 2000 + mixed(n + 77, 4000);
            requests.push(write(2, begins, took));
            due = begins + took + 20_000;
        }
        requests.sort_by_key(|request| request.arrival);
        requests
    }

    #[test]
    fn a_process_that_waits_for_a_journal_is_kept_out_by_it_and_thinks_as_ever() {
        let requests = traced(true);
        let mut dependencies = dependencies::infer(&requests);
        let journal_waits = infer(&requests, &mut dependencies);
        let own = |stream: u32| requests.iter().position(|request| request.stream == StreamId(stream)).unwrap();
        let journal = journal_waits.kind(own(1)).unwrap();
        assert_eq!(journal_waits.of(own(2)), (1 << journal, Nanos::from_us(300)));
        assert_eq!(journal_waits.of(own(1)).0, 0);
        // Who waited thinks no longer than the others, whose 20 ms were over.
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
    fn who_comes_after_each_write_of_another_is_not_kept_out() {
        // A commit of two writes after each write of another process, which thinks.
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
        assert!(journal_waits.kept_out.iter().all(|kinds| *kinds == 0), "{:?}", journal_waits.kept_out);
        assert!(before.iter().zip(&dependencies).all(|(before, after)| before.after == after.after));
    }

    #[test]
    fn who_only_reads_is_kept_out_by_nobody() {
        let mut requests = traced(true);
        for request in requests.iter_mut().filter(|request| request.stream == StreamId(2)) {
            request.operation = Operation::Read;
        }
        let mut dependencies = dependencies::infer(&requests);
        let journal_waits = infer(&requests, &mut dependencies);
        assert!((0..requests.len()).all(|index| journal_waits.of(index).0 == 0));
    }

    #[test]
    fn a_period_lasts_until_the_last_of_its_writes_is_done() {
        let requests = [write(1, 0, 20_000), write(1, 5000, 1000), write(1, 30_000, 1000)];
        let us = |us: u64| Timestamp::from_ns(us * 1000);
        let periods = periods(&requests, &[2, 2, 2]);
        assert_eq!(periods[2], [(us(0), us(20_000)), (us(30_000), us(31_000))]);
        assert_eq!(before(&periods[2], us(25_000)), Some((us(0), us(20_000))));
        assert_eq!(before(&periods[2], us(0)), None);
    }

    #[test]
    fn who_begins_at_any_time_is_kept_out_by_nobody() {
        let requests = traced(false);
        let mut dependencies = dependencies::infer(&requests);
        let before = dependencies.clone();
        let journal_waits = infer(&requests, &mut dependencies);
        assert!((0..requests.len()).all(|index| journal_waits.of(index).0 == 0));
        assert_eq!(dependencies, before);
    }

    #[test]
    fn who_goes_on_in_step_with_writes_is_not_kept_out_by_them() {
        let free = |requests: &[TracedRequest]| {
            let mut dependencies = dependencies::infer(requests);
            let journal_waits = infer(requests, &mut dependencies);
            (0..requests.len()).all(|index| journal_waits.of(index).0 == 0)
        };
        // A writer that begins 5 ms after the other is done, which waits for it: neither is ever seen while the other writes.
        let in_turn: Vec<TracedRequest> =
            (0..2000).flat_map(|n| [write(1, n * 30_000, 10_000), write(2, n * 30_000 + 15_000, 4000)]).collect();
        assert!(free(&in_turn));
        // And one that begins whenever one of three others is done.
        let journal = |n: u64| [write(2 + (n % 3) as u32, n * 30_000, 6000), write(1, n * 30_000 + 6000, 12_000)];
        assert!(free(&(0..2000).flat_map(journal).collect::<Vec<_>>()));
    }
}
