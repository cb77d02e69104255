//! Infers from isolated traces which requests a controller's cache answers, and how many requests the controller
//! accepts at once.
//!
//! A cache answers far faster than an arm moves, and hardly any request takes a time in between. The times from issue
//! to completion of requests that find few others in flight go into a histogram of their logarithms. The histogram is
//! cut where the variance between the two parts is largest (Otsu 1979). If the two parts lie far apart and few requests
//! lie between them, the cache answered the lower part.
//!
//! The share that the cache answers is measured for each VM, by operation, with sequential reads apart, and in each of
//! several parts of the trace. The time of an answer is drawn from the measured ones. A controller's cache is large, so
//! the share of a VM is assumed to stay the same beside other VMs. The contents of the cache are not modelled here;
//! `array/read_cache` does that for reads of an array.
//!
//! A controller that has accepted as many requests as it can delays even requests that its cache holds. Its depth is
//! the largest number of requests at the device, the new one included, with which one was still answered in the cache's
//! usual time.

use drive_models::array::Contents;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Nanos, Operation, Sectors, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest, each_issued};
use crate::twin::device::empirical::{EmpiricalTimes, median};
use crate::twin::device::latest_reads::LatestReads;

/// The number of histogram classes. With four to an octave from 2^10 ns on they reach 2^34 ns (17 s).
const TIME_CLASSES: usize = 96;
/// The binary logarithm of the time in ns at which the first class begins. Set by judgement; not varied.
const SHORTEST_TIME_LOG2_NS: f64 = 10.0;
/// The number of classes to an octave. Set by judgement; not varied.
const CLASSES_PER_OCTAVE: f64 = 4.0;
/// The geometric mean of the upper part is at least this many times that of the lower part. Set by judgement; not
/// varied.
const PART_MEANS_RATIO_MIN: f64 = 4.0;
/// Each of the two parts holds at least this share of the requests. Set by judgement; not varied.
const PART_SHARE_MIN: f64 = 0.01;
/// The emptiest class between the two parts' means holds at most this share of a peak: of the fuller class of each
/// part, the smaller one. Set by judgement; not varied.
const VALLEY_TO_PEAK_MAX: f64 = 0.25;
/// A request that finds fewer requests in flight than this counts for the histogram. Set by judgement; not varied.
const UNCROWDED_BOUND: usize = 16;
/// A request was answered without delay if it took at most this many times the cache's median time. Set by judgement;
/// not varied.
const UNDELAYED_TO_MEDIAN_MAX: f64 = 1.3;
/// A kind of requests counts as always answered by the cache if at least this share of it is. Set by judgement; not
/// varied.
const ALWAYS_ANSWERED_SHARE_MIN: f64 = 0.9;
/// The depth counts as found only if at least this many requests found that many or more in flight. Set by judgement;
/// not varied.
const BEYOND_DEPTH_MIN: usize = 50;

/// The number of equal parts of a trace in which shares are measured, as a cache fills in its course. Set by judgement;
/// not varied.
const TRACE_PARTS: usize = 16;
/// In each part the share of the whole trace is weighted like this many requests. Set by judgement; not varied.
const WHOLE_TRACE_WEIGHT_REQUESTS: f64 = 20.0;

/// The times and the depth of a controller's cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CacheTiming {
    /// The cache did not answer requests that took longer.
    longest: Nanos,
    /// The median time of an answer, in seconds.
    pub(crate) usual: f64,
    /// The most requests that the controller accepts at once.
    pub(crate) depth: u32,
}

/// A kind of requests: the number of the operation, or [`SEQUENTIAL_READ`].
pub(crate) type Kind = usize;
/// The number of kinds.
const KINDS: Kind = Operation::MOVING_DATA + 1;
/// The kind of reads that continue one of the latest reads.
pub(crate) const SEQUENTIAL_READ: Kind = Operation::MOVING_DATA;

/// The kind of a request. A read is then added to the `latest` ones.
pub(crate) fn kind(operation: Operation, lba: Lba, end: Lba, latest: &mut LatestReads) -> Kind {
    if operation != Operation::Read {
        return operation as Kind;
    }
    let follows = latest.followed_by(lba);
    latest.add(end);
    if follows { SEQUENTIAL_READ } else { operation as Kind }
}

