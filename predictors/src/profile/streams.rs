//! Who sends requests, and how long each pauses in between.

use std::collections::BTreeMap;

use traces::results::isolation::StreamProfile;
use traces::{Operation, Record, StreamId, Timestamp, TraceMeta};

/// How many a profile names.
const STREAMS_MAX: usize = 64;

#[derive(Clone, Copy, Default)]
struct Stream {
    reads: u64,
    writes: u64,
    /// When the last of what it has sent completes.
    under_way_until: Option<Timestamp>,
    thinks: u64,
    thought_ns: u128,
}

/// The streams of a trace.
#[derive(Default)]
pub(super) struct Streams(BTreeMap<StreamId, Stream>);

impl Streams {
    /// The next record in the order of arrival.
    pub(super) fn add(&mut self, record: &Record) {
        let Record { request, observed } = record;
        let stream = self.0.entry(request.stream).or_default();
        match request.operation {
            Operation::Read => stream.reads += 1,
            Operation::Write => stream.writes += 1,
            _ => {}
        }
        if let Some(until) = stream.under_way_until
            && let Some(thought) = request.arrival.checked_since(until)
        {
            stream.thinks += 1;
            stream.thought_ns += u128::from(thought.as_ns());
        }
        stream.under_way_until = stream.under_way_until.max(observed.completed);
    }

    /// The busiest, by requests, then by number.
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
