//! What is outstanding: requests with the bios merged into them, and bios that have no request yet.

use super::event::{Category, Event};
use super::index::{Index, NONE};
use super::ring::{Ring, UNSEEN};
use super::watch::DeviceRequest;
use crate::request::{Operation, Request, VmId};
use crate::units::{Lba, Sectors, Timestamp};

/// How far a unit has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// A bio without a request (Q).
    Queued,
    /// A request that was not given to the scheduler (G).
    Got,
    /// A request in the scheduler (I), or back in it (R).
    Inserted,
    /// At the device (D).
    Issued,
    /// Its data is written and a flush follows.
    Flushing,
}

/// A bio, or the part of a split one, in a unit.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// Its record; `UNSEEN` once this part has completed.
    pub(super) serial: u64,
    /// First sector behind it.
    pub(super) end: u64,
}

/// A request, or a bio that is to become one.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Its first part; most units have no other.
    pub(super) serial: u64,
    part_end: u64,
    /// Further parts, a list in the pool.
    more: u32,
    last: u32,
    /// The process that queued it.
    pid: u32,
    pub(super) state: State,
    class: u8,
    /// A bio may be merged into it.
    mergeable: bool,
    /// When it became so, in the order of units.
    turn: u64,
    /// The second part of a split, which older kernels queue again.
    remainder: bool,
    wants_preflush: bool,
    wants_fua: bool,
    /// Its data completes before it does.
    pub(super) flush_sequence: bool,
    issued_before: bool,
    /// When it was issued last, and how long it was then; the device has it while `at_device`.
    pub(super) issued: u64,
    issued_start: u64,
    pub(super) at_device: bool,
    live: bool,
}

impl Unit {
    fn operation(&self) -> Operation {
        match self.class {
            DISCARDS => Operation::Discard,
            WRITES => Operation::Write,
            _ => Operation::Read,
        }
    }

    /// As it went to the device.
    pub(super) fn at_device(&self) -> DeviceRequest {
        let sectors = Sectors::new(self.end - self.issued_start).min(Request::SECTORS_MAX);
        let issued = Timestamp::from_ns(self.issued);
        DeviceRequest { issued, operation: self.operation(), lba: Lba::new(self.issued_start), sectors, vm: VmId(0) }
    }
}

struct Link {
    part: Part,
    next: u32,
}

pub(super) struct Units {
    units: Vec<Unit>,
    free: Vec<u32>,
    links: Vec<Link>,
    free_links: u32,
    by_start: Index,
    /// Kept from the first merge on: many captures have none.
    by_end: Option<Index>,
    /// How often a unit became mergeable.
    made_mergeable: u64,
    remainders: usize,
    /// Sweep for forgotten units when there are more than this.
    sweep_above: usize,
}

const SWEEP_ABOVE: usize = 4096;

const READS: u8 = 0;
const WRITES: u8 = 1;
const DISCARDS: u8 = 2;

/// Reads, writes and discards are apart even at the same sector.
fn class(event: &Event) -> u8 {
    // Without branches: reads and writes come in no order that a processor could learn.
    let discard = u8::from(event.is(Category::DISCARD));
    discard * DISCARDS + (1 - discard) * u8::from(event.is(Category::WRITE)) * WRITES
}

/// Exact for sectors below 2^62, which readers check; beyond, a look-up finds nothing or a wrong
/// request of a nonsensical event.
fn key(sector: u64, class: u8) -> u64 {
    sector << 2 | u64::from(class)
}

impl Units {
    pub(super) fn new() -> Units {
        Units {
            units: Vec::new(),
            free: Vec::new(),
            links: Vec::new(),
            free_links: NONE,
            by_start: Index::new(),
            by_end: None,
            made_mergeable: 0,
            remainders: 0,
            sweep_above: SWEEP_ABOVE,
        }
    }

    pub(super) fn get(&self, unit: u32) -> &Unit {
        &self.units[unit as usize]
    }

