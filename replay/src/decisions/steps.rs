//! What happened between two issues, told to a scheduler step by step, and when the kernel would
//! have asked it.

use schedulers::{AccessCost, Dispatch, Room, Scheduler};
use traces::{Nanos, Request, RequestId, Timestamp};

/// How long the kernel waits before it asks again a scheduler that had nothing to send though it
/// has requests (Linux 6.18, `BLK_MQ_BUDGET_DELAY`).
const ASKED_AGAIN: Nanos = Nanos::from_ms(3);

/// After so many times in vain, 3 s, nothing but an event or the scheduler's own time makes it worth asking
/// again; a gap in a capture may be of days.
const ASKED_IN_VAIN_MAX: u32 = 1000;

/// What a scheduler is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Insert(RequestId, Request),
    InsertAgain(RequestId, Request),
    Complete(RequestId, Request),
    Merge {
        into: RequestId,
        request: Request,
    },
    Join {
        into: RequestId,
        from: RequestId,
        request: Request,
    },
    /// A request completed that the scheduler was not told to be in flight.
    Other,
}

/// One step, and when it happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) at: Timestamp,
    pub(super) what: What,
}

impl Step {
    pub(super) fn inserts(&self, id: RequestId) -> bool {
        matches!(self.what, What::Insert(inserted, _) | What::InsertAgain(inserted, _) if inserted == id)
    }

    pub(super) fn tell(&self, scheduler: &mut dyn Scheduler) {
        match self.what {
            What::Insert(id, request) => scheduler.insert(self.at, id, &request),
            What::InsertAgain(id, request) => scheduler.requeue(self.at, id, &request),
            What::Complete(id, request) => scheduler.completed(self.at, id, &request),
            What::Merge { into, request } => scheduler.merged(self.at, into, &request),
            What::Join { into, from, request } => scheduler.merged_requests(self.at, into, from, &request),
            What::Other => {}
        }
    }
}

/// What a scheduler chose in a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) id: Option<RequestId>,
    /// How many steps it had been told.
    pub(super) told: usize,
    /// Whether it chose as soon as it was asked first.
    pub(super) at_once: bool,
    /// Whether a completion would still make the kernel ask.
    pub(super) restart: bool,
}

/// The span from one issue to the next.
pub(super) struct Span<'a> {
    pub(super) steps: &'a [Step],
    /// When the last request was issued: the kernel asks for the next right then.
    pub(super) opened: Timestamp,
    /// When the next was.
    pub(super) closed: Timestamp,
    /// The first step before which nothing can have been chosen.
    pub(super) not_before: usize,
    /// Whether the next completion makes the kernel ask (`BLK_MQ_S_SCHED_RESTART`).
    pub(super) restart: bool,
    pub(super) cost: &'a dyn AccessCost,
}

impl Span<'_> {
    /// Tells the steps one after another and asks whenever the kernel would, until something is
    /// chosen.
    pub(super) fn ask(&self, scheduler: &mut dyn Scheduler) -> Chosen {
        let mut asking = Asking { scheduler, cost: self.cost, again: None, is_full: false, in_vain: 0 };
        let mut restart = self.restart;
        let chosen = |id, told, restart| Chosen { id: Some(id), told, at_once: told == 0, restart };
        if self.not_before == 0
            && let Some(id) = asking.ask(self.opened)
        {
            return chosen(id, 0, restart);
        }
        for (index, step) in self.steps.iter().enumerate() {
            if let Some(id) = asking.ask_until(step.at) {
                return chosen(id, index, restart);
            }
            step.tell(asking.scheduler);
            let is_asked = match step.what {
                What::Insert(..) | What::InsertAgain(..) => true,
                What::Complete(..) | What::Other => std::mem::take(&mut restart) || asking.is_full,
                What::Merge { .. } | What::Join { .. } => false,
            };
            if is_asked
                && index + 1 >= self.not_before
                && let Some(id) = asking.ask(step.at)
            {
                return chosen(id, index + 1, restart);
            }
        }
        // The capture shows that it was asked by now.
        let last = asking.ask_until(self.closed).or_else(|| asking.ask(self.closed));
        Chosen { id: last, told: self.steps.len(), at_once: false, restart }
    }
}

struct Asking<'a> {
    scheduler: &'a mut dyn Scheduler,
    cost: &'a dyn AccessCost,
    /// When it is asked again by itself.
    again: Option<Timestamp>,
    /// Whether it waits for a completion.
    is_full: bool,
    /// How often it had nothing to send.
    in_vain: u32,
}

impl Asking<'_> {
    fn ask(&mut self, now: Timestamp) -> Option<RequestId> {
        // The kernel does not ask a scheduler that has nothing (`has_work`).
        if self.scheduler.waiting() == 0 {
            self.is_full = false;
            self.again = None;
            return None;
        }
        let answer = self.scheduler.dispatch(now, Room::UNLIMITED, self.cost);
        self.is_full = answer == Dispatch::Idle;
        self.in_vain += 1;
        let polled = if self.in_vain < ASKED_IN_VAIN_MAX { now.saturating_add(ASKED_AGAIN) } else { Timestamp::MAX };
        self.again = match answer {
            Dispatch::Send(id) => return Some(id),
            Dispatch::WaitUntil(time) => Some(time.min(polled)),
            Dispatch::Idle => Some(polled),
        };
        None
    }

    /// Asks as often as it wants to be before `time`.
    fn ask_until(&mut self, time: Timestamp) -> Option<RequestId> {
        while let Some(again) = self.again.take_if(|again| *again <= time) {
            if let Some(id) = self.ask(again) {
                return Some(id);
            }
        }
        None
    }
}
