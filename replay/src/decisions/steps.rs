//! What happened between two issues, told to a scheduler step by step, and when the kernel would
//! have asked it.

use schedulers::{AccessCost, Capacity, Dispatch, Scheduler};
use traces::{Request, RequestId, Timestamp};

use super::clock::TICK;

/// When the kernel asks again a scheduler that had nothing to send though it has requests. Its delay of
/// 3 ms (Linux 6.18, `BLK_MQ_BUDGET_DELAY`) is a tick, counted from the last one; and a timer fires with
/// the tick after that it is due at (`kernel/time/timer.c`, `calc_index`).
fn asked_again(now: Timestamp) -> Timestamp {
    let ticks = now.as_ns() / TICK.as_ns();
    Timestamp::from_ns(ticks.saturating_add(2).saturating_mul(TICK.as_ns()))
}

/// After so many times in vain, some seconds, nothing but an event or the scheduler's own time makes it worth asking
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
    /// It is an insertion, and its process has more that it inserts before the scheduler is asked.
    pub(super) has_more: bool,
}

impl Step {
    pub(super) fn inserts(&self, id: RequestId) -> bool {
        matches!(self.what, What::Insert(inserted, _) | What::InsertAgain(inserted, _) if inserted == id)
    }

    /// A request completes, and with it there is room.
    pub(super) fn completes(&self) -> bool {
        matches!(self.what, What::Complete(..) | What::Other)
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
        let mut asking = Asking { scheduler, cost: self.cost, timer: None, polled: None, in_vain: 0 };
        let mut restart = self.restart;
        let chosen = |id, told, restart| Chosen { id: Some(id), told, restart };
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
                What::Insert(..) | What::InsertAgain(..) => !step.has_more,
                What::Complete(..) | What::Other => {
                    let runs = std::mem::take(&mut restart) || asking.scheduler.calls_for_dispatch();
                    // The delayed work is what runs.
                    asking.polled = asking.polled.filter(|_| !runs);
                    runs
                }
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
        Chosen { id: last, told: self.steps.len(), restart }
    }
}

struct Asking<'a> {
    scheduler: &'a mut dyn Scheduler,
    cost: &'a dyn AccessCost,
    /// When the scheduler wants to be asked.
    timer: Option<Timestamp>,
    /// When it is asked again because it had nothing to send; what is pending is not put off.
    polled: Option<Timestamp>,
    /// How often it had nothing to send.
    in_vain: u32,
}

impl Asking<'_> {
    fn ask(&mut self, now: Timestamp) -> Option<RequestId> {
        self.timer = None;
        // The kernel does not ask a scheduler that has nothing (`has_work`).
        if self.scheduler.waiting() == 0 {
            return None;
        }
        match self.scheduler.dispatch(now, Capacity::UNLIMITED, self.cost) {
            Dispatch::Send(id) => return Some(id),
            Dispatch::WaitUntil(time) => self.timer = Some(time),
            Dispatch::Idle => {}
        }
        self.in_vain += 1;
        if self.in_vain < ASKED_IN_VAIN_MAX {
            self.polled.get_or_insert(asked_again(now));
        }
        None
    }

    /// Asks as often as it is asked before `time`.
    fn ask_until(&mut self, time: Timestamp) -> Option<RequestId> {
        while let Some(next) = [self.timer, self.polled].into_iter().flatten().min().filter(|next| *next <= time) {
            self.polled = None;
            if let Some(id) = self.ask(next) {
                return Some(id);
            }
        }
        None
    }
}
