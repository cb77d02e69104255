//! Requests of real clients in front of the simulated drive. Each client thread sleeps until `CLOCK_MONOTONIC` reaches
//! the completion time that the drive model computed.
//!
//! No dedicated thread keeps the time. One of the waiting threads acts as the *timer thread*: it sleeps until the
//! drive's next event, simulates up to that event and wakes the threads whose requests have completed. When its own
//! request completes, the longest waiting thread becomes the timer thread. The drive usually serves that thread's
//! request next, so one wake-up usually suffices.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use traces::{Request, RequestId, Timestamp};

use crate::clock::monotonic;
use crate::simulated_drive::{FinishedRequest, SimulatedDrive};

/// The simulated drive, the threads that wait for it, and its place on the real clock.
pub struct LiveQueue {
    state: Mutex<QueueState>,
    /// `CLOCK_MONOTONIC` at the drive's time zero.
    zero: Timestamp,
}

/// A request that the queue has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    id: RequestId,
    /// The number of requests that were accepted before it.
    pub number: u64,
    /// The request with its arrival.
    pub request: Request,
}

/// The part that the lock guards.
struct QueueState {
    drive: SimulatedDrive,
    /// By id.
    slots: Vec<Slot>,
    accepted: u64,
    /// The request whose thread is the timer thread.
    timer: Option<RequestId>,
    // Reused to avoid an allocation for each request.
    finished: Vec<FinishedRequest>,
}

#[derive(Default)]
struct Slot {
    wake: Arc<Condvar>,
    /// The number of the slot's current request.
    number: u64,
    is_waiting: bool,
    finished: Option<FinishedRequest>,
}

impl LiveQueue {
    /// Starts the drive's clock at zero.
    pub fn new(drive: SimulatedDrive) -> LiveQueue {
        let state = QueueState { drive, slots: Vec::new(), accepted: 0, timer: None, finished: Vec::new() };
        LiveQueue { state: Mutex::new(state), zero: monotonic() }
    }

    /// `CLOCK_MONOTONIC` at the drive's time zero.
    pub fn zero(&self) -> Timestamp {
        self.zero
    }

    /// The time on the drive's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_ns(monotonic().saturating_since(self.zero).as_ns())
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // If the drive model panicked, the other clients are still served from the state that it left.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a request to the drive now.
    pub fn submit(&self, request: Request) -> Ticket {
        let mut state = self.lock();
        let before = state.drive.next_event();
        // The clock is read while the lock is held, so that timestamps follow the order of arrival.
        let (id, request) = state.drive.arrive(self.now(), request);
        let number = state.accepted;
        state.accepted += 1;
        if id.index() == state.slots.len() {
            state.slots.push(Slot::default());
        }
        let slot = &mut state.slots[id.index()];
        (slot.number, slot.finished) = (number, None);
        let earlier = state.drive.next_event().is_some_and(|next| before.is_none_or(|before| next < before));
        if earlier && let Some(timer) = state.timer {
            state.slots[timer.index()].wake.notify_one();
        }
        Ticket { id, number, request }
    }

    /// Numbers and stamps a request that the drive need not serve. Returns its number, and the request with its
    /// arrival.
    pub fn number_only(&self, request: Request) -> (u64, Request) {
        let mut state = self.lock();
        let request = state.drive.stamp(self.now(), request);
        state.accepted += 1;
        (state.accepted - 1, request)
    }

    /// Waits until the request's completion time. Never returns early.
    pub fn wait(&self, ticket: Ticket) -> FinishedRequest {
        let index = ticket.id.index();
        let mut state = self.lock();
        loop {
            let now = self.now();
            state.run(now);
            if let Some(finished) = state.slots[index].finished.take() {
                state.leave(ticket.id);
                return finished;
            }
            state.slots[index].is_waiting = true;
            let wake = Arc::clone(&state.slots[index].wake);
            let is_timer = *state.timer.get_or_insert(ticket.id) == ticket.id;
            let next = if is_timer { state.drive.next_event() } else { None };
            state = match next {
                Some(next) => {
                    let span = Duration::from_nanos(next.saturating_since(now).as_ns());
                    wake.wait_timeout(state, span).unwrap_or_else(PoisonError::into_inner).0
                }
                None => wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl QueueState {
    /// Simulates up to `now` and wakes the threads whose requests have completed.
    fn run(&mut self, now: Timestamp) {
        let mut finished = std::mem::take(&mut self.finished);
        self.drive.run(now, &mut finished);
        for one in finished.drain(..) {
            let slot = &mut self.slots[one.completion.id.index()];
            slot.finished = Some(one);
            slot.wake.notify_one();
        }
        self.finished = finished;
    }

    /// Frees the slot of a completed request. If its thread was the timer thread, the longest waiting thread takes
    /// over.
    fn leave(&mut self, id: RequestId) {
        self.slots[id.index()].is_waiting = false;
        self.drive.release(id);
        if self.timer != Some(id) {
            return;
        }
        let waiting = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_waiting && slot.finished.is_none());
        let oldest = waiting.min_by_key(|(_, slot)| slot.number);
        self.timer = oldest.map(|(index, slot)| {
            slot.wake.notify_one();
            RequestId(index as u32)
        });
    }
}
