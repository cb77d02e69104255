//! The host of a replay, which serves its requests: one stage over a drive, or a whole stack of stages.

use drive_models::{Completion, DriveModel};
use schedulers::Scheduler;
use traces::{Request, RequestId, Timestamp};

use crate::observer::Observer;
use crate::source::Arrival;
use crate::stage::Stage;

/// Serves requests. At every time with an event the engine calls [`Host::complete`], then [`Host::arrive`] for each
/// arrival, then [`Host::dispatch`]; times never decrease.
pub trait Host {
    /// The id that the next arrival will have.
    fn next_id(&self) -> RequestId;

    /// Arrivals and parts of arrivals that have not completed.
    fn outstanding(&self) -> usize;

    /// The time of the next event inside the host, if nothing else arrives.
    fn next_event(&self) -> Option<Timestamp>;

    /// A time before which steps change nothing in the host if nothing else arrives, so that the engine may leave them
    /// out. `None` if the host does not know.
    fn quiet_until(&self) -> Option<Timestamp> {
        None
    }

    /// Completes all requests that are due by `now`; appends the completed arrivals to `done`.
    fn complete<O: Observer>(&mut self, now: Timestamp, observer: &mut O, done: &mut Vec<Arrival>);

    /// Accepts an arrival under the id that [`Host::next_id`] announced; appends it to `done` if it needs no work.
    fn arrive<O: Observer>(&mut self, now: Timestamp, request: Request, observer: &mut O, done: &mut Vec<Arrival>);

    /// What a scheduler inside did that no scheduler may do.
    fn fault(&self) -> Option<String>;

    /// Sends on requests as far as the layers below have capacity.
    fn dispatch<O: Observer>(&mut self, now: Timestamp, observer: &mut O);
}

/// One stage over a drive.
pub struct Single<S, D> {
    stage: Stage<S>,
    pub(crate) drive: D,
    // Reused so that nothing is allocated per request.
    completions: Vec<Completion>,
}

impl<S, D> Single<S, D> {
    /// `stage` over `drive`, both idle.
    pub fn new(stage: Stage<S>, drive: D) -> Single<S, D> {
        Single { stage, drive, completions: Vec::new() }
    }

    /// The stage.
    pub fn stage(&self) -> &Stage<S> {
        &self.stage
    }
}

impl<S: Scheduler, D: DriveModel> Host for Single<S, D> {
    fn next_id(&self) -> RequestId {
        self.stage.next_id()
    }

    fn outstanding(&self) -> usize {
        self.stage.outstanding()
    }

    /// The earlier of the next event of the drive and the wake-up of the scheduler. Idle work of a drive does not keep
    /// a replay running.
    fn next_event(&self) -> Option<Timestamp> {
        let drive = if self.stage.outstanding() > 0 { self.drive.next_event() } else { None };
        [drive, self.stage.wake()].into_iter().flatten().min()
    }

    fn quiet_until(&self) -> Option<Timestamp> {
        if !self.stage.sends_nothing() {
            return None;
        }
        let drive = self.drive.next_event();
        // A drive that does not know when it will complete a request must be asked.
        if drive.is_none() && self.stage.outstanding() > 0 {
            return None;
        }
        Some([drive, self.stage.wake()].into_iter().flatten().min().unwrap_or(Timestamp::MAX))
    }

    fn complete<O: Observer>(&mut self, now: Timestamp, observer: &mut O, done: &mut Vec<Arrival>) {
        self.drive.advance(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            self.stage.complete(now, &completion, observer, done);
        }
    }

    fn arrive<O: Observer>(&mut self, now: Timestamp, request: Request, observer: &mut O, done: &mut Vec<Arrival>) {
        self.stage.arrive(now, request, &self.drive, observer, done);
    }

    fn fault(&self) -> Option<String> {
        self.stage.scheduler().fault().map(str::to_owned)
    }

    fn dispatch<O: Observer>(&mut self, now: Timestamp, observer: &mut O) {
        self.stage.dispatch(now, &mut self.drive, observer);
    }
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Nanos, Operation, Sectors};

    use super::*;
    use crate::stage::Limits;

    #[test]
    fn the_scheduler_is_not_asked_anew_for_an_arrival_that_completes_at_once() {
        let drive = drive_models::build(&"cheetah-15k4".parse().unwrap()).unwrap().drive;
        let scheduler = schedulers::build(&"cfq".parse().unwrap()).unwrap().scheduler;
        let mut host = Single::new(Stage::new(scheduler, Limits::default()), drive);
        let (now, mut done) = (Timestamp::ZERO, Vec::new());
        host.dispatch(now, &mut ());
        // The drive writes through and knows no discards.
        for (operation, sectors) in [(Operation::Discard, 8), (Operation::Flush, 0)] {
            host.arrive(now, Request::new(now, operation, Lba::new(0), Sectors::new(sectors)), &mut (), &mut done);
        }
        assert_eq!((done.len(), host.quiet_until()), (2, Some(Timestamp::MAX)));
        host.arrive(now, Request::new(now, Operation::Read, Lba::new(0), Sectors::new(8)), &mut (), &mut done);
        assert_eq!((done.len(), host.quiet_until()), (2, None));
    }

    #[test]
    fn host_is_quiet_when_the_scheduler_has_answered_and_no_request_is_ready_for_the_drive() {
        let drive = drive_models::build(&"sata-ssd".parse().unwrap()).unwrap().drive;
        let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
        let limits = Limits { depth: 1000, merge: false, ..Limits::default() };
        let mut host = Single::new(Stage::new(scheduler, limits), drive);
        let (now, mut done) = (Timestamp::ZERO, Vec::new());
        let arrive = |host: &mut Single<_, _>, number: u64, done: &mut Vec<Arrival>| {
            let request = Request::new(now, Operation::Read, Lba::new(number * 800), Sectors::new(8));
            host.arrive(now, request, &mut (), done);
        };
        assert_eq!(host.quiet_until(), None, "the scheduler has not been asked");
        host.dispatch(now, &mut ());
        assert_eq!(host.quiet_until(), Some(Timestamp::MAX));
        arrive(&mut host, 0, &mut done);
        assert_eq!(host.quiet_until(), None);
        host.dispatch(now, &mut ());
        let completes = host.next_event();
        assert!(completes > Some(now + Nanos::from_us(1)) && host.quiet_until() == completes);
        for number in 1..200 {
            arrive(&mut host, number, &mut done);
        }
        host.dispatch(now, &mut ());
        assert_eq!(host.quiet_until(), None, "a request waits until the drive accepts it");
    }
}
