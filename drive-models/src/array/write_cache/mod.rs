//! The non-volatile write cache. Data is durable once it is here, and goes to the members later.
//!
//! Capacity is counted in pages of 4 KiB. *Destaging* is writing dirty rows to the members. It begins when more pages
//! are dirty than the high-water mark, and ends at the low-water mark; pages on their way to the members do not count.
//! It also goes on while a write waits for capacity.
//!
//! Destaging takes the track written longest ago, and with it all dirty sectors of the same row. A row that was written
//! in full is therefore one full-stripe write. A sector that is written again while it is on its way to the members is
//! held twice until the destage has ended.

use std::collections::VecDeque;

use traces::RequestId;

use super::geometry::Geometry;
use super::plan::UnitWrite;
use super::read_cache::spans;
use super::tracks::{TrackSlot, Tracks};

/// Sectors of a page.
pub const PAGE_SECTORS: u64 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct DirtyTrack {
    dirty: u128,
    /// Sectors on their way to the members.
    leaving: u128,
}

/// How large a write cache is and when it destages.
#[derive(Clone, Copy, Debug)]
pub struct WriteLimits {
    /// Its capacity in pages.
    pub pages: u64,
    /// Pages above which destaging begins.
    pub high: u64,
    /// Pages at which it ends.
    pub low: u64,
    /// Rows that are destaged at the same time.
    pub rows: u32,
}

/// The write cache. The list holds the tracks that have dirty sectors and none that is leaving.
#[derive(Debug)]
pub struct ArrayWriteCache {
    tracks: Tracks<DirtyTrack>,
    track: u64,
    limits: WriteLimits,
    used: u64,
    /// Of those, on their way to the members.
    leaving: u64,
    rows_leaving: u32,
    destaging: bool,
    /// Writes that wait for capacity, in the order of arrival.
    waiting: VecDeque<RequestId>,
}

/// How many pages have a sector among these.
fn pages(sectors: u128) -> u64 {
    let mut any = sectors | sectors >> 4;
    any |= any >> 2;
    any |= any >> 1;
    u64::from((any & (u128::MAX / 0xFF)).count_ones())
}

impl ArrayWriteCache {
    /// An empty cache with tracks of `track` sectors, a multiple of a page.
    pub fn new(track: u64, limits: WriteLimits) -> ArrayWriteCache {
        ArrayWriteCache {
            tracks: Tracks::new(limits.pages as usize),
            track,
            limits,
            used: 0,
            leaving: 0,
            rows_leaving: 0,
            destaging: false,
            waiting: VecDeque::new(),
        }
    }

    /// The cached sectors of a track.
    pub fn held(&self, track: u64) -> u128 {
        self.tracks.find(track).map_or(0, |slot| self.tracks[slot].dirty | self.tracks[slot].leaving)
    }

    /// Whether an empty cache could hold `start..end`.
    pub fn could_hold(&self, start: u64, end: u64) -> bool {
        end.div_ceil(PAGE_SECTORS) - start / PAGE_SECTORS <= self.limits.pages
    }

    /// Whether there is capacity for a write of `start..end`, and no write waits for capacity.
    pub fn has_capacity(&self, start: u64, end: u64) -> bool {
        self.waiting.is_empty() && self.used + self.growth(start, end) <= self.limits.pages
    }

    fn growth(&self, start: u64, end: u64) -> u64 {
        let grown = |(track, sectors)| {
            let dirty = self.tracks.find(track).map_or(0, |slot| self.tracks[slot].dirty);
            pages(dirty | sectors) - pages(dirty)
        };
        spans(self.track, start, end).map(grown).sum()
    }

    /// Takes in a write for which there is capacity.
    pub fn put(&mut self, start: u64, end: u64) {
        for (track, sectors) in spans(self.track, start, end) {
            let slot = self.tracks.find(track).unwrap_or_else(|| self.tracks.insert(track));
            let value = &mut self.tracks[slot];
            self.used += pages(value.dirty | sectors) - pages(value.dirty);
            value.dirty |= sectors;
            if value.leaving == 0 {
                self.tracks.list(slot);
            }
        }
        self.destaging |= self.used - self.leaving > self.limits.high;
    }

