//! The events of guests at times of their own, in the order of their times; of equal times in the order in which they
//! were added.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use traces::Timestamp;

/// An event at a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Process(u32),
    /// The periodic write-back sweep of a guest.
    Sweep(u16),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The time, then the number of the event in the order of their addition.
    key: u128,
    wake: Wake,
}

impl Entry {
    fn time(&self) -> Timestamp {
        Timestamp::from_ns((self.key >> 64) as u64)
    }
}

/// The event that comes first is the greatest.
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

/// Events that are due.
#[derive(Debug, Default)]
pub(super) struct Due {
    events: BinaryHeap<Entry>,
    /// Events that were added in the order of their times: most ends of copies of pages, half of all events.
    soon: VecDeque<Entry>,
    added: u64,
}

impl Due {
    pub(super) fn add(&mut self, time: Timestamp, wake: Wake) {
        let entry = self.entry(time, wake);
        self.events.push(entry);
    }

    /// The same for an event that is likely to come after all others that were added with this function.
    pub(super) fn add_soon(&mut self, time: Timestamp, wake: Wake) {
        let entry = self.entry(time, wake);
        if self.soon.back().is_none_or(|last| last.key < entry.key) {
            self.soon.push_back(entry);
        } else {
            self.events.push(entry);
        }
    }

    fn entry(&mut self, time: Timestamp, wake: Wake) -> Entry {
        self.added += 1;
        Entry { key: u128::from(time.as_ns()) << 64 | u128::from(self.added), wake }
    }

    /// The time of the first event.
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.soon.front().max(self.events.peek()).map(Entry::time)
    }

    /// Takes the first event if it is due by `now`.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Wake> {
        let (soon, other) = (self.soon.front(), self.events.peek());
        let entry = if soon > other {
            soon.filter(|entry| entry.time() <= now)?;
            self.soon.pop_front()
        } else {
            other.filter(|entry| entry.time() <= now)?;
            self.events.pop()
        };
        entry.map(|entry| entry.wake)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Times are few, so that many are equal.
        #[test]
        fn events_come_by_time_and_then_in_the_order_of_addition(
            steps in prop::collection::vec((0_u8..3, 0_u64..8), 1..200),
        ) {
            let (mut due, mut slow, mut now) = (Due::default(), Vec::new(), 0);
            for (number, (kind, span)) in steps.into_iter().enumerate() {
                let (time, wake) = (now + span, Wake::Process(number as u32));
                match kind {
                    0 => due.add(Timestamp::from_ns(time), wake),
                    1 => due.add_soon(Timestamp::from_ns(time), wake),
                    _ => {
                        now += span / 4;
                        slow.sort_by_key(|&(time, _)| time);
                        prop_assert_eq!(due.time(), slow.first().map(|&(time, _)| Timestamp::from_ns(time)));
                        let taken = slow.first().filter(|&&(time, _)| time <= now).map(|&(_, wake)| wake);
                        prop_assert_eq!(due.take(Timestamp::from_ns(now)), taken);
                        if taken.is_some() {
                            slow.remove(0);
                        }
                        continue;
                    }
                }
                slow.push((time, wake));
            }
        }
    }
}
