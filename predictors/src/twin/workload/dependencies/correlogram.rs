//! How often arrivals of a process come at which distance behind completions of each process.

use traces::Nanos;

use super::candidates::{Candidate, Streams, visit};
use crate::isolated_trace::TracedRequest;

/// Classes of distances: four to an octave, from a microsecond.
const CLASSES: usize = 128;
/// Each class has so many parts.
const FINE: usize = 16;
/// The first class ends at 2^10 ns.
const SHORTEST_BITS: u32 = 10;
/// Or it explains so many times as many arrivals by its exact distance,
const EXACT: f32 = 2.0;
/// and of all at least one of so many.
const EXACT_OF: f32 = 16.0;
/// Passes in which exact distances are found.
const PASSES: usize = 8;

/// In which part of all classes' parts a distance is.
fn part(think_time: Nanos) -> usize {
    let ns = think_time.as_ns();
    if ns < 1 << SHORTEST_BITS {
        return 0;
    }
    let exponent = 63 - ns.leading_zeros();
    // Of an octave, which has four classes.
    let parts = ((ns >> (exponent - 6)) & 63) as usize;
    ((exponent - SHORTEST_BITS) as usize * 4 * FINE + parts).min(CLASSES * FINE - 1)
}

/// The class of a distance.
pub(super) fn class(think_time: Nanos) -> usize {
    part(think_time) / FINE
}

/// How many nanoseconds a class holds.
fn width_ns(class: usize) -> f64 {
    if class == 0 {
        return f64::from(1u32 << SHORTEST_BITS);
    }
    (1u64 << (class as u32 / 4 + SHORTEST_BITS - 2)) as f64
}

/// How often which distance occurred.
pub(super) struct Correlogram {
    /// By process that arrives, process that completes and class.
    completions: Vec<u32>,
    /// The same by part of a class: how many arrivals each explains.
    exact: Vec<f32>,
    /// By process and class: between arrivals of one process.
    arrivals: Vec<u32>,
    /// Arrivals of each process; as many complete.
    pub(super) sent: Vec<u64>,
    streams: usize,
    span_ns: f64,
}

impl Correlogram {
    pub(super) fn new(streams: usize, span: Nanos) -> Correlogram {
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
    fn exact_index(&self, stream: usize, of: usize, think_time: Nanos) -> usize {
        let part = part(think_time);
        let of = if part == 0 { 0 } else { of };
        (stream * self.streams + of) * CLASSES * FINE + part
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
            None => self.arrivals[stream * CLASSES + class] += 1,
        }
    }

    /// How much more often than by chance the candidate's distance occurs. One more of each keeps what is rare inconspicuous.
    pub(super) fn ratio(&self, stream: usize, candidate: &Candidate) -> f64 {
        let class = class(candidate.think_time);
        let (seen, of) = match candidate.of {
            Some(of) => (self.completions[self.index(stream, of, class)], of),
            None => (self.arrivals[stream * CLASSES + class], stream),
        };
        let by_chance = self.sent[stream] as f64 * self.sent[of] as f64 / self.span_ns * width_ns(class);
        (f64::from(seen) + 1.0) / (by_chance + 1.0)
    }

    /// How many arrivals of a process a candidate's exact distance explains.
    fn explains(&self, stream: usize, candidate: &Candidate) -> f32 {
        candidate.of.map_or(0.0, |of| self.exact[self.exact_index(stream, of, candidate.think_time)])
    }

    /// Divides each arrival among its candidates by how many arrivals each explains, again and again (expectation maximisation of a
    /// mixture): what is only ever seen beside another that explains more in the end explains nothing.
    pub(super) fn settle(&mut self, requests: &[TracedRequest], streams: &Streams) {
        for _ in 0..PASSES {
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

    /// What arrivals of a process come exactly after, if that is not what is `best` by classes: a process that waits for another and
    /// then thinks comes just so long after that, and after its own request with all that the other's took in between.
    pub(super) fn exact<'a>(
        &self,
        stream: usize,
        best: &'a Candidate,
        candidates: &'a [Candidate],
    ) -> Option<&'a Candidate> {
        let of = |candidate: &Candidate| self.explains(stream, candidate);
        let most = candidates.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
        let exact = of(most) >= EXACT * of(best) && of(most) * EXACT_OF >= self.sent[stream] as f32;
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
        assert_eq!(class(Nanos::from_ns(u64::MAX)), CLASSES - 1);
    }
}
