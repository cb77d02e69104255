//! What a device's controller answers from its cache, and how many requests it has at once, told from recordings.
//!
//! What a cache has takes much less than what an arm has to be moved for, and hardly anything takes as long as lies between. The logarithms
//! of the response times of requests that find few others there are divided where the two parts differ most from one another (Otsu
//! 1979). If the parts lie far apart and little lies between, the lower one was answered by a cache. How often that happens
//! is told by machine, operation and whether a read goes on behind one of the latest; a controller's cache is large, and what it holds
//! of one machine is taken to stay when others come.
//!
//! A controller that has as many requests as it takes answers nothing at once, even if its cache has it: it takes as many as were there at most
//! when something was still answered in the cache's time.

use drive_models::array::Contents;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Nanos, Operation, Sectors, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest, each_issued};
use crate::twin::device::empirical::{EmpiricalTimes, median};
use crate::twin::device::latest_reads::LatestReads;

/// Classes of response times: four to an octave, from 2^10 ns.
const CLASSES: usize = 96;
const SHORTEST_BITS: f64 = 10.0;
/// The means of the two parts lie so many times apart.
const APART: f64 = 4.0;
/// Each part has so large a share at least.
const PART: f64 = 0.01;
/// The class between the two has at most this share of what the smaller of both parts' largest classes has.
const BETWEEN: f64 = 0.25;
/// Who finds no more than so many there finds few.
const FEW: usize = 16;
/// What takes up to so many times the median of the cache was answered at once.
const AT_ONCE: f64 = 1.3;
/// A kind of which the cache answers so large a share is always answered.
const ALWAYS: f64 = 0.9;
/// So many have to have found more there than the controller takes.
const WAITED_MIN: usize = 50;

/// A recording has so many parts.
const PARTS: usize = 16;
/// The share of a whole recording counts in each of its parts like so many requests.
const PART_COUNTS: f64 = 20.0;

/// The cache of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CacheTiming {
    /// What takes longer was not answered by it.
    most: Nanos,
    /// What it usually takes, in seconds.
    pub(crate) usual: f64,
    /// How many requests the controller has at once.
    pub(crate) depth: u32,
}

/// A kind of requests: operations by their numbers, and reads behind one of the latest.
pub(crate) type Kind = usize;
const KINDS: Kind = Operation::MOVING_DATA + 1;
/// Reads behind one of the latest.
pub(crate) const BEHIND: Kind = Operation::MOVING_DATA;

/// Of which kind a request is, that comes after those that `latest` has seen.
pub(crate) fn kind(operation: Operation, lba: Lba, end: Lba, latest: &mut LatestReads) -> Kind {
    if operation != Operation::Read {
        return operation as Kind;
    }
    let follows = latest.followed_by(lba);
    latest.add(end);
    if follows { BEHIND } else { operation as Kind }
}

fn kind_of(request: &TracedRequest, latest: &mut LatestReads) -> Kind {
    kind(request.operation, request.lba, request.end(), latest)
}

/// How many requests a controller has at once, by those of kinds that its cache answers whenever few are there.
fn depth(seen: &[(usize, Nanos, usize)], most: Nanos, usual: f64, kinds: usize) -> u32 {
    let mut counts: Vec<(f64, f64)> = vec![(0.0, 0.0); kinds];
    for (_, took, kind) in seen.iter().filter(|(found, ..)| *found < FEW) {
        let (all, answered) = &mut counts[*kind];
        *all += 1.0;
        *answered += if *took <= most { 1.0 } else { 0.0 };
    }
    let always = |kind: usize| counts[kind].1 >= ALWAYS * counts[kind].0.max(1.0);
    let answered = || seen.iter().filter(|(.., kind)| always(*kind));
    let at_once = answered().filter(|(_, took, _)| took.as_s_f64() <= AT_ONCE * usual);
    let deepest = at_once.map(|(found, ..)| *found + 1).max().unwrap_or(usize::MAX);
    let waited = answered().filter(|(found, ..)| *found >= deepest).count();
    if waited < WAITED_MIN { u32::MAX } else { deepest as u32 }
}

/// Lets a request of a recording pass. Returns whether it reads, and all of it was there.
pub(crate) fn pass(contents: &mut Contents, request: &TracedRequest) -> bool {
    let passed = contents.pass(request.operation, request.lba, Sectors::new(request.sectors.into()));
    request.operation == Operation::Read && passed.missing.is_none()
}

fn took(request: &TracedRequest) -> Nanos {
    request.completed.saturating_since(request.issued)
}

fn class(time: Nanos) -> usize {
    let class = 4.0 * ((time.as_ns().max(1) as f64).log2() - SHORTEST_BITS);
    (class.max(0.0) as usize).min(CLASSES - 1)
}

/// The number and the mean class of a part of the classes, which begins with the `first`.
fn part(classes: &[f64], first: usize) -> (f64, f64) {
    let count: f64 = classes.iter().sum();
    let sum: f64 = classes.iter().enumerate().map(|(index, count)| (first + index) as f64 * count).sum();
    (count, sum / count)
}

