//! Correlograms of pairs of processes: how often an arrival of p follows a completion of q, by the time between them.
//!
//! Times are counted in classes of a quarter of an octave. [`Correlogram::likelihood_ratio`] divides each count by the
//! count expected by chance. Each class has parts, which resolve exact think times. Expectation maximisation divides
//! each arrival among the candidates that may explain it ([`Correlogram::settle`]).

use traces::Nanos;

use super::candidates::{Candidate, Streams, visit};
use crate::isolated_trace::TracedRequest;

/// Number of classes of think times: four to an octave, from about a microsecond on.
const THINK_TIME_CLASSES: usize = 128;
/// Parts of a class, for exact think times. Set by judgement; not varied.
const CLASS_PARTS: usize = 16;
/// Binary logarithm of the end of the first class: 2^10 ns.
const FIRST_CLASS_END_BITS: u32 = 10;
/// How many times as many arrivals a candidate must explain by its exact think time to replace the one with the highest
/// ratio. Set by judgement; not varied.
const EXACT_EXPLAINED_RATIO_MIN: f32 = 2.0;
/// It must also explain at least one in this many of the process's arrivals. Set by judgement; not varied.
const EXACT_EXPLAINED_ONE_IN: f32 = 16.0;
/// Passes of the expectation maximisation. Set by judgement; not varied.
const EM_PASSES: usize = 8;

/// The part that a think time falls into, counted over all classes.
fn part(think_time: Nanos) -> usize {
    let ns = think_time.as_ns();
    if ns < 1 << FIRST_CLASS_END_BITS {
        return 0;
    }
    let exponent = 63 - ns.leading_zeros();
    // The six bits below the highest one: 64 parts of an octave, which has four classes.
    let parts = ((ns >> (exponent - 6)) & 63) as usize;
    ((exponent - FIRST_CLASS_END_BITS) as usize * 4 * CLASS_PARTS + parts).min(THINK_TIME_CLASSES * CLASS_PARTS - 1)
}

/// The class of a think time.
pub(super) fn class(think_time: Nanos) -> usize {
    part(think_time) / CLASS_PARTS
}

/// Width of a class, ns.
fn width_ns(class: usize) -> f64 {
    if class == 0 {
        return f64::from(1u32 << FIRST_CLASS_END_BITS);
    }
    (1u64 << (class as u32 / 4 + FIRST_CLASS_END_BITS - 2)) as f64
}

/// How often each think time occurred.
pub(super) struct Correlogram {
    /// By arriving process, completing process and class.
    completions: Vec<u32>,
    /// How many arrivals each part of a class explains, by arriving and completing process.
    exact: Vec<f32>,
    /// By process and class: times between successive arrivals of the process.
    arrivals: Vec<u32>,
    /// Arrivals of each process; as many complete.
    pub(super) sent: Vec<u64>,
    streams: usize,
    span_ns: f64,
}

impl Correlogram {
    pub(super) fn new(streams: usize, span: Nanos) -> Correlogram {
        Correlogram {
            completions: vec![0; streams * streams * THINK_TIME_CLASSES],
            exact: vec![0.0; streams * streams * THINK_TIME_CLASSES * CLASS_PARTS],
            arrivals: vec![0; streams * THINK_TIME_CLASSES],
            sent: vec![0; streams],
            streams,
            span_ns: (span.as_ns() as f64).max(1.0),
        }
    }

    fn index(&self, stream: usize, of: usize, class: usize) -> usize {
        (stream * self.streams + of) * THINK_TIME_CLASSES + class
    }

    /// Within the first part (no think time) all completing processes share one count: a process that starts at
    /// completions may start at those of several others.
    fn exact_index(&self, stream: usize, of: usize, think_time: Nanos) -> usize {
        let part = part(think_time);
        let of = if part == 0 { 0 } else { of };
        (stream * self.streams + of) * THINK_TIME_CLASSES * CLASS_PARTS + part
    }

    pub(super) fn add(&mut self, stream: usize, candidate: &Candidate) {
        let class = class(candidate.think_time);
        match candidate.of {
            Some(of) => {
                let index = self.index(stream, of, class);
                self.completions[index] += 1;
                let exact = self.exact_index(stream, of, candidate.think_time);
                self.exact[exact] += 1.0;
            }
            None => self.arrivals[stream * THINK_TIME_CLASSES + class] += 1,
        }
    }

    /// How many times more often than by chance the candidate's think time occurs. Adding one to both counts keeps the
    /// ratio of rare events low.
    pub(super) fn likelihood_ratio(&self, stream: usize, candidate: &Candidate) -> f64 {
        let class = class(candidate.think_time);
        let (seen, of) = match candidate.of {
            Some(of) => (self.completions[self.index(stream, of, class)], of),
            None => (self.arrivals[stream * THINK_TIME_CLASSES + class], stream),
        };
        let by_chance = self.sent[stream] as f64 * self.sent[of] as f64 / self.span_ns * width_ns(class);
        (f64::from(seen) + 1.0) / (by_chance + 1.0)
    }

    /// How many arrivals of a process the candidate's exact think time explains.
    fn explains(&self, stream: usize, candidate: &Candidate) -> f32 {
        candidate.of.map_or(0.0, |of| self.exact[self.exact_index(stream, of, candidate.think_time)])
    }

    /// Divides each arrival among its candidates in proportion to how many arrivals each explains, repeatedly
    /// (expectation maximisation of a mixture). A candidate that occurs only beside another that explains more explains
    /// nothing in the end.
    pub(super) fn settle(&mut self, requests: &[TracedRequest], streams: &Streams) {
        for _ in 0..EM_PASSES {
            let mut exact = vec![0.0; self.exact.len()];
            visit(requests, streams, |_, stream, candidates, _| {
                let all: f32 = candidates.iter().map(|candidate| self.explains(stream, candidate)).sum();
                for candidate in candidates.iter().filter(|_| all > 0.0) {
                    let Some(of) = candidate.of else { continue };
                    exact[self.exact_index(stream, of, candidate.think_time)] += self.explains(stream, candidate) / all;
                }
            });
            self.exact = exact;
        }
    }

    /// The candidate whose exact think time explains the most arrivals, if it explains far more than `best`, which is
    /// the best by classes. A process that waits for another and then thinks follows that one's completion at an exact
    /// time. It follows its own request at a time that varies with the other's service.
    pub(super) fn exact<'a>(
        &self,
        stream: usize,
        best: &'a Candidate,
        candidates: &'a [Candidate],
    ) -> Option<&'a Candidate> {
        let of = |candidate: &Candidate| self.explains(stream, candidate);
        let most = candidates.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
        let exact = of(most) >= EXACT_EXPLAINED_RATIO_MIN * of(best)
            && of(most) * EXACT_EXPLAINED_ONE_IN >= self.sent[stream] as f32;
        (exact && best.of.is_some()).then_some(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_a_quarter_of_an_octave() {
        assert_eq!([0, 1023, 1024, 1279, 1280, 2047, 2048].map(|ns| class(Nanos::from_ns(ns))), [0, 0, 0, 0, 1, 3, 4]);
        for class_of in [4, 17, 60] {
            let first = (1u64 << 10..1 << 30).step_by(64).find(|&ns| class(Nanos::from_ns(ns)) == class_of);
            let next = first.map(|first| class(Nanos::from_ns(first + width_ns(class_of) as u64)));
            assert_eq!(next, Some(class_of + 1));
        }
        assert_eq!(class(Nanos::from_ns(u64::MAX)), THINK_TIME_CLASSES - 1);
    }
}
