//! The window of Linux's on-demand read-ahead (`mm/readahead.c`, 2.6.24 to 3.x). A window is read as a whole. One of
//! its pages carries a marker: when the process reads that page, the next window begins. All numbers are pages of a
//! file.
//!
//! Left out: the search for pages of other readers in the cache (2.6.31), and the effects of `madvise` and of memory
//! shortage.

/// The event that makes a process begin a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The page is not in the cache.
    Miss,
    /// The page carries the marker.
    Marker,
}

/// The pages to be read, and the page that gets the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first page.
    pub start: u64,
    /// The number of pages.
    pub pages: u64,
    /// The page that gets the marker; none for a read that is not sequential.
    pub marker: Option<u64>,
}

/// The state of one open file (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAhead {
    start: u64,
    pages: u64,
    ahead: u64,
    /// The last page that was read.
    previous: Option<u64>,
}

impl ReadAhead {
    /// The process has read this page.
    pub fn has_read(&mut self, page: u64) {
        self.previous = Some(page);
    }

    /// The page that the process has read last.
    pub fn previous(&self) -> Option<u64> {
        self.previous
    }

    /// The window for a process that needs `wanted` pages from `page` on; windows have at most `most` pages.
    /// `cached_behind` is the number of cached pages from the next one on, at most `most`.
    pub fn window(
        &mut self,
        page: u64,
        wanted: u64,
        most: u64,
        trigger: Trigger,
        cached_behind: u64,
    ) -> Option<Window> {
        if most == 0 {
            return (trigger == Trigger::Miss).then_some(Window { start: page, pages: wanted, marker: None });
        }
        let is_expected =
            self.pages > 0 && (page == self.start + self.pages - self.ahead || page == self.start + self.pages);
        let follows = match self.previous {
            Some(previous) => page == previous || page == previous + 1,
            None => page == 0,
        };
        if page == 0 {
            self.begin(page, wanted, most);
        } else if is_expected {
            self.start += self.pages;
            self.pages = next_size(self.pages, most);
            self.ahead = self.pages;
        } else if trigger == Trigger::Marker {
            // The marker is that of another reader's window: the new window begins after the cached pages.
            if cached_behind >= most {
                return None;
            }
            self.start = page + 1 + cached_behind;
            self.pages = next_size(cached_behind + 1 + wanted, most);
            self.ahead = self.pages;
        } else if wanted > most || follows {
            self.begin(page, wanted, most);
        } else {
            return Some(Window { start: page, pages: wanted.min(most), marker: None });
        }
        // The process is at the marker of the window to be read: the next window is joined to it.
        if page == self.start && self.pages == self.ahead {
            self.ahead = next_size(self.pages, most);
            self.pages += self.ahead;
        }
        Some(Window { start: self.start, pages: self.pages, marker: Some(self.start + self.pages - self.ahead) })
    }

    fn begin(&mut self, page: u64, wanted: u64, most: u64) {
        self.start = page;
        self.pages = first_size(wanted, most);
        self.ahead = if self.pages > wanted { self.pages - wanted } else { self.pages };
    }
}

/// `get_init_ra_size`.
fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.max(1).next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// `get_next_ra_size`.
fn next_size(size: u64, most: u64) -> u64 {
    (if size < most / 16 { size * 4 } else { size * 2 }).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows of a process that reads page after page, with the page that it had reached.
    fn sequential(pages: u64, wanted: u64) -> Vec<(u64, u64, u64, u64)> {
        let (mut state, mut cached, mut marker, mut windows) = (ReadAhead::default(), 0, None, Vec::new());
        let mut page = 0;
        while page < pages {
            let trigger =
                if page >= cached { Some(Trigger::Miss) } else { (Some(page) == marker).then_some(Trigger::Marker) };
            if let Some(trigger) = trigger {
                let left = wanted - page % wanted;
                let window = state.window(page, left, 32, trigger, cached.saturating_sub(page + 1)).unwrap();
                (cached, marker) = (window.start + window.pages, window.marker);
                windows.push((page, window.start, window.pages, window.marker.unwrap()));
            }
            state.has_read(page);
            page += 1;
        }
        windows
    }

    #[test]
    fn windows_of_a_sequential_reader_grow_to_the_limit() {
        // As in the documentation of the kernel: 4, then 8, 16, 32 pages, begun at the marker.
        assert_eq!(
            sequential(70, 1),
            [(0, 0, 4, 1), (1, 4, 8, 4), (4, 12, 16, 12), (12, 28, 32, 28), (28, 60, 32, 60), (60, 92, 32, 92)]
        );
    }

    #[test]
    fn large_read_at_the_start_of_a_file_gets_the_largest_window() {
        assert_eq!(sequential(64, 16)[..2], [(0, 0, 32, 16), (16, 32, 32, 32)]);
        assert_eq!(sequential(8, 32), [(0, 0, 64, 32)]);
    }

    #[test]
    fn random_read_reads_the_wanted_pages_only() {
        let mut state = ReadAhead::default();
        assert_eq!(state.window(100, 2, 32, Trigger::Miss, 0), Some(Window { start: 100, pages: 2, marker: None }));
        state.has_read(101);
        assert_eq!(state.window(50, 1, 32, Trigger::Miss, 0), Some(Window { start: 50, pages: 1, marker: None }));
        state.has_read(50);
        let next = state.window(51, 1, 32, Trigger::Miss, 0);
        assert_eq!(next, Some(Window { start: 51, pages: 4, marker: Some(52) }), "two in a row are sequential");
    }

    #[test]
    fn window_at_another_readers_marker_begins_after_the_cached_pages() {
        let mut state = ReadAhead::default();
        assert_eq!(
            state.window(10, 1, 32, Trigger::Marker, 5),
            Some(Window { start: 16, pages: 14, marker: Some(16) })
        );
        assert_eq!(ReadAhead::default().window(10, 1, 32, Trigger::Marker, 32), None);
    }

    #[test]
    fn without_read_ahead_a_miss_reads_the_wanted_pages_only() {
        let mut state = ReadAhead::default();
        assert_eq!(state.window(0, 3, 0, Trigger::Miss, 0), Some(Window { start: 0, pages: 3, marker: None }));
        assert_eq!(state.window(0, 3, 0, Trigger::Marker, 0), None);
    }
}
