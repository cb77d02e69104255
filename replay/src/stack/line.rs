//! The connection between a layer and the layer or drive below it: one first-in-first-out line down and one up, with a
//! fixed delay each. It models a network, or a ring between a guest and a back end.
//!
//! Without a bandwidth the delay is all: any number of requests travel at once and none overtakes another. With one, the
//! data of writes go down and those of reads up one after another, each direction at this rate, before the delay.
//! Requests without data take no time of it.

use std::collections::VecDeque;

use drive_models::Completion;
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

/// The requests and completions that travel between two layers.
#[derive(Debug, Default)]
pub(super) struct Line {
    delay_down: Nanos,
    delay_up: Nanos,
    /// Bytes per second in each direction; unlimited if it is zero.
    bandwidth: u64,
    /// Until when data of earlier requests take each direction.
    down_busy: Timestamp,
    up_busy: Timestamp,
    /// How long the data of each request take on the way up, by its id.
    data_up: Vec<Nanos>,
    down: VecDeque<(Timestamp, RequestId, Request)>,
    up: VecDeque<(Timestamp, Completion)>,
}

impl Line {
    pub(super) fn new(delay_down: Nanos, delay_up: Nanos, bandwidth: u64) -> Line {
        Line { delay_down, delay_up, bandwidth, ..Line::default() }
    }

    /// How long the data of a request take, if it moves them in this direction.
    fn data(&self, request: &Request, operation: Operation) -> Nanos {
        if self.bandwidth == 0 || request.operation != operation {
            return Nanos::ZERO;
        }
        let ns = u128::from(request.sectors().bytes()) * 1_000_000_000 / u128::from(self.bandwidth);
        Nanos::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Sends a request down at `now`.
    pub(super) fn send(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if self.bandwidth > 0 {
            if id.index() >= self.data_up.len() {
                self.data_up.resize(id.index() + 1, Nanos::ZERO);
            }
            self.data_up[id.index()] = self.data(request, Operation::Read);
        }
        self.down_busy = self.down_busy.max(now).saturating_add(self.data(request, Operation::Write));
        self.down.push_back((self.down_busy.saturating_add(self.delay_down), id, *request));
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
        self.delay_down > Nanos::ZERO || self.bandwidth > 0
    }

    /// Sends a completion up at `now`.
    pub(super) fn give_back(&mut self, now: Timestamp, completion: Completion) {
        let data = self.data_up.get(completion.id.index()).copied().unwrap_or(Nanos::ZERO);
        self.up_busy = self.up_busy.max(now).saturating_add(data);
        self.up.push_back((self.up_busy.saturating_add(self.delay_up), completion));
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
