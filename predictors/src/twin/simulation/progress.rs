//! How far machines come in their recordings as they are played.

use traces::{Operation, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::twin::simulation::meter::Measured;

/// How far a machine comes in its recording: to where it had done as much alone. Reads tell, if it reads, since what is written in the
/// background waits for nobody.
pub(crate) struct Progress<'a> {
    /// What it has not come to.
    requests: &'a [TracedRequest],
    tells: Operation,
    /// Requests that it has done beyond those.
    done: f64,
}

impl Progress<'_> {
    /// At the beginning of a recording.
    pub(crate) fn of(trace: &IsolatedTrace) -> Progress<'_> {
        let reads = trace.moving().any(|request| request.operation == Operation::Read);
        let tells = if reads { Operation::Read } else { Operation::Write };
        Progress { requests: &trace.requests, tells, done: 0.0 }
    }

    /// Where it is, if it has come no further than to `most`.
    pub(crate) fn at(&self, most: Timestamp) -> Timestamp {
        self.requests.first().map_or(most, |next| next.arrival.min(most))
    }

    /// It gets so much, so many times.
    pub(crate) fn go_on(&mut self, got: &Measured, times: f64) {
        self.done += got[self.tells as usize].count() as f64 * times;
        while let Some((next, rest)) = self.requests.split_first() {
            let counts = next.operation == self.tells && next.moves_data();
            if counts && self.done < 1.0 {
                break;
            }
            self.done -= f64::from(u8::from(counts));
            self.requests = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use traces::Nanos;

    use super::*;

    #[test]
    fn a_machine_comes_to_where_it_had_done_as_much_alone() {
        let at = |s: f64| Timestamp::from_ns((s * 1e9) as u64);
        let got = |reads: u64, writes: u64| {
            let mut got = Measured::default();
            (0..reads).for_each(|_| got[0].add(Nanos::from_ms(1)));
            (0..writes).for_each(|_| got[1].add(Nanos::from_ms(1)));
            got
        };
        // It reads every 10 ms for 2 s, then every 20 ms, and writes every 100 ms.
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
        assert_eq!(progress.at(at(5.0)), Timestamp::ZERO);
        // Fifty reads three times, and then again.
        progress.go_on(&got(50, 3), 3.0);
        assert_eq!((progress.at(at(1.0)), progress.at(at(5.0))), (at(1.0), at(1.5)));
        progress.go_on(&got(50, 1000), 3.0);
        assert_eq!(progress.at(at(5.0)), at(4.0));
        progress.go_on(&got(1000, 0), 1.0);
        assert_eq!(progress.at(at(9.0)), at(9.0));
        // Who only writes is told from that.
        trace.requests.retain(|request| request.operation == Operation::Write);
        let mut progress = Progress::of(&trace);
        progress.go_on(&got(0, 21), 0.5);
        assert_eq!(progress.at(at(5.0)), at(1.0));
    }
}
