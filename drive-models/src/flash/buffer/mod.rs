//! The write buffer: units between the host and the cells. A unit is *waiting* until it is put into a row, then *in a
//! row* until the row has been programmed. A read finds it in both states.
//!
//! Epochs count the units that a flush must wait for. Each flush ends an epoch, and is done when every unit of that
//! epoch or an earlier one has left the buffer.

use std::collections::VecDeque;

/// No slot, no unit, no place.
pub const NONE: u32 = u32::MAX;

/// A unit's place in the buffer.
#[derive(Clone, Copy, Debug)]
struct BufferSlot {
    /// The unit, or none if it was written again or trimmed since.
    unit: u32,
    /// Where it is being programmed, or none while it waits.
    place: u32,
    epoch: u64,
    next: u32,
    previous: u32,
}

/// The buffer.
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    slots: Vec<BufferSlot>,
    free: u32,
    first: u32,
    last: u32,
    waiting: u32,
    /// Units of each epoch that are still here, the oldest first.
    epochs: VecDeque<u32>,
    oldest: u64,
}

impl WriteBuffer {
    /// An empty buffer for `units`.
    pub fn new(units: u32) -> WriteBuffer {
        let slot = |index| BufferSlot { unit: NONE, place: NONE, epoch: 0, next: index + 1, previous: NONE };
        let mut slots: Vec<BufferSlot> = (0..units).map(slot).collect();
        if let Some(last) = slots.last_mut() {
            last.next = NONE;
        }
        WriteBuffer { slots, free: 0, first: NONE, last: NONE, waiting: 0, epochs: VecDeque::from([0]), oldest: 0 }
    }

    /// Bytes of a buffer for `units`.
    pub fn bytes(units: u32) -> u64 {
        u64::from(units) * size_of::<BufferSlot>() as u64
    }

    /// Units that wait to be put into a row.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether a unit waits that a flush waits for.
    pub fn urgent(&self) -> bool {
        self.first != NONE && self.slots[self.first as usize].epoch < self.epoch()
    }

    /// Whether the unit in `slot` waits, so that writing it again costs nothing.
    pub fn is_waiting(&self, slot: u32) -> bool {
        self.slots[slot as usize].place == NONE
    }

    /// Takes `unit` in, if there is capacity.
    pub fn put(&mut self, unit: u32) -> Option<u32> {
        let index = self.free;
        if index == NONE {
            return None;
        }
        self.free = self.slots[index as usize].next;
        self.slots[index as usize] =
            BufferSlot { unit, place: NONE, epoch: self.epoch(), next: NONE, previous: self.last };
        match self.last {
            NONE => self.first = index,
            last => self.slots[last as usize].next = index,
        }
        self.last = index;
        self.waiting += 1;
        if let Some(count) = self.epochs.back_mut() {
            *count += 1;
        }
        Some(index)
    }

    /// The unit that has waited longest.
    pub fn oldest_waiting(&self) -> Option<(u32, u32)> {
        (self.first != NONE).then(|| (self.first, self.slots[self.first as usize].unit))
    }

    /// The unit in `slot` no longer waits but goes to `place`, and `chain` is behind it in the same row.
    pub fn place_in_row(&mut self, slot: u32, place: u32, chain: u32) {
        self.unlink(slot);
        self.slots[slot as usize].place = place;
        self.slots[slot as usize].next = chain;
    }

    /// The unit in `slot` is being moved to `place` while it is still being programmed.
    pub fn relocate(&mut self, slot: u32, place: u32) {
        self.slots[slot as usize].place = place;
    }

    /// The contents of `slot` are of no value any more. Returns the place that was reserved for them.
    pub fn drop_unit(&mut self, slot: u32) -> Option<u32> {
        let place = self.slots[slot as usize].place;
        self.slots[slot as usize].unit = NONE;
        if place != NONE {
            return Some(place);
        }
        self.unlink(slot);
        self.release(slot);
        None
    }

    /// Takes the first of a programmed row's chain out: the unit if it still has any value, its place, and the rest of
    /// the chain.
    pub fn programmed(&mut self, slot: u32) -> (Option<u32>, u32, u32) {
        let BufferSlot { unit, place, next, .. } = self.slots[slot as usize];
        self.release(slot);
        ((unit != NONE).then_some(unit), place, next)
    }

    /// Ends an epoch and names it, unless nothing that came in it or before is left.
    pub fn end_epoch(&mut self) -> Option<u64> {
        if self.oldest == self.epoch() && self.epochs[0] == 0 {
            return None;
        }
        let ended = self.epoch();
        self.epochs.push_back(0);
        Some(ended)
    }

    /// Whether everything that came in `epoch` or before has left.
    pub fn is_clean(&self, epoch: u64) -> bool {
        epoch < self.oldest
    }

    fn epoch(&self) -> u64 {
        self.oldest + self.epochs.len() as u64 - 1
    }

    fn unlink(&mut self, slot: u32) {
        let BufferSlot { next, previous, .. } = self.slots[slot as usize];
        match previous {
            NONE => self.first = next,
            previous => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.slots[next as usize].previous = previous,
        }
        self.waiting -= 1;
    }

    fn release(&mut self, slot: u32) {
        let epoch = self.slots[slot as usize].epoch;
        self.epochs[(epoch - self.oldest) as usize] -= 1;
        while self.epochs.len() > 1 && self.epochs[0] == 0 {
            self.epochs.pop_front();
            self.oldest += 1;
        }
        self.slots[slot as usize].next = self.free;
        self.free = slot;
    }
}

#[cfg(test)]
mod tests;
