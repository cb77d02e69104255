//! A drive that serves one request at a time, in the order in which they were submitted.
//!
//! Because the order is fixed on submission, so is every time: a request is worked out when it is
//! submitted and only its completion waits.

use std::collections::VecDeque;

use traces::{Nanos, RequestId, Sectors, Timestamp};

use crate::drive::Completion;

/// What serving one request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) time: Nanos,
    pub(crate) seek: Sectors,
    pub(crate) hit: bool,
}

/// The queue in front of the server, the request in service first.
#[derive(Debug, Default)]
pub(crate) struct SingleServer {
    pending: VecDeque<Completion>,
    free_at: Timestamp,
}

impl SingleServer {
    pub(crate) fn submit(&mut self, now: Timestamp, id: RequestId, service: Service) {
        let started = now.max(self.free_at);
        self.free_at = started + service.time;
        let Service { seek, hit, .. } = service;
        self.pending.push_back(Completion { id, started, finished: self.free_at, seek, hit });
    }

    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        self.pending.front().map(|completion| completion.finished)
    }

    pub(crate) fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        while let Some(completion) = self.pending.front().copied() {
            if completion.finished > now {
                break;
            }
            self.pending.pop_front();
            completions.push(completion);
        }
    }
}
