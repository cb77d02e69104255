//! The way between a layer and what lies below it: two first-in-first-out lines with a fixed delay each.
//!
//! A network, or a ring between a guest and a back end. The delay is a latency and no bandwidth: any
//! number of requests travel at once and none overtakes another.

use std::collections::VecDeque;

use drive_models::Completion;
use traces::{Nanos, Request, RequestId, Timestamp};

/// What travels between two layers.
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

    /// A request sets out at `now`.
    pub(super) fn send(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.down.push_back((now.saturating_add(self.delay_down), id, *request));
    }

    /// The request that has arrived below and waits to be taken.
    pub(super) fn arriving(&self, now: Timestamp) -> Option<(RequestId, Request)> {
        self.down.front().filter(|&&(due, ..)| due <= now).map(|&(_, id, request)| (id, request))
    }

    /// It is taken.
    pub(super) fn arrived(&mut self) {
        self.down.pop_front();
    }

    /// How many requests are on their way down.
    pub(super) fn travelling(&self) -> usize {
        self.down.len()
    }

    /// Whether a request takes time to arrive, so that nobody knows yet whether there will be room for it.
    pub(super) fn delays(&self) -> bool {
        self.delay_down > Nanos::ZERO
    }

    /// A completion sets out at `now`.
    pub(super) fn give_back(&mut self, now: Timestamp, completion: Completion) {
        self.up.push_back((now.saturating_add(self.delay_up), completion));
    }

    /// The next completion that has come back by `now`.
    pub(super) fn returned(&mut self, now: Timestamp) -> Option<Completion> {
        self.up.front().filter(|&&(due, _)| due <= now)?;
        self.up.pop_front().map(|(_, completion)| completion)
    }

    /// When something arrives at either end after `now`. What has arrived and is not taken waits for
    /// room, which comes with another event.
    pub(super) fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let down = self.down.front().map(|&(due, ..)| due).filter(|&due| due > now);
        let up = self.up.front().map(|&(due, _)| due);
        [down, up].into_iter().flatten().min()
    }
}