fn kind_of(request: &TracedRequest, latest: &mut LatestReads) -> Kind {
    kind(request.operation, request.lba, request.end(), latest)
}

/// The most requests that a controller accepts at once, from requests of kinds that its cache always answers while few
/// are in flight. `seen` has for each request the number of requests that it found in flight, its time and its kind.
fn depth(seen: &[(usize, Nanos, usize)], longest: Nanos, usual: f64, kinds: usize) -> u32 {
    let mut counts: Vec<(f64, f64)> = vec![(0.0, 0.0); kinds];
    for (_, took, kind) in seen.iter().filter(|(found, ..)| *found < UNCROWDED_BOUND) {
        let (all, answered) = &mut counts[*kind];
        *all += 1.0;
        *answered += if *took <= longest { 1.0 } else { 0.0 };
    }
    let always = |kind: usize| counts[kind].1 >= ALWAYS_ANSWERED_SHARE_MIN * counts[kind].0.max(1.0);
    let answered = || seen.iter().filter(|(.., kind)| always(*kind));
    let undelayed = answered().filter(|(_, took, _)| took.as_s_f64() <= UNDELAYED_TO_MEDIAN_MAX * usual);
    let deepest = undelayed.map(|(found, ..)| *found + 1).max().unwrap_or(usize::MAX);
    let beyond = answered().filter(|(found, ..)| *found >= deepest).count();
    if beyond < BEYOND_DEPTH_MIN { u32::MAX } else { deepest as u32 }
}

/// Applies a traced request to the contents of a cache. Returns whether it is a read that the cache held completely.
pub(crate) fn pass(contents: &mut Contents, request: &TracedRequest) -> bool {
    let passed = contents.pass(request.operation, request.lba, Sectors::new(request.sectors.into()));
    request.operation == Operation::Read && passed.missing.is_none()
}

fn took(request: &TracedRequest) -> Nanos {
    request.completed.saturating_since(request.issued)
}

/// The histogram class of a time.
fn class(time: Nanos) -> usize {
    let class = CLASSES_PER_OCTAVE * ((time.as_ns().max(1) as f64).log2() - SHORTEST_TIME_LOG2_NS);
    (class.max(0.0) as usize).min(TIME_CLASSES - 1)
}

/// The number of requests and the mean class number of `classes`, whose first has the number `first`.
fn part(classes: &[f64], first: usize) -> (f64, f64) {
    let count: f64 = classes.iter().sum();
    let sum: f64 = classes.iter().enumerate().map(|(index, count)| (first + index) as f64 * count).sum();
    (count, sum / count)
}

/// The class that begins the upper part of the histogram; `None` if it does not have two parts that lie apart.
fn cut(classes: &[f64; TIME_CLASSES]) -> Option<usize> {
    let between = |cut: usize| {
        let ((low, low_mean), (high, high_mean)) = (part(&classes[..cut], 0), part(&classes[cut..], cut));
        if low > 0.0 && high > 0.0 { low * high * (high_mean - low_mean).powi(2) } else { 0.0 }
    };
    let best = (1..TIME_CLASSES).map(between).fold(0.0, f64::max);
    if best == 0.0 {
        return None;
    }
    // If no request lies between the parts, all cuts there are equally good, and the middle one is used.
    let cuts: Vec<usize> = (1..TIME_CLASSES).filter(|&cut| between(cut) >= best * (1.0 - 1e-9)).collect();
    let cut = *cuts.get(cuts.len() / 2)?;
    let ((low, low_mean), (high, high_mean)) = (part(&classes[..cut], 0), part(&classes[cut..], cut));
    let all = low + high;
    let peak = |classes: &[f64]| classes.iter().copied().fold(0.0, f64::max);
    let least = classes[low_mean as usize..=high_mean as usize].iter().copied().fold(f64::INFINITY, f64::min);
    let valley = least <= VALLEY_TO_PEAK_MAX * peak(&classes[..cut]).min(peak(&classes[cut..]));
    let apart = (high_mean - low_mean) / CLASSES_PER_OCTAVE >= PART_MEANS_RATIO_MIN.log2();
    (low >= PART_SHARE_MIN * all && high >= PART_SHARE_MIN * all && valley && apart).then_some(cut)
}

