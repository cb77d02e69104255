//! Infers what each request of an isolated trace waited for: its dependency.
//!
//! A request arrives some think time after an event of its own VM. A process (a stream of the trace) sends it because
//!
//! 1. an earlier request of the same process completed,
//! 2. a request of another process completed (a process that syncs waits for the journal's thread),
//! 3. the process has just sent the request before it: both belong to one batch,
//! 4. or a timer expired, which runs from the process's previous arrival.
//!
//! Three files have a step each:
//!
//! - `candidates`: the events that a request may depend on. These are the previous arrival of its process and, of each
//!   process, the latest eight completions since then.
//! - `correlogram`: per pair of processes p and q, a histogram of the times from q's completions to p's arrivals. The
//!   *likelihood ratio* is a count over its expectation by chance. Think times repeat and make a peak; processes that
//!   do not wait for one another give a flat line.
//! - `batches`: a process that goes on when a whole batch has completed depends on the batch.
//!
//! `choose`, in this file, runs between `correlogram` and `batches`: the dependency of a request is the candidate with
//! the highest likelihood ratio. Completions of the same process come first, unless another process has a far higher
//! ratio.
//!
//! *Write-back* are the writes that the kernel sends later from the page cache: no process waits for them. If there are
//! at most four of them for each synchronous write or flush, each batch of write-back depends on the latest synchronous write or
//! flush that has completed. Otherwise write-back depends on a timer, as with programs that only fill the page cache.
//!
//! A flush may complete together with an outstanding write (`flushes`). The kernel's journal may also keep a process
//! from sending: see [`super::journal_waits`].
//!
//! The dependencies form a forest over the requests of the trace. The simulation follows it on another device: each
//! request waits for the same event as in the trace.
//!
//! `replay/src/sources/closed/dependencies.rs` is the one-pass variant for `--pacing closed`. It reads a trace record
//! by record and knows one stream at a time. There a request depends on a number of completions of its own stream,
//! whichever these are. Here the whole trace is read first, and a request depends on one event of any process.

mod batches;
mod candidates;
mod correlogram;
mod flushes;

use traces::{Nanos, Operation, Timestamp};

pub(crate) use self::batches::batches;
use self::batches::{BATCH_GAP_MAX, wait_for_all};
pub(crate) use self::candidates::Streams;
use self::candidates::{Candidate, visit};
use self::correlogram::{Correlogram, class};
pub(crate) use self::flushes::flush_ends;
use crate::isolated_trace::TracedRequest;

/// The event that a request depends on. Requests are indexes into the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The beginning of the trace.
    Start,
    /// The arrival of this request.
    Arrival(u32),
    /// The completion of this request.
    Completion(u32),
    /// The last completion of the batch whose first request this is ([`batches`]).
    Batch(u32),
}

/// The dependency of a request: an event, and the think time from it to the request's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) after: After,
    pub(crate) think_time: Nanos,
}

/// The most background requests for each synchronous write or flush at which write-back still depends on these. Set by
/// judgement; not varied.
const BACKGROUND_PER_SYNC_WRITE_MAX: u64 = 4;
/// How many times higher the likelihood ratio of another process's completion must be to be preferred to one of the
/// same process. Set by judgement; not varied.
const OTHER_PROCESS_LIKELIHOOD_RATIO: f64 = 16.0;
/// Lowest ratio of observed to chance occurrences at which a think time is evidence of a dependency. Set by judgement;
/// not varied.
const LIKELIHOOD_RATIO_MIN: f64 = 3.0;

/// Whether write-back among `requests` depends on synchronous writes.
fn writeback_follows_sync_writes(requests: &[TracedRequest]) -> bool {
    let count = |of: fn(&&TracedRequest) -> bool| requests.iter().filter(of).count() as u64;
    let sync_writes = count(|request| request.sync && request.operation != Operation::Read);
    BACKGROUND_PER_SYNC_WRITE_MAX * sync_writes >= count(|request| !request.sync)
}

