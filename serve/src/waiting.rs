//! Requests of real clients in front of a modelled drive: each waits until the drive's own time for it has come.
//!
//! There is no thread that keeps the time. One of those that wait does it for all: it sleeps until the drive's next
//! event, lets it happen, wakes whose request is done, and passes the office on when its own is. It is the one that
//! waits longest, which the drive mostly serves next, so that mostly one wake-up is all it takes.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use traces::{Request, RequestId, Timestamp};

use crate::clock::monotonic;
use crate::front::{Done, Front};

/// A drive, those who wait for it, and the clock.
pub struct Waiting {
    desk: Mutex<Desk>,
    /// What the clock showed when the drive was at its zero.
    zero: Timestamp,
}

/// A request that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    id: RequestId,
    /// How many were taken in before it.
    pub number: u64,
    /// The request with its arrival.
    pub request: Request,
}

struct Desk {
    front: Front,
    /// By id.
    slots: Vec<Slot>,
    taken: u64,
    /// Who keeps the time.
    keeper: Option<RequestId>,
    // Reused so that nothing is allocated per request.
    done: Vec<Done>,
}

#[derive(Default)]
struct Slot {
    wake: Arc<Condvar>,
    /// Of the request that waits here.
    number: u64,
    waits: bool,
    done: Option<Done>,
}

impl Waiting {
    /// The drive's clock begins at zero now.
    pub fn new(front: Front) -> Waiting {
        let desk = Desk { front, slots: Vec::new(), taken: 0, keeper: None, done: Vec::new() };
        Waiting { desk: Mutex::new(desk), zero: monotonic() }
    }

    /// What the clock (`CLOCK_MONOTONIC`) showed at the drive's zero.
    pub fn zero(&self) -> Timestamp {
        self.zero
    }

    /// The time on the drive's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_ns(monotonic().saturating_since(self.zero).as_ns())
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        // After a panic in the model its state is whatever it is; a client that waits is served all the same.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the drive a request, now.
    pub fn take_in(&self, request: Request) -> Ticket {
        let mut desk = self.desk();
        let before = desk.front.next_event();
        // Read with the desk in hand, so that times are in the order of arrivals.
        let (id, request) = desk.front.arrive(self.now(), request);
        let number = desk.taken;
        desk.taken += 1;
        if id.index() == desk.slots.len() {
            desk.slots.push(Slot::default());
        }
        let slot = &mut desk.slots[id.index()];
        (slot.number, slot.done) = (number, None);
        let earlier = desk.front.next_event().is_some_and(|next| before.is_none_or(|before| next < before));
        if earlier && let Some(keeper) = desk.keeper {
            desk.slots[keeper.index()].wake.notify_one();
        }
        Ticket { id, number, request }
    }

    /// Counts a request that has nothing to do for the drive: its number and the request with its arrival.
    pub fn pass(&self, request: Request) -> (u64, Request) {
        let mut desk = self.desk();
        let request = desk.front.stamp(self.now(), request);
        desk.taken += 1;
        (desk.taken - 1, request)
    }

    /// Waits until the drive is done with it, never shorter.
    pub fn wait(&self, ticket: Ticket) -> Done {
        let index = ticket.id.index();
        let mut desk = self.desk();
        loop {
            let now = self.now();
            desk.run(now);
            if let Some(done) = desk.slots[index].done.take() {
                desk.leave(ticket.id);
                return done;
            }
            desk.slots[index].waits = true;
            let wake = Arc::clone(&desk.slots[index].wake);
            let keeps = *desk.keeper.get_or_insert(ticket.id) == ticket.id;
            let next = if keeps { desk.front.next_event() } else { None };
            desk = match next {
                Some(next) => {
                    let span = Duration::from_nanos(next.saturating_since(now).as_ns());
                    wake.wait_timeout(desk, span).unwrap_or_else(PoisonError::into_inner).0
                }
                None => wake.wait(desk).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Desk {
    /// Lets everything happen up to `now` and wakes whose requests are done.
    fn run(&mut self, now: Timestamp) {
        let mut done = std::mem::take(&mut self.done);
        self.front.run(now, &mut done);
        for one in done.drain(..) {
            let slot = &mut self.slots[one.completion.id.index()];
            slot.done = Some(one);
            slot.wake.notify_one();
        }
        self.done = done;
    }

    /// The request is done and nobody waits for it any more; if it kept the time, the oldest that waits does from now on.
    fn leave(&mut self, id: RequestId) {
        self.slots[id.index()].waits = false;
        self.front.release(id);
        if self.keeper != Some(id) {
            return;
        }
        let waiting = self.slots.iter().enumerate().filter(|(_, slot)| slot.waits && slot.done.is_none());
        let oldest = waiting.min_by_key(|(_, slot)| slot.number);
        self.keeper = oldest.map(|(index, slot)| {
            slot.wake.notify_one();
            RequestId(index as u32)
        });
    }
}
