//! The requests of a trace in the order of issue, each with the conditions of an empirical drive's times. The
//! conditions are the distance from the request before, and the number of other requests at the device.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use traces::{Lba, Operation, Sectors, Timestamp};

use super::Measurement;

/// A request and its conditions when it was issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedRequest {
    /// The request and its time.
    pub measured: Measurement,
    /// From the end of the one issued before; zero for a flush.
    pub distance: Sectors,
    /// Others that were issued and not complete.
    pub queue_length: u32,
}

/// Takes requests in the order of arrival and gives them back in that of their issue. It holds those that have arrived
/// and are not issued, and the completions to come.
#[derive(Debug, Default)]
pub(super) struct IssueOrder {
    /// By time of issue, then in the order of arrival.
    waiting: BTreeMap<(Timestamp, u64), Measurement>,
    completions: BinaryHeap<Reverse<Timestamp>>,
    position: Lba,
}

impl IssueOrder {
    /// Takes the request that is the `nth` to arrive.
    pub fn push(&mut self, nth: u64, measured: Measurement) {
        self.waiting.insert((measured.issued, nth), measured);
    }

    /// The next that is issued up to `now`, the arrival of the next one to come, which cannot be issued before.
    pub fn pop(&mut self, now: Timestamp) -> Option<(u64, ServedRequest)> {
        let entry = self.waiting.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((issued, nth), measured) = entry.remove_entry();
        while self.completions.peek().is_some_and(|Reverse(completed)| *completed <= issued) {
            self.completions.pop();
        }
        let queue_length = self.completions.len() as u32;
        self.completions.push(Reverse(issued.saturating_add(measured.service)));
        let mut distance = Sectors::ZERO;
        if measured.request.operation != Operation::Flush {
            distance = self.position.distance(measured.request.lba);
            self.position = measured.request.end();
        }
        Some((nth, ServedRequest { measured, distance, queue_length }))
    }
}
