//! The directory of a cache: the tracks that it holds, in the order of their last use.
//!
//! A track is a span of at most [`Tracks::SECTORS_MAX`] sectors, so that the set of its cached sectors is one integer
//! and no operation loops over sectors. Memory grows to the number of tracks that the cache holds, independent of the
//! length of the trace.

use std::ops::{Index, IndexMut};

/// Tracks whose buckets are next to one another: as many as a line of the processor's cache has.
const GROUP: u64 = 16;
/// No entry.
const NONE: u32 = u32::MAX;

/// The sectors `from..to` of a track, one bit each.
pub fn mask(from: u64, to: u64) -> u128 {
    let below = |bit: u64| if bit >= 128 { u128::MAX } else { (1 << bit) - 1 };
    below(to) & !below(from)
}

/// The index of a track in the directory, which stays the same while the track is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSlot(u32);

#[derive(Clone, Copy, Debug)]
struct TrackEntry<T> {
    track: u64,
    value: T,
    /// The next entry of the same bucket, or of the free ones.
    chain: u32,
    newer: u32,
    older: u32,
    listed: bool,
}

/// A directory with a value for each track.
#[derive(Clone, Debug)]
pub struct Tracks<T> {
    entries: Vec<TrackEntry<T>>,
    buckets: Vec<u32>,
    free: u32,
    len: usize,
    newest: u32,
    oldest: u32,
}

impl<T: Copy + Default> Tracks<T> {
    /// The longest track: 64 KiB.
    pub const SECTORS_MAX: u64 = 128;

    /// An empty directory for about `expected` tracks.
    pub fn new(expected: usize) -> Tracks<T> {
        let buckets = vec![NONE; Self::buckets(expected as u64) as usize];
        Tracks { entries: Vec::new(), buckets, free: NONE, len: 0, newest: NONE, oldest: NONE }
    }

    fn buckets(expected: u64) -> u64 {
        (2 * expected).next_power_of_two().max(2 * GROUP)
    }

    /// Bytes of an empty directory for about `expected` tracks.
    pub fn empty_bytes(expected: u64) -> u64 {
        Self::buckets(expected) * size_of::<u32>() as u64
    }

    /// How many tracks it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    fn bucket(&self, track: u64) -> usize {
        // Fibonacci hashing: the upper bits of a product with 2^64 over the golden ratio. Neighbouring tracks are
        // looked up together, so their buckets are adjacent. The position within a group depends on the product, too,
        // so that tracks at equal distances lie apart.
        let product = (track / GROUP).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let group = product >> (64 - self.buckets.len().trailing_zeros()) & !(GROUP - 1);
        (group | (track ^ product >> 16) & (GROUP - 1)) as usize
    }

    /// Where a track is, if it is there.
    pub fn find(&self, track: u64) -> Option<TrackSlot> {
        let mut at = self.buckets[self.bucket(track)];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.track == track {
                return Some(TrackSlot(at));
            }
            at = entry.chain;
        }
        None
    }

    /// Adds a track that is not there, as the one used last.
    pub fn insert(&mut self, track: u64) -> TrackSlot {
        let bucket = self.bucket(track);
        let entry = TrackEntry {
            track,
            value: T::default(),
            chain: self.buckets[bucket],
            newer: NONE,
            older: NONE,
            listed: false,
        };
        let at = self.free;
        let at = if at == NONE {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            self.free = self.entries[at as usize].chain;
            self.entries[at as usize] = entry;
            at
        };
        self.buckets[bucket] = at;
        self.len += 1;
        self.list(TrackSlot(at));
        TrackSlot(at)
    }

    /// Forgets a track.
    pub fn remove(&mut self, slot: TrackSlot) {
        self.unlist(slot);
        let TrackEntry { track, chain, .. } = self.entries[slot.0 as usize];
        let bucket = self.bucket(track);
        if self.buckets[bucket] == slot.0 {
            self.buckets[bucket] = chain;
        } else {
            let mut before = self.buckets[bucket];
            while self.entries[before as usize].chain != slot.0 {
                before = self.entries[before as usize].chain;
            }
            self.entries[before as usize].chain = chain;
        }
        self.entries[slot.0 as usize].chain = self.free;
        self.free = slot.0;
        self.len -= 1;
    }

    /// The track that was listed longest ago.
    pub fn oldest(&self) -> Option<TrackSlot> {
        (self.oldest != NONE).then_some(TrackSlot(self.oldest))
    }

    /// The track's number.
    pub fn track(&self, slot: TrackSlot) -> u64 {
        self.entries[slot.0 as usize].track
    }

    /// Makes a track the newest of the list.
    pub fn list(&mut self, slot: TrackSlot) {
        if self.newest == slot.0 {
            return;
        }
        self.unlist(slot);
        let newest = self.newest;
        let entry = &mut self.entries[slot.0 as usize];
        (entry.listed, entry.older, entry.newer) = (true, newest, NONE);
        match newest {
            NONE => self.oldest = slot.0,
            newest => self.entries[newest as usize].newer = slot.0,
        }
        self.newest = slot.0;
    }

    /// Takes a track off the list, so that it is never the oldest.
    pub fn unlist(&mut self, slot: TrackSlot) {
        let entry = &mut self.entries[slot.0 as usize];
        if !std::mem::take(&mut entry.listed) {
            return;
        }
        let (newer, older) = (entry.newer, entry.older);
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }
}

impl<T> Index<TrackSlot> for Tracks<T> {
    type Output = T;
    fn index(&self, slot: TrackSlot) -> &T {
        &self.entries[slot.0 as usize].value
    }
}

impl<T> IndexMut<TrackSlot> for Tracks<T> {
    fn index_mut(&mut self, slot: TrackSlot) -> &mut T {
        &mut self.entries[slot.0 as usize].value
    }
}

#[cfg(test)]
mod tests;