/// The dependency of each of `requests`, which are in the order of their arrival.
pub(crate) fn infer(requests: &[TracedRequest]) -> Vec<Dependency> {
    let streams = Streams::of(requests);
    let end = requests.iter().map(|request| request.completed).max().unwrap_or_default();
    let mut correlogram = Correlogram::new(streams.count, end.saturating_since(Timestamp::ZERO));
    visit(requests, &streams, |_, stream, candidates, _| {
        correlogram.sent[stream] += 1;
        candidates.iter().for_each(|candidate| correlogram.add(stream, candidate));
    });
    correlogram.settle(requests, &streams);
    let writeback_follows = writeback_follows_sync_writes(requests);
    let mut dependencies: Vec<Dependency> = Vec::with_capacity(requests.len());
    visit(requests, &streams, |request, stream, candidates, latest_sync_write| {
        let dependency = choose(&correlogram, request, stream, candidates);
        let in_batch = matches!(dependency.after, After::Arrival(_)) && dependency.think_time <= BATCH_GAP_MAX;
        let starts_writeback = writeback_follows && !request.sync && !in_batch;
        dependencies.push(match latest_sync_write.filter(|_| starts_writeback) {
            Some((at, leader)) => {
                Dependency { after: After::Completion(leader), think_time: request.arrival.saturating_since(at) }
            }
            None => dependency,
        });
    });
    wait_for_all(requests, &mut dependencies);
    dependencies
}

