//! Merging of units.

use super::{Link, Part, State, Unit, Units, key};
use crate::events::index::{Index, NONE};

impl Units {
    /// A request exists now, in `state`; bios may be merged into it.
    pub(in crate::events) fn make_mergeable(&mut self, id: u32, state: State) {
        let unit = &mut self.units[id as usize];
        unit.state = state;
        self.remainders -= usize::from(std::mem::take(&mut unit.remainder));
        if !unit.mergeable && !unit.issued_before {
            unit.mergeable = true;
            unit.turn = self.made_mergeable;
            self.made_mergeable += 1;
            if let Some(by_end) = &mut self.by_end {
                by_end.insert(key(unit.end, unit.class), id);
            }
        }
    }

    /// The units that may be merged into, by their ends.
    fn ends(&mut self) -> &mut Index {
        self.by_end.get_or_insert_with(|| {
            let mut mergeable: Vec<(u64, u32)> = Vec::new();
            for (id, unit) in (0..).zip(&self.units) {
                if unit.live && unit.mergeable {
                    mergeable.push((unit.turn, id));
                }
            }
            mergeable.sort_unstable();
            let mut index = Index::new();
            for (_, id) in mergeable {
                let unit = &self.units[id as usize];
                index.insert(key(unit.end, unit.class), id);
            }
            index
        })
    }

    pub(super) fn end_merging(&mut self, id: u32) {
        let unit = &mut self.units[id as usize];
        if std::mem::take(&mut unit.mergeable)
            && let Some(by_end) = &mut self.by_end
        {
            by_end.remove(key(unit.end, unit.class), id);
        }
    }

    /// Merges a unit into the request it follows (or, if `front`, that follows it) and shows each
    /// record that joins with that request's state. False if there is no such request.
    pub(in crate::events) fn merge(&mut self, id: u32, front: bool, joined: impl FnMut(u64, State)) -> bool {
        let Unit { start, end, class, .. } = *self.get(id);
        self.ends();
        let index = match &self.by_end {
            Some(by_end) if !front => by_end,
            _ => &self.by_start,
        };
        let mut into = index.first(key(if front { end } else { start }, class));
        while into != NONE && (into == id || !self.get(into).mergeable) {
            into = index.after(into);
        }
        if into == NONE {
            return false;
        }
        if front {
            self.absorb(into, id, joined);
            self.by_start.remove(key(end, class), into);
            self.units[into as usize].start = start;
            self.by_start.insert(key(start, class), into);
        } else {
            self.ends().remove(key(start, class), into);
            self.absorb(into, id, joined);
            self.ends().insert(key(end, class), into);
        }
        true
    }

    /// Moves the parts of `from` to `into`, and its end if that lies further on.
    pub(super) fn absorb(&mut self, into: u32, from: u32, mut joined: impl FnMut(u64, State)) {
        let state = self.get(into).state;
        self.each_part(from, |part| joined(part.serial, state));
        let Unit { serial, part_end, more, last, end, .. } = *self.get(from);
        self.units[from as usize].more = NONE;
        self.remove(from);
        self.add_part(into, Part { serial, end: part_end });
        let unit = &mut self.units[into as usize];
        if more != NONE {
            self.links[unit.last as usize].next = more;
            unit.last = last;
        }
        unit.end = unit.end.max(end);
    }

    fn add_part(&mut self, id: u32, part: Part) {
        let link = self.free_links;
        let link = if link == NONE {
            self.links.push(Link { part, next: NONE });
            (self.links.len() - 1) as u32
        } else {
            let free = &mut self.links[link as usize];
            self.free_links = free.next;
            *free = Link { part, next: NONE };
            link
        };
        let unit = &mut self.units[id as usize];
        if unit.more == NONE {
            unit.more = link;
        } else {
            self.links[unit.last as usize].next = link;
        }
        unit.last = link;
    }
}
