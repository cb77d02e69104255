//! Puts records in order that a format gives slightly out of it, in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Problem;
use crate::formats::check::Bad;
use crate::record::Record;
use crate::units::{Nanos, Timestamp};

/// The most records that are held in any window: a trace with more in a window must be in order.
const HELD_MAX: usize = 4096;

/// Gives records by their arrival, those of the same arrival in the order of the file.
///
/// A record may stand up to a window of time behind a later one. Without a window nothing is held,
/// and arrivals must never decrease.
#[derive(Debug)]
pub(crate) struct Reorder {
    window: Nanos,
    /// The latest arrival so far, and that of the record given last.
    newest: Timestamp,
    given: Timestamp,
    held: BinaryHeap<Reverse<Held>>,
    /// Records taken in so far, which keeps equal arrivals in order.
    number: u64,
}

impl Reorder {
    /// Puts records in order that are out of it by at most `window`.
    pub(crate) fn within(window: Nanos) -> Reorder {
        let (newest, given) = (Timestamp::ZERO, Timestamp::ZERO);
        Reorder { window, newest, given, held: BinaryHeap::new(), number: 0 }
    }

    /// Takes in the next record of the file: true if its turn is now, false if it is held. The
    /// records of [`Reorder::next`] are then to be taken before the next one.
    ///
    /// # Errors
    /// One that comes too late to be put in its place.
    #[inline]
    pub(crate) fn admit(&mut self, record: &Record) -> Result<bool, Bad> {
        let arrival = record.request.arrival;
        if arrival >= self.newest {
            self.newest = arrival;
        } else if arrival < self.given || self.newest.saturating_since(arrival) > self.window {
            return Err(self.too_late(arrival));
        }
        if self.window == Nanos::ZERO {
            return Ok(true);
        }
        self.held.push(Reverse(Held { arrival, number: self.number, record: *record }));
        self.number += 1;
        Ok(false)
    }

    /// The next record that none can come before any more; any that is held if `ended`.
    #[inline]
    pub(crate) fn next(&mut self, ended: bool) -> Option<Record> {
        if self.held.is_empty() { None } else { self.next_held(ended) }
    }

    fn next_held(&mut self, ended: bool) -> Option<Record> {
        let Reverse(first) = self.held.peek()?;
        let due = self.newest.saturating_since(first.arrival) >= self.window;
        if !due && !ended && self.held.len() < HELD_MAX {
            return None;
        }
        let Reverse(first) = self.held.pop()?;
        self.given = first.arrival;
        Some(first.record)
    }

    #[cold]
    fn too_late(&self, arrival: Timestamp) -> Bad {
        let mut what = format!("an arrival at {arrival} after one at {}", self.newest);
        if self.window > Nanos::ZERO && self.newest.saturating_since(arrival) > self.window {
            what += &format!(", more than {} s late", self.window.as_s_f64());
        } else if self.window > Nanos::ZERO {
            what += &format!(", more than {HELD_MAX} requests late");
        }
        Bad { problem: Problem::OutOfOrder(what), reason: "out of order" }
    }
}

#[derive(Debug)]
struct Held {
    arrival: Timestamp,
    number: u64,
    record: Record,
}

impl Held {
    fn key(&self) -> (Timestamp, u64) {
        (self.arrival, self.number)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Operation, Request};
    use crate::units::{Lba, Sectors};

    fn record(arrival: u64, lba: u64) -> Record {
        let arrival = Timestamp::from_ns(arrival);
        Record::arrived(Request::new(arrival, Operation::Read, Lba::new(lba), Sectors::new(1)))
    }

    /// What comes out, as arrivals and the places in the input, and how many came too late.
    fn through(window: u64, arrivals: impl IntoIterator<Item = u64>) -> (Vec<(u64, u64)>, usize) {
        let mut order = Reorder::within(Nanos::from_ns(window));
        let (mut given, mut late) = (Vec::new(), 0);
        let mut keep = |record: Record| given.push((record.request.arrival.as_ns(), record.request.lba.sector()));
        for (place, arrival) in (0..).zip(arrivals) {
            match order.admit(&record(arrival, place)) {
                Ok(true) => keep(record(arrival, place)),
                Ok(false) => {}
                Err(_) => late += 1,
            }
            while let Some(record) = order.next(false) {
                keep(record);
            }
            assert!(order.held.len() < HELD_MAX);
        }
        while let Some(record) = order.next(true) {
            keep(record);
        }
        (given, late)
    }

    #[test]
    fn without_a_window_arrivals_never_decrease() {
        assert_eq!(through(0, [5, 5, 7, 6, 7]), (vec![(5, 0), (5, 1), (7, 2), (7, 4)], 1));
    }

    #[test]
    fn within_the_window_order_is_made_and_equal_arrivals_keep_theirs() {
        let expected = vec![(1, 3), (5, 0), (5, 2), (6, 4), (7, 1), (9, 5)];
        assert_eq!(through(10, [5, 7, 5, 1, 6, 9]), (expected, 0));
    }

    #[test]
    fn one_behind_the_window_is_late_and_one_at_its_edge_is_not() {
        assert_eq!(through(10, [20, 10, 20]), (vec![(10, 1), (20, 0), (20, 2)], 0));
        assert_eq!(through(10, [20, 9, 20]), (vec![(20, 0), (20, 2)], 1));
    }

    #[test]
    fn memory_is_bounded_and_what_is_busier_must_be_in_order() {
        let busy = (0..10_000).map(|at| 1_000 + at);
        let (given, late) = through(u64::MAX, busy.clone());
        assert_eq!((given.len(), late), (10_000, 0));
        let (given, late) = through(u64::MAX, busy.chain([1_000]));
        assert_eq!((given.len(), late), (10_000, 1));
    }
}
