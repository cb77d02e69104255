//! The flash translation layer: the location of each unit, and the block that is collected. It has no notion of time.
//!
//! Rows are written one behind the other into the open block, striped over the dies. Rows of the host and of garbage
//! collection share this one write frontier, as the analyses of greedy collection assume. When fewer than [`RESERVE`]
//! blocks are free, the block with the fewest valid units is collected. The pace is such that the block is empty when
//! the host has written as many units as the collection gains.

use std::collections::VecDeque;

use crate::flash::buffer::{NONE, WriteBuffer};
use crate::flash::description::FlashGeometry;
use crate::flash::victims::Victims;

/// Blocks that are kept free. They come on top of the over-provisioning: a simulated block is a larger part of its
/// drive than a real one.
pub const RESERVE: u32 = 2;

/// Marks an entry of the map as a slot of the write buffer.
const BUFFERED: u32 = 1 << 31;

/// Marks the owner of a place whose contents are still in the write buffer. Collection moves all others without a look
/// at the map, whose entries are far apart.
const ARRIVING: u32 = 1 << 31;

/// Where a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitLocation {
    /// Nowhere: it was never written, or trimmed.
    Nowhere,
    /// In this slot of the write buffer.
    Buffer(u32),
    /// In the cells, at this place.
    Cells(u32),
}

/// The number of units written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Units that came from the host.
    pub host_units: u64,
    /// Units that were programmed, including those moved and what filled up a row.
    pub programmed_units: u64,
}

/// A page read for garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRead {
    /// Which die has it.
    pub die: u32,
    /// Units of it that are wanted.
    pub units: u32,
}

/// The block that is being collected.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    /// Units looked at.
    cursor: u32,
    /// Units that it gains.
    gain: u32,
    /// Units that the host has written meanwhile.
    host: u64,
}

/// The layer's tables.
#[derive(Clone, Debug)]
pub struct Ftl {
    geometry: FlashGeometry,
    map: Vec<u32>,
    owner: Vec<u32>,
    victims: Victims,
    free: VecDeque<u32>,
    open: u32,
    /// Rows of the open block that are taken.
    taken: u32,
    victim: Option<Victim>,
    erased: u32,
    written: WriteCounts,
}

impl Ftl {
    /// A drive that has nothing on it.
    pub fn new(geometry: &FlashGeometry) -> Ftl {
        let blocks = geometry.data_blocks + RESERVE + 1;
        let places = blocks as usize * geometry.block_units() as usize;
        Ftl {
            geometry: *geometry,
            map: vec![NONE; geometry.units as usize],
            owner: vec![NONE; places],
            victims: Victims::new(blocks, geometry.block_units()),
            free: (0..blocks - 1).collect(),
            open: blocks - 1,
            taken: 0,
            victim: None,
            erased: 0,
            written: WriteCounts::default(),
        }
    }

    /// Takes a free block and closes it with what `contents` puts into it: units at offsets.
    pub fn fill(&mut self, contents: impl FnOnce(&mut dyn FnMut(u32, u32))) {
        let block = self.free.pop_front().expect("a drive is no larger than its blocks");
        let first = block * self.geometry.block_units();
        let (owner, map) = (&mut self.owner, &mut self.map);
        let mut valid = 0;
        contents(&mut |offset, unit| {
            owner[(first + offset) as usize] = unit;
            map[unit as usize] = first + offset;
            valid += 1;
        });
        self.victims.fill(block, valid);
    }

    /// The number of units written.
    pub fn written(&self) -> WriteCounts {
        self.written
    }

    /// Where `unit` is.
    pub fn find(&self, unit: u32) -> UnitLocation {
        match self.map[unit as usize] {
            NONE => UnitLocation::Nowhere,
            entry if entry & BUFFERED != 0 => UnitLocation::Buffer(entry & !BUFFERED),
            place => UnitLocation::Cells(place),
        }
    }

    /// The die that has `place`.
    pub fn die(&self, place: u32) -> u32 {
        place / self.geometry.row_units % self.geometry.dies
    }

    /// `unit` is in the write buffer, at `slot`. What the cells hold of it is no longer valid.
    pub fn buffer(&mut self, unit: u32, slot: u32) {
        if let UnitLocation::Cells(place) = self.find(unit) {
            self.invalidate(place);
        }
        self.map[unit as usize] = slot | BUFFERED;
    }

    /// `unit` holds nothing of value.
    pub fn trim(&mut self, unit: u32) {
        if let UnitLocation::Cells(place) = self.find(unit) {
            self.invalidate(place);
        }
        self.map[unit as usize] = NONE;
    }

    /// `unit` has left the write buffer for `place`.
    pub fn settle(&mut self, unit: u32, place: u32) {
        self.owner[place as usize] = unit;
        self.map[unit as usize] = place;
    }

    /// What `place` holds is no longer valid.
    pub fn invalidate(&mut self, place: u32) {
        self.owner[place as usize] = NONE;
        self.victims.lose(place / self.geometry.block_units());
    }

    /// The die that the next row goes to.
    pub fn next_die(&self) -> u32 {
        self.taken % self.geometry.dies
    }

