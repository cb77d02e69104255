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

use std::collections::BTreeMap;

use traces::{Nanos, Operation, StreamId, Timestamp};

use super::recording::Recorded;

/// What a request comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The beginning.
    Start,
    /// The arrival of this request.
    Arrival(u32),
    /// The completion of this request.
    Completion(u32),
    /// The last completion of all that were sent in one go with this request, the first of them ([`goes`]).
    Go(u32),
}

/// When a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) after: After,
    pub(super) lag: Nanos,
}

/// Processes that are told apart; those that send least are one.
const STREAMS: usize = 32;
/// The latest completions of each that are looked at.
const RECENT: usize = 8;
/// Classes of distances: four to an octave, from a microsecond.
const CLASSES: usize = 128;
/// Each class has so many parts.
const FINE: usize = 16;
/// The first class ends at 2^10 ns.
const SHORTEST_BITS: u32 = 10;
/// A flush and a write that end so close to one another end together.
const TOGETHER: Nanos = Nanos::from_ms(1);
/// Write-back follows synchronous writes and flushes if there is at least one of these for so many of it.
const LEFT_BEHIND: u64 = 4;
/// Another process' completion has to be so many times more conspicuous than the process' own.
const OWN: f64 = 16.0;
/// Or it explains so many times as many arrivals by its exact distance,
const EXACT: f32 = 2.0;
/// and of all at least one of so many.
const EXACT_OF: f32 = 16.0;
/// Passes in which exact distances are found.
const PASSES: usize = 8;
/// A distance is conspicuous if it occurs so much more often than by chance.
const CONSPICUOUS: f64 = 3.0;

/// In which part of all classes' parts a distance is.
fn part(lag: Nanos) -> usize {
    let ns = lag.as_ns();
    if ns < 1 << SHORTEST_BITS {
        return 0;
    }
    let exponent = 63 - ns.leading_zeros();
    // Of an octave, which has four classes.
    let parts = ((ns >> (exponent - 6)) & 63) as usize;
    ((exponent - SHORTEST_BITS) as usize * 4 * FINE + parts).min(CLASSES * FINE - 1)
}

/// The class of a distance.
fn class(lag: Nanos) -> usize {
    part(lag) / FINE
}

/// How many nanoseconds a class holds.
fn width_ns(class: usize) -> f64 {
    if class == 0 {
        return f64::from(1u32 << SHORTEST_BITS);
    }
    (1u64 << (class as u32 / 4 + SHORTEST_BITS - 2)) as f64
}

/// An event that a request may have come after.
#[derive(Clone, Copy)]
struct Candidate {
    after: After,
    /// Whose completion; the process' own arrival if nobody's.
    of: Option<usize>,
    lag: Nanos,
}

/// Which processes there are, numbered by how much they send.
pub(super) struct Streams {
    number: BTreeMap<StreamId, usize>,
    pub(super) count: usize,
}

impl Streams {
    pub(super) fn of(requests: &[Recorded]) -> Streams {
        let mut sent: BTreeMap<StreamId, u64> = BTreeMap::new();
        for request in requests {
            *sent.entry(request.stream).or_default() += 1;
        }
        let mut by_sent: Vec<(StreamId, u64)> = sent.into_iter().collect();
        by_sent.sort_by_key(|&(stream, sent)| (std::cmp::Reverse(sent), stream));
        let numbered = by_sent.iter().enumerate().map(|(index, &(stream, _))| (stream, index.min(STREAMS - 1)));
        Streams { count: by_sent.len().min(STREAMS), number: numbered.collect() }
    }

    pub(super) fn number(&self, request: &Recorded) -> usize {
        self.number[&request.stream]
    }
}

/// What a process has done last.
#[derive(Clone, Default)]
struct Latest {
    arrival: Option<(Timestamp, u32)>,
    /// Its latest completions, the oldest first.
    completions: Vec<(Timestamp, u32)>,
}

