//! The memory of a guest: its page cache, its dirty pages and their write-back, after Linux 2.6.30 to 3.5
//! (`mm/page-writeback.c`, `fs/fs-writeback.c`). A periodic sweep writes files that have been dirty for a long time.
//! Above a first limit dirty pages are written in the background; above a second limit processes that write have to
//! wait.
//!
//! Left out: the shares of the limits per device and per process (every process waits at the same limit), and pauses
//! that grow smoothly towards the limit (3.2 and later).

use std::collections::{BTreeMap, BTreeSet};

use traces::{Nanos, Timestamp};

use super::files::FileId;
use super::page_cache::{PageCache, PageFlags, PageNumber, Slot};

/// The settings of the memory of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySettings {
    /// The capacity of the cache in pages of 4 KiB, at least 64.
    pub pages: u32,
    /// The longest read-ahead window in pages (`read_ahead_kb`); 0 for none.
    pub read_ahead_pages: u32,
    /// The percentage of the cache that may be dirty or being written before processes that write wait
    /// (`vm.dirty_ratio`).
    pub dirty_percent: u32,
    /// The percentage above which dirty pages are written in the background (`vm.dirty_background_ratio`).
    pub background_percent: u32,
    /// The time that a file may be dirty before the sweep writes it (`vm.dirty_expire_centisecs`).
    pub dirty_expire: Nanos,
    /// The interval of the sweep (`vm.dirty_writeback_centisecs`), and of commits of the journal.
    pub writeback_interval: Nanos,
    /// The time to copy a page from or to the cache.
    pub page_copy: Nanos,
}

impl Default for MemorySettings {
    /// The kernel's defaults, with a cache of 65 MB as Geist et al. 2010 observed.
    fn default() -> MemorySettings {
        MemorySettings {
            pages: 65 * 256,
            read_ahead_pages: 32,
            dirty_percent: 20,
            background_percent: 10,
            dirty_expire: Nanos::from_ms(30_000),
            writeback_interval: Nanos::from_ms(5_000),
            page_copy: Nanos::from_ns(1_000),
        }
    }
}

/// Pages of one file that are contiguous on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The file.
    pub file: FileId,
    /// The first page.
    pub start: PageNumber,
    /// The number of pages.
    pub pages: u32,
}

/// The longest run of one write, 512 KiB, and the most writes of a sweep in flight (`nr_requests`).
const RUN: u32 = 128;
const WRITES_UNDER_WAY: u32 = 128;

/// The number of pages of a file that are written before the turn of another file (`MAX_WRITEBACK_PAGES`).
const TURN: u32 = 1024;

#[derive(Debug)]
struct DirtyFile {
    since: Timestamp,
    order: u64,
    written_in_turn: u32,
    pages: BTreeSet<PageNumber>,
}

/// The memory of a guest and its state.
#[derive(Debug)]
pub struct Memory {
    settings: MemorySettings,
    /// The page cache.
    pub cache: PageCache,
    files: BTreeMap<FileId, DirtyFile>,
    /// Dirty files, in the order in which they are written.
    queue: BTreeMap<u64, FileId>,
    order: u64,
    dirty: u64,
    writeback: u64,
    /// The number of writes in flight of each file.
    writes: BTreeMap<FileId, u32>,
    writes_under_way: u32,
    /// The sweep writes files that have been dirty since this time or longer.
    sweep: Option<Timestamp>,
}

impl Memory {
    /// Empty memory.
    ///
    /// # Panics
    /// If it has fewer than 64 pages.
    pub fn new(settings: MemorySettings) -> Memory {
        assert!(settings.pages >= 64, "a guest has at least 64 pages of memory");
        Memory {
            settings,
            cache: PageCache::new(settings.pages),
            files: BTreeMap::new(),
            queue: BTreeMap::new(),
            order: 0,
            dirty: 0,
            writeback: 0,
            writes: BTreeMap::new(),
            writes_under_way: 0,
            sweep: None,
        }
    }

    /// The settings.
    pub fn settings(&self) -> &MemorySettings {
        &self.settings
    }

