//! The unit that an event is about.

use super::{State, Units, class, key};
use crate::events::Event;
use crate::events::index::NONE;

impl Units {
    /// The unit that an event is about: of its class, starting where it does and in one of `states`.
    /// Of several, one of the event's length goes before others, then the one in the state that is
    /// named first, then the oldest.
    #[inline(always)]
    pub(in crate::events) fn find(&self, event: &Event, states: &[State]) -> Option<u32> {
        let id = self.by_start.first(key(event.sector, class(event)));
        if id == NONE {
            return None;
        }
        let unit = &self.units[id as usize];
        if unit.state == states[0] && unit.end == event.end() {
            return Some(id);
        }
        self.find_other(id, event, states)
    }

    /// The same where the oldest at the address is not at once the one.
    #[inline(never)]
    fn find_other(&self, mut id: u32, event: &Event, states: &[State]) -> Option<u32> {
        let mut best = (usize::MAX, NONE);
        while id != NONE {
            let unit = &self.units[id as usize];
            if let Some(rank) = states.iter().position(|wanted| *wanted == unit.state) {
                let rank = if unit.end == event.end() { rank } else { rank + states.len() };
                if rank == 0 {
                    return Some(id);
                }
                if rank < best.0 {
                    best = (rank, id);
                }
            }
            id = self.by_start.after(id);
        }
        (best.1 != NONE).then_some(best.1)
    }

    /// The bio, or failing that the request, that lies exactly where the event does and was not
    /// issued yet.
    pub(in crate::events) fn find_whole(&self, event: &Event) -> Option<u32> {
        let mut id = self.by_start.first(key(event.sector, class(event)));
        let mut request = None;
        while id != NONE {
            let unit = self.get(id);
            if unit.end == event.end() {
                if unit.state == State::Queued {
                    return Some(id);
                }
                if unit.mergeable && request.is_none() {
                    request = Some(id);
                }
            }
            id = self.by_start.after(id);
        }
        request
    }

    /// Whether a Q is of the second part of a split bio, which older kernels queue again.
    #[inline]
    pub(in crate::events) fn is_remainder(&mut self, event: &Event) -> bool {
        self.remainders > 0 && self.takes_remainder(event)
    }

    fn takes_remainder(&mut self, event: &Event) -> bool {
        let mut id = self.by_start.first(key(event.sector, class(event)));
        while id != NONE {
            let unit = &mut self.units[id as usize];
            if unit.remainder && unit.end == event.end() && unit.pid == event.pid && unit.state == State::Queued {
                unit.remainder = false;
                self.remainders -= 1;
                return true;
            }
            id = self.by_start.after(id);
        }
        false
    }
}
