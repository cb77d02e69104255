//! What each request of a machine alone waited for.
//!
//! A request comes some time after an event of its machine: its own process' request completed and the process thought; another
//! process' request completed that it waited for (a process that syncs waits for the journal's thread); its process sent the request
//! before in one go; or a timer ran out. Which it was shows in the correlogram of the two processes: how often a completion of q lies so long
//! before an arrival of p, by how often it would by chance. Think times that repeat make a peak, and what has nothing to do with p lies
//! flat. Each request's cause is the event since its process' arrival before whose distance is the most conspicuous, its own
//! process' completions first.
//!
//! *Write-back* is what the kernel writes later for processes that do not wait. Where processes write synchronously, too, it is what these leave
//! behind, and follows them: each time it begins after the latest of their writes. Where they do not, it follows
//! its own clock, as do writers that only ever fill the page cache.
//!
//! A *flush* ends when the device has made durable what was under way. In Linux it waits for the end of a write with a flush of its own
//! (`block/blk-flush.c`: a flush is shared, and kept back while such writes are under way), which is how the two then end together.
//!
//! The causes of a recording are a forest over its requests, by which it can be played again on another device: what waited
//! then waits now.

mod batches;
mod candidates;
mod correlogram;
mod flushes;

use traces::{Nanos, Operation, Timestamp};

pub(crate) use self::batches::batches;
use self::batches::{TOGETHER, wait_for_all};
pub(crate) use self::candidates::Streams;
use self::candidates::{Candidate, visit};
use self::correlogram::{Correlogram, class};
pub(crate) use self::flushes::ends;
use crate::isolated_trace::TracedRequest;

/// What a request comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The beginning.
    Start,
    /// The arrival of this request.
    Arrival(u32),
    /// The completion of this request.
    Completion(u32),
    /// The last completion of all that were sent in one go with this request, the first of them ([`batches`]).
    Batch(u32),
}

/// When a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) after: After,
    pub(crate) think_time: Nanos,
}

/// Write-back follows synchronous writes and flushes if there is at least one of these for so many of it.
const LEFT_BEHIND: u64 = 4;
/// Another process' completion has to be so many times more conspicuous than the process' own.
const OWN: f64 = 16.0;
/// A distance is conspicuous if it occurs so much more often than by chance.
const CONSPICUOUS: f64 = 3.0;

/// Whether write-back of these follows synchronous writes.
fn is_left_behind(requests: &[TracedRequest]) -> bool {
    let count = |of: fn(&&TracedRequest) -> bool| requests.iter().filter(of).count() as u64;
    let waited_for = count(|request| request.sync && request.operation != Operation::Read);
    LEFT_BEHIND * waited_for >= count(|request| !request.sync)
}

/// The causes of `requests`, which are in the order of their arrival.
pub(crate) fn infer(requests: &[TracedRequest]) -> Vec<Dependency> {
    let streams = Streams::of(requests);
    let end = requests.iter().map(|request| request.completed).max().unwrap_or_default();
    let mut correlogram = Correlogram::new(streams.count, end.saturating_since(Timestamp::ZERO));
    visit(requests, &streams, |_, stream, candidates, _| {
        correlogram.sent[stream] += 1;
        candidates.iter().for_each(|candidate| correlogram.add(stream, candidate));
    });
    correlogram.settle(requests, &streams);
    let left_behind = is_left_behind(requests);
    let mut dependencies: Vec<Dependency> = Vec::with_capacity(requests.len());
    visit(requests, &streams, |request, stream, candidates, written| {
        let dependency = choose(&correlogram, request, stream, candidates);
        let goes_on = matches!(dependency.after, After::Arrival(_)) && dependency.think_time <= TOGETHER;
        dependencies.push(match written.filter(|_| left_behind && !request.sync && !goes_on) {
            Some((at, leader)) => {
                Dependency { after: After::Completion(leader), think_time: request.arrival.saturating_since(at) }
            }
            None => dependency,
        });
    });
    wait_for_all(requests, &mut dependencies);
    dependencies
}

