//! The source that replays the arrivals of a capture.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use traces::{Nanos, Request, RequestId, StreamId, Timestamp};

use super::free::RecordedRequest;
use crate::source::{Next, ReplayError, Source};

/// The way in which arrivals are repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Keeps think times. A request of a process arrives one recorded span after the completion that it followed in the
    /// capture: after the same number of completions of its process. So a process that waits for its requests waits for
    /// them here too, and has the same number outstanding.
    #[default]
    Closed,
    /// Keeps arrival times. A process may then send its next request before the one that it waited for has completed.
    Recorded,
}

/// An arrival that depends on a completion.
#[derive(Clone, Copy, Debug)]
struct Dependent {
    request: Request,
    /// The number of requests of its process that complete before it.
    completions: u64,
    /// The time after the last of them, or after the beginning.
    think: Nanos,
}

/// The requests of a process without an arrival time yet, in order of arrival.
#[derive(Debug, Default)]
struct Process {
    dependents: VecDeque<Dependent>,
    completions: u64,
    /// The latest arrival; no further arrival of the process comes before it.
    latest: Timestamp,
}

/// The requests of a capture as a source.
pub(super) struct Arrivals {
    processes: BTreeMap<StreamId, Process>,
    /// Due arrivals by time, then by index in `requests`.
    due: BTreeSet<(Timestamp, u32)>,
    /// All requests with an arrival time, in the order in which it became known.
    requests: Vec<Request>,
}

impl Arrivals {
    /// The arrivals of `recorded`, which is in order of arrival.
    pub(super) fn new(recorded: &[RecordedRequest], pacing: Pacing) -> Arrivals {
        let mut arrivals = Arrivals { processes: BTreeMap::new(), due: BTreeSet::new(), requests: Vec::new() };
        let mut completed: BTreeMap<StreamId, Vec<Timestamp>> = BTreeMap::new();
        if pacing == Pacing::Closed {
            for RecordedRequest { request, completed: at, .. } in recorded {
                completed.entry(request.stream).or_default().push(*at);
            }
        }
        completed.values_mut().for_each(|of_process| of_process.sort_unstable());
        for RecordedRequest { request, .. } in recorded {
            let of_process = completed.get(&request.stream).map_or(&[][..], Vec::as_slice);
            // A completion at the same time may be its own.
            let completions = of_process.partition_point(|&at| at < request.arrival);
            let last = completions.checked_sub(1).map_or(Timestamp::ZERO, |last| of_process[last]);
            let think = request.arrival.saturating_since(last);
            let process = arrivals.processes.entry(request.stream).or_default();
            process.dependents.push_back(Dependent { request: *request, completions: completions as u64, think });
        }
        let processes: Vec<StreamId> = arrivals.processes.keys().copied().collect();
        for process in processes {
            arrivals.release(Timestamp::ZERO, process);
        }
        arrivals
    }
}

impl Arrivals {
    /// Sets the arrival times of all requests of this process that depend on no further completion.
    fn release(&mut self, now: Timestamp, stream: StreamId) {
        let Some(process) = self.processes.get_mut(&stream) else { return };
        while let Some(next) = process.dependents.front().filter(|next| next.completions <= process.completions) {
            let mut request = next.request;
            request.arrival = now.saturating_add(next.think).max(process.latest);
            process.latest = request.arrival;
            process.dependents.pop_front();
            let number = u32::try_from(self.requests.len()).expect("fewer than 2^32 requests are in memory");
            self.due.insert((request.arrival, number));
            self.requests.push(request);
        }
    }
}

impl Source for Arrivals {
    fn next(&mut self) -> Result<Next, ReplayError> {
        Ok(match self.due.first() {
            Some(&(time, _)) => Next::At(time),
            None if self.processes.values().any(|process| !process.dependents.is_empty()) => Next::Blocked,
            None => Next::Exhausted,
        })
    }

    fn take(&mut self, _now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        let (_, number) = self.due.pop_first().expect("the engine takes what was announced");
        Ok(self.requests[number as usize])
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        if let Some(process) = self.processes.get_mut(&request.stream) {
            process.completions += 1;
        }
        self.release(now, request.stream);
    }
}