/// How often which distance occurred.
struct Correlogram {
    /// By process that arrives, process that completes and class.
    completions: Vec<u32>,
    /// The same by part of a class: how many arrivals each explains.
    exact: Vec<f32>,
    /// By process and class: between arrivals of one process.
    arrivals: Vec<u32>,
    /// Arrivals of each process; as many complete.
    sent: Vec<u64>,
    streams: usize,
    span_ns: f64,
}

impl Correlogram {
    fn new(streams: usize, span: Nanos) -> Correlogram {
        Correlogram {
            completions: vec![0; streams * streams * CLASSES],
            exact: vec![0.0; streams * streams * CLASSES * FINE],
            arrivals: vec![0; streams * CLASSES],
            sent: vec![0; streams],
            streams,
            span_ns: (span.as_ns() as f64).max(1.0),
        }
    }

    fn index(&self, stream: usize, of: usize, class: usize) -> usize {
        (stream * self.streams + of) * CLASSES + class
    }

    /// Who comes with completions may come with those of several: at no distance all are one.
    fn exact_index(&self, stream: usize, of: usize, lag: Nanos) -> usize {
        let part = part(lag);
        let of = if part == 0 { 0 } else { of };
        (stream * self.streams + of) * CLASSES * FINE + part
    }

    fn add(&mut self, stream: usize, candidate: &Candidate) {
        let class = class(candidate.lag);
        match candidate.of {
            Some(of) => {
                let index = self.index(stream, of, class);
                self.completions[index] += 1;
                let exact = self.exact_index(stream, of, candidate.lag);
                self.exact[exact] += 1.0;
            }
            None => self.arrivals[stream * CLASSES + class] += 1,
        }
    }

    /// How much more often than by chance the candidate's distance occurs. One more of each keeps what is rare inconspicuous.
    fn ratio(&self, stream: usize, candidate: &Candidate) -> f64 {
        let class = class(candidate.lag);
        let (seen, of) = match candidate.of {
            Some(of) => (self.completions[self.index(stream, of, class)], of),
            None => (self.arrivals[stream * CLASSES + class], stream),
        };
        let by_chance = self.sent[stream] as f64 * self.sent[of] as f64 / self.span_ns * width_ns(class);
        (f64::from(seen) + 1.0) / (by_chance + 1.0)
    }

    /// How many arrivals of a process a candidate's exact distance explains.
    fn explains(&self, stream: usize, candidate: &Candidate) -> f32 {
        candidate.of.map_or(0.0, |of| self.exact[self.exact_index(stream, of, candidate.lag)])
    }

    /// Divides each arrival among its candidates by how many arrivals each explains, again and again (expectation maximisation of a
    /// mixture): what is only ever seen beside another that explains more in the end explains nothing.
    fn settle(&mut self, requests: &[Recorded], streams: &Streams) {
        for _ in 0..PASSES {
            let mut exact = vec![0.0; self.exact.len()];
            visit(requests, streams, |_, stream, candidates, _| {
                let all: f32 = candidates.iter().map(|candidate| self.explains(stream, candidate)).sum();
                for candidate in candidates.iter().filter(|_| all > 0.0) {
                    let Some(of) = candidate.of else { continue };
                    exact[self.exact_index(stream, of, candidate.lag)] += self.explains(stream, candidate) / all;
                }
            });
            self.exact = exact;
        }
    }

    /// What arrivals of a process come exactly after, if that is not what is `best` by classes: a process that waits for another and
    /// then thinks comes just so long after that, and after its own request with all that the other's took in between.
    fn exact<'a>(&self, stream: usize, best: &'a Candidate, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
        let of = |candidate: &Candidate| self.explains(stream, candidate);
        let most = candidates.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
        let exact = of(most) >= EXACT * of(best) && of(most) * EXACT_OF >= self.sent[stream] as f32;
        (exact && best.of.is_some()).then_some(most)
    }
}

