//! What a replay's requests go to: one stage over a drive, or a whole room of stages.

use drive_models::{Completion, DriveModel};
use schedulers::Scheduler;
use traces::{Request, RequestId, Timestamp};

use crate::observer::Observer;
use crate::stage::Stage;

/// Takes requests in and gives them back done. The engine calls [`Host::complete`], [`Host::arrive`] for each that
/// arrives and [`Host::dispatch`], in this order, at every time at which anything happens; times never
/// decrease.
pub trait Host {
    /// The id that the next arrival will have.
    fn next_id(&self) -> RequestId;

    /// Arrivals and parts that are not done.
    fn outstanding(&self) -> usize;

    /// When something will happen inside next, if nothing else arrives.
    fn next_event(&self) -> Option<Timestamp>;

    /// Lets everything complete that does by `now`; appends the arrivals that are done by it.
    fn complete<O: Observer>(&mut self, now: Timestamp, observer: &mut O, done: &mut Vec<(RequestId, Request)>);

    /// Takes an arrival in, with the id that was announced; appends it to `done` if there is nothing to do for it.
    fn arrive<O: Observer>(
        &mut self,
        now: Timestamp,
        request: Request,
        observer: &mut O,
        done: &mut Vec<(RequestId, Request)>,
    );

    /// Sends on what there is room for.
    fn dispatch<O: Observer>(&mut self, now: Timestamp, observer: &mut O);
}

/// One stage over a drive.
pub struct Single<S, D> {
    stage: Stage<S>,
    drive: D,
    // Reused so that nothing is allocated per request.
    completions: Vec<Completion>,
}

impl<S, D> Single<S, D> {
    /// `stage` over `drive`, both idle.
    pub fn new(stage: Stage<S>, drive: D) -> Single<S, D> {
        Single { stage, drive, completions: Vec::new() }
    }
}

impl<S: Scheduler, D: DriveModel> Host for Single<S, D> {
    fn next_id(&self) -> RequestId {
        self.stage.next_id()
    }

    fn outstanding(&self) -> usize {
        self.stage.outstanding()
    }

    /// The earlier of the drive's next event and the scheduler's wake-up. A drive's idle work is no
    /// reason to go on.
    fn next_event(&self) -> Option<Timestamp> {
        let drive = if self.stage.outstanding() > 0 { self.drive.next_event() } else { None };
        [drive, self.stage.wake()].into_iter().flatten().min()
    }

    fn complete<O: Observer>(&mut self, now: Timestamp, observer: &mut O, done: &mut Vec<(RequestId, Request)>) {
        self.drive.advance(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            self.stage.complete(now, &completion, observer, done);
        }
    }

    fn arrive<O: Observer>(
        &mut self,
        now: Timestamp,
        request: Request,
        observer: &mut O,
        done: &mut Vec<(RequestId, Request)>,
    ) {
        self.stage.arrive(now, request, &self.drive, observer, done);
    }

    fn dispatch<O: Observer>(&mut self, now: Timestamp, observer: &mut O) {
        self.stage.dispatch(now, &mut self.drive, observer);
    }
}
