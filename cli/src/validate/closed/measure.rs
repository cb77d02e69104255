//! The figures of a run, measured in the same way of the recorded run and of its replay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use replay::Observer;
use traces::results::closed::{QueueFound, RunFigures};
use traces::statistics::Distribution;
use traces::{Nanos, Operation, Record, Request, RequestId, StreamId, Timestamp};

/// Number of streams measured one by one, the first in the trace; later ones count in the whole only.
const STREAMS_MAX: usize = 4096;

/// The longest queue that is counted by its length; longer ones count as this long.
const FOUND_MAX: usize = 1024;

/// The figures of a part of a run's requests.
#[derive(Debug, Default)]
pub struct Side {
    bytes: u64,
    response: Distribution,
    device: Distribution,
    /// By queue length, the number of requests that found a queue of this length.
    found: Vec<u64>,
    first_arrival: Option<Timestamp>,
    last_completion: Timestamp,
}

impl Side {
    pub fn requests(&self) -> u64 {
        self.response.count()
    }

    fn arrived(&mut self, now: Timestamp, others: usize) {
        self.first_arrival.get_or_insert(now);
        let others = others.min(FOUND_MAX);
        if others >= self.found.len() {
            self.found.resize(others + 1, 0);
        }
        self.found[others] += 1;
    }

    fn completed(&mut self, request: &Request, response: Nanos, device: Option<Nanos>) {
        self.bytes = self.bytes.saturating_add(request.sectors().bytes());
        self.response.add(response);
        if let Some(device) = device {
            self.device.add(device);
        }
        self.last_completion = self.last_completion.max(request.arrival + response);
    }

    pub fn figures(&self) -> RunFigures {
        let span = self.first_arrival.map_or(Nanos::ZERO, |first| self.last_completion.saturating_since(first));
        let seconds = span.as_s_f64();
        let per_s = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        RunFigures {
            requests: self.requests(),
            span_ns: span,
            requests_per_s: per_s(self.requests()),
            bytes_per_s: per_s(self.bytes),
            response_time: self.response.figures(),
            device_time: self.device.figures(),
            queue_at_arrival: self.queue(),
        }
    }

    fn queue(&self) -> QueueFound {
        let count: u64 = self.found.iter().sum();
        let total: u64 = self.found.iter().zip(0..).map(|(often, length): (&u64, u64)| often * length).sum();
        let percentile = |percent: u64| {
            let rank = (count * percent).div_ceil(100).max(1);
            let mut below = 0;
            let reaches = |often: &u64| {
                below += often;
                below >= rank
            };
            self.found.iter().position(reaches).unwrap_or(0) as u64
        };
        QueueFound {
            mean: (count > 0).then(|| total as f64 / count as f64),
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99),
        }
    }
}

/// The figures of a run: of all requests, by operation and by stream.
#[derive(Debug, Default)]
pub struct Measured {
    pub all: Side,
    pub operations: [Side; Operation::ALL.len()],
    pub streams: BTreeMap<StreamId, Side>,
}

impl Measured {
    fn sides(&mut self, request: &Request) -> impl Iterator<Item = &mut Side> {
        let is_kept = self.streams.len() < STREAMS_MAX || self.streams.contains_key(&request.stream);
        let stream = is_kept.then(|| self.streams.entry(request.stream).or_default());
        [&mut self.all, &mut self.operations[request.operation as usize]].into_iter().chain(stream)
    }

    fn arrived(&mut self, now: Timestamp, request: &Request, others: usize) {
        self.sides(request).for_each(|side| side.arrived(now, others));
    }

    fn completed(&mut self, request: &Request, response: Nanos, device: Option<Nanos>) {
        self.sides(request).for_each(|side| side.completed(request, response, device));
    }
}

/// Measures a run from its records, in the order of arrival.
#[derive(Debug, Default)]
pub struct Recorded {
    pub measured: Measured,
    outstanding: BinaryHeap<Reverse<Timestamp>>,
    pub incomplete: u64,
}

impl Recorded {
    pub fn record(&mut self, record: &Record) {
        let Record { request, observed } = record;
        let Some((response, completed)) = record.response_time().zip(observed.completed) else {
            self.incomplete += 1;
            return;
        };
        while self.outstanding.peek().is_some_and(|next| next.0 <= request.arrival) {
            self.outstanding.pop();
        }
        self.measured.arrived(request.arrival, request, self.outstanding.len());
        self.outstanding.push(Reverse(completed));
        self.measured.completed(request, response, observed.device_time());
    }
}

/// Measures a run from a replay.
#[derive(Debug, Default)]
pub struct Replayed {
    pub measured: Measured,
    outstanding: usize,
    /// By id, when each request was issued, and the request into which it was merged.
    issued: Vec<(Option<Timestamp>, RequestId)>,
}

impl Replayed {
    fn slot(&mut self, id: RequestId) -> &mut (Option<Timestamp>, RequestId) {
        while self.issued.len() <= id.index() {
            self.issued.push((None, RequestId(self.issued.len() as u32)));
        }
        &mut self.issued[id.index()]
    }
}

impl Observer for Replayed {
    fn arrived(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        *self.slot(id) = (None, id);
        self.measured.arrived(now, request, self.outstanding);
        self.outstanding += 1;
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, from: RequestId, _request: &Request, _was_waiting: bool) {
        self.slot(from).1 = into;
    }

    fn issued(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        *self.slot(id) = (Some(now), id);
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.outstanding -= 1;
        let (mut issued, mut leader) = *self.slot(id);
        // A merged request was never issued itself; the request it was merged into was.
        while issued.is_none() && leader != self.slot(leader).1 {
            (issued, leader) = *self.slot(leader);
        }
        let issued = issued.or(self.slot(leader).0);
        self.measured.completed(
            request,
            now.since(request.arrival),
            issued.and_then(|issued| now.checked_since(issued)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_that_requests_find_has_its_mean_and_percentiles() {
        let mut side = Side::default();
        let queue = |side: &Side| {
            let QueueFound { mean, p50, p95, p99 } = side.queue();
            (mean, [p50, p95, p99])
        };
        assert_eq!(queue(&side), (None, [0; 3]));
        let found = [0; 40].into_iter().chain([1; 20]).chain([2; 30]).chain([7; 8]).chain([30, 5000]);
        found.for_each(|others| side.arrived(Timestamp::ZERO, others));
        let sum = 20 + 2 * 30 + 7 * 8 + 30 + FOUND_MAX;
        assert_eq!(queue(&side), (Some(sum as f64 / 100.0), [1, 7, 30]));
    }
}
