//! The steps between two issues of a capture: passes them to a scheduler one by one and asks it whenever the kernel
//! would have.

use schedulers::{AccessCost, Capacity, Dispatch, Scheduler};
use traces::{Request, RequestId, Timestamp};

use super::clock::TICK;

/// The time at which the kernel asks a scheduler again that had nothing to send though it has requests. The delay of 3
/// ms (Linux 6.18, `BLK_MQ_BUDGET_DELAY`) is one tick, counted from the last tick, and a timer fires at the tick after
/// the one at which it is due (`kernel/time/timer.c`, `calc_index`).
fn asked_again(now: Timestamp) -> Timestamp {
    let ticks = now.as_ns() / TICK.as_ns();
    Timestamp::from_ns(ticks.saturating_add(2).saturating_mul(TICK.as_ns()))
}

/// After this many attempts without a choice (some seconds), only an event or the timer of the scheduler leads to
/// another attempt; a gap in a capture may last days.
const ASKED_IN_VAIN_MAX: u32 = 1000;

/// A change that a scheduler is informed of.
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
    /// A request completed that the scheduler does not know to be in flight.
    Other,
}

/// One step and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) at: Timestamp,
    pub(super) what: What,
    /// Whether it is an insertion and its process inserts more requests before the scheduler is asked.
    pub(super) has_more: bool,
}

impl Step {
    pub(super) fn inserts(&self, id: RequestId) -> bool {
        matches!(self.what, What::Insert(inserted, _) | What::InsertAgain(inserted, _) if inserted == id)
    }

    /// Whether a request completes, so that the device has capacity.
    pub(super) fn completes(&self) -> bool {
        matches!(self.what, What::Complete(..) | What::Other)
    }

    pub(super) fn apply_to(&self, scheduler: &mut dyn Scheduler) {
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

/// The choice of a scheduler in a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) id: Option<RequestId>,
    /// The number of steps that it had received by then.
    pub(super) steps_applied: usize,
    /// Whether a further completion would make the kernel ask.
    pub(super) restart: bool,
}

/// The span from one issue to the next.
pub(super) struct Span<'a> {
    pub(super) steps: &'a [Step],
    /// The time of the last issue: the kernel asks for the next request right then.
    pub(super) opened: Timestamp,
    /// The number of the first insertion after the last issue; events may have the same time.
    pub(super) inserted_then: u64,
    /// The time of the next issue.
    pub(super) closed: Timestamp,
    /// The first step before which no request can have been chosen.
    pub(super) not_before: usize,
    /// Whether the next completion makes the kernel ask (`BLK_MQ_S_SCHED_RESTART`).
    pub(super) restart: bool,
    pub(super) cost: &'a dyn AccessCost,
}

impl Span<'_> {
    /// Passes the steps to the scheduler one after another and asks it whenever the kernel would, until it chooses a
    /// request.
    pub(super) fn ask(&self, scheduler: &mut dyn Scheduler) -> Chosen {
        let mut asking = Asking { scheduler, cost: self.cost, timer: None, polled: None, in_vain: 0 };
        let mut restart = self.restart;
        let chosen = |id, steps_applied, restart| Chosen { id: Some(id), steps_applied, restart };
        if self.not_before == 0
            && let Some(id) = asking.ask(self.opened)
        {
            return chosen(id, 0, restart);
        }
        for (index, step) in self.steps.iter().enumerate() {
            if let Some(id) = asking.ask_until(step.at) {
                return chosen(id, index, restart);
            }
            step.apply_to(asking.scheduler);
            let is_asked = match step.what {
                What::Insert(..) | What::InsertAgain(..) => !step.has_more,
                What::Complete(..) | What::Other => {
                    let runs = std::mem::take(&mut restart) || asking.scheduler.calls_for_dispatch();
                    // The delayed work runs now.
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
        // By the next issue the kernel has asked.
        let last = asking.ask_until(self.closed).or_else(|| asking.ask(self.closed));
        Chosen { id: last, steps_applied: self.steps.len(), restart }
    }
}

struct Asking<'a> {
    scheduler: &'a mut dyn Scheduler,
    cost: &'a dyn AccessCost,
    /// The time at which the scheduler wants to be asked.
    timer: Option<Timestamp>,
    /// The time at which it is asked again because it had nothing to send; a pending time is not put off.
    polled: Option<Timestamp>,
    /// The number of times that it had nothing to send.
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

    /// Asks at every due time before `time`.
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