    /// Puts the units that have waited longest into the next row. Returns the first slot of their chain.
    pub fn write_row(&mut self, buffer: &mut WriteBuffer) -> u32 {
        let mut place = self.next_place();
        let end = place + self.geometry.row_units;
        let mut chain = NONE;
        while place < end
            && let Some((slot, unit)) = buffer.oldest_waiting()
        {
            buffer.place_in_row(slot, place, chain);
            chain = slot;
            self.owner[place as usize] = unit | ARRIVING;
            self.victims.gain(self.open);
            self.written.host_units += 1;
            place += 1;
        }
        if let Some(victim) = &mut self.victim {
            victim.host += u64::from(self.geometry.row_units);
        }
        self.row_taken();
        chain
    }

    /// Whether garbage must be collected before the host may write another row.
    pub fn must_collect(&mut self) -> bool {
        self.finish_victim();
        if self.victim.is_none() && (self.free.len() as u32) < RESERVE {
            self.choose_victim();
        }
        let Some(victim) = &self.victim else { return false };
        let block = u64::from(self.geometry.block_units());
        let behind = u64::from(victim.cursor) * u64::from(victim.gain) < victim.host * block;
        let rows_left = self.geometry.block_rows() - self.taken + self.free.len() as u32 * self.geometry.block_rows();
        let needed = self.victims.valid(victim.block).div_ceil(self.geometry.row_units) + 2;
        behind || rows_left <= needed
    }

    /// Moves a row's worth of valid units into the next row, and names the pages that they are read from.
    pub fn collect(&mut self, buffer: &mut WriteBuffer, reads: &mut Vec<PageRead>) {
        let mut place = self.next_place();
        let end = place + self.geometry.row_units;
        while place < end && (self.victim.is_some() || self.choose_victim()) {
            place = self.relocate(place, end, buffer, reads);
            self.finish_victim();
        }
        self.row_taken();
    }

    /// How many blocks were emptied since this was asked last.
    pub fn take_erased(&mut self) -> u32 {
        std::mem::take(&mut self.erased)
    }

    /// Moves the next valid units of the victim to the places from `to` to `end`, in the open block. Returns the first
    /// place that is left.
    fn relocate(&mut self, mut to: u32, end: u32, buffer: &mut WriteBuffer, reads: &mut Vec<PageRead>) -> u32 {
        let Some(Victim { block, mut cursor, gain, host }) = self.victim else { return to };
        let (block_units, page_units) = (self.geometry.block_units(), self.geometry.page_units);
        let count = self.victims.valid(block).min(end - to);
        let until = to + count;
        let mut page = 0..0;
        while to < until {
            let from = block * block_units + cursor;
            cursor += 1;
            let owner = self.owner[from as usize];
            if owner == NONE {
                continue;
            }
            if !page.contains(&from) {
                let first = from - from % page_units;
                page = first..first + page_units;
                reads.push(PageRead { die: self.die(from), units: 0 });
            }
            if let Some(read) = reads.last_mut() {
                read.units += 1;
            }
            self.owner[from as usize] = NONE;
            self.owner[to as usize] = owner;
            if owner & ARRIVING == 0 {
                self.map[owner as usize] = to;
            } else if let UnitLocation::Buffer(slot) = self.find(owner & !ARRIVING) {
                buffer.relocate(slot, to);
            }
            to += 1;
        }
        self.victim = Some(Victim { block, cursor, gain, host });
        self.victims.relocate(block, self.open, count);
        to
    }

    /// Frees the victim if nothing on it is valid.
    fn finish_victim(&mut self) {
        if let Some(victim) = self.victim
            && self.victims.valid(victim.block) == 0
        {
            self.victim = None;
            self.empty(victim.block);
        }
    }

    /// Begins with another victim. Blocks without a valid unit are free on the way, and then none may be needed.
    fn choose_victim(&mut self) -> bool {
        while let Some(block) = self.victims.take_least() {
            let valid = self.victims.valid(block);
            if valid > 0 {
                let gain = self.geometry.block_units() - valid;
                self.victim = Some(Victim { block, cursor: 0, gain, host: 0 });
                return true;
            }
            self.empty(block);
            if self.free.len() as u32 >= RESERVE {
                return false;
            }
        }
        false
    }

    fn empty(&mut self, block: u32) {
        self.free.push_back(block);
        self.erased += 1;
    }

    fn next_place(&self) -> u32 {
        self.open * self.geometry.block_units() + self.taken * self.geometry.row_units
    }

    fn row_taken(&mut self) {
        self.written.programmed_units += u64::from(self.geometry.row_units);
        self.taken += 1;
        if self.taken == self.geometry.block_rows() {
            self.victims.close(self.open);
            self.taken = 0;
            self.open = self.free.pop_front().expect("collection keeps a block free");
        }
    }
}

#[cfg(test)]
impl Ftl {
    /// Map, owners and counts say the same.
    pub fn audit(&self) {
        let units = self.geometry.block_units() as usize;
        for (unit, entry) in self.map.iter().enumerate().filter(|(_, entry)| **entry & BUFFERED == 0) {
            assert_eq!(self.owner[*entry as usize], unit as u32);
        }
        for (block, owners) in self.owner.chunks(units).enumerate() {
            let valid = owners.iter().filter(|owner| **owner != NONE).count();
            assert_eq!(valid, self.victims.valid(block as u32) as usize, "block {block}");
        }
    }
}