    /// A page of a file has been written to.
    pub fn dirtied(&mut self, now: Timestamp, file: FileId, number: PageNumber, slot: Slot) {
        if self.cache.flags(slot).contains(PageFlags::DIRTY) {
            return;
        }
        self.cache.set(slot, PageFlags::DIRTY, true);
        self.dirty += 1;
        let Memory { files, queue, order, .. } = self;
        let entry = files.entry(file).or_insert_with(|| {
            *order += 1;
            queue.insert(*order, file);
            DirtyFile { since: now, order: *order, written_in_turn: 0, pages: BTreeSet::new() }
        });
        entry.pages.insert(number);
    }

    /// Whether a process that writes must wait.
    pub fn is_over_limit(&self) -> bool {
        self.dirty + self.writeback > self.share(self.settings.dirty_percent)
    }

    /// The number of pages that are dirty and not being written.
    pub fn dirty_pages(&self) -> u64 {
        self.dirty
    }

    /// Begins the periodic sweep.
    pub fn begin_sweep(&mut self, now: Timestamp) {
        let age = now.saturating_since(Timestamp::ZERO);
        if age >= self.settings.dirty_expire {
            self.sweep = Some(Timestamp::ZERO + age.saturating_sub(self.settings.dirty_expire));
        }
    }

    /// The next pages to be written in the background, if any; they count as being written.
    pub fn next_write(&mut self) -> Option<PageRun> {
        if self.writes_under_way >= WRITES_UNDER_WAY {
            return None;
        }
        let (&order, &file) = self.queue.first_key_value()?;
        let is_old = self.sweep.is_some_and(|sweep| self.files[&file].since <= sweep);
        if !is_old {
            self.sweep = None;
            if self.dirty + self.writeback <= self.share(self.settings.background_percent) {
                return None;
            }
        }
        let run = self.take_run(file)?;
        // A sweep writes a file to its end; in the background files take turns.
        if !is_old && let Some(entry) = self.files.get_mut(&file) {
            entry.written_in_turn += run.pages;
            if entry.written_in_turn >= TURN {
                entry.written_in_turn = 0;
                self.order += 1;
                entry.order = self.order;
                self.queue.remove(&order);
                self.queue.insert(self.order, file);
            }
        }
        Some(run)
    }

    /// The next dirty pages of this file, if it has any; they count as being written.
    pub fn take_run(&mut self, file: FileId) -> Option<PageRun> {
        let entry = self.files.get_mut(&file)?;
        let start = *entry.pages.first().expect("a dirty file has dirty pages");
        let mut pages = 0;
        while pages < RUN && entry.pages.remove(&(start + pages)) {
            let slot = self.cache.find(start + pages).expect("a dirty page is in the cache");
            self.cache.set(slot, PageFlags::DIRTY, false);
            self.cache.set(slot, PageFlags::WRITEBACK, true);
            pages += 1;
        }
        if entry.pages.is_empty() {
            let order = entry.order;
            self.files.remove(&file);
            self.queue.remove(&order);
        }
        self.dirty -= u64::from(pages);
        self.writeback += u64::from(pages);
        self.writes_under_way += 1;
        *self.writes.entry(file).or_default() += 1;
        Some(PageRun { file, start, pages })
    }

    /// A run has been written.
    pub fn written(&mut self, run: PageRun) {
        for number in run.start..run.start + run.pages {
            if let Some(slot) = self.cache.find(number) {
                self.cache.set(slot, PageFlags::WRITEBACK, false);
            }
        }
        self.writeback -= u64::from(run.pages);
        self.writes_under_way -= 1;
        let writes = self.writes.get_mut(&run.file).expect("the write was counted");
        *writes -= 1;
        if *writes == 0 {
            self.writes.remove(&run.file);
        }
    }

    /// Whether no page of the file is being written.
    pub fn is_quiet(&self, file: FileId) -> bool {
        !self.writes.contains_key(&file)
    }

    /// Drops pages of a removed file; its dirty pages are never written.
    pub fn forget(&mut self, run: PageRun) {
        for number in run.start..run.start + run.pages {
            if let Some(slot) = self.cache.find(number) {
                self.cache.remove(slot);
            }
        }
        self.undirty(run);
    }

    fn undirty(&mut self, run: PageRun) {
        let Some(entry) = self.files.get_mut(&run.file) else { return };
        for number in run.start..run.start + run.pages {
            self.dirty -= u64::from(entry.pages.remove(&number));
        }
        if entry.pages.is_empty() {
            let order = entry.order;
            self.files.remove(&run.file);
            self.queue.remove(&order);
        }
    }

