//! First in, first out: Linux 2.6's noop and blk-mq's none as far as order goes (merging is the
//! stage's). Leaves out nothing.
//!
//! A head that there is no room for holds up what is behind it: a FIFO overtakes nobody.

use std::collections::VecDeque;

use traces::spec::Settings;
use traces::{Operation, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::registry::Entry;
use crate::scheduler::{Dispatch, Room, Scheduler};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "fifo",
    summary: "first in, first out, with merging (Linux noop)",
    origin: "Linux 2.6 block/noop-iosched.c",
    tunables: &[],
    build,
};

fn build(_settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Fifo::default())
}

/// The policy.
#[derive(Debug, Default)]
pub struct Fifo {
    queue: VecDeque<(RequestId, Operation)>,
}

impl Scheduler for Fifo {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.queue.push_back((id, request.operation));
    }

    fn dispatch(&mut self, _now: Timestamp, room: Room, _cost: &dyn AccessCost) -> Dispatch {
        match self.queue.front() {
            Some(&(id, operation)) if room.admits(operation) => {
                self.queue.pop_front();
                Dispatch::Send(id)
            }
            _ => Dispatch::Idle,
        }
    }

    fn remove(&mut self, id: RequestId) {
        self.queue.retain(|&(waiting, _)| waiting != id);
    }

    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