impl CacheTiming {
    /// Infers the cache of the device of `traces`; `None` if their times show no cache.
    pub(crate) fn of(traces: &[IsolatedTrace]) -> Option<CacheTiming> {
        let mut classes = [0.0f64; TIME_CLASSES];
        // For each request: the number in flight that it found, its time and its kind.
        let mut seen: Vec<(usize, Nanos, usize)> = Vec::new();
        for (vm, trace) in traces.iter().enumerate() {
            let mut latest = LatestReads::default();
            each_issued(trace.moving(), |request, in_flight| {
                let kind = KINDS * vm + kind_of(request, &mut latest);
                seen.push((in_flight.len(), took(request), kind));
            });
        }
        seen.iter()
            .filter(|(found, ..)| *found < UNCROWDED_BOUND)
            .for_each(|(_, took, _)| classes[class(*took)] += 1.0);
        let longest =
            Nanos::from_ns((SHORTEST_TIME_LOG2_NS + cut(&classes)? as f64 / CLASSES_PER_OCTAVE).exp2() as u64);
        let uncrowded = seen.iter().filter(|(found, took, _)| *found < UNCROWDED_BOUND && *took <= longest);
        let usual = median(uncrowded.map(|(_, took, _)| took.as_s_f64()))?;
        Some(CacheTiming { longest, usual, depth: depth(&seen, longest, usual, KINDS * traces.len()) })
    }

    /// Whether the cache answered a request, by its time.
    pub(crate) fn answered(&self, request: &TracedRequest) -> bool {
        took(request) <= self.longest
    }
}

/// For one kind of a VM's requests: the share that the cache answers in each part of the trace, and the times of its
/// answers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answered {
    shares: Vec<f64>,
    times: EmpiricalTimes,
}

/// The counts and times measured for one kind.
#[derive(Default)]
struct Seen {
    /// For each part of the trace, the number of requests and of those answered.
    parts: Vec<(f64, f64)>,
    times: Vec<f64>,
}

impl Seen {
    fn add(&mut self, part: usize, answered: Option<Nanos>) {
        self.parts.resize(TRACE_PARTS, (0.0, 0.0));
        let (all, of_cache) = &mut self.parts[part];
        *all += 1.0;
        if let Some(took) = answered {
            *of_cache += 1.0;
            self.times.push(took.as_s_f64());
        }
    }

    fn answered(self) -> Answered {
        let (all, of_cache) = self.parts.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        let share = if all > 0.0 { of_cache / all } else { 0.0 };
        // In a part with few requests, the share of the whole trace is the better estimate.
        let of_part = |(all, of_cache): &(f64, f64)| {
            (of_cache + share * WHOLE_TRACE_WEIGHT_REQUESTS) / (all + WHOLE_TRACE_WEIGHT_REQUESTS)
        };
        Answered { shares: self.parts.iter().map(of_part).collect(), times: EmpiricalTimes::of(self.times) }
    }
}

/// The requests of one VM that the cache answers. A cache fills in the course of a trace, so the share is kept for each
/// part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ControllerCache {
    /// By kind.
    answered: [Answered; KINDS],
    /// The length of a part of the trace.
    part: Nanos,
    /// The part that the simulation is in.
    now: usize,
}