/// The most likely dependency of `request`, which process `stream` sent, among `candidates`.
fn choose(correlogram: &Correlogram, request: &TracedRequest, stream: usize, candidates: &[Candidate]) -> Dependency {
    let most_likely = |own_only: bool| {
        let mut best: Option<(f64, &Candidate)> = None;
        for candidate in candidates.iter().filter(|candidate| !own_only || candidate.of == Some(stream)) {
            let ratio = correlogram.likelihood_ratio(stream, candidate);
            // Of equal ratios the latest candidate.
            if ratio >= LIKELIHOOD_RATIO_MIN && best.is_none_or(|(most, _)| ratio >= most) {
                best = Some((ratio, candidate));
            }
        }
        best
    };
    // Processes that run in step have high likelihood ratios to one another, too. If the think times after completions
    // of the same process repeat, another process is preferred only if its ratio is far higher. It is never preferred
    // within about a microsecond (class 0): no process reacts that fast. Such times come from requests that follow one
    // another at the device.
    let best = match (most_likely(true), most_likely(false)) {
        (Some((own_ratio, own)), Some((ratio, other)))
            if OTHER_PROCESS_LIKELIHOOD_RATIO * own_ratio >= ratio || class(other.think_time) == 0 =>
        {
            Some(own)
        }
        (_, best) => best.map(|(_, candidate)| candidate),
    };
    let best = best.map(|best| correlogram.exact(stream, best, candidates).unwrap_or(best));
    // If no think time repeats, a synchronous request depends on the latest completion of the same process. Without
    // one, it depends on the timer, as does a background request.
    let own = || candidates.iter().rfind(|candidate| request.sync && candidate.of == Some(stream));
    let timer = || candidates.iter().find(|candidate| candidate.of.is_none());
    match best.or_else(own).or_else(timer) {
        Some(candidate) => Dependency { after: candidate.after, think_time: candidate.think_time },
        None => Dependency { after: After::Start, think_time: request.arrival.saturating_since(Timestamp::ZERO) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stream: u32, arrival_us: u64, response_us: u64, sync: bool) -> TracedRequest {
        let operation = if sync { Operation::Read } else { Operation::Write };
        TracedRequest { sync, ..TracedRequest::sent(operation, stream, arrival_us, response_us) }
    }

    /// The requests of `stream` without the first eight, each with its dependency and all requests by arrival.
    fn of(mut requests: Vec<TracedRequest>, stream: u32) -> Vec<(TracedRequest, Dependency, Vec<TracedRequest>)> {
        requests.sort_by_key(|request| request.arrival);
        let dependencies = infer(&requests);
        let all = requests.iter().zip(dependencies).filter(|(request, _)| request.stream.0 == stream);
        all.skip(8).map(|(request, dependency)| (*request, dependency, requests.clone())).collect()
    }

    /// A pseudo-random number from 0 to `below`, exclusive.
    fn mixed(n: u64, below: u64) -> u64 {
        (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % below
    }

    #[test]
    fn every_dependency_is_on_an_earlier_request_even_if_times_are_equal() {
        // Arrivals and completions share a few times, so that by completion many requests come before earlier arrivals.
        let requests: Vec<TracedRequest> =
            (0..400).map(|n| request((n % 3) as u32, n / 100, mixed(n, 2), n % 5 > 0 && n % 7 > 0)).collect();
        for (index, dependency) in infer(&requests).iter().enumerate() {
            let leader = match dependency.after {
                After::Start => None,
                After::Arrival(leader) | After::Completion(leader) | After::Batch(leader) => Some(leader as usize),
            };
            assert!(leader.is_none_or(|leader| leader < index), "{index}: {dependency:?}");
        }
    }

    /// A reader that thinks for 5 ms after each read. A read takes from 1 to 20 ms.
    fn reader(stream: u32) -> Vec<TracedRequest> {
        let mut at = u64::from(stream) * 777;
        let read = |n: u64| {
            let response = 1000 + mixed(n + u64::from(stream) * 7919, 19_000);
            let request = request(stream, at, response, true);
            at += response + 5000;
            request
        };
        (0..400).map(read).collect()
    }

    #[test]
    fn reader_depends_on_its_own_reads_beside_other_readers() {
        let readers = (1..=4).flat_map(reader).collect();
        for (request, dependency, all) in of(readers, 2) {
            let After::Completion(leader) = dependency.after else { panic!("{dependency:?}") };
            assert_eq!((all[leader as usize].stream, dependency.think_time), (request.stream, Nanos::from_us(5000)));
        }
    }

    #[test]
    fn syncing_process_depends_on_the_journal() {
        // Process 1 writes for 1 to 10 ms, the journal's thread 2 then writes for 10 to 50 ms, and 1 thinks for 3 ms.
        let (mut requests, mut at) = (reader(3), 0);
        for n in 0..300 {
            let (data, journal) = (1000 + mixed(n, 9000), 10_000 + mixed(n + 5000, 40_000));
            requests.push(request(1, at, data, true));
            requests.push(request(2, at + data + 100, journal, true));
            at += data + 100 + journal + 3000;
        }
        let by = |stream| {
            of(requests.clone(), stream).into_iter().map(|(_, dependency, all)| match dependency.after {
                After::Completion(leader) => (all[leader as usize].stream.0, dependency.think_time.as_ns() / 1000),
                other => panic!("{other:?}"),
            })
        };
        assert!(by(1).all(|dependency| dependency == (2, 3000)));
        assert!(by(2).all(|dependency| dependency == (1, 100)));
    }

    #[test]
    fn syncing_process_with_a_long_think_time_depends_on_the_journal() {
        // The journal's thread 2 writes for one of three times, which differ little against the think time of 50 ms.
        let (mut requests, mut at) = (reader(3), 0);
        for n in 0..300 {
            let (data, journal) = (1500, 13_000 + 1300 * mixed(n, 3));
            requests.push(request(1, at, data, true));
            requests.push(request(2, at + data + 100, journal, true));
            at += data + 100 + journal + 50_000;
        }
        for (_, dependency, all) in of(requests, 1) {
            let After::Completion(leader) = dependency.after else { panic!("{dependency:?}") };
            assert_eq!((all[leader as usize].stream.0, dependency.think_time), (2, Nanos::from_us(50_000)));
        }
    }

    #[test]
    fn process_started_by_two_others_does_not_depend_on_a_third_that_completes_just_before() {
        // Processes 1 and 2 write in random turns, and the journal's thread 3 starts at their completion. Process 4
        // always completes a read just before.
        let (mut requests, mut at) = (Vec::new(), 0);
        for n in 0..400 {
            let (data, journal) = (4000 + mixed(n, 9000), 10_000 + mixed(n + 5000, 40_000));
            requests.push(request(1 + (mixed(n + 77, 2) as u32), at, data, true));
            requests.push(request(4, at + 1000, data - 1000 - 1869, true));
            requests.push(request(3, at + data, journal, true));
            at += data + journal + 1000 + mixed(n + 99, 20_000);
        }
        for (_, dependency, all) in of(requests, 3) {
            let After::Completion(leader) = dependency.after else { panic!("{dependency:?}") };
            assert!(all[leader as usize].stream.0 < 3 && dependency.think_time == Nanos::ZERO, "{dependency:?}");
        }
    }

    #[test]
    fn unawaited_writes_depend_on_the_arrival_before_in_their_batch_or_on_a_timer() {
        // Every 30 ms four background writes arrive within 60 us. They take far longer than 30 ms.
        let mut requests = reader(1);
        for n in 0..200 {
            for part in 0..4 {
                requests.push(request(2, n * 30_000 + part * 20, 45_000 + mixed(n * 4 + part, 9000), false));
            }
        }
        for (request, dependency, all) in of(requests, 2) {
            let After::Arrival(leader) = dependency.after else { panic!("{dependency:?}") };
            let within = request.arrival.as_ns() % 30_000_000 != 0;
            let think_time = if within { Nanos::from_us(20) } else { Nanos::from_us(30_000 - 60) };
            assert_eq!((all[leader as usize].stream, dependency.think_time), (request.stream, think_time));
        }
    }

    #[test]
    fn process_that_sends_batches_depends_on_the_whole_batch() {
        // Batches of three reads, any of which may take longest, then 2 ms of think time.
        let (mut requests, mut at) = (reader(1), 0);
        for n in 0..300 {
            let responses = [0, 1, 2].map(|part| 1000 + mixed(n * 3 + part, 15_000));
            responses.iter().zip(0..).for_each(|(took, part)| requests.push(request(2, at + part * 30, *took, true)));
            at += responses.iter().zip(0..).map(|(took, part)| part * 30 + took).max().unwrap() + 2000;
        }
        let dependencies = of(requests, 2);
        let firsts: Vec<_> =
            dependencies.iter().filter(|(_, dependency, _)| !matches!(dependency.after, After::Arrival(_))).collect();
        assert!(firsts.len() > 250, "{}", firsts.len());
        let waits = firsts.iter().filter(|(_, dependency, _)| {
            matches!(dependency.after, After::Batch(_)) && dependency.think_time == Nanos::from_us(2000)
        });
        assert!(waits.count() * 100 >= firsts.len() * 95, "{:?}", &firsts[..4].iter().map(|f| f.1).collect::<Vec<_>>());
    }

    #[test]
    fn process_that_goes_on_before_its_batch_completes_depends_on_one_request() {
        let (mut requests, mut at) = (reader(1), 0);
        for n in 0..300 {
            let took = 1000 + mixed(n, 9000);
            requests.push(request(2, at, took, true));
            requests.push(request(2, at + 30, 30_000, true));
            at += took + 2000;
        }
        let count = |of: fn(&After) -> bool| {
            let dependencies = self::of(requests.clone(), 2);
            dependencies.iter().filter(|(_, dependency, _)| of(&dependency.after)).count()
        };
        // By chance a whole batch completes now and then.
        let (one, all) =
            (count(|after| matches!(after, After::Completion(_))), count(|after| matches!(after, After::Batch(_))));
        assert!(one > 200 && 10 * all < one, "{one} {all}");
    }

    #[test]
    fn event_time_plus_think_time_is_the_arrival() {
        let requests: Vec<TracedRequest> = (0..2000)
            .map(|n| request(mixed(n, 50) as u32, n * 300 + mixed(n, 299), mixed(n * 3, 30_000), n % 3 > 0))
            .collect();
        let dependencies = infer(&requests);
        let batches = batches(&requests, &dependencies);
        for (index, dependency) in dependencies.into_iter().enumerate() {
            let (leader, at) = match dependency.after {
                After::Start => (None, Timestamp::ZERO),
                After::Arrival(leader) => (Some(leader), requests[leader as usize].arrival),
                After::Completion(leader) => (Some(leader), requests[leader as usize].completed),
                After::Batch(first) => {
                    let of_batch = requests.iter().zip(&batches).filter(|(_, batch)| **batch == first);
                    (Some(first), of_batch.map(|(request, _)| request.completed).max().unwrap())
                }
            };
            assert!(leader.is_none_or(|leader| (leader as usize) < index));
            assert_eq!(at + dependency.think_time, requests[index].arrival);
        }
    }
}
