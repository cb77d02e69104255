//! Requests and mean think time of each stream.
//!
//! The think time here is the time from the completion of all earlier requests of the stream to its next arrival.
//! Arrivals before that completion have no think time.

use std::collections::BTreeMap;

use traces::results::isolation::StreamProfile;
use traces::{Operation, Record, StreamId, Timestamp, TraceMeta};

/// Most streams in a profile.
const STREAMS_MAX: usize = 64;

#[derive(Clone, Copy, Default)]
struct Stream {
    reads: u64,
    writes: u64,
    /// The last completion among the stream's requests so far.
    outstanding_until: Option<Timestamp>,
    /// Number of think times.
    thinks: u64,
    /// Sum of think times, ns.
    thought_ns: u128,
}

/// The streams of a trace.
#[derive(Default)]
pub(super) struct Streams(BTreeMap<StreamId, Stream>);

impl Streams {
    /// Adds the next record in order of arrival.
    pub(super) fn add(&mut self, record: &Record) {
        let Record { request, observed } = record;
        let stream = self.0.entry(request.stream).or_default();
        match request.operation {
            Operation::Read => stream.reads += 1,
            Operation::Write => stream.writes += 1,
            _ => {}
        }
        if let Some(until) = stream.outstanding_until
            && let Some(thought) = request.arrival.checked_since(until)
        {
            stream.thinks += 1;
            stream.thought_ns += u128::from(thought.as_ns());
        }
        stream.outstanding_until = stream.outstanding_until.max(observed.completed);
    }

    /// The streams with the most requests; of equals, the lower number first.
    pub(super) fn figures(self, meta: &TraceMeta) -> Vec<StreamProfile> {
        let of_stream = |(id, stream): (StreamId, Stream)| StreamProfile {
            stream: id.0,
            name: meta.streams.get(&id.0).cloned(),
            reads: stream.reads,
            writes: stream.writes,
            thinks: stream.thinks,
            think_ns: (stream.thinks > 0).then(|| stream.thought_ns as f64 / stream.thinks as f64),
        };
        let mut streams: Vec<StreamProfile> = self.0.into_iter().map(of_stream).collect();
        streams.retain(|stream| stream.reads + stream.writes > 0);
        streams.sort_by_key(|stream| (std::cmp::Reverse(stream.reads + stream.writes), stream.stream));
        streams.truncate(STREAMS_MAX);
        streams
    }
}
