//! How far each VM has come in its isolated trace during the simulation.
//!
//! A VM's position in its isolated trace is where it had completed as many requests as it has in the simulation.
//! Excerpts begin with caches that are as full as at that position.

use traces::{Operation, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::twin::simulation::meter::Measured;

/// How far a VM has come in its trace. Only reads count if it reads at all, because background writes complete
/// independently of how far its processes have come.
pub(crate) struct Progress<'a> {
    /// The rest of the trace.
    requests: &'a [TracedRequest],
    /// The operation that counts.
    counted: Operation,
    /// Counted completions beyond the position.
    completed: f64,
}

impl Progress<'_> {
    /// At the beginning of a trace.
    pub(crate) fn of(trace: &IsolatedTrace) -> Progress<'_> {
        let reads = trace.moving().any(|request| request.operation == Operation::Read);
        let counted = if reads { Operation::Read } else { Operation::Write };
        Progress { requests: &trace.requests, counted, completed: 0.0 }
    }

    /// The position in the trace, `most` at the latest.
    pub(crate) fn position(&self, most: Timestamp) -> Timestamp {
        self.requests.first().map_or(most, |next| next.arrival.min(most))
    }

    /// Advances by the `measured` requests, `times` times.
    pub(crate) fn advance(&mut self, measured: &Measured, times: f64) {
        self.completed += measured[self.counted as usize].count() as f64 * times;
        while let Some((next, rest)) = self.requests.split_first() {
            let counts = next.operation == self.counted && next.moves_data();
            if counts && self.completed < 1.0 {
                break;
            }
            self.completed -= f64::from(u8::from(counts));
            self.requests = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use traces::Nanos;

    use super::*;

    #[test]
    fn position_is_where_the_vm_alone_had_completed_as_much() {
        let at = |s: f64| Timestamp::from_ns((s * 1e9) as u64);
        let got = |reads: u64, writes: u64| {
            let mut got = Measured::default();
            (0..reads).for_each(|_| got[0].add(Nanos::from_ms(1)));
            (0..writes).for_each(|_| got[1].add(Nanos::from_ms(1)));
            got
        };
        // The VM reads every 10 ms for 2 s, then every 20 ms, and writes every 100 ms.
        let mut trace = IsolatedTrace::default();
        for n in 0..500 {
            let now = if n < 200 { n * 10_000 } else { 2_000_000 + (n - 200) * 20_000 };
            trace.requests.push(TracedRequest::sent(Operation::Read, 0, now, 1000));
        }
        for n in 0..80 {
            trace.requests.push(TracedRequest::sent(Operation::Write, 1, n * 100_000, 1000));
        }
        trace.requests.sort_by_key(|request| request.arrival);
        let mut progress = Progress::of(&trace);
        assert_eq!(progress.position(at(5.0)), Timestamp::ZERO);
        // Fifty reads three times, twice.
        progress.advance(&got(50, 3), 3.0);
        assert_eq!((progress.position(at(1.0)), progress.position(at(5.0))), (at(1.0), at(1.5)));
        progress.advance(&got(50, 1000), 3.0);
        assert_eq!(progress.position(at(5.0)), at(4.0));
        progress.advance(&got(1000, 0), 1.0);
        assert_eq!(progress.position(at(9.0)), at(9.0));
        // Of a VM that only writes, writes count.
        trace.requests.retain(|request| request.operation == Operation::Write);
        let mut progress = Progress::of(&trace);
        progress.advance(&got(0, 21), 0.5);
        assert_eq!(progress.position(at(5.0)), at(1.0));
    }
}
