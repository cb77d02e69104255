//! The part of a capture of events that lies in a window: the events in it, and the requests that arrived in it with
//! everything that became of them.

use replay::sources::{Cursor, Position, TimeWindow};
use traces::Timestamp;
use traces::events::{Event, Passage, Watch};
use traces::request::Request;
use traces::statistics::Timeline;

/// Selects events and requests. What a request went through is measured from its record, as in a trace of records: an
/// event such as an issue does not say whether its request arrived in the window. A write with a flush after it therefore
/// ends with the flush, and flushes that the kernel sends by itself count as events only.
pub struct EventsWithin {
    window: TimeWindow,
    cursor: Cursor,
    timeline: Timeline,
    /// Requests whose arrival was seen, and those whose record was measured.
    arrived: u64,
    records: u64,
    past: bool,
}

/// What the selection is measured by.
pub struct Measuring<'a, W> {
    within: &'a mut EventsWithin,
    statistics: &'a mut W,
}

impl EventsWithin {
    pub fn new(window: TimeWindow) -> EventsWithin {
        let (cursor, timeline) = (Cursor::default(), Timeline::default());
        EventsWithin { window, cursor, timeline, arrived: 0, records: 0, past: window.limit == Some(0) }
    }

    /// Hands the selection on to `statistics`.
    pub fn watch<'a, W: Watch>(&'a mut self, statistics: &'a mut W) -> Measuring<'a, W> {
        Measuring { within: self, statistics }
    }

    /// Whether no further record lies in the window.
    pub fn is_past(&self) -> bool {
        self.past
    }

    /// The records measured so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The end of the capture or of the window. Returns as [`Timeline::finish`].
    pub fn finish(mut self, statistics: &mut impl Watch) -> u64 {
        self.timeline.finish(statistics)
    }

    fn is_full(&self, requests: u64) -> bool {
        self.window.limit.is_some_and(|limit| requests >= limit)
    }
}

impl<W: Watch> Watch for Measuring<'_, W> {
    fn event(&mut self, now: Timestamp, event: &Event) {
        // A copy: an event is no arrival, from which times count. What comes before the first arrival counts as its time.
        let position = { self.within.cursor }.position(now, self.within.window);
        if matches!(position, Position::Within(_)) && !self.within.is_full(self.within.arrived) {
            self.statistics.event(now, event);
        }
    }

    fn queued(&mut self, now: Timestamp, _request: &Request) {
        let position = self.within.cursor.position(now, self.within.window);
        self.within.arrived += u64::from(matches!(position, Position::Within(_)));
    }

    fn passed(&mut self, passage: &Passage) {
        let EventsWithin { window, cursor, timeline, records, .. } = self.within;
        match cursor.position(passage.record.request.arrival, *window) {
            Position::Before => return,
            Position::Within(_) => {
                timeline.passage(passage, self.statistics);
                *records += 1;
            }
            Position::After => self.within.past = true,
        }
        self.within.past |= self.within.is_full(self.within.records);
    }
}
