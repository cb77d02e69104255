//! An access through the page cache, page by page, after Linux's `do_generic_file_read` and `generic_perform_write`
//! (`mm/filemap.c`).

use traces::{Flags, Operation, Sectors, Timestamp};

use super::files::{BLOCK, FileId, Files};
use super::memory::{Memory, PageRun};
use super::page_cache::{PageFlags, PageNumber, Slot};
use super::program::Access;
use super::read_ahead::{ReadAhead, Trigger};

/// An access in progress.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    access: Access,
    /// The next page of the file, and the page after the last.
    page: u64,
    end: u64,
    /// The number of pages copied so far.
    copied: u64,
}

/// The progress of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is complete; the number of pages copied.
    Done(u64),
    /// It waits for this page to be read.
    AwaitsPage(Slot),
    /// It waits for any page to become free.
    AwaitsMemory,
    /// It waits until fewer pages are dirty.
    AwaitsWriting,
}

impl Transfer {
    /// An access before its start; the part after the end of the file is cut off.
    pub fn new(access: Access, files: &Files) -> Transfer {
        let (offset, size) = (access.offset.count(), files.size(access.file).count());
        let end = offset.saturating_add(access.sectors.count()).min(size);
        let sectors = Sectors::new(end.saturating_sub(offset));
        let block = BLOCK.count();
        let page = offset / block;
        let end = if sectors > Sectors::ZERO { end.div_ceil(block) } else { page };
        Transfer { access: Access { sectors, ..access }, page, end, copied: 0 }
    }

    /// The file accessed.
    pub fn file(&self) -> FileId {
        self.access.file
    }

    /// Continues until the access is complete or must wait; appends the pages to be read to `reads`.
    pub fn proceed(
        &mut self,
        now: Timestamp,
        memory: &mut Memory,
        files: &Files,
        ahead: &mut ReadAhead,
        reads: &mut Vec<PageRun>,
    ) -> Progress {
        while self.page < self.end {
            let waits = match self.access.operation {
                Operation::Write => self.write_page(now, memory, files, reads),
                _ => self.read_page(memory, files, ahead, reads),
            };
            if let Some(waits) = waits {
                return waits;
            }
            self.page += 1;
            self.copied += 1;
        }
        Progress::Done(self.copied)
    }

    fn read_page(
        &mut self,
        memory: &mut Memory,
        files: &Files,
        ahead: &mut ReadAhead,
        reads: &mut Vec<PageRun>,
    ) -> Option<Progress> {
        let number = page_number(files, self.access.file, self.page);
        let mut slot = memory.cache.find(number);
        let trigger = match slot {
            None => Some(Trigger::Miss),
            Some(slot) => memory.cache.flags(slot).contains(PageFlags::MARKER).then(|| {
                memory.cache.set(slot, PageFlags::MARKER, false);
                Trigger::Marker
            }),
        };
        if let Some(trigger) = trigger {
            self.read_ahead(memory, files, ahead, trigger, reads);
            slot = memory.cache.find(number);
        }
        let Some(slot) = slot else {
            // The window could not be cached: only this page is read.
            return Some(match load(memory, self.access.file, number, reads) {
                Some(slot) => Progress::AwaitsPage(slot),
                None => Progress::AwaitsMemory,
            });
        };
        if memory.cache.flags(slot).contains(PageFlags::LOADING) {
            return Some(Progress::AwaitsPage(slot));
        }
        // A page read in several parts counts as used once.
        if ahead.previous() != Some(self.page) {
            memory.cache.used(slot);
        }
        ahead.has_read(self.page);
        None
    }

    /// Begins the read-ahead window for the current page.
    fn read_ahead(
        &self,
        memory: &mut Memory,
        files: &Files,
        ahead: &mut ReadAhead,
        trigger: Trigger,
        reads: &mut Vec<PageRun>,
    ) {
        // Metadata is read block by block (`sb_bread`).
        let is_metadata = self.access.flags.contains(Flags::META);
        let most = if is_metadata { 0 } else { u64::from(memory.settings().read_ahead_pages) };
        let size = files.size(self.access.file).count().div_ceil(BLOCK.count());
        let file = self.access.file;
        let is_cached = |page: u64| page < size && memory.cache.find(page_number(files, file, page)).is_some();
        let cached_behind = match trigger {
            Trigger::Marker => (1..=most).take_while(|&index| is_cached(self.page + index)).count() as u64,
            Trigger::Miss => 0,
        };
        let Some(window) = ahead.window(self.page, self.end - self.page, most, trigger, cached_behind) else { return };
        for page in window.start..(window.start + window.pages).min(size) {
            let number = page_number(files, file, page);
            let slot = match memory.cache.find(number) {
                Some(_) => continue,
                None => load(memory, file, number, reads),
            };
            let Some(slot) = slot else { return };
            if window.marker == Some(page) {
                memory.cache.set(slot, PageFlags::MARKER, true);
            }
        }
    }

    fn write_page(
        &mut self,
        now: Timestamp,
        memory: &mut Memory,
        files: &Files,
        reads: &mut Vec<PageRun>,
    ) -> Option<Progress> {
        if memory.is_over_limit() {
            return Some(Progress::AwaitsWriting);
        }
        let file = self.access.file;
        let number = page_number(files, file, self.page);
        let slot = match memory.cache.find(number) {
            Some(slot) => slot,
            None if self.covers_page(files) => match memory.cache.insert(number, PageFlags::empty()) {
                Some(slot) => slot,
                None => return Some(Progress::AwaitsMemory),
            },
            None => match load(memory, file, number, reads) {
                Some(slot) => slot,
                None => return Some(Progress::AwaitsMemory),
            },
        };
        if memory.cache.flags(slot).contains(PageFlags::LOADING) {
            return Some(Progress::AwaitsPage(slot));
        }
        memory.cache.used(slot);
        memory.dirtied(now, file, number, slot);
        None
    }

    /// Whether the write covers all of the page that lies within the file, so that the page need not be read.
    fn covers_page(&self, files: &Files) -> bool {
        let (from, to) = (self.page * BLOCK.count(), (self.page + 1) * BLOCK.count());
        let end = self.access.offset.count() + self.access.sectors.count();
        self.access.offset.count() <= from && to.min(files.size(self.access.file).count()) <= end
    }
}

/// The page of the disk that holds this page of the file.
fn page_number(files: &Files, file: FileId, page: u64) -> PageNumber {
    let extent = files.extent_at(file, Sectors::new(page * BLOCK.count())).expect("the page lies within the file");
    (extent.lba.sector() / BLOCK.count()) as PageNumber
}

/// Adds a page that is to be read to the cache, and to the last run if it is contiguous with that.
fn load(memory: &mut Memory, file: FileId, number: PageNumber, reads: &mut Vec<PageRun>) -> Option<Slot> {
    let slot = memory.cache.insert(number, PageFlags::LOADING)?;
    match reads.last_mut() {
        Some(run) if run.file == file && run.start + run.pages == number => run.pages += 1,
        _ => reads.push(PageRun { file, start: number, pages: 1 }),
    }
    Some(slot)
}
