//! Open loop: requests arrive at the recorded times, or at scaled times, independent of the drive.

use traces::quantity::Fraction;
use traces::{Nanos, Request, RequestId, Timestamp, VmId};

use crate::source::{Next, ReplayError, Source};
use crate::sources::MergedTraces;

/// Arrivals as recorded, every span between them times a fraction.
pub struct Open {
    traces: MergedTraces,
    scale: Fraction,
}

impl Open {
    /// Arrivals as recorded.
    pub fn recorded(traces: MergedTraces) -> Open {
        Open::scaled(traces, Fraction { numerator: 1, denominator: 1 })
    }

    /// Arrivals with each time between two of them multiplied by `scale`: 0.5 is twice as fast.
    pub fn scaled(traces: MergedTraces, scale: Fraction) -> Open {
        Open { traces, scale }
    }

    /// The traces, with the counts of the records read.
    pub fn traces(&self) -> &MergedTraces {
        &self.traces
    }
}

impl Source for Open {
    fn next(&mut self) -> Result<Next, ReplayError> {
        let Some(record) = self.traces.peek()? else { return Ok(Next::Exhausted) };
        let Request { arrival, vm, .. } = record.request;
        let time = scaled(arrival, self.scale);
        if time > Timestamp::TRACE_MAX {
            return Err(ReplayError::BeyondTime { trace: self.traces.path_of(vm), arrival });
        }
        Ok(Next::At(time))
    }

    fn take(&mut self, _now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        let mut request = self.traces.take()?.expect("the engine takes what was announced").request;
        // If arrivals are held back, it is earlier than now: the wait counts as response time.
        request.arrival = scaled(request.arrival, self.scale);
        Ok(request)
    }

    fn completed(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}

    fn ended_vm(&mut self) -> Option<VmId> {
        self.traces.ended_vm()
    }
}

fn scaled(arrival: Timestamp, scale: Fraction) -> Timestamp {
    let span = Nanos::from_ns(arrival.as_ns());
    scale.of(span).map_or(Timestamp::MAX, |span| Timestamp::ZERO + span)
}
