//! The connection between a layer and the layer or drive below it: one first-in-first-out line down and one up, with a
//! fixed delay each. It models a network, or a ring between a guest and a back end.
//!
//! The delay is a latency without a bandwidth limit: any number of requests travel at once and none overtakes another.

use std::collections::VecDeque;

use drive_models::Completion;
use traces::{Nanos, Request, RequestId, Timestamp};

/// The requests and completions that travel between two layers.
#[derive(Debug, Default)]
pub(super) struct Line {
    delay_down: Nanos,
    delay_up: Nanos,
    down: VecDeque<(Timestamp, RequestId, Request)>,
    up: VecDeque<(Timestamp, Completion)>,
}

impl Line {
    pub(super) fn new(delay_down: Nanos, delay_up: Nanos) -> Line {
        Line { delay_down, delay_up, down: VecDeque::new(), up: VecDeque::new() }
    }

    /// Sends a request down at `now`.
    pub(super) fn send(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.down.push_back((now.saturating_add(self.delay_down), id, *request));
    }

    /// The first request that has reached the lower end by `now` and waits to be accepted there.
    pub(super) fn arriving(&self, now: Timestamp) -> Option<(RequestId, Request)> {
        self.down.front().filter(|&&(due, ..)| due <= now).map(|&(_, id, request)| (id, request))
    }

    /// The lower end has accepted this request.
    pub(super) fn arrived(&mut self) {
        self.down.pop_front();
    }

    /// The number of requests on their way down.
    pub(super) fn travelling(&self) -> usize {
        self.down.len()
    }

    /// Whether a request takes time to arrive: then it cannot be known when it is sent whether the lower end will have
    /// capacity for it.
    pub(super) fn delays(&self) -> bool {
        self.delay_down > Nanos::ZERO
    }

    /// Sends a completion up at `now`.
    pub(super) fn give_back(&mut self, now: Timestamp, completion: Completion) {
        self.up.push_back((now.saturating_add(self.delay_up), completion));
    }

    /// The next completion that has reached the upper end by `now`.
    pub(super) fn returned(&mut self, now: Timestamp) -> Option<Completion> {
        self.up.front().filter(|&&(due, _)| due <= now)?;
        self.up.pop_front().map(|(_, completion)| completion)
    }

    /// When the next request or completion reaches its end after `now`. A request that has arrived and was not accepted
    /// waits for capacity, which comes with another event.
    pub(super) fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let down = self.down.front().map(|&(due, ..)| due).filter(|&due| due > now);
        let up = self.up.front().map(|&(due, _)| due);
        [down, up].into_iter().flatten().min()
    }
}
