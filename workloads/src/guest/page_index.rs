//! The slots of the pages that are cached, by page number: a hash table with open addressing, at most half full. It grows
//! with the cache and not with the disk, so that a look-up seldom leaves the processor's cache.

use super::page_cache::PageNumber;

/// The slots of pages by number.
#[derive(Debug)]
pub(super) struct PageIndex {
    /// The number of a page in the upper half and its slot plus one in the lower; zero for none. A page is at the place
    /// of its hash or, if that is taken, at the next free one after it.
    places: Vec<u64>,
    pages: usize,
}

/// The places of an empty index.
const PLACES: usize = 16;

impl PageIndex {
    pub(super) fn new() -> PageIndex {
        PageIndex { places: vec![0; PLACES], pages: 0 }
    }

    /// Where a page is if the place is free: a multiplicative hash (Knuth), which spreads neighbours.
    fn home(&self, number: PageNumber) -> usize {
        (u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & self.last()
    }

    /// The last place; the number of places is a power of two.
    fn last(&self) -> usize {
        self.places.len() - 1
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & self.last()
    }

    /// The place of a page, or the free place that it would get.
    fn place_of(&self, number: PageNumber) -> usize {
        let mut place = self.home(number);
        while self.places[place] != 0 && page_at(self.places[place]) != number {
            place = self.after(place);
        }
        place
    }

    /// The slot of a page.
    pub(super) fn find(&self, number: PageNumber) -> Option<u32> {
        (self.places[self.place_of(number)] as u32).checked_sub(1)
    }

    /// Adds a page that is not in the index.
    pub(super) fn insert(&mut self, number: PageNumber, slot: u32) {
        self.pages += 1;
        if self.pages * 2 > self.places.len() {
            let larger = vec![0; self.places.len() * 2];
            for entry in std::mem::replace(&mut self.places, larger).into_iter().filter(|&entry| entry != 0) {
                let place = self.place_of(page_at(entry));
                self.places[place] = entry;
            }
        }
        let place = self.place_of(number);
        self.places[place] = u64::from(number) << 32 | u64::from(slot + 1);
    }

    /// Removes a page that is in the index.
    pub(super) fn remove(&mut self, number: PageNumber) {
        self.pages -= 1;
        let mut gap = self.place_of(number);
        debug_assert!(self.places[gap] != 0, "page {number} is not in the index");
        // The search of a page after the gap would end there: the page moves into it, unless its home is after the gap.
        let mut place = self.after(gap);
        while self.places[place] != 0 {
            let home = self.home(page_at(self.places[place]));
            if (place.wrapping_sub(home) & self.last()) >= (place.wrapping_sub(gap) & self.last()) {
                self.places[gap] = self.places[place];
                gap = place;
            }
            place = self.after(place);
        }
        self.places[gap] = 0;
    }
}

fn page_at(place: u64) -> PageNumber {
    (place >> 32) as PageNumber
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The table is half full most of the time, so that pages often meet.
        #[test]
        fn index_finds_what_a_map_does(
            most in prop::sample::select(vec![8_usize, 16, 40]),
            steps in prop::collection::vec((0_u32..48, 0_u32..u32::MAX), 1..300),
        ) {
            let (mut index, mut map) = (PageIndex::new(), BTreeMap::new());
            for (number, slot) in steps {
                if map.remove(&number).is_some() {
                    index.remove(number);
                } else if map.len() < most {
                    map.insert(number, slot);
                    index.insert(number, slot);
                }
                for number in 0..48 {
                    prop_assert_eq!(index.find(number), map.get(&number).copied());
                }
            }
        }
    }
}
