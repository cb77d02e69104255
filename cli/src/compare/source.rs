//! The source of one replay of a comparison: traces in one of four pacings, or the processes of guests.

use replay::Source;
use replay::sources::closed::BUFFERED_MAX;
use replay::sources::{Asap, Closed, MergedTraces, Open, TraceRead};
use replay::{Next, ReplayError};
use traces::{Request, RequestId, Timestamp, VmId};
use workloads::Guests;

use super::guests::Generated;
use crate::arguments::Pacing;

/// A source that a comparison can replay and report on.
pub trait ReplaySource: Source {
    /// What was read of each trace; nothing if no traces are replayed.
    fn read(&self) -> Vec<TraceRead>;

    /// Notes for the reader of the figures. `held_back`: whether `--max-queue` held arrivals back.
    fn notes(&self, _held_back: bool) -> Vec<String> {
        Vec::new()
    }
}

/// The source that replays `traces` in `pacing`.
pub fn paced(traces: MergedTraces, pacing: Pacing) -> Box<dyn ReplaySource> {
    match pacing {
        Pacing::Recorded => Box::new(Open::recorded(traces)),
        Pacing::Scaled(factor) => Box::new(Open::scaled(traces, factor)),
        Pacing::Asap(outstanding) => Box::new(Asap::new(traces, outstanding)),
        Pacing::Closed => Box::new(Closed::new(traces)),
    }
}

impl ReplaySource for Open {
    fn read(&self) -> Vec<TraceRead> {
        self.traces().read()
    }
}

impl ReplaySource for Asap {
    fn read(&self) -> Vec<TraceRead> {
        self.traces().read()
    }
}

impl ReplaySource for Closed {
    fn read(&self) -> Vec<TraceRead> {
        self.traces().read()
    }

    fn notes(&self, held_back: bool) -> Vec<String> {
        let (late, (incomplete, requests)) = (if held_back { 0 } else { self.late() }, self.incomplete());
        let mut notes = Vec::new();
        if late > 0 {
            notes.push(format!(
                "{late} arrivals came later than their think time, because their stream was more than {BUFFERED_MAX} \
                 requests away from the others in the trace"
            ));
        }
        // A few are always outstanding when a capture ends.
        if incomplete * 100 > requests {
            notes.push(format!(
                "{incomplete} of {requests} requests have no completion time, so that no arrival waits for them and \
                 this replay is more open than closed"
            ));
        }
        notes
    }
}

/// The guests of a comparison while they run.
pub struct Running<'a> {
    pub generated: &'a Generated,
    pub guests: Guests,
}

impl Source for Running<'_> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        self.guests.next()
    }
    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.guests.advance(now)
    }
    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.guests.take(now, id)
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.guests.completed(now, id, request);
    }
    fn ended_vm(&mut self) -> Option<VmId> {
        self.guests.ended_vm()
    }
}

impl ReplaySource for Running<'_> {
    fn read(&self) -> Vec<TraceRead> {
        Vec::new()
    }

    fn notes(&self, _held_back: bool) -> Vec<String> {
        self.generated.notes(&self.guests)
    }
}