    fn share(&self, percent: u32) -> u64 {
        u64::from(self.settings.pages) * u64::from(percent) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FileId = FileId(0);
    const B: FileId = FileId(1);

    fn memory() -> Memory {
        Memory::new(MemorySettings { pages: 1000, ..MemorySettings::default() })
    }

    fn dirty(memory: &mut Memory, ms: u64, file: FileId, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            let slot = memory.cache.insert(number, PageFlags::empty()).unwrap();
            memory.dirtied(at(ms), file, number, slot);
        }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ns(ms * 1_000_000)
    }

    fn run(file: FileId, start: u32, pages: u32) -> Option<PageRun> {
        Some(PageRun { file, start, pages })
    }

    #[test]
    fn below_the_background_limit_only_old_files_are_written() {
        let mut memory = memory();
        dirty(&mut memory, 0, A, [10, 12, 11, 40].into_iter());
        dirty(&mut memory, 6_000, B, 50..52);
        assert_eq!(memory.next_write(), None);
        memory.begin_sweep(at(29_000));
        assert_eq!(memory.next_write(), None);
        memory.begin_sweep(at(35_000));
        assert_eq!(
            [memory.next_write(), memory.next_write(), memory.next_write()],
            [run(A, 10, 3), run(A, 40, 1), None]
        );
        memory.begin_sweep(at(36_000));
        assert_eq!(memory.next_write(), run(B, 50, 2));
        assert!(!memory.is_quiet(A));
        memory.written(run(A, 10, 3).unwrap());
        assert!(!memory.is_quiet(A));
        memory.written(run(A, 40, 1).unwrap());
        assert!(memory.is_quiet(A) && !memory.is_quiet(B));
    }

    #[test]
    fn above_the_background_limit_pages_are_written_until_below_it() {
        let mut memory = memory();
        dirty(&mut memory, 0, A, 0..100);
        assert_eq!(memory.next_write(), None, "at the limit is not above it");
        dirty(&mut memory, 0, A, 100..150);
        assert_eq!(
            [memory.next_write(), memory.next_write()],
            [run(A, 0, 128), run(A, 128, 22)],
            "being written counts"
        );
        memory.written(run(A, 0, 128).unwrap());
        dirty(&mut memory, 0, A, 300..379);
        assert_eq!(memory.next_write(), run(A, 300, 79));
    }

    #[test]
    fn files_take_turns_in_the_background() {
        let mut memory = Memory::new(MemorySettings { pages: 10_000, ..MemorySettings::default() });
        dirty(&mut memory, 0, A, 0..3000);
        dirty(&mut memory, 0, B, 5000..5100);
        let order: Vec<FileId> = (0..10).map(|_| memory.next_write().unwrap().file).collect();
        assert_eq!(order, [A, A, A, A, A, A, A, A, B, A]);
    }

    #[test]
    fn writers_wait_above_the_dirty_limit_until_enough_is_written() {
        let mut memory = memory();
        dirty(&mut memory, 0, A, 0..200);
        assert!(!memory.is_over_limit());
        dirty(&mut memory, 0, A, 200..201);
        assert!(memory.is_over_limit());
        let first = memory.next_write().unwrap();
        assert!(memory.is_over_limit(), "being written is not yet written");
        memory.written(first);
        assert!(!memory.is_over_limit());
    }

    #[test]
    fn page_dirtied_again_while_being_written_is_written_again() {
        let mut memory = memory();
        dirty(&mut memory, 0, A, 7..8);
        let first = memory.take_run(A).unwrap();
        let slot = memory.cache.find(7).unwrap();
        memory.dirtied(at(1), A, 7, slot);
        memory.written(first);
        assert!(memory.cache.flags(slot).contains(PageFlags::DIRTY));
        assert_eq!(memory.take_run(A), run(A, 7, 1));
        assert_eq!(memory.take_run(A), None);
    }

    #[test]
    fn a_removed_file_is_never_written() {
        let mut memory = memory();
        dirty(&mut memory, 0, A, 0..150);
        dirty(&mut memory, 0, B, 150..160);
        memory.forget(run(A, 0, 150).unwrap());
        assert_eq!((memory.dirty_pages(), memory.cache.len(), memory.take_run(A)), (10, 10, None));
        assert_eq!(memory.next_write(), None);
        assert_eq!(memory.take_run(B), run(B, 150, 10));
    }
}
