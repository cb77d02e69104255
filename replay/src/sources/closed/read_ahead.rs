//! Where a batch of reads lies in its file, as the sizes of the batches tell.
//!
//! A page cache reads a file ahead in windows (`get_init_ra_size` and `get_next_ra_size`, `mm/readahead.c`, Linux 6.1).
//! Each is at least twice as large as the one before, up to the largest. So a smaller one ends its file, and the next
//! file may begin where it ends. Of pages that are in the cache already nothing is read, so a window may have holes.
//!
//! What a program goes through before the next window is sent depends on the place. The second window of a file is sent
//! from within the first. A later one is sent as the program comes to the beginning of the window before it.

use std::collections::BTreeMap;

use traces::Sectors;

/// Largest part of a window that is in the cache already: a quotient of one by so many. Set by judgement; not varied.
const HOLE_QUOTIENT: u64 = 8;

/// The place of a batch among those of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    First,
    Second,
    Later,
}

/// The batch that was sent last, by size and place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) place: Place,
    /// What the program had not gone through yet as the batch before began, but for that batch itself. About half of a
    /// first batch is left when the second one begins.
    pub(super) left: Sectors,
    size: Sectors,
    /// The size of the batch before.
    before: Sectors,
}

impl Window {
    /// A batch begins with a request of `size`, so far behind the end of the batch before; `gap` is `None` if it lies
    /// elsewhere. The largest windows are of size `largest`.
    pub(super) fn begin(&mut self, largest: Sectors, gap: Option<Sectors>, size: Sectors) {
        let reads_on = gap.is_some_and(|gap| gap.count() <= largest.count() / HOLE_QUOTIENT);
        let place = match self.place {
            _ if !reads_on || self.ends_file(largest, size) => Place::First,
            Place::First => Place::Second,
            Place::Second | Place::Later => Place::Later,
        };
        let left = match self.place {
            Place::First => Sectors::new(0),
            Place::Second => Sectors::new(self.before.count() / 2),
            Place::Later => self.before,
        };
        *self = Window { place, left, size, before: self.size };
    }

    /// The batch has another request of this size.
    pub(super) fn add(&mut self, size: Sectors) {
        self.size += size;
    }

    /// Whether the batch is the last one of its file. The next batch begins with a request of size `next`.
    fn ends_file(&self, largest: Sectors, next: Sectors) -> bool {
        let without_holes = |size: u64| size - size / HOLE_QUOTIENT;
        let (size, largest) = (self.size.count(), largest.count());
        match self.place {
            // Windows begin with a power of two. The second one of a file is larger.
            Place::First => size < without_holes(largest) && !(size.is_power_of_two() && next.count() > size),
            Place::Second | Place::Later => size < without_holes(largest.min(self.before.count().saturating_mul(2))),
        }
    }
}

/// The size of the largest windows: the size of the batches by which most was read.
pub(super) fn largest(batches: impl Iterator<Item = Sectors>) -> Sectors {
    let mut read: BTreeMap<u64, u64> = BTreeMap::new();
    for size in batches {
        *read.entry(size.count()).or_default() += size.count();
    }
    let most = read.into_iter().max_by_key(|(_, read)| *read);
    Sectors::new(most.map_or(0, |(size, _)| size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Place::{First, Later, Second};

    /// The places of batches of these sizes, each with its gap from the one before. The largest have 512 sectors.
    fn places(batches: &[(Option<u64>, u64)]) -> Vec<Place> {
        let mut window = Window::default();
        let mut place = |&(gap, size): &(Option<u64>, u64)| {
            window.begin(Sectors::new(512), gap.map(Sectors::new), Sectors::new(size));
            window.place
        };
        batches.iter().map(&mut place).collect()
    }

    /// The same, of batches that each begin where the one before ends, but for the first.
    fn places_of(sizes: &[u64]) -> Vec<Place> {
        let gap = |number: usize| (number > 0).then_some(0);
        places(&sizes.iter().enumerate().map(|(number, size)| (gap(number), *size)).collect::<Vec<_>>())
    }

    #[test]
    fn windows_of_a_file_grow_and_a_smaller_one_ends_it() {
        assert_eq!(places_of(&[64, 128, 256, 512, 512, 512]), [First, Second, Later, Later, Later, Later]);
        assert_eq!(places_of(&[64, 128, 256, 512, 300, 64]), [First, Second, Later, Later, Later, First]);
        assert_eq!(places_of(&[64, 128, 200, 512]), [First, Second, Later, First], "a third window has 256");
        assert_eq!(places_of(&[64, 100, 64, 128]), [First, Second, First, Second]);
        assert_eq!(places_of(&[512, 512, 512]), [First, Second, Later]);
        // Two windows of a file were sent together.
        assert_eq!(places_of(&[64, 768, 512, 512]), [First, Second, Later, Later]);
    }

    #[test]
    fn file_of_one_window_is_followed_by_another_file() {
        assert_eq!(places_of(&[40, 40, 64, 512]), [First, First, First, Second]);
        assert_eq!(places_of(&[64, 64, 64]), [First, First, First], "a second window is larger");
        assert_eq!(places_of(&[300, 512, 512]), [First, First, Second]);
    }

    #[test]
    fn batch_that_lies_elsewhere_begins_a_file() {
        let full = |gap| (gap, 512);
        assert_eq!(places(&[full(None), full(Some(0)), full(None)]), [First, Second, First]);
        assert_eq!(places(&[full(None), full(Some(64)), full(Some(65))]), [First, Second, First]);
    }

    #[test]
    fn windows_with_holes_end_no_file() {
        assert_eq!(places_of(&[512, 448, 480, 512]), [First, Second, Later, Later]);
        assert_eq!(places_of(&[512, 447, 480, 512]), [First, Second, First, Second]);
        assert_eq!(places_of(&[448, 512]), [First, Second]);
        assert_eq!(places_of(&[447, 512]), [First, First]);
    }

    #[test]
    fn program_has_left_what_lies_before_the_batch_before() {
        let mut window = Window::default();
        let mut left = |size: u64| {
            window.begin(Sectors::new(512), Some(Sectors::new(0)), Sectors::new(size));
            window.left.count()
        };
        assert_eq!([64, 128, 256, 512, 512].map(&mut left), [0, 0, 32, 128, 256]);
    }

    #[test]
    fn requests_of_a_batch_are_one_window() {
        let mut window = Window::default();
        let begin = |window: &mut Window| {
            window.begin(Sectors::new(512), Some(Sectors::new(0)), Sectors::new(256));
            window.place
        };
        assert_eq!(begin(&mut window), First);
        window.add(Sectors::new(256));
        assert_eq!(begin(&mut window), Second);
        assert_eq!(begin(&mut window), First, "256 sectors end the file");
    }

    #[test]
    fn largest_windows_are_those_by_which_most_is_read() {
        let of = |sizes: &[u64]| largest(sizes.iter().map(|size| Sectors::new(*size))).count();
        assert_eq!(of(&[64, 64, 64, 64, 512, 8]), 512);
        assert_eq!(of(&[64, 64, 64, 64, 128, 8]), 64);
        assert_eq!(of(&[]), 0);
    }
}