fn choose(correlogram: &Correlogram, request: &TracedRequest, stream: usize, candidates: &[Candidate]) -> Dependency {
    let most_conspicuous = |own_only: bool| {
        let mut best: Option<(f64, &Candidate)> = None;
        for candidate in candidates.iter().filter(|candidate| !own_only || candidate.of == Some(stream)) {
            let ratio = correlogram.ratio(stream, candidate);
            // Of equals the latest.
            if ratio >= CONSPICUOUS && best.is_none_or(|(most, _)| ratio >= most) {
                best = Some((ratio, candidate));
            }
        }
        best
    };
    // Processes that go on in step are conspicuous to one another, too. A process whose own think times repeat needs no other, unless
    // the other is by far the better reason; and nobody reacts within a microsecond, which is how one request follows another at the device.
    let best = match (most_conspicuous(true), most_conspicuous(false)) {
        (Some((own_ratio, own)), Some((ratio, other))) if OWN * own_ratio >= ratio || class(other.think_time) == 0 => {
            Some(own)
        }
        (_, best) => best.map(|(_, candidate)| candidate),
    };
    let best = best.map(|best| correlogram.exact(stream, best, candidates).unwrap_or(best));
    // Nothing repeats: a process waits for what it sent itself, unless nobody waits for that.
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

    /// By arrival; the causes of the requests of `stream`, but the first few.
    fn of(mut requests: Vec<TracedRequest>, stream: u32) -> Vec<(TracedRequest, Dependency, Vec<TracedRequest>)> {
        requests.sort_by_key(|request| request.arrival);
        let dependencies = infer(&requests);
        let all = requests.iter().zip(dependencies).filter(|(request, _)| request.stream.0 == stream);
        all.skip(8).map(|(request, dependency)| (*request, dependency, requests.clone())).collect()
    }

    /// Something between 0 and `below` that does not repeat.
    fn mixed(n: u64, below: u64) -> u64 {
        (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % below
    }

    #[test]
    fn nothing_comes_after_what_is_behind_it() {
        // All at once, and done at once or later: by completion many are before those that they come after.
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

    /// A reader that thinks for 5 ms after each read, and takes from 1 to 20 ms for one.
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
    fn a_reader_waits_for_its_own_read_whoever_reads_beside_it() {
        let readers = (1..=4).flat_map(reader).collect();
        for (request, dependency, all) in of(readers, 2) {
            let After::Completion(leader) = dependency.after else { panic!("{dependency:?}") };
            assert_eq!((all[leader as usize].stream, dependency.think_time), (request.stream, Nanos::from_us(5000)));
        }
    }

    #[test]
    fn who_syncs_waits_for_the_journal() {
        // 1 writes, which takes 1 to 10 ms, the journal's thread 2 then writes for 10 to 50 ms, and 1 thinks for 3 ms after that.
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
    fn who_syncs_and_then_thinks_for_long_still_waits_for_the_journal() {
        // The journal's thread 2 writes for one of three times, little against the 50 ms for which 1 thinks then.
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
    fn who_comes_with_completions_of_several_does_not_come_after_what_came_just_before_these() {
        // 1 and 2 write in turn, the journal's thread 3 begins when they are done; and 4 has always read just before.
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
    fn what_is_sent_in_one_go_stays_together_and_a_timer_runs_on() {
        // Every 30 ms four writes within 60 us that take far longer; nobody waits for them.
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
    fn who_sends_several_in_one_go_waits_for_all_of_them() {
        // Three reads in one go, of which now this and now that one takes longest; then 2 ms.
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
    fn who_goes_on_before_all_are_done_has_not_waited_for_all() {
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
        // Now and then all are done by chance.
        let (one, all) =
            (count(|after| matches!(after, After::Completion(_))), count(|after| matches!(after, After::Batch(_))));
        assert!(one > 200 && 10 * all < one, "{one} {all}");
    }

    #[test]
    fn every_request_comes_after_an_earlier_one_when_it_came() {
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
