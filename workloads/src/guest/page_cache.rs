//! The page cache of a guest: the pages of its disk that are in memory, and the order of their eviction. It has two
//! lists, as Linux 2.6.28 and later (`mm/swap.c`, `mm/vmscan.c`). A page enters the inactive list; a second use moves
//! it to the active list. Pages are evicted from the end of the inactive list. That list is refilled from the active
//! list when it has become the shorter one.
//!
//! Left out: mapped pages, the balance between kinds of pages, and refaults (3.15 and later).

use bitflags::bitflags;

use super::page_index::PageIndex;

/// A page of the guest's disk: its sector divided by eight.
pub type PageNumber = u32;

/// The slot of a page: an index that does not change while the page is in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// The index, below the capacity of the cache.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

bitflags! {
    /// The flags of a page.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PageFlags: u8 {
        /// Being read: its data has not arrived.
        const LOADING = 1;
        /// Changed and not yet being written.
        const DIRTY = 1 << 1;
        /// Being written.
        const WRITEBACK = 1 << 2;
        /// Used once since it entered its list.
        const REFERENCED = 1 << 3;
        /// On the active list.
        const ACTIVE = 1 << 4;
        /// A process that reads it begins the next read-ahead window.
        const MARKER = 1 << 5;
    }
}

const PINNED: PageFlags = PageFlags::LOADING.union(PageFlags::DIRTY).union(PageFlags::WRITEBACK);

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Page {
    number: PageNumber,
    flags: PageFlags,
    previous: u32,
    next: u32,
}

/// A linked list of pages; its head is the page added last.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    length: u32,
}

const EMPTY: List = List { head: NONE, tail: NONE, length: 0 };

/// A page cache.
#[derive(Debug)]
pub struct PageCache {
    pages: Vec<Page>,
    free: Vec<u32>,
    capacity: usize,
    index: PageIndex,
    active: List,
    inactive: List,
}

impl PageCache {
    /// An empty cache of `capacity` pages.
    ///
    /// # Panics
    /// If the capacity is zero.
    pub fn new(capacity: u32) -> PageCache {
        assert!(capacity > 0, "a page cache holds a page");
        PageCache {
            pages: Vec::new(),
            free: Vec::new(),
            capacity: capacity as usize,
            index: PageIndex::new(),
            active: EMPTY,
            inactive: EMPTY,
        }
    }

    /// The slot of a page, if it is in the cache.
    pub fn find(&self, number: PageNumber) -> Option<Slot> {
        self.index.find(number).map(Slot)
    }

    /// Adds a page that is not in the cache; if the cache is full, another is evicted. `None` if no page can be
    /// evicted, because all are being read or have not been written.
    pub fn insert(&mut self, number: PageNumber, flags: PageFlags) -> Option<Slot> {
        debug_assert!(self.find(number).is_none(), "a page is cached once");
        let page = Page { number, flags, previous: NONE, next: NONE };
        let slot = if let Some(slot) = self.free.pop() {
            slot
        } else if self.pages.len() < self.capacity {
            self.pages.push(page);
            (self.pages.len() - 1) as u32
        } else {
            self.reclaim()?
        };
        self.pages[slot as usize] = page;
        self.index.insert(number, slot);
        self.push(slot);
        Some(Slot(slot))
    }

    /// The page has been used (`mark_page_accessed`).
    pub fn used(&mut self, Slot(slot): Slot) {
        let flags = &mut self.pages[slot as usize].flags;
        if !flags.contains(PageFlags::REFERENCED) {
            flags.insert(PageFlags::REFERENCED);
        } else if !flags.contains(PageFlags::ACTIVE) {
            self.unlink(slot);
            let flags = &mut self.pages[slot as usize].flags;
            flags.remove(PageFlags::REFERENCED);
            flags.insert(PageFlags::ACTIVE);
            self.push(slot);
        }
    }

    /// The flags of a page.
    pub fn flags(&self, Slot(slot): Slot) -> PageFlags {
        self.pages[slot as usize].flags
    }

    /// Sets or clears flags of a page; not its place in the lists.
    pub fn set(&mut self, Slot(slot): Slot, flags: PageFlags, value: bool) {
        debug_assert!(!flags.intersects(PageFlags::ACTIVE | PageFlags::REFERENCED), "the lists' own");
        self.pages[slot as usize].flags.set(flags, value);
    }

    /// Drops a page, whatever its flags: its file was removed.
    pub fn remove(&mut self, Slot(slot): Slot) {
        self.unlink(slot);
        self.index.remove(self.pages[slot as usize].number);
        self.free.push(slot);
    }

