//! Arrival-queue lengths: what a request finds in a queue when it comes.
//!
//! Casale et al. 2011 take them at the storage, among the requests that were issued and have not completed. They are
//! the reads and the writes that a read (or a write) finds when it is issued.

use crate::request::Operation;
use crate::results::statistics::{ArrivalQueueFigures, FoundFigures};

/// Reads and writes found are told apart up to this many; the last stands for more.
const FOUND_MAX: usize = 128;

/// What requests of one operation find.
#[derive(Clone, Debug)]
struct Found {
    count: u64,
    reads: u64,
    writes: u64,
    /// By reads found and writes found.
    joint: Vec<u64>,
}

impl Default for Found {
    fn default() -> Found {
        Found { count: 0, reads: 0, writes: 0, joint: vec![0; FOUND_MAX * FOUND_MAX] }
    }
}

impl Found {
    #[inline]
    fn add(&mut self, reads: u64, writes: u64) {
        self.count += 1;
        self.reads += reads;
        self.writes += writes;
        let cell = |found: u64| (found as usize).min(FOUND_MAX - 1);
        self.joint[cell(reads) * FOUND_MAX + cell(writes)] += 1;
    }

    fn figures(&self) -> FoundFigures {
        let mean = |sum: u64| (self.count > 0).then(|| sum as f64 / self.count as f64);
        let cells = self.joint.iter().enumerate().filter(|(_, often)| **often > 0);
        FoundFigures {
            count: self.count,
            reads_mean: mean(self.reads),
            writes_mean: mean(self.writes),
            total_mean: mean(self.reads + self.writes),
            joint: cells.map(|(at, often)| ((at / FOUND_MAX) as u64, (at % FOUND_MAX) as u64, *often)).collect(),
        }
    }
}

/// A queue of reads and writes, and what each finds that joins it.
///
/// Both are looked up by the operation's number, without a branch: reads and writes come in no order
/// that a processor could learn.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrivalQueue {
    /// How many of each are in it.
    lengths: [u64; Operation::MOVING_DATA],
    found: [Found; Operation::MOVING_DATA],
}

impl ArrivalQueue {
    #[inline(always)]
    pub(super) fn join(&mut self, operation: Operation) {
        if let Some(found) = self.found.get_mut(operation as usize) {
            let [reads, writes] = self.lengths;
            found.add(reads, writes);
            self.lengths[operation as usize] += 1;
        }
    }

    #[inline(always)]
    pub(super) fn leave(&mut self, operation: Operation) {
        if let Some(length) = self.lengths.get_mut(operation as usize) {
            *length -= 1;
        }
    }

    pub(super) fn figures(&self) -> ArrivalQueueFigures {
        let [reads, writes] = &self.found;
        ArrivalQueueFigures { seen_by_reads: reads.figures(), seen_by_writes: writes.figures() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.iter().all(|found| found.count == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_finds_those_before_it_and_not_itself() {
        let mut queue = ArrivalQueue::default();
        queue.join(Operation::Read);
        queue.join(Operation::Read);
        queue.join(Operation::Write);
        queue.join(Operation::Flush);
        queue.leave(Operation::Read);
        queue.join(Operation::Write);
        queue.join(Operation::Read);
        let figures = queue.figures();
        assert_eq!(figures.seen_by_reads.joint, [(0, 0, 1), (1, 0, 1), (1, 2, 1)]);
        assert_eq!(figures.seen_by_writes.joint, [(1, 1, 1), (2, 0, 1)]);
        assert_eq!(figures.seen_by_writes.reads_mean, Some(1.5));
        assert_eq!(figures.seen_by_writes.writes_mean, Some(0.5));
        assert_eq!(figures.seen_by_writes.total_mean, Some(2.0));
    }

    #[test]
    fn queue_lengths_from_127_on_share_the_last_cell() {
        let mut queue = ArrivalQueue::default();
        for _ in 0..300 {
            queue.join(Operation::Write);
        }
        let found = queue.figures().seen_by_writes;
        assert_eq!((found.joint.len(), found.joint[127]), (128, (0, 127, 173)));
        assert_eq!(found.total_mean, Some(149.5));
    }
}
