//! Which events each request may have come after.

use std::collections::BTreeMap;

use traces::{Nanos, Operation, StreamId, Timestamp};

use super::After;
use crate::isolated_trace::TracedRequest;

/// Processes that are told apart; those that send least are one.
const STREAMS: usize = 32;
/// The latest completions of each that are looked at.
const RECENT: usize = 8;

/// An event that a request may have come after.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) after: After,
    /// Whose completion; the process' own arrival if nobody's.
    pub(super) of: Option<usize>,
    pub(super) think_time: Nanos,
}

/// Which processes there are, numbered by how much they send.
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
        let numbered = by_sent.iter().enumerate().map(|(index, &(stream, _))| (stream, index.min(STREAMS - 1)));
        Streams { count: by_sent.len().min(STREAMS), number: numbered.collect() }
    }

    pub(crate) fn number(&self, request: &TracedRequest) -> usize {
        self.number[&request.stream]
    }
}

/// What a process has done last.
#[derive(Clone, Default)]
struct Latest {
    arrival: Option<(Timestamp, u32)>,
    /// Its latest completions, the oldest first.
    completions: Vec<(Timestamp, u32)>,
}

/// Shows `see` each request with its process and what it may have come after: the arrival before of its process, and completions since
/// then, those of each process in their order; and the latest completion of a synchronous write or flush of anybody.
pub(super) fn visit(
    requests: &[TracedRequest],
    streams: &Streams,
    mut see: impl FnMut(&TracedRequest, usize, &[Candidate], Option<(Timestamp, u32)>),
) {
    let mut written = None;
    let mut by_completion: Vec<u32> = (0..requests.len() as u32).collect();
    by_completion.sort_by_key(|&index| (requests[index as usize].completed, index));
    let mut completed = by_completion.into_iter().peekable();
    let mut latest = vec![Latest::default(); streams.count];
    let mut candidates = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let arrival = request.arrival;
        // What takes no time may be done on arrival, and comes after nothing that is not before it.
        let is_done = |&done: &u32| (done as usize) < index && requests[done as usize].completed <= arrival;
        while let Some(done) = completed.next_if(is_done) {
            let of = &requests[done as usize];
            if of.sync && of.operation != Operation::Read {
                written = Some((of.completed, done));
            }
            let recent = &mut latest[streams.number(of)].completions;
            if recent.len() == RECENT {
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
        see(request, stream, &candidates, written);
        latest[stream].arrival = Some((arrival, index as u32));
    }
}