    /// Drops the dirty sectors of `start..end`, as newer data goes to the members past this cache.
    pub fn supersede(&mut self, start: u64, end: u64) {
        for (track, sectors) in spans(self.track, start, end) {
            let Some(slot) = self.tracks.find(track) else { continue };
            let DirtyTrack { dirty, leaving } = self.tracks[slot];
            self.tracks[slot].dirty = dirty & !sectors;
            self.used -= pages(dirty) - pages(dirty & !sectors);
            if dirty & !sectors == 0 && leaving == 0 {
                self.tracks.remove(slot);
            }
        }
    }

    /// Lets a write wait for capacity.
    pub fn wait(&mut self, id: RequestId) {
        self.waiting.push_back(id);
    }

    /// The write that has waited longest, if there now is capacity for its `span`. It waits no more.
    pub fn admit(&mut self, span: impl Fn(RequestId) -> (u64, u64)) -> Option<RequestId> {
        let &first = self.waiting.front()?;
        let (start, end) = span(first);
        if self.used + self.growth(start, end) > self.limits.pages {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Whether another row is to be destaged now.
    pub fn wants_destage(&self) -> bool {
        let wanted = self.destaging || !self.waiting.is_empty();
        wanted && self.rows_leaving < self.limits.rows && self.tracks.oldest().is_some()
    }

    /// Begins to destage a row: returns it, the sectors to write of its data units, and the tracks to hand to
    /// [`ArrayWriteCache::destaged`]. `None` if nothing is dirty.
    pub fn take_row(
        &mut self,
        map: &Geometry,
        written: &mut Vec<UnitWrite>,
        slots: &mut Vec<TrackSlot>,
    ) -> Option<u64> {
        let oldest = self.tracks.track(self.tracks.oldest()?);
        let row = oldest * self.track / map.row_sectors();
        let (first, tracks) = (row * map.row_sectors() / self.track, map.row_sectors() / self.track);
        for track in first..first + tracks {
            let Some(slot) = self.tracks.find(track) else { continue };
            let value = &mut self.tracks[slot];
            if value.dirty == 0 || value.leaving != 0 {
                continue;
            }
            let sectors = std::mem::take(&mut value.dirty);
            value.leaving = sectors;
            self.leaving += pages(sectors);
            self.tracks.unlist(slot);
            slots.push(slot);
            add_runs(map, (track - first) * self.track, sectors, written);
        }
        self.rows_leaving += 1;
        self.destaging &= self.used - self.leaving > self.limits.low;
        Some(row)
    }

    /// The sectors that left with these tracks have reached the members.
    pub fn destaged(&mut self, slots: &mut Vec<TrackSlot>) {
        self.rows_leaving -= 1;
        for slot in slots.drain(..) {
            let left = pages(std::mem::take(&mut self.tracks[slot].leaving));
            self.used -= left;
            self.leaving -= left;
            if self.tracks[slot].dirty == 0 {
                self.tracks.remove(slot);
            } else {
                self.tracks.list(slot);
            }
        }
    }
}

/// Adds the runs of dirty sectors of the track that begins `at` sectors into its row. With parity all of one unit is
/// one span with holes, since the old data is read anyway; without, holes are left out.
fn add_runs(map: &Geometry, at: u64, mut sectors: u128, written: &mut Vec<UnitWrite>) {
    let (unit, base) = (at / map.stripe_unit(), at % map.stripe_unit());
    let parity = map.level().parities() > 0;
    while sectors != 0 {
        let first = sectors.trailing_zeros();
        let run = (sectors >> first).trailing_ones();
        sectors &= !super::tracks::mask(u64::from(first), u64::from(first + run));
        let (from, to) = (base + u64::from(first), base + u64::from(first + run));
        match written.last_mut().filter(|last| last.unit == unit) {
            Some(last) if last.to == from => last.to = to,
            Some(last) if parity => (last.to, last.solid) = (to, false),
            _ => written.push(UnitWrite { unit, from, to, solid: true }),
        }
    }
}

#[cfg(test)]
mod tests;
