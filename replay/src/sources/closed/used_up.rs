//! When a VM has used up its trace: a replay on a faster drive sends what processes wait for sooner than the trace did,
//! while write-back and timers go on as recorded.

use traces::{Nanos, Timestamp, VmId};

use super::Closed;
use super::seen::Seen;
use super::stream::Stream;

/// A process is active to the end of a trace if its last request lies in the last part of it: one part in this many.
const LAST_PART: u64 = 10;

/// The rate of a VM over the whole replay is too low if until then it was this many times as high.
const RATE_FELL: f64 = 1.25;

/// A VM that had used up its trace so long before the end of the replay that its rates over the whole are too low.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedUpEarly {
    /// The path of its trace.
    pub trace: String,
    /// After how long it had.
    pub after: Nanos,
    /// Its arrivals a second until then.
    pub arrivals_per_s: f64,
    /// How long the replay was.
    pub replayed: Nanos,
}

impl Seen {
    /// All of the trace has been read, with these streams.
    pub(super) fn end_of_trace<'a>(&mut self, streams: impl Iterator<Item = &'a Stream>) {
        self.is_read = true;
        streams.for_each(|stream| self.note_used_up(stream));
    }

    /// Notes it if `stream` has sent its last request and was active to the end of the trace. Journals repeat commits.
    pub(super) fn note_used_up(&mut self, stream: &Stream) {
        if !self.is_read || self.used_up.is_some() || !stream.queue.is_empty() || stream.commits.is_some() {
            return;
        }
        let recorded = self.recorded_to.since(self.recorded_from.unwrap_or_default());
        if self.recorded_to.since(stream.recorded_to).as_ns() <= recorded.as_ns() / LAST_PART {
            self.used_up = Some((stream.replayed_arrival, self.arrivals));
        }
    }
}

impl Closed {
    /// By VM, when the first of its processes that were active to the end of the trace had sent its last request. From
    /// then on less comes than the VM would send.
    pub fn used_up(&self) -> impl Iterator<Item = Option<Timestamp>> {
        self.seen.iter().map(|seen| seen.used_up.map(|(at, _)| at))
    }

    /// Whether a VM sends nothing more, not even write-back.
    pub fn has_exhausted_vm(&self) -> bool {
        self.seen.iter().any(|vm| vm.is_read && vm.buffered == 0)
    }

    /// The VMs whose rates over the whole replay are too low, since they had used up their traces.
    pub fn used_up_early(&self) -> Vec<UsedUpEarly> {
        let replayed = self.now.since(self.start);
        let early = |(vm, seen): (usize, &Seen)| {
            let (at, arrivals) = seen.used_up?;
            let after = at.since(self.start);
            let arrivals_per_s = arrivals as f64 / after.as_s_f64();
            let fell = after > Nanos::ZERO && arrivals_per_s > seen.arrivals as f64 / replayed.as_s_f64() * RATE_FELL;
            let trace = || self.traces.path_of(VmId(vm as u16)).display().to_string();
            fell.then(|| UsedUpEarly { trace: trace(), after, arrivals_per_s, replayed })
        };
        self.seen.iter().enumerate().filter_map(early).collect()
    }
}