impl ControllerCache {
    /// The cache of one VM, with the requests that the cache did not answer: random reads, and all others. Sequential
    /// reads are not among the random ones, as they may wait for data that the device is already reading. Requests that
    /// found the controller full are left out. So are reads that the `known` contents of a read cache hold, as they do
    /// not show what else the controller's cache answers.
    pub(crate) fn of(
        trace: &IsolatedTrace,
        cache: Option<&CacheTiming>,
        mut known: Option<Contents>,
    ) -> (ControllerCache, [Vec<TracedRequest>; 2]) {
        let part = Nanos::from_ns(trace.span().as_ns() / TRACE_PARTS as u64 + 1);
        let mut latest = LatestReads::default();
        let mut seen: [Seen; KINDS] = Default::default();
        let mut others: [Vec<TracedRequest>; 2] = Default::default();
        each_issued(trace.moving(), |request, in_flight| {
            let kind = kind_of(request, &mut latest);
            let held = known.as_mut().is_some_and(|known| pass(known, request));
            if held || cache.is_some_and(|cache| in_flight.len() >= cache.depth as usize) {
                return;
            }
            let answered = cache.is_some_and(|cache| cache.answered(request));
            seen[kind].add(part_of(request.arrival, part), answered.then(|| took(request)));
            if !answered {
                others[usize::from(kind != Operation::Read as usize)].push(*request);
            }
        });
        (ControllerCache { answered: seen.map(Seen::answered), part, now: 0 }, others)
    }

    /// The same cache, as full as it was at a time of the trace.
    pub(crate) fn at(&self, time: Timestamp) -> ControllerCache {
        ControllerCache { now: part_of(time, self.part), ..self.clone() }
    }

    /// Draws the time in seconds in which the cache answers a request of a kind; `None` if it does not answer.
    pub(crate) fn answer(&self, kind: Kind, random: &mut Xoshiro256PlusPlus) -> Option<f64> {
        let answered = &self.answered[kind];
        let share = *answered.shares.get(self.now)?;
        let chance = traces::random::unit(random.next_u64());
        if chance < share { answered.times.draw(random) } else { None }
    }

    /// The share of sequential reads that the cache answers.
    pub(crate) fn sequential_share(&self) -> f64 {
        let shares = &self.answered[SEQUENTIAL_READ].shares;
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }
}

