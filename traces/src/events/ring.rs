//! Records in the order of their arrival, from the oldest that is not yet complete to the newest.

use super::watch::Passage;
use crate::record::{Observed, Record};
use crate::request::Request;
use crate::units::Timestamp;

/// Records that may wait for their completion when another arrives; an older one leaves without.
pub const PENDING_RECORDS: u64 = 131_072;

/// How long a record may wait for its completion when another arrives, nanoseconds; an older one
/// leaves without. Above any time-out of a driver (SCSI disks 30 s, NVMe 30 s) with its retries.
pub const PENDING_NS: u64 = 120_000_000_000;

/// Stands for a time that was not observed.
pub(super) const UNSEEN: u64 = u64::MAX;

/// A record while events may still be added to it; times are nanoseconds since the trace's zero.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) cgroup: u64,
    pub(super) got: u64,
    pub(super) merged: u64,
    pub(super) inserted: u64,
    pub(super) issued: u64,
    pub(super) completed: u64,
    pub(super) error: i32,
    /// Parts that have not completed; more than one after a split.
    pub(super) open: u16,
    /// It was split: the first of its parts to be issued counts.
    pub(super) split: bool,
    pub(super) fate: Fate,
}

/// The fate of a record about which no more events are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It waits for its parts.
    Pending,
    /// It is known that no event will complete it; it was counted already.
    Abandoned,
    /// It was taken back and is no record any more.
    Withdrawn,
}

impl Slot {
    /// Of a request that just arrived.
    #[inline]
    fn new(request: Request, cgroup: u64) -> Slot {
        Slot {
            request,
            cgroup,
            got: UNSEEN,
            merged: UNSEEN,
            inserted: UNSEEN,
            issued: UNSEEN,
            completed: UNSEEN,
            error: 0,
            open: 1,
            split: false,
            fate: Fate::Pending,
        }
    }

    #[inline(always)]
    fn passage(&self) -> Passage {
        let seen = |time| (time != UNSEEN).then(|| Timestamp::from_ns(time));
        let observed = Observed {
            inserted: seen(self.inserted),
            issued: seen(self.issued),
            completed: if self.open == 0 { seen(self.completed) } else { None },
            error: self.error,
        };
        Passage {
            record: Record { request: self.request, observed },
            got: seen(self.got),
            merged: seen(self.merged),
            split: self.split,
            cgroup: self.cgroup,
        }
    }
}

/// A record that left the ring.
pub(super) struct Left {
    pub(super) passage: Passage,
    /// It is not known to be complete.
    pub(super) open: bool,
    /// It waited for a completion to the last.
    pub(super) unfinished: bool,
}

pub(super) struct Ring {
    /// A power of two of them.
    slots: Vec<Slot>,
    /// Serial of the oldest.
    head: u64,
    /// Serial of the next to come.
    tail: u64,
    /// The oldest record may have become ready to leave since [`Ring::ready`] last said no.
    changed: bool,
}

const INITIAL_SLOTS: usize = 256;

impl Ring {
    pub(super) fn new() -> Ring {
        Ring { slots: Vec::new(), head: 0, tail: 0, changed: false }
    }

    /// Records inside.
    pub(super) fn pending(&self) -> u64 {
        self.tail - self.head
    }

    /// Arrival of the oldest record inside.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        (self.head < self.tail).then(|| self.slots[self.at(self.head)].request.arrival)
    }

    /// Whether the record has not left yet.
    pub(super) fn holds(&self, serial: u64) -> bool {
        serial >= self.head && serial < self.tail
    }

    /// Adds a request that just arrived and gives its serial.
    #[inline]
    pub(super) fn push(&mut self, request: Request, cgroup: u64) -> u64 {
        if self.pending() as usize == self.slots.len() {
            self.grow(&request);
        }
        let serial = self.tail;
        let at = self.at(serial);
        self.slots[at] = Slot::new(request, cgroup);
        self.tail += 1;
        self.changed |= self.overdue(request.arrival.as_ns());
        serial
    }

    fn at(&self, serial: u64) -> usize {
        serial as usize & (self.slots.len() - 1)
    }

    /// Doubles the capacity; `filler` stands in unused places.
    #[cold]
    fn grow(&mut self, filler: &Request) {
        let mut larger = vec![Slot::new(*filler, 0); (self.slots.len() * 2).max(INITIAL_SLOTS)];
        let mask = larger.len() - 1;
        for serial in self.head..self.tail {
            larger[serial as usize & mask] = self.slots[self.at(serial)];
        }
        self.slots = larger;
    }

    /// The record with this serial, `None` if it has left.
    pub(super) fn get(&mut self, serial: u64) -> Option<&mut Slot> {
        if !self.holds(serial) {
            return None;
        }
        let at = self.at(serial);
        Some(&mut self.slots[at])
    }

    /// Whether a look for records that are to leave could find any that the last did not.
    #[inline]
    pub(super) fn changed(&self) -> bool {
        self.changed
    }

    /// Decides the fate of a record, and gives the request, if it has not left yet.
    pub(super) fn seal(&mut self, serial: u64, fate: Fate) -> Option<Request> {
        let slot = self.get(serial)?;
        slot.fate = fate;
        let request = slot.request;
        self.changed = true;
        Some(request)
    }

    /// Completes one part of a record, and gives the request if it was the last.
    #[inline]
    pub(super) fn complete(&mut self, serial: u64, now: u64, error: i32) -> Option<&Request> {
        if !self.holds(serial) {
            return None;
        }
        let at = self.at(serial);
        let slot = &mut self.slots[at];
        slot.open = slot.open.checked_sub(1)?;
        slot.completed = now;
        if error != 0 {
            slot.error = error;
        }
        if slot.open > 0 {
            return None;
        }
        self.changed |= serial == self.head;
        Some(&self.slots[at].request)
    }

    /// The last look found none.
    #[inline]
    pub(super) fn looked(&mut self) {
        self.changed = false;
    }

    /// Whether the oldest record is ready to leave. Withdrawn ones before it leave unseen.
    pub(super) fn ready(&mut self) -> bool {
        while self.head < self.tail {
            let slot = &self.slots[self.at(self.head)];
            if slot.fate != Fate::Withdrawn {
                return slot.open == 0 || slot.fate == Fate::Abandoned;
            }
            self.head += 1;
        }
        false
    }

    /// Whether the oldest record, if there is one, has waited long enough.
    #[inline]
    pub(super) fn overdue(&self, now: u64) -> bool {
        if self.head == self.tail {
            return false;
        }
        let oldest = &self.slots[self.at(self.head)].request;
        self.pending() > PENDING_RECORDS || now.saturating_sub(oldest.arrival.as_ns()) > PENDING_NS
    }

    /// Takes out the oldest record, whether or not it is complete; after [`Ring::ready`].
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Left> {
        if self.head == self.tail {
            return None;
        }
        let slot = &self.slots[self.at(self.head)];
        let open = slot.open > 0;
        let left = Left { passage: slot.passage(), open, unfinished: open && slot.fate == Fate::Pending };
        self.head += 1;
        Some(left)
    }
}