    pub(super) fn set_state(&mut self, unit: u32, state: State) {
        self.units[unit as usize].state = state;
    }

    /// Adds a unit of one part.
    #[inline]
    pub(super) fn open(&mut self, event: &Event, serial: u64, state: State) -> u32 {
        self.add(Unit {
            start: event.sector,
            end: event.end(),
            serial,
            part_end: event.end(),
            more: NONE,
            last: NONE,
            pid: event.pid,
            state,
            class: class(event),
            mergeable: false,
            turn: 0,
            remainder: false,
            wants_preflush: event.is(Category::FLUSH),
            wants_fua: event.is(Category::FUA),
            flush_sequence: false,
            issued_before: false,
            issued: 0,
            issued_start: event.sector,
            at_device: false,
            live: true,
        })
    }

    #[inline]
    fn add(&mut self, unit: Unit) -> u32 {
        let id = match self.free.pop() {
            Some(id) => {
                self.units[id as usize] = unit;
                id
            }
            None => {
                self.units.push(unit);
                (self.units.len() - 1) as u32
            }
        };
        self.by_start.insert(key(unit.start, unit.class), id);
        id
    }

    /// The unit that an event is about: of its class, starting where it does and in one of `states`.
    /// Of several, one of the event's length goes before others, then the one in the state that is
    /// named first, then the oldest.
    #[inline(always)]
    pub(super) fn find(&self, event: &Event, states: &[State]) -> Option<u32> {
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
    pub(super) fn find_whole(&self, event: &Event) -> Option<u32> {
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
    pub(super) fn is_remainder(&mut self, event: &Event) -> bool {
        if self.remainders == 0 {
            return false;
        }
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

    /// A request exists now, in `state`; bios may be merged into it.
    pub(super) fn make_mergeable(&mut self, id: u32, state: State) {
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
    fn by_end(&mut self) -> &mut Index {
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

    fn end_merging(&mut self, id: u32) {
        let unit = &mut self.units[id as usize];
        if std::mem::take(&mut unit.mergeable)
            && let Some(by_end) = &mut self.by_end
        {
            by_end.remove(key(unit.end, unit.class), id);
        }
    }

    /// The unit goes to the device; says whether it was there before.
    pub(super) fn issue(&mut self, id: u32, event: &Event, now: u64) -> bool {
        self.end_merging(id);
        // Older kernels merge two requests without an event; the longer D tells.
        while self.get(id).end < event.end() {
            let (end, class) = (self.get(id).end, self.get(id).class);
            let mut next = self.by_start.first(key(end, class));
            while next != NONE && !self.get(next).mergeable {
                next = self.by_start.after(next);
            }
            if next == NONE || self.get(next).end <= end {
                break;
            }
            self.absorb(id, next, |_, _| {});
        }
        let unit = &mut self.units[id as usize];
        self.remainders -= usize::from(std::mem::take(&mut unit.remainder));
        self.sent(id, now);
        let unit = &mut self.units[id as usize];
        unit.flush_sequence = unit.wants_preflush || (unit.wants_fua && !event.is(Category::FUA));
        std::mem::replace(&mut unit.issued_before, true)
    }

    /// The device has the unit from `now` on.
    pub(super) fn sent(&mut self, id: u32, now: u64) {
        let unit = &mut self.units[id as usize];
        unit.state = State::Issued;
        unit.issued = now;
        unit.issued_start = unit.start;
        unit.at_device = true;
    }

    /// The device no longer has it; says whether it had.
    pub(super) fn back_from_device(&mut self, id: u32) -> bool {
        std::mem::take(&mut self.units[id as usize].at_device)
    }

    /// Merges a unit into the request it follows (or, if `front`, that follows it) and shows each
    /// record that joins with that request's state. False if there is no such request.
    pub(super) fn merge(&mut self, id: u32, front: bool, joined: impl FnMut(u64, State)) -> bool {
        let Unit { start, end, class, .. } = *self.get(id);
        self.by_end();
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
            self.by_end().remove(key(start, class), into);
            self.absorb(into, id, joined);
            self.by_end().insert(key(end, class), into);
        }
        true
    }

    /// Moves the parts of `from` to `into`, and its end if that lies further on.
    fn absorb(&mut self, into: u32, from: u32, mut joined: impl FnMut(u64, State)) {
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

    /// Looks at every part that has not completed.
    #[inline]
    pub(super) fn each_part(&mut self, id: u32, mut see: impl FnMut(&mut Part)) {
        let unit = &mut self.units[id as usize];
        if unit.serial != UNSEEN {
            let mut part = Part { serial: unit.serial, end: unit.part_end };
            see(&mut part);
            unit.serial = part.serial;
        }
        let mut link = unit.more;
        while link != NONE {
            let held = &mut self.links[link as usize];
            if held.part.serial != UNSEEN {
                see(&mut held.part);
            }
            link = held.next;
        }
    }

    /// Splits a bio at the end of `event`, which lies within it.
    pub(super) fn split(&mut self, id: u32, event: &Event) {
        let whole = *self.get(id);
        let unit = &mut self.units[id as usize];
        unit.end = event.end();
        unit.part_end = event.end();
        // Of a bio that is split twice, the remainder is no longer what was queued again.
        self.remainders -= usize::from(std::mem::take(&mut unit.remainder));
        self.remainders += 1;
        self.add(Unit { start: event.end(), remainder: true, pid: event.pid, ..whole });
    }

    /// The first sectors have completed; the rest goes on.
    pub(super) fn shorten(&mut self, id: u32, start: u64) {
        let unit = &mut self.units[id as usize];
        self.by_start.remove(key(unit.start, unit.class), id);
        unit.start = start;
        self.by_start.insert(key(start, unit.class), id);
    }

    /// Removes a unit and shows the record of every part that has not completed.
    #[inline]
    pub(super) fn close(&mut self, id: u32, mut see: impl FnMut(u64)) {
        self.each_part(id, |part| see(part.serial));
        self.remove(id);
    }

    fn remove(&mut self, id: u32) {
        self.end_merging(id);
        let unit = &mut self.units[id as usize];
        unit.live = false;
        self.remainders -= usize::from(std::mem::take(&mut unit.remainder));
        self.by_start.remove(key(unit.start, unit.class), id);
        if unit.more != NONE {
            self.links[unit.last as usize].next = self.free_links;
            self.free_links = unit.more;
        }
        self.free.push(id);
    }

    /// The record of `request` has left without a completion. Removes what is left of its unit, so
    /// that later events at its sector find later requests, and sweeps out other such units once
    /// they may be as many as the live ones. Shows the operation of each that was at the device.
    pub(super) fn forget(&mut self, request: &Request, ring: &Ring, mut at_device: impl FnMut(Operation)) {
        let class = match request.operation {
            Operation::Discard => DISCARDS,
            Operation::Write => WRITES,
            Operation::Read | Operation::Flush => READS,
        };
        let mut id = self.by_start.first(key(request.lba.sector(), class));
        while id != NONE {
            let next = self.by_start.after(id);
            self.remove_if_left(id, ring, &mut at_device);
            id = next;
        }
        if self.units.len() - self.free.len() > self.sweep_above {
            for id in 0..self.units.len() as u32 {
                if self.get(id).live {
                    self.remove_if_left(id, ring, &mut at_device);
                }
            }
            self.sweep_above = ((self.units.len() - self.free.len()) * 2).max(SWEEP_ABOVE);
        }
    }

    fn remove_if_left(&mut self, id: u32, ring: &Ring, at_device: &mut impl FnMut(Operation)) {
        let mut held = false;
        self.each_part(id, |part| held |= ring.holds(part.serial));
        if !held {
            if self.get(id).at_device {
                at_device(self.get(id).operation());
            }
            self.remove(id);
        }
    }
}