/// Where two parts of the classes lie apart, if they do.
fn cut(classes: &[f64; CLASSES]) -> Option<usize> {
    let between = |cut: usize| {
        let ((low, low_mean), (high, high_mean)) = (part(&classes[..cut], 0), part(&classes[cut..], cut));
        if low > 0.0 && high > 0.0 { low * high * (high_mean - low_mean).powi(2) } else { 0.0 }
    };
    let best = (1..CLASSES).map(between).fold(0.0, f64::max);
    if best == 0.0 {
        return None;
    }
    // Where nothing lies between, all cuts are as good: the middle one.
    let cuts: Vec<usize> = (1..CLASSES).filter(|&cut| between(cut) >= best * (1.0 - 1e-9)).collect();
    let cut = *cuts.get(cuts.len() / 2)?;
    let ((low, low_mean), (high, high_mean)) = (part(&classes[..cut], 0), part(&classes[cut..], cut));
    let all = low + high;
    let most = |classes: &[f64]| classes.iter().copied().fold(0.0, f64::max);
    let least = classes[low_mean as usize..=high_mean as usize].iter().copied().fold(f64::INFINITY, f64::min);
    let valley = least <= BETWEEN * most(&classes[..cut]).min(most(&classes[cut..]));
    let apart = (high_mean - low_mean) / 4.0 >= APART.log2();
    (low >= PART * all && high >= PART * all && valley && apart).then_some(cut)
}

impl CacheTiming {
    /// That of the device of `traces`, if it shows.
    pub(crate) fn of(traces: &[IsolatedTrace]) -> Option<CacheTiming> {
        let mut classes = [0.0f64; CLASSES];
        // How many others were there, how long it took, and of which kind it was.
        let mut seen: Vec<(usize, Nanos, usize)> = Vec::new();
        for (vm, trace) in traces.iter().enumerate() {
            let mut latest = LatestReads::default();
            each_issued(trace.moving(), |request, in_flight| {
                let kind = KINDS * vm + kind_of(request, &mut latest);
                seen.push((in_flight.len(), took(request), kind));
            });
        }
        seen.iter().filter(|(found, ..)| *found < FEW).for_each(|(_, took, _)| classes[class(*took)] += 1.0);
        let most = Nanos::from_ns((SHORTEST_BITS + cut(&classes)? as f64 / 4.0).exp2() as u64);
        let few = seen.iter().filter(|(found, took, _)| *found < FEW && *took <= most);
        let usual = median(few.map(|(_, took, _)| took.as_s_f64()))?;
        Some(CacheTiming { most, usual, depth: depth(&seen, most, usual, KINDS * traces.len()) })
    }

    /// Whether it answered a request that found so many there.
    pub(crate) fn answered(&self, request: &TracedRequest) -> bool {
        took(request) <= self.most
    }
}

/// Of a kind of requests of a machine: which share the cache answers in each part of the recording, and how long that takes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answered {
    shares: Vec<f64>,
    times: EmpiricalTimes,
}

/// What is seen of such a kind.
#[derive(Default)]
struct Seen {
    /// In each part, how many there were and how many were answered.
    parts: Vec<(f64, f64)>,
    times: Vec<f64>,
}

impl Seen {
    fn add(&mut self, part: usize, answered: Option<Nanos>) {
        self.parts.resize(PARTS, (0.0, 0.0));
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
        // Of a part in which there are few the whole tells more.
        let of_part = |(all, of_cache): &(f64, f64)| (of_cache + share * PART_COUNTS) / (all + PART_COUNTS);
        Answered { shares: self.parts.iter().map(of_part).collect(), times: EmpiricalTimes::of(self.times) }
    }
}

/// What the cache answers of a machine. A cache fills in the course of a recording, so that its share is told part by part.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ControllerCache {
    /// By kind.
    answered: [Answered; KINDS],
    /// How long a part of the recording is.
    part: Nanos,
    /// Which part is played.
    now: usize,
}

