//! The engine: one source, one stage, one drive, one clock.

use drive_models::{Completion, DriveModel};
use schedulers::Scheduler;
use traces::{Request, RequestId, Timestamp};

use crate::observer::Observer;
use crate::sources::{Next, ReplayError, Source};
use crate::stage::Stage;

/// How a replay ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the last arrival completed.
    pub finished: Timestamp,
    /// Whether an arrival that was due had to be held back, because the bound was reached.
    pub held_back: bool,
}

/// A replay that has ended, with what took part in it.
pub struct Ended<Src, Obs> {
    /// How it ended.
    pub outcome: Outcome,
    /// The source, exhausted.
    pub source: Src,
    /// What was observed.
    pub observer: Obs,
}

/// A replay. Generic over its parts, so that a benchmark runs concrete types; boxed ones do as well.
pub struct Engine<Src, Sch, Drv, Obs> {
    source: Src,
    stage: Stage<Sch>,
    drive: Drv,
    observer: Obs,
    max_outstanding: usize,
    now: Timestamp,
    outcome: Outcome,
    // Reused so that nothing is allocated per request.
    completions: Vec<Completion>,
    done: Vec<(RequestId, Request)>,
}

impl<Src: Source, Sch: Scheduler, Drv: DriveModel, Obs: Observer> Engine<Src, Sch, Drv, Obs> {
    /// The default bound on outstanding arrivals: far above any real queue, and about 20 MB.
    pub const MAX_OUTSTANDING: usize = 100_000;

    /// A replay that has not begun.
    pub fn new(source: Src, stage: Stage<Sch>, drive: Drv, observer: Obs) -> Self {
        Engine {
            source,
            stage,
            drive,
            observer,
            max_outstanding: Self::MAX_OUTSTANDING,
            now: Timestamp::ZERO,
            outcome: Outcome::default(),
            completions: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Bounds the number of outstanding arrivals and parts; further ones are held back at the source.
    #[must_use]
    pub fn max_outstanding(mut self, arrivals: usize) -> Self {
        self.max_outstanding = arrivals;
        self
    }

    /// Runs to the end: the source exhausted and nothing outstanding. At equal times completions
    /// come before arrivals and arrivals before dispatches.
    ///
    /// # Errors
    /// The source's.
    ///
    /// # Panics
    /// If requests are outstanding and nothing will ever happen: a scheduler that strands requests
    /// or a source that waits for a completion nobody owes it.
    pub fn run(mut self) -> Result<Ended<Src, Obs>, ReplayError> {
        while let Some(now) = self.next_time()? {
            self.now = now;
            self.complete(now);
            self.arrive(now)?;
            self.stage.dispatch(now, &mut self.drive, &mut self.observer);
        }
        Ok(Ended { outcome: self.outcome, source: self.source, observer: self.observer })
    }

    /// The earliest of the next arrival, the drive's next event and the scheduler's wake-up.
    fn next_time(&mut self) -> Result<Option<Timestamp>, ReplayError> {
        let arrival = if self.is_full() { Next::Blocked } else { self.source.next()? };
        let outstanding = self.stage.outstanding() > 0;
        let arrival = match arrival {
            Next::At(time) => Some(time),
            Next::Exhausted if !outstanding => return Ok(None),
            Next::Exhausted | Next::Blocked => None,
        };
        let drive = if outstanding { self.drive.next_event() } else { None };
        let next = [arrival, drive, self.stage.wake()].into_iter().flatten().min();
        assert!(next.is_some(), "{} requests are outstanding and nothing will happen", self.stage.outstanding());
        assert!(next >= Some(self.now), "a source, drive or scheduler promised something for a time that has passed");
        Ok(next)
    }

    fn complete(&mut self, now: Timestamp) {
        self.drive.advance(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            self.stage.complete(now, &completion, &mut self.observer, &mut self.done);
        }
        self.report_done(now);
    }

    fn arrive(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        loop {
            self.source.advance(now)?;
            let due = match self.source.next()? {
                Next::At(time) if time <= now => time,
                _ => return Ok(()),
            };
            let full = self.is_full();
            self.outcome.held_back |= full || due < now;
            if full {
                return Ok(());
            }
            let request = self.source.take(now, self.stage.next_id())?;
            self.stage.arrive(now, request, &self.drive, &mut self.observer, &mut self.done);
            self.report_done(now);
        }
    }

    fn report_done(&mut self, now: Timestamp) {
        for (id, request) in self.done.drain(..) {
            self.outcome.finished = now;
            self.observer.completed(now, id, &request);
            self.source.completed(now, id, &request);
        }
    }

    fn is_full(&self) -> bool {
        self.stage.outstanding() >= self.max_outstanding
    }
}
