//! The list of coming events: a heap with four children per node. It is shallower than a binary heap, and the children
//! of a node share a cache line or two.

/// An entry of the list: a token that leaves service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Event {
    /// When; in time units, or in virtual time under processor sharing. Never NaN, never negative.
    pub(super) time: f64,
    /// Number of the event above [`SLOT_BITS`] bits of the slot: of equal times the first made goes first.
    pub(super) key: u64,
    /// When the token came to the place.
    pub(super) entered: f64,
}

/// Bits of an event's key that hold the slot.
pub(super) const SLOT_BITS: u32 = 16;

impl Event {
    pub(super) fn slot(&self) -> usize {
        (self.key & ((1 << SLOT_BITS) - 1)) as usize
    }

    #[inline]
    fn before(&self, other: &Event) -> bool {
        // The bits of numbers from 0 on are ordered as the numbers. One comparison of both needs no branch.
        let order = |event: &Event| (u128::from(event.time.to_bits()) << 64) | u128::from(event.key);
        order(self) < order(other)
    }
}

/// Events, the earliest at hand.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    heap: Vec<Event>,
    /// Whether the first place is free. An event that leaves frees it, and most often the next event made fills it.
    hole: bool,
}

const CHILDREN: usize = 4;

impl Events {
    /// The time of the earliest event; infinite without one.
    #[inline]
    pub(super) fn next_time(&mut self) -> f64 {
        if self.hole {
            self.hole = false;
            if let Some(last) = self.heap.pop()
                && !self.heap.is_empty()
            {
                self.sink(last);
            }
        }
        self.heap.first().map_or(f64::INFINITY, |event| event.time)
    }

    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        if self.hole {
            self.hole = false;
            return self.sink(event);
        }
        let mut at = self.heap.len();
        self.heap.push(event);
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if !event.before(&self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = event;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event> {
        let time = self.next_time();
        self.hole = time < f64::INFINITY;
        self.heap.first().copied().filter(|_| self.hole)
    }

    /// Puts an event into the first place, and moves it down to where it belongs.
    #[inline]
    fn sink(&mut self, event: Event) {
        let events = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let child = at * CHILDREN + 1;
            let end = (child + CHILDREN).min(events.len());
            if child >= end {
                break;
            }
            let mut best = child;
            for index in child + 1..end {
                best = if events[index].before(&events[best]) { index } else { best };
            }
            let least = events[best];
            if !least.before(&event) {
                break;
            }
            events[at] = least;
            at = best;
        }
        events[at] = event;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

    use super::*;

    #[test]
    fn events_come_by_time_then_in_the_order_they_were_made() {
        let mut events = Events::default();
        for key in 0..1000_u64 {
            events.push(Event { time: (key * 7919 % 101) as f64, key, entered: 0.0 });
        }
        // An event that leaves and one that comes at once.
        for key in 1000..1100 {
            let first = events.pop().unwrap();
            events.push(Event { time: first.time + (key % 7) as f64, key, entered: 0.0 });
        }
        let mut before = events.pop().unwrap();
        for _ in 1..1000 {
            let event = events.pop().unwrap();
            assert!(before.before(&event), "{before:?} {event:?}");
            before = event;
        }
        assert_eq!((events.pop(), events.next_time()), (None, f64::INFINITY));
    }
}