impl ControllerCache {
    /// Of a machine, and which of its requests the cache did not answer, as far as they had not to wait for others at the controller: reads
    /// at random, and all others. What a read behind one of the latest waits for may have been on its way already. Reads that `known`
    /// contents hold tell nothing of what else the cache may have.
    pub(crate) fn of(
        trace: &IsolatedTrace,
        cache: Option<&CacheTiming>,
        mut known: Option<Contents>,
    ) -> (ControllerCache, [Vec<TracedRequest>; 2]) {
        let part = Nanos::from_ns(trace.span().as_ns() / PARTS as u64 + 1);
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

    /// The same as full as at a time of the recording.
    pub(crate) fn at(&self, time: Timestamp) -> ControllerCache {
        ControllerCache { now: part_of(time, self.part), ..self.clone() }
    }

    /// How long the cache takes for a request of a kind, if it answers it; seconds.
    pub(crate) fn answer(&self, kind: Kind, random: &mut Xoshiro256PlusPlus) -> Option<f64> {
        let answered = &self.answered[kind];
        let share = *answered.shares.get(self.now)?;
        let chance = traces::random::unit(random.next_u64());
        if chance < share { answered.times.draw(random) } else { None }
    }

    /// The share of reads behind one of the latest that is answered.
    pub(crate) fn reads_ahead(&self) -> f64 {
        let shares = &self.answered[BEHIND].shares;
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }
}

/// In which part of a recording a time is.
fn part_of(at: Timestamp, part: Nanos) -> usize {
    (at.as_ns().checked_div(part.as_ns()).unwrap_or_default() as usize).min(PARTS - 1)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Requests one after another, of which the cache answers in 200 us those for which `cached` says so; others take 3 to 9 ms.
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
    fn what_a_cache_answers_shows_in_its_time() {
        let trace = trace(|_, random| random.random_range(0..10) < 3);
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        assert!(cache.most > Nanos::from_us(200) && cache.most < Nanos::from_ms(3), "{cache:?}");
        assert_eq!((cache.usual, cache.depth), (2e-4, u32::MAX));
        let (controller_cache, [random, others]) = ControllerCache::of(&trace, Some(&cache), None);
        let seen = 1.0 - random.len() as f64 / 4000.0;
        assert!(
            (share(&controller_cache.at(Timestamp::from_ns(20_000_000_000))) - seen).abs() < 0.06
                && (seen - 0.3).abs() < 0.03
        );
        // By chance one of them or two come behind another.
        assert!(random.iter().all(|read| took(read) >= Nanos::from_ms(3)) && others.len() < 5);
    }

    #[test]
    fn without_a_cache_all_times_are_of_one_kind() {
        assert_eq!(CacheTiming::of(&[trace(|_, _| false)]), None);
        // Two kinds that both move an arm lie no further apart than this.
        let mut near = trace(|n, _| n % 2 == 0);
        for read in near.requests.iter_mut().filter(|read| took(read) < Nanos::from_ms(1)) {
            read.completed = read.issued.saturating_add(Nanos::from_us(1800));
        }
        assert_eq!(CacheTiming::of(&[near]), None);
        let (controller_cache, [random, _]) = ControllerCache::of(&trace(|_, _| true), None, None);
        assert_eq!((share(&controller_cache), random.len()), (0.0, 4000));
    }

    #[test]
    fn what_always_takes_as_long_shows_no_cache() {
        let mut trace = trace(|_, _| false);
        trace.requests.iter_mut().for_each(|request| request.completed = request.issued + Nanos::from_ms(2));
        assert!(CacheTiming::of(&[trace]).is_none() && CacheTiming::of(&[IsolatedTrace::default()]).is_none());
    }

    #[test]
    fn a_cache_that_fills_answers_more_from_part_to_part() {
        let trace = trace(|n, random| random.random_range(0..4000) < n);
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        let (controller_cache, _) = ControllerCache::of(&trace, Some(&cache), None);
        let at = |s: u64| share(&controller_cache.at(Timestamp::ZERO + Nanos::from_s(s)));
        assert!(at(0) < 0.15 && (at(20) - 0.5).abs() < 0.12 && at(39) > 0.85, "{} {} {}", at(0), at(20), at(39));
    }

    #[test]
    fn a_controller_has_so_many_at_once_as_were_there_when_one_was_answered_at_once() {
        // Bursts of which eight at once are answered in 200 us, and some reads that take longer.
        let mut trace = trace(|_, _| false);
        for burst in 0..100 {
            let at = 1_000_000 + burst * 50_000;
            let writes = (0..40).map(|n| TracedRequest::sent(Operation::Write, 1, at + n, 200 * (1 + n / 8) - n % 8));
            trace.requests.extend(writes);
        }
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        assert!((8..=9).contains(&cache.depth), "{cache:?}");
        // Who had to wait there says nothing of the cache.
        let (controller_cache, [_, others]) = ControllerCache::of(&trace, Some(&cache), None);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        let answers = (0..500)
            .map(|_| controller_cache.at(Timestamp::MAX).answer(Operation::Write as Kind, &mut random).unwrap());
        assert!(answers.fold(0.0, f64::max) < 2.01e-4);
        assert!(others.iter().all(|other| other.operation == Operation::Read));
    }

    #[test]
    fn reads_behind_others_are_answered_by_reading_ahead() {
        let mut trace = trace(|n, _| n % 2 == 1);
        // Every second read is behind the one before it.
        for n in (1..4000).step_by(2) {
            trace.requests[n].lba = trace.requests[n - 1].end();
        }
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        let (controller_cache, [random, _]) = ControllerCache::of(&trace, Some(&cache), None);
        assert!(controller_cache.reads_ahead() > 0.99 && share(&controller_cache) < 0.01);
        assert_eq!(random.len(), 2000);
    }

    #[test]
    fn what_is_known_to_be_there_tells_nothing_of_what_else_is() {
        use drive_models::array::{Geometry, Level};

        // The second half reads what the first has read, and is answered; nothing else is.
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
