//! The engine of a replay: one source of arrivals, one host that serves them, one simulated clock.

use drive_models::DriveModel;
use schedulers::Scheduler;
use traces::Timestamp;

use crate::host::{Host, Single};
use crate::observer::Observer;
use crate::source::{Arrival, Next, ReplayError, Source};
use crate::stage::Stage;

/// The end of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the last arrival completed.
    pub finished: Timestamp,
    /// Whether a due arrival was held back because the bound on outstanding arrivals was reached.
    pub held_back: bool,
}

/// A replay that has ended, with its parts.
pub struct Ended<Src, Obs, Hst = ()> {
    /// When and how it ended.
    pub outcome: Outcome,
    /// The source, exhausted or stopped.
    pub source: Src,
    /// The observer, with its measurements.
    pub observer: Obs,
    /// The host, idle unless the source has stopped.
    pub host: Hst,
}

/// What a replay waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// This time: an arrival, an event of the drive or of the scheduler.
    At(Timestamp),
    /// A completion whose time the host does not know.
    Completion,
    /// Nothing: the source has stopped, or it is exhausted and nothing is outstanding.
    Nothing,
}

/// A replay. It is generic over its parts, so that a benchmark runs concrete types; boxed parts work as well.
pub struct Engine<Src, Hst, Obs> {
    pub(crate) source: Src,
    pub(crate) host: Hst,
    pub(crate) observer: Obs,
    max_outstanding: usize,
    now: Timestamp,
    outcome: Outcome,
    // Reused so that nothing is allocated per request.
    done: Vec<Arrival>,
}

impl<Src: Source, Sch: Scheduler, Drv: DriveModel, Obs: Observer> Engine<Src, Single<Sch, Drv>, Obs> {
    /// A replay on one stage over a drive, before its start.
    pub fn new(source: Src, stage: Stage<Sch>, drive: Drv, observer: Obs) -> Self {
        Engine::on(source, Single::new(stage, drive), observer)
    }
}

impl<Src: Source, Hst: Host, Obs: Observer> Engine<Src, Hst, Obs> {
    /// The default bound on outstanding arrivals: far above any real queue, and about 20 MB.
    pub const MAX_OUTSTANDING: usize = 100_000;

    /// A replay on `host`, before its start.
    pub fn on(source: Src, host: Hst, observer: Obs) -> Self {
        Engine {
            source,
            host,
            observer,
            max_outstanding: Self::MAX_OUTSTANDING,
            now: Timestamp::ZERO,
            outcome: Outcome::default(),
            done: Vec::new(),
        }
    }

    /// Bounds the number of outstanding arrivals and parts; further arrivals are held back at the source.
    #[must_use]
    pub fn max_outstanding(mut self, arrivals: usize) -> Self {
        self.max_outstanding = arrivals;
        self
    }

    /// Runs until the source is exhausted and nothing is outstanding, or until it stops. At equal times completions
    /// come before arrivals and arrivals before dispatches.
    ///
    /// # Errors
    /// The errors of the source; a scheduler at fault; requests that are outstanding while no event will ever come,
    /// because the scheduler keeps them for ever, or the source waits for a completion of no request.
    pub fn run(mut self) -> Result<Ended<Src, Obs, Hst>, ReplayError> {
        let acts_alone = self.source.acts_alone();
        loop {
            let alone = if acts_alone { self.run_ahead()? } else { None };
            let now = match alone.map_or_else(|| self.pending(), |time| Ok(Pending::At(time)))? {
                Pending::At(time) => time,
                Pending::Completion => return Err(self.nothing_will_happen()),
                Pending::Nothing => match self.host.fault() {
                    Some(fault) => return Err(ReplayError::Scheduler(fault)),
                    None => break,
                },
            };
            assert!(now >= self.now, "a source, drive or scheduler promised something for a time that has passed");
            self.step(now)?;
        }
        let Engine { source, host, observer, outcome, .. } = self;
        Ok(Ended { outcome, source, observer, host })
    }

    /// The earliest of the next arrival and the host's next event.
    pub(crate) fn pending(&mut self) -> Result<Pending, ReplayError> {
        let arrival = if self.is_full() { Next::Blocked } else { self.source.next()? };
        let arrival = match arrival {
            Next::At(time) => Some(time),
            Next::Stopped => return Ok(Pending::Nothing),
            Next::Exhausted if self.host.outstanding() == 0 => return Ok(Pending::Nothing),
            Next::Exhausted | Next::Blocked => None,
        };
        let next = [arrival, self.host.next_event()].into_iter().flatten().min();
        Ok(next.map_or(Pending::Completion, Pending::At))
    }

    /// Lets the source act alone while only that can change anything. Returns when something arrives of it.
    fn run_ahead(&mut self) -> Result<Option<Timestamp>, ReplayError> {
        match self.host.quiet_until() {
            Some(until) if !self.is_full() => self.source.run_ahead(until),
            _ => Ok(None),
        }
    }

    /// Everything that happens at `now`: completions, then arrivals, then dispatches.
    pub(crate) fn step(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.complete(now);
        self.arrive(now)?;
        while let Some(vm) = self.source.ended_vm() {
            self.observer.vm_ended(now, vm);
        }
        self.host.dispatch(now, &mut self.observer);
        Ok(())
    }

    /// Completes all requests that are due by `now`.
    pub(crate) fn complete(&mut self, now: Timestamp) {
        self.now = now;
        self.host.complete(now, &mut self.observer, &mut self.done);
        self.report_done(now);
    }

    /// The end of a replay in which every remaining request waits for an event that will not come.
    pub(crate) fn nothing_will_happen(&self) -> ReplayError {
        let stuck = || ReplayError::Stuck { outstanding: self.host.outstanding(), now: self.now };
        self.host.fault().map_or_else(stuck, ReplayError::Scheduler)
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
            let request = self.source.take(now, self.host.next_id())?;
            self.host.arrive(now, request, &mut self.observer, &mut self.done);
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

    /// Whether arrivals are held back at the source.
    pub(crate) fn is_full(&self) -> bool {
        self.host.outstanding() >= self.max_outstanding
    }
}