/// The part of the trace that contains a time.
fn part_of(at: Timestamp, part: Nanos) -> usize {
    (at.as_ns().checked_div(part.as_ns()).unwrap_or_default() as usize).min(TRACE_PARTS - 1)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Reads one after another. Those for which `cached` is true take 200 us, as from a cache; others take 3 to 9 ms.
    fn trace(cached: impl Fn(u64, &mut Xoshiro256PlusPlus) -> bool) -> IsolatedTrace {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut trace = IsolatedTrace::default();
        let mut at = 0;
        for n in 0..4000 {
            let took = if cached(n, &mut random) { 200 } else { random.random_range(3000..9000) };
            let lba = traces::Lba::new(random.random_range(0..1 << 28));
            trace.requests.push(TracedRequest { lba, ..TracedRequest::sent(Operation::Read, 0, at, took) });
            at += 10_000;
        }
        trace
    }

    fn share(controller_cache: &ControllerCache) -> f64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        let answers = (0..2000).filter_map(|_| controller_cache.answer(Operation::Read as Kind, &mut random));
        answers.inspect(|seconds| assert!((seconds - 2e-4).abs() < 1e-9)).count() as f64 / 2000.0
    }

    #[test]
    fn cache_is_found_with_its_share_and_time_if_times_fall_into_two_parts() {
        let trace = trace(|_, random| random.random_range(0..10) < 3);
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        assert!(cache.longest > Nanos::from_us(200) && cache.longest < Nanos::from_ms(3), "{cache:?}");
        assert_eq!((cache.usual, cache.depth), (2e-4, u32::MAX));
        let (controller_cache, [random, others]) = ControllerCache::of(&trace, Some(&cache), None);
        let seen = 1.0 - random.len() as f64 / 4000.0;
        assert!(
            (share(&controller_cache.at(Timestamp::from_ns(20_000_000_000))) - seen).abs() < 0.06
                && (seen - 0.3).abs() < 0.03
        );
        // By chance one or two reads count as sequential.
        assert!(random.iter().all(|read| took(read) >= Nanos::from_ms(3)) && others.len() < 5);
    }

    #[test]
    fn no_cache_is_found_if_times_form_one_part_or_two_near_ones() {
        assert_eq!(CacheTiming::of(&[trace(|_, _| false)]), None);
        // Two kinds of accesses that both move an arm lie no further apart than 1.8 ms and 3 to 9 ms.
        let mut near = trace(|n, _| n % 2 == 0);
        for read in near.requests.iter_mut().filter(|read| took(read) < Nanos::from_ms(1)) {
            read.completed = read.issued.saturating_add(Nanos::from_us(1800));
        }
        assert_eq!(CacheTiming::of(&[near]), None);
        let (controller_cache, [random, _]) = ControllerCache::of(&trace(|_, _| true), None, None);
        assert_eq!((share(&controller_cache), random.len()), (0.0, 4000));
    }

    #[test]
    fn no_cache_is_found_if_all_times_are_equal_or_there_are_none() {
        let mut trace = trace(|_, _| false);
        trace.requests.iter_mut().for_each(|request| request.completed = request.issued + Nanos::from_ms(2));
        assert!(CacheTiming::of(&[trace]).is_none() && CacheTiming::of(&[IsolatedTrace::default()]).is_none());
    }

    #[test]
    fn share_grows_from_part_to_part_while_the_cache_fills() {
        let trace = trace(|n, random| random.random_range(0..4000) < n);
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        let (controller_cache, _) = ControllerCache::of(&trace, Some(&cache), None);
        let at = |s: u64| share(&controller_cache.at(Timestamp::ZERO + Nanos::from_s(s)));
        assert!(at(0) < 0.15 && (at(20) - 0.5).abs() < 0.12 && at(39) > 0.85, "{} {} {}", at(0), at(20), at(39));
    }

    #[test]
    fn depth_is_the_number_of_requests_answered_without_delay() {
        // Bursts of 40 writes, answered eight at a time every 200 us, and reads that take longer.
        let mut trace = trace(|_, _| false);
        for burst in 0..100 {
            let at = 1_000_000 + burst * 50_000;
            let writes = (0..40).map(|n| TracedRequest::sent(Operation::Write, 1, at + n, 200 * (1 + n / 8) - n % 8));
            trace.requests.extend(writes);
        }
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        assert!((8..=9).contains(&cache.depth), "{cache:?}");
        // Writes that waited at the full controller are left out of the cache's share and times.
        let (controller_cache, [_, others]) = ControllerCache::of(&trace, Some(&cache), None);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        let answers = (0..500)
            .map(|_| controller_cache.at(Timestamp::MAX).answer(Operation::Write as Kind, &mut random).unwrap());
        assert!(answers.fold(0.0, f64::max) < 2.01e-4);
        assert!(others.iter().all(|other| other.operation == Operation::Read));
    }

    #[test]
    fn sequential_reads_have_a_share_of_their_own() {
        let mut trace = trace(|n, _| n % 2 == 1);
        // Every second read continues the one before it.
        for n in (1..4000).step_by(2) {
            trace.requests[n].lba = trace.requests[n - 1].end();
        }
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        let (controller_cache, [random, _]) = ControllerCache::of(&trace, Some(&cache), None);
        assert!(controller_cache.sequential_share() > 0.99 && share(&controller_cache) < 0.01);
        assert_eq!(random.len(), 2000);
    }

    #[test]
    fn reads_that_known_contents_hold_do_not_count_for_the_share() {
        use drive_models::array::{Geometry, Level};

        // The second half reads the same addresses as the first and is answered by the cache; the first is not.
        let mut trace = trace(|n, _| n >= 2000);
        for n in 0..2000 {
            trace.requests[2000 + n].lba = trace.requests[n].lba;
        }
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        let geometry = Geometry::new(Level::Raid5, 5, traces::Sectors::new(512), traces::Sectors::new(1 << 28));
        let empty = Contents::new(&geometry, traces::Sectors::new(1 << 21), traces::Sectors::ZERO);
        let last = Timestamp::ZERO + Nanos::from_s(39);
        let share = |known: Option<Contents>| share(&ControllerCache::of(&trace, Some(&cache), known).0.at(last));
        assert!(share(None) > 0.9 && share(Some(empty)) < 0.05);
    }
}
