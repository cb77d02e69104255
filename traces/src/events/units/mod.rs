//! Outstanding units: requests with the bios merged into them, and bios that have no request yet.

mod find;
mod merge;

use crate::events::event::{Category, Event};
use crate::events::index::{Index, NONE};
use crate::events::ring::{Ring, UNSEEN};
use crate::events::watch::DeviceRequest;
use crate::request::{Operation, Request, StreamId, VmId};
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
        DeviceRequest {
            issued: Timestamp::from_ns(self.issued),
            operation: self.operation(),
            lba: Lba::new(self.issued_start),
            sectors,
            vm: VmId(0),
            stream: StreamId(self.pid),
        }
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
    #[inline(always)]
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

    #[inline(always)]
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

    /// The unit goes to the device; says whether it was there before.
    #[inline(always)]
    pub(super) fn issue(&mut self, id: u32, event: &Event, now: u64) -> bool {
        self.end_merging(id);
        // Older kernels merge two requests without an event; the longer D shows it.
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

    /// Looks at every part that has not completed.
    #[inline(always)]
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
        // Of a bio that is split twice, the remainder is no longer the part that was queued again.
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
    #[inline(always)]
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

    /// The record of `request` has left without a completion. Removes the rest of its unit, so that later events at its
    /// sector find later requests. Sweeps out other such units once they may be as many as the live ones. Shows the
    /// operation of each that was at the device.
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