    /// The number of pages in the cache.
    pub fn len(&self) -> usize {
        (self.active.length + self.inactive.length) as usize
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Evicts a page and returns its slot.
    fn reclaim(&mut self) -> Option<u32> {
        for _ in 0..self.pages.len() {
            if self.inactive.length < self.active.length || self.inactive.length == 0 {
                self.deactivate();
            }
            let slot = self.inactive.tail;
            self.unlink(slot);
            if self.pages[slot as usize].flags.intersects(PINNED) {
                self.push(slot);
                continue;
            }
            self.index.remove(self.pages[slot as usize].number);
            return Some(slot);
        }
        None
    }

    /// Moves the page at the end of the active list to the inactive one.
    fn deactivate(&mut self) {
        let slot = self.active.tail;
        if slot != NONE {
            self.unlink(slot);
            self.pages[slot as usize].flags.remove(PageFlags::ACTIVE | PageFlags::REFERENCED);
            self.push(slot);
        }
    }

    fn list(&mut self, slot: u32) -> &mut List {
        if self.pages[slot as usize].flags.contains(PageFlags::ACTIVE) { &mut self.active } else { &mut self.inactive }
    }

    fn push(&mut self, slot: u32) {
        let list = self.list(slot);
        let head = std::mem::replace(&mut list.head, slot);
        list.length += 1;
        if head == NONE {
            list.tail = slot;
        }
        let page = &mut self.pages[slot as usize];
        (page.previous, page.next) = (NONE, head);
        if head != NONE {
            self.pages[head as usize].previous = slot;
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Page { previous, next, .. } = self.pages[slot as usize];
        let list = self.list(slot);
        list.length -= 1;
        if list.head == slot {
            list.head = next;
        }
        if list.tail == slot {
            list.tail = previous;
        }
        if previous != NONE {
            self.pages[previous as usize].next = next;
        }
        if next != NONE {
            self.pages[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cached(cache: &PageCache, numbers: &[u32]) -> Vec<u32> {
        numbers.iter().copied().filter(|&number| cache.find(number).is_some()).collect()
    }

    #[test]
    fn a_page_used_twice_outlives_a_stream_of_pages_used_once() {
        let mut cache = PageCache::new(8);
        let hot = cache.insert(1_000_000, PageFlags::empty()).unwrap();
        cache.used(hot);
        cache.used(hot);
        for number in 0..100 {
            let slot = cache.insert(number, PageFlags::empty()).unwrap();
            cache.used(slot);
        }
        assert_eq!(cached(&cache, &[1_000_000, 0, 92, 93, 99]), [1_000_000, 93, 99]);
    }

    #[test]
    fn pinned_pages_stay_and_a_cache_full_of_them_accepts_none() {
        let mut cache = PageCache::new(3);
        for number in 0..3 {
            cache.insert(number, PageFlags::LOADING).unwrap();
        }
        assert_eq!(cache.insert(3, PageFlags::empty()), None);
        let one = cache.find(1).unwrap();
        cache.set(one, PageFlags::LOADING, false);
        assert!(cache.insert(3, PageFlags::DIRTY).is_some());
        assert_eq!(cached(&cache, &[0, 1, 2, 3]), [0, 2, 3]);
    }

    proptest! {
        /// Compared with two lists kept as vectors.
        #[test]
        fn evicts_the_same_pages_as_two_plain_lists(steps in prop::collection::vec((0_u8..5, 0_u32..24), 1..400)) {
            const CAPACITY: usize = 7;
            let mut cache = PageCache::new(CAPACITY as u32);
            // Page number and whether it was used; the last of each is evicted first.
            let mut active: Vec<(u32, bool)> = Vec::new();
            let mut inactive = active.clone();
            for (kind, number) in steps {
                if let Some(slot) = cache.find(number) {
                    if kind == 0 {
                        cache.remove(slot);
                        active.retain(|page| page.0 != number);
                        inactive.retain(|page| page.0 != number);
                        continue;
                    }
                    cache.used(slot);
                    if let Some(page) = active.iter_mut().find(|page| page.0 == number) {
                        page.1 = true;
                    } else {
                        let place = inactive.iter().position(|page| page.0 == number).unwrap();
                        if inactive[place].1 {
                            inactive.remove(place);
                            active.insert(0, (number, false));
                        } else {
                            inactive[place].1 = true;
                        }
                    }
                } else {
                    cache.insert(number, PageFlags::empty()).unwrap();
                    if active.len() + inactive.len() == CAPACITY {
                        if inactive.len() < active.len() || inactive.is_empty() {
                            let page = active.pop().unwrap();
                            inactive.insert(0, (page.0, false));
                        }
                        inactive.pop();
                    }
                    inactive.insert(0, (number, false));
                }
                let mut expected: Vec<u32> = active.iter().chain(&inactive).map(|page| page.0).collect();
                expected.sort_unstable();
                prop_assert_eq!(cached(&cache, &(0..24).collect::<Vec<_>>()), expected);
                prop_assert_eq!(cache.len(), active.len() + inactive.len());
            }
        }
    }
}
