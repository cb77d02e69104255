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
const CLASSES: usize = 6;

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const EMPTY_READ: usize = 3;
const EMPTY_WRITE: usize = 4;
const PASSTHROUGH: usize = 5;

#[derive(Clone, Debug, Default)]
pub(super) struct EventCounts {
    tallies: [[Tally; CLASSES]; TYPES],
    seen: bool,
}

#[inline]
fn class(event: &Event) -> usize {
    if event.is(Category::PASSTHROUGH) {
        PASSTHROUGH
    } else if event.is(Category::DISCARD) {
        DISCARD
    } else {
        let write = usize::from(event.is(Category::WRITE));
        if event.bytes == 0 { EMPTY_READ + write } else { READ + write }
    }
}

impl EventCounts {
    #[inline]
    pub(super) fn add(&mut self, event: &Event) {
        self.seen = true;
        let kind = usize::from(event.code()).min(TYPES - 1);
        let tally = &mut self.tallies[kind][class(event)];
        tally.events += 1;
        tally.bytes += u64::from(event.bytes);
    }

    /// How many there were of a type.
    pub(super) fn of(&self, code: u8) -> u64 {
        self.tallies[usize::from(code)].iter().map(|tally| tally.events).sum()
    }

    /// `None` if there were no events at all.
    pub(super) fn figures(&self) -> Option<BTreeMap<String, EventFigures>> {
        let name = |kind: usize| {
            let known = NAMES.iter().find(|(code, _)| usize::from(*code) == kind);
            known.map_or("unknown", |(_, name)| name)
        };
        let mut figures: BTreeMap<String, EventFigures> = BTreeMap::new();
        for (kind, tallies) in self.tallies.iter().enumerate() {
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
        self.seen.then_some(figures)
    }
}
