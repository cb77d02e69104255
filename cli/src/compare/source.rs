//! The guests of a comparison as a source.

use replay::sources::{MergedTraces, ReplaySource};
use replay::{Next, ReplayError, Source};
use traces::{Request, RequestId, Timestamp, VmId};
use workloads::Guests;
use workloads::plan::GuestPlan;

/// The guests of a comparison while they run.
pub struct Running<'a> {
    pub generated: &'a GuestPlan,
    pub guests: Guests,
}

impl Source for Running<'_> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        self.guests.next()
    }
    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.guests.advance(now)
    }
    fn acts_alone(&self) -> bool {
        self.guests.acts_alone()
    }
    fn run_ahead(&mut self, until: Timestamp) -> Result<Option<Timestamp>, ReplayError> {
        self.guests.run_ahead(until)
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
    fn traces(&self) -> Option<&MergedTraces> {
        None
    }

    fn notes(&self, _held_back: bool) -> Vec<String> {
        self.generated.notes(&self.guests)
    }
}
