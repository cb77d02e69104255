//! Shared part of deadline and mq-deadline: the two directions of requests, and the count of read batches that have
//! passed waiting writes.

use traces::{Operation, Request};

use crate::scheduler::Capacity;

/// Reads.
pub(crate) const READ: usize = 0;

/// Everything else.
pub(crate) const WRITE: usize = 1;

/// The direction that a request goes in.
pub(crate) fn direction_of(request: &Request) -> usize {
    if request.operation == Operation::Read { READ } else { WRITE }
}

/// Whether there is capacity for a request of that direction.
pub(crate) fn has_capacity(capacity: Capacity, direction: usize) -> bool {
    if direction == READ { capacity.reads > 0 } else { capacity.writes > 0 }
}

/// How often reads have passed waiting writes (`starved` of Linux's `block/deadline-iosched.c` and
/// `block/mq-deadline.c`).
#[derive(Clone, Debug)]
pub(crate) struct Starvation {
    writes_starved: u64,
    /// Batches of reads that have passed waiting writes.
    starved: u64,
}

impl Starvation {
    /// Batches of reads may pass waiting writes `writes_starved` times.
    pub(crate) fn new(writes_starved: u64) -> Starvation {
        Starvation { writes_starved, starved: 0 }
    }

    /// The direction of a new batch, of those in which something waits.
    pub(crate) fn choose(&mut self, reads: bool, writes: bool) -> Option<usize> {
        let direction = match (reads, writes) {
            (false, false) => return None,
            (true, true) if self.starved < self.writes_starved => READ,
            (true, false) => READ,
            (_, true) => WRITE,
        };
        self.begins(direction, writes);
        Some(direction)
    }

    /// A batch of this direction begins while `writes` wait or do not.
    pub(crate) fn begins(&mut self, direction: usize, writes: bool) {
        self.starved = if direction == WRITE { 0 } else { self.starved + u64::from(writes) };
    }
}