/// With which write under way each flush of `requests` ends, if with any; by request.
pub(super) fn ends(requests: &[Recorded]) -> Vec<Option<u32>> {
    let mut durable: Vec<u32> = Vec::new();
    let of = |(index, request): (usize, &Recorded)| {
        durable.retain(|&write| requests[write as usize].completed > request.arrival);
        if request.durable {
            durable.push(index as u32);
        }
        let apart = |write: &u32| {
            let [a, b] = [requests[*write as usize].completed, request.completed];
            a.max(b).since(a.min(b))
        };
        let nearest = durable.iter().copied().min_by_key(apart)?;
        (request.operation == Operation::Flush && apart(&nearest) <= TOGETHER).then_some(nearest)
    };
    requests.iter().enumerate().map(of).collect()
}

/// Whether write-back of these follows synchronous writes.
fn is_left_behind(requests: &[Recorded]) -> bool {
    let count = |of: fn(&&Recorded) -> bool| requests.iter().filter(of).count() as u64;
    let waited_for = count(|request| request.sync && request.operation != Operation::Read);
    LEFT_BEHIND * waited_for >= count(|request| !request.sync)
}

/// The causes of `requests`, which are in the order of their arrival.
pub(super) fn infer(requests: &[Recorded]) -> Vec<Cause> {
    let streams = Streams::of(requests);
    let end = requests.iter().map(|request| request.completed).max().unwrap_or_default();
    let mut correlogram = Correlogram::new(streams.count, end.saturating_since(Timestamp::ZERO));
    visit(requests, &streams, |_, stream, candidates, _| {
        correlogram.sent[stream] += 1;
        candidates.iter().for_each(|candidate| correlogram.add(stream, candidate));
    });
    correlogram.settle(requests, &streams);
    let left_behind = is_left_behind(requests);
    let mut causes: Vec<Cause> = Vec::with_capacity(requests.len());
    visit(requests, &streams, |request, stream, candidates, written| {
        let cause = choose(&correlogram, request, stream, candidates);
        let goes_on = matches!(cause.after, After::Arrival(_)) && cause.lag <= TOGETHER;
        causes.push(match written.filter(|_| left_behind && !request.sync && !goes_on) {
            Some((at, leader)) => Cause { after: After::Completion(leader), lag: request.arrival.saturating_since(at) },
            None => cause,
        });
    });
    wait_for_all(requests, &mut causes);
    causes
}

/// With which request each one was sent in one go, the first of them; itself if with none.
pub(super) fn goes(requests: &[Recorded], causes: &[Cause]) -> Vec<u32> {
    let mut goes: Vec<u32> = Vec::with_capacity(causes.len());
    for (index, cause) in causes.iter().enumerate() {
        let first = match cause.after {
            After::Arrival(leader)
                if cause.lag <= TOGETHER && requests[leader as usize].stream == requests[index].stream =>
            {
                goes[leader as usize]
            }
            _ => index as u32,
        };
        goes.push(first);
    }
    goes
}

/// Who sends several in one go and goes on after one of them when all are done has waited for all.
fn wait_for_all(requests: &[Recorded], causes: &mut [Cause]) {
    let goes = goes(requests, causes);
    let mut last = vec![Timestamp::ZERO; requests.len()];
    let mut several = vec![false; requests.len()];
    for (index, (&first, request)) in goes.iter().zip(requests).enumerate() {
        let last = &mut last[first as usize];
        *last = (*last).max(request.completed);
        several[first as usize] |= first as usize != index;
    }
    for (request, cause) in requests.iter().zip(causes) {
        let After::Completion(leader) = cause.after else { continue };
        let first = goes[leader as usize];
        if several[first as usize] && last[first as usize] <= request.arrival {
            let lag = request.arrival.since(last[first as usize]);
            *cause = Cause { after: After::Go(first), lag };
        }
    }
}

fn choose(correlogram: &Correlogram, request: &Recorded, stream: usize, candidates: &[Candidate]) -> Cause {
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
        (Some((own_ratio, own)), Some((ratio, other))) if OWN * own_ratio >= ratio || class(other.lag) == 0 => {
            Some(own)
        }
        (_, best) => best.map(|(_, candidate)| candidate),
    };
    let best = best.map(|best| correlogram.exact(stream, best, candidates).unwrap_or(best));
    // Nothing repeats: a process waits for what it sent itself, unless nobody waits for that.
    let own = || candidates.iter().rfind(|candidate| request.sync && candidate.of == Some(stream));
    let timer = || candidates.iter().find(|candidate| candidate.of.is_none());
    match best.or_else(own).or_else(timer) {
        Some(candidate) => Cause { after: candidate.after, lag: candidate.lag },
        None => Cause { after: After::Start, lag: request.arrival.saturating_since(Timestamp::ZERO) },
    }
}

