//! Finds the events that each request may depend on: its candidates.
//!
//! These are the previous arrival of its process and the completions of every process since then. Candidates are
//! found in one pass over the trace, so each process keeps only its latest completions.

use std::collections::BTreeMap;

use traces::{Nanos, Operation, StreamId, Timestamp};

use super::After;
use crate::isolated_trace::TracedRequest;

/// The most processes with a number of their own; those that send least share the last one. Set by judgement; not
/// varied.
const STREAMS_MAX: usize = 32;
/// The most completions of each process that are candidates at once: the latest. Set by judgement; not varied.
const RECENT_COMPLETIONS_MAX: usize = 8;

/// An event that a request may depend on.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) after: After,
    /// The process whose request completed; `None` if the event is the previous arrival of the same process.
    pub(super) of: Option<usize>,
    /// From the event to the arrival of the request.
    pub(super) think_time: Nanos,
}

/// The processes of a trace, numbered by how many requests they send, the most first.
pub(crate) struct Streams {
    number: BTreeMap<StreamId, usize>,
    pub(crate) count: usize,
}

impl Streams {
    pub(crate) fn of(requests: &[TracedRequest]) -> Streams {
        let mut sent: BTreeMap<StreamId, u64> = BTreeMap::new();
        for request in requests {
            *sent.entry(request.stream).or_default() += 1;
        }
        let mut by_sent: Vec<(StreamId, u64)> = sent.into_iter().collect();
        by_sent.sort_by_key(|&(stream, sent)| (std::cmp::Reverse(sent), stream));
        let numbered = by_sent.iter().enumerate().map(|(index, &(stream, _))| (stream, index.min(STREAMS_MAX - 1)));
        Streams { count: by_sent.len().min(STREAMS_MAX), number: numbered.collect() }
    }

    pub(crate) fn number(&self, request: &TracedRequest) -> usize {
        self.number[&request.stream]
    }
}

/// The latest events of a process.
#[derive(Clone, Default)]
struct Latest {
    arrival: Option<(Timestamp, u32)>,
    /// Its latest completions, the oldest first.
    completions: Vec<(Timestamp, u32)>,
}

/// Calls `see` for each request with the number of its process, its candidates, and the latest completion of a
/// synchronous write or flush of any process. Candidates are in the order of the processes, and of completion within
/// one.
pub(super) fn visit(
    requests: &[TracedRequest],
    streams: &Streams,
    mut see: impl FnMut(&TracedRequest, usize, &[Candidate], Option<(Timestamp, u32)>),
) {
    let mut latest_sync_write = None;
    let mut by_completion: Vec<u32> = (0..requests.len() as u32).collect();
    by_completion.sort_by_key(|&index| (requests[index as usize].completed, index));
    let mut completed = by_completion.into_iter().peekable();
    let mut latest = vec![Latest::default(); streams.count];
    let mut candidates = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let arrival = request.arrival;
        // A request that takes no time may complete on arrival, so only earlier requests are candidates.
        let is_done = |&done: &u32| (done as usize) < index && requests[done as usize].completed <= arrival;
        while let Some(done) = completed.next_if(is_done) {
            let of = &requests[done as usize];
            if of.sync && of.operation != Operation::Read {
                latest_sync_write = Some((of.completed, done));
            }
            let recent = &mut latest[streams.number(of)].completions;
            if recent.len() == RECENT_COMPLETIONS_MAX {
                recent.remove(0);
            }
            recent.push((of.completed, done));
        }
        let stream = streams.number(request);
        let before = latest[stream].arrival;
        candidates.clear();
        if let Some((at, earlier)) = before {
            let think_time = arrival.saturating_since(at);
            candidates.push(Candidate { after: After::Arrival(earlier), of: None, think_time });
        }
        for (of, process) in latest.iter().enumerate() {
            for &(at, done) in &process.completions {
                if before.is_none_or(|(before, _)| at >= before) {
                    let think_time = arrival.saturating_since(at);
                    candidates.push(Candidate { after: After::Completion(done), of: Some(of), think_time });
                }
            }
        }
        see(request, stream, &candidates, latest_sync_write);
        latest[stream].arrival = Some((arrival, index as u32));
    }
}
