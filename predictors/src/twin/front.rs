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

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Nanos, Operation};

use super::recording::{Recorded, Recording, each_issued};
use super::service::Reads;
use super::times::{Times, median};

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
/// So many have to have found more there than the controller takes.
const WAITED_MIN: usize = 50;

/// The cache of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cache {
    /// What takes longer was not answered by it.
    most: Nanos,
    /// What it usually takes, in seconds.
    pub(super) usual: f64,
    /// How many requests the controller has at once.
    pub(super) depth: u32,
}

fn took(request: &Recorded) -> Nanos {
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
    // Where nothing lies between, all cuts are as good: the middle one.
    let cuts: Vec<usize> = (1..CLASSES).filter(|&cut| between(cut) >= best * (1.0 - 1e-9)).collect();
    let cut = *cuts.get(cuts.len() / 2)?;
    let ((low, low_mean), (high, high_mean)) = (part(&classes[..cut], 0), part(&classes[cut..], cut));
    let all = low + high;
    let most = |classes: &[f64]| classes.iter().copied().fold(0.0, f64::max);
    let least = classes[low_mean as usize..=high_mean as usize].iter().copied().fold(f64::INFINITY, f64::min);
    let valley = least <= BETWEEN * most(&classes[..cut]).min(most(&classes[cut..]));
    let apart = (high_mean - low_mean) / 4.0 >= APART.log2();
    (best > 0.0 && low >= PART * all && high >= PART * all && valley && apart).then_some(cut)
}

impl Cache {
    /// That of the device of `recordings`, if it shows.
    pub(super) fn of(recordings: &[Recording]) -> Option<Cache> {
        let mut classes = [0.0f64; CLASSES];
        let mut seen = Vec::new();
        for recording in recordings {
            each_issued(recording.moving(), |request, under_way| seen.push((under_way.len(), took(request))));
        }
        seen.iter().filter(|(found, _)| *found < FEW).for_each(|(_, took)| classes[class(*took)] += 1.0);
        let most = Nanos::from_ns((SHORTEST_BITS + cut(&classes)? as f64 / 4.0).exp2() as u64);
        let few = seen.iter().filter(|(found, took)| *found < FEW && *took <= most);
        let usual = median(few.map(|(_, took)| took.as_s_f64()))?;
        let at_once = seen.iter().filter(|(_, took)| took.as_s_f64() <= AT_ONCE * usual);
        let deepest = at_once.map(|(found, _)| *found).max()? + 1;
        let waited = seen.iter().filter(|(found, _)| *found >= deepest).count();
        let depth = if waited < WAITED_MIN { u32::MAX } else { deepest as u32 };
        Some(Cache { most, usual, depth })
    }

    /// Whether it answered a request that found so many there.
    fn answered(&self, request: &Recorded) -> bool {
        took(request) <= self.most
    }
}

/// Of a kind of requests of a machine: which share the cache answers, and how long that takes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answered {
    share: f64,
    times: Times,
}

/// What the cache answers of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Front {
    /// By operation, and whether it is a read behind one of the latest.
    answered: [[Answered; 2]; Operation::MOVING_DATA],
}

impl Front {
    /// Of a machine, and which of its requests the cache did not answer, as far as they had not to wait for others at the controller: reads
    /// at random, and all others. What a read behind one of the latest waits for may have been on its way already.
    pub(super) fn of(recording: &Recording, cache: Option<&Cache>) -> (Front, [Vec<Recorded>; 2]) {
        let mut latest = Reads::default();
        let mut seen: [[(f64, Vec<f64>); 2]; Operation::MOVING_DATA] = Default::default();
        let mut others: [Vec<Recorded>; 2] = Default::default();
        each_issued(recording.moving(), |request, under_way| {
            let follows = request.operation == Operation::Read && latest.followed_by(request.lba);
            if request.operation == Operation::Read {
                latest.add(request.end());
            }
            if cache.is_some_and(|cache| under_way.len() >= cache.depth as usize) {
                return;
            }
            let (count, answered) = &mut seen[request.operation as usize][usize::from(follows)];
            *count += 1.0;
            if cache.is_some_and(|cache| cache.answered(request)) {
                answered.push(took(request).as_s_f64());
            } else {
                let random = request.operation == Operation::Read && !follows;
                others[usize::from(!random)].push(*request);
            }
        });
        let of = |(count, answered): (f64, Vec<f64>)| Answered {
            share: if count > 0.0 { answered.len() as f64 / count } else { 0.0 },
            times: Times::of(answered),
        };
        (Front { answered: seen.map(|operation| operation.map(of)) }, others)
    }

    /// How long the cache takes for a request, if it answers it; seconds.
    pub(super) fn answer(&self, operation: Operation, follows: bool, random: &mut Xoshiro256PlusPlus) -> Option<f64> {
        let answered = &self.answered[operation as usize][usize::from(follows)];
        let chance = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if chance < answered.share { answered.times.draw(random) } else { None }
    }

    /// The share of reads behind one of the latest that is answered.
    pub(super) fn reads_ahead(&self) -> f64 {
        self.answered[Operation::Read as usize][1].share
    }
}
