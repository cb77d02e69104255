//! The source of one replay that can be reported on: traces in one of four pacings.

use replay::Source;
use replay::sources::closed::BUFFERED_MAX;
use replay::sources::{Asap, Closed, MergedTraces, Open, TraceRead};

use crate::arguments::Pacing;

/// A source that a command can replay and report on.
pub trait ReplaySource: Source {
    /// The traces that are replayed, if any are.
    fn traces(&self) -> Option<&MergedTraces>;

    /// What was read of each trace; nothing if no traces are replayed.
    fn read(&self) -> Vec<TraceRead> {
        self.traces().map(MergedTraces::read).unwrap_or_default()
    }

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
    fn traces(&self) -> Option<&MergedTraces> {
        Some(Open::traces(self))
    }
}

impl ReplaySource for Asap {
    fn traces(&self) -> Option<&MergedTraces> {
        Some(Asap::traces(self))
    }
}

impl ReplaySource for Closed {
    fn traces(&self) -> Option<&MergedTraces> {
        Some(Closed::traces(self))
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