/// Shows `see` each request with its process and what it may have come after: the arrival before of its process, and completions since
/// then, those of each process in their order; and the latest completion of a synchronous write or flush of anybody.
fn visit(
    requests: &[Recorded],
    streams: &Streams,
    mut see: impl FnMut(&Recorded, usize, &[Candidate], Option<(Timestamp, u32)>),
) {
    let mut written = None;
    let mut by_completion: Vec<u32> = (0..requests.len() as u32).collect();
    by_completion.sort_by_key(|&index| (requests[index as usize].completed, index));
    let mut completed = by_completion.into_iter().peekable();
    let mut latest = vec![Latest::default(); streams.count];
    let mut candidates = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let arrival = request.arrival;
        // What takes no time may be done on arrival, and comes after nothing that is not before it.
        let is_done = |&done: &u32| (done as usize) < index && requests[done as usize].completed <= arrival;
        while let Some(done) = completed.next_if(is_done) {
            let of = &requests[done as usize];
            if of.sync && of.operation != Operation::Read {
                written = Some((of.completed, done));
            }
            let recent = &mut latest[streams.number(of)].completions;
            if recent.len() == RECENT {
                recent.remove(0);
            }
            recent.push((of.completed, done));
        }
        let stream = streams.number(request);
        let before = latest[stream].arrival;
        candidates.clear();
        if let Some((at, earlier)) = before {
            let lag = arrival.saturating_since(at);
            candidates.push(Candidate { after: After::Arrival(earlier), of: None, lag });
        }
        for (of, process) in latest.iter().enumerate() {
            for &(at, done) in &process.completions {
                if before.is_none_or(|(before, _)| at >= before) {
                    let lag = arrival.saturating_since(at);
                    candidates.push(Candidate { after: After::Completion(done), of: Some(of), lag });
                }
            }
        }
        see(request, stream, &candidates, written);
        latest[stream].arrival = Some((arrival, index as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stream: u32, arrival_us: u64, response_us: u64, sync: bool) -> Recorded {
        let operation = if sync { Operation::Read } else { Operation::Write };
        Recorded { sync, ..Recorded::sent(operation, stream, arrival_us, response_us) }
    }

    /// By arrival; the causes of the requests of `stream`, but the first few.
    fn of(mut requests: Vec<Recorded>, stream: u32) -> Vec<(Recorded, Cause, Vec<Recorded>)> {
        requests.sort_by_key(|request| request.arrival);
        let causes = infer(&requests);
        let all = requests.iter().zip(causes).filter(|(request, _)| request.stream.0 == stream);
        all.skip(8).map(|(request, cause)| (*request, cause, requests.clone())).collect()
    }

    /// Something between 0 and `below` that does not repeat.
    fn mixed(n: u64, below: u64) -> u64 {
        (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % below
    }

    #[test]
    fn nothing_comes_after_what_is_behind_it() {
        // All at once, and done at once or later: by completion many are before those that they come after.
        let requests: Vec<Recorded> =
            (0..400).map(|n| request((n % 3) as u32, n / 100, mixed(n, 2), n % 5 > 0 && n % 7 > 0)).collect();
        for (index, cause) in infer(&requests).iter().enumerate() {
            let leader = match cause.after {
                After::Start => None,
                After::Arrival(leader) | After::Completion(leader) | After::Go(leader) => Some(leader as usize),
            };
            assert!(leader.is_none_or(|leader| leader < index), "{index}: {cause:?}");
        }
    }

    /// A reader that thinks for 5 ms after each read, and takes from 1 to 20 ms for one.
    fn reader(stream: u32) -> Vec<Recorded> {
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
        for (request, cause, all) in of(readers, 2) {
            let After::Completion(leader) = cause.after else { panic!("{cause:?}") };
            assert_eq!((all[leader as usize].stream, cause.lag), (request.stream, Nanos::from_us(5000)));
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
            of(requests.clone(), stream).into_iter().map(|(_, cause, all)| match cause.after {
                After::Completion(leader) => (all[leader as usize].stream.0, cause.lag.as_ns() / 1000),
                other => panic!("{other:?}"),
            })
        };
        assert!(by(1).all(|cause| cause == (2, 3000)));
        assert!(by(2).all(|cause| cause == (1, 100)));
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
        for (_, cause, all) in of(requests, 1) {
            let After::Completion(leader) = cause.after else { panic!("{cause:?}") };
            assert_eq!((all[leader as usize].stream.0, cause.lag), (2, Nanos::from_us(50_000)));
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
        for (_, cause, all) in of(requests, 3) {
            let After::Completion(leader) = cause.after else { panic!("{cause:?}") };
            assert!(all[leader as usize].stream.0 < 3 && cause.lag == Nanos::ZERO, "{cause:?}");
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
        for (request, cause, all) in of(requests, 2) {
            let After::Arrival(leader) = cause.after else { panic!("{cause:?}") };
            let within = request.arrival.as_ns() % 30_000_000 != 0;
            let lag = if within { Nanos::from_us(20) } else { Nanos::from_us(30_000 - 60) };
            assert_eq!((all[leader as usize].stream, cause.lag), (request.stream, lag));
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
        let causes = of(requests, 2);
        let firsts: Vec<_> = causes.iter().filter(|(_, cause, _)| !matches!(cause.after, After::Arrival(_))).collect();
        assert!(firsts.len() > 250, "{}", firsts.len());
        let waits = firsts
            .iter()
            .filter(|(_, cause, _)| matches!(cause.after, After::Go(_)) && cause.lag == Nanos::from_us(2000));
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
            let causes = self::of(requests.clone(), 2);
            causes.iter().filter(|(_, cause, _)| of(&cause.after)).count()
        };
        // Now and then all are done by chance.
        let (one, all) =
            (count(|after| matches!(after, After::Completion(_))), count(|after| matches!(after, After::Go(_))));
        assert!(one > 200 && 10 * all < one, "{one} {all}");
    }

    #[test]
    fn every_request_comes_after_an_earlier_one_when_it_came() {
        let requests: Vec<Recorded> = (0..2000)
            .map(|n| request(mixed(n, 50) as u32, n * 300 + mixed(n, 299), mixed(n * 3, 30_000), n % 3 > 0))
            .collect();
        let causes = infer(&requests);
        let goes = goes(&requests, &causes);
        for (index, cause) in causes.into_iter().enumerate() {
            let (leader, at) = match cause.after {
                After::Start => (None, Timestamp::ZERO),
                After::Arrival(leader) => (Some(leader), requests[leader as usize].arrival),
                After::Completion(leader) => (Some(leader), requests[leader as usize].completed),
                After::Go(first) => {
                    let of_go = requests.iter().zip(&goes).filter(|(_, go)| **go == first);
                    (Some(first), of_go.map(|(request, _)| request.completed).max().unwrap())
                }
            };
            assert!(leader.is_none_or(|leader| (leader as usize) < index));
            assert_eq!(at + cause.lag, requests[index].arrival);
        }
    }

    #[test]
    fn classes_are_a_quarter_of_an_octave() {
        assert_eq!([0, 1023, 1024, 1279, 1280, 2047, 2048].map(|ns| class(Nanos::from_ns(ns))), [0, 0, 0, 0, 1, 3, 4]);
        for class_of in [4, 17, 60] {
            let first = (1u64 << 10..1 << 30).step_by(64).find(|&ns| class(Nanos::from_ns(ns)) == class_of);
            let next = first.map(|first| class(Nanos::from_ns(first + width_ns(class_of) as u64)));
            assert_eq!(next, Some(class_of + 1));
        }
        assert_eq!(class(Nanos::from_ns(u64::MAX)), CLASSES - 1);
    }
}
