//! Events by type and class.

use std::collections::BTreeMap;

use crate::events::{Category, Event, action};
use crate::results::statistics::{EventFigures, Tally};

/// Names of the types, by [`action`]; what has no name is counted as `unknown`.
const NAMES: [(u8, &str); 17] = [
    (action::QUEUE, "queue"),
    (action::BACK_MERGE, "back_merge"),
    (action::FRONT_MERGE, "front_merge"),
    (action::GET_REQUEST, "get_request"),
    (action::SLEEP, "sleep"),
    (action::REQUEUE, "requeue"),
    (action::ISSUE, "issue"),
    (action::COMPLETE, "complete"),
    (action::PLUG, "plug"),
    (action::UNPLUG, "unplug"),
    (action::UNPLUG_TIMER, "unplug_timer"),
    (action::INSERT, "insert"),
    (action::SPLIT, "split"),
    (action::BOUNCE, "bounce"),
    (action::REMAP, "remap"),
    (action::ABORT, "abort"),
    (action::DRIVER_DATA, "driver_data"),
];

/// Types of events that are told apart; the last is all others.
const TYPES: usize = 32;
/// Classes of events; eight places each, so that a place is found by shifting.
const CLASSES: usize = 8;

const READ: usize = 0;
const WRITE: usize = 1;
const EMPTY_READ: usize = 2;
const EMPTY_WRITE: usize = 3;
const DISCARD: usize = 4;
const PASSTHROUGH: usize = 5;

#[derive(Clone, Debug)]
pub(super) struct EventCounts {
    tallies: [Tally; TYPES * CLASSES],
}

impl Default for EventCounts {
    fn default() -> EventCounts {
        EventCounts { tallies: [Tally::default(); TYPES * CLASSES] }
    }
}

#[inline]
fn class(event: &Event) -> usize {
    if !event.is(Category::PASSTHROUGH.union(Category::DISCARD)) {
        usize::from(event.is(Category::WRITE)) + 2 * usize::from(event.bytes == 0)
    } else if event.is(Category::PASSTHROUGH) {
        PASSTHROUGH
    } else {
        DISCARD
    }
}

impl EventCounts {
    #[inline]
    pub(super) fn add(&mut self, event: &Event) {
        let kind = usize::from(event.code()).min(TYPES - 1);
        let tally = &mut self.tallies[kind * CLASSES + class(event)];
        tally.events += 1;
        tally.bytes += u64::from(event.bytes);
    }

    fn of_type(&self, kind: usize) -> &[Tally] {
        &self.tallies[kind * CLASSES..(kind + 1) * CLASSES]
    }

    /// How many there were of a type.
    pub(super) fn of(&self, code: u8) -> u64 {
        self.of_type(usize::from(code)).iter().map(|tally| tally.events).sum()
    }

    /// `None` if there were no events at all.
    pub(super) fn figures(&self) -> Option<BTreeMap<String, EventFigures>> {
        let name = |kind: usize| {
            let known = NAMES.iter().find(|(code, _)| usize::from(*code) == kind);
            known.map_or("unknown", |(_, name)| name)
        };
        let mut figures: BTreeMap<String, EventFigures> = BTreeMap::new();
        for kind in 0..TYPES {
            let tallies = self.of_type(kind);
            if tallies.iter().all(|tally| tally.events == 0) {
                continue;
            }
            let all = figures.entry(name(kind).to_owned()).or_default();
            let classes = [
                (&mut all.read, READ),
                (&mut all.write, WRITE),
                (&mut all.discard, DISCARD),
                (&mut all.empty_read, EMPTY_READ),
                (&mut all.empty_write, EMPTY_WRITE),
                (&mut all.passthrough, PASSTHROUGH),
            ];
            for (into, class) in classes {
                into.events += tallies[class].events;
                into.bytes += tallies[class].bytes;
            }
        }
        (!figures.is_empty()).then_some(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_type() {
        let mut counts = EventCounts::default();
        for (code, often) in [(action::BACK_MERGE, 3), (action::SPLIT, 2)] {
            (0..often).for_each(|_| counts.add(&Event { action: u32::from(code), ..Event::default() }));
        }
        assert_eq!([action::BACK_MERGE, action::FRONT_MERGE, action::SPLIT].map(|code| counts.of(code)), [3, 0, 2]);
    }
}
