//! The block allocator of a guest's file system, after ext3 (Linux 2.6.30 `fs/ext3/balloc.c`, `ialloc.c`). It has block
//! groups and a home group for each directory. It takes the first free blocks after a goal, preferably in runs of a
//! minimum length as ext3's reservation windows make them.
//!
//! Left out: windows held for files that may grow; the inode tables, bitmaps and superblocks at the start of a group;
//! indirect blocks; and the blocks reserved for root.

/// Blocks of a group, 128 MiB: one for each bit of a bitmap of one 4 KiB block.
const GROUP: u32 = 32_768;

/// The shortest run that is searched before any free block is taken (`EXT3_DEFAULT_RESERVE_BLOCKS`).
const WINDOW: u32 = 8;

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// The first block.
    pub(super) block: u32,
    /// The number of blocks.
    pub(super) blocks: u32,
}

impl Run {
    pub(super) fn end(self) -> u32 {
        self.block + self.blocks
    }
}

/// The free blocks of a disk: one bit for each block, set if it is used.
#[derive(Clone, Debug)]
pub(super) struct Allocator {
    used: Vec<u64>,
    blocks: u32,
    /// For each group and each length of a run from 1 to [`WINDOW`] blocks: no run that long begins in the group before
    /// this block. A search begins there, so that the files of a group are not passed again for every new one.
    first: Vec<[u32; WINDOW as usize]>,
    free: u64,
}

impl Allocator {
    pub(super) fn new(blocks: u32) -> Allocator {
        let mut used = vec![0; blocks.div_ceil(64) as usize];
        if !blocks.is_multiple_of(64) {
            *used.last_mut().expect("there is a block") = u64::MAX << (blocks % 64);
        }
        let first = (0..blocks.div_ceil(GROUP)).map(|group| [group * GROUP; WINDOW as usize]).collect();
        Allocator { used, blocks, first, free: blocks.into() }
    }

    pub(super) fn free_blocks(&self) -> u64 {
        self.free
    }

    pub(super) fn groups(&self) -> u32 {
        self.first.len() as u32
    }

    /// The first block of the group in which the files of a directory begin. Directories are spread over the groups one
    /// after another.
    pub(super) fn home_of(&self, directory: u32) -> u32 {
        directory % self.first.len().max(1) as u32 * GROUP
    }

    /// Allocates `needed` blocks from `goal` on, continuing at the start of the disk: all of them or none.
    pub(super) fn allocate(&mut self, goal: u32, needed: u32, runs: &mut Vec<Run>) -> bool {
        if u64::from(needed) > self.free_blocks() {
            return false;
        }
        let mut left = needed;
        let mut goal = goal;
        while left > 0 {
            let run = self.find(goal, left.min(WINDOW)).or_else(|| self.find(goal, 1));
            let start = run.expect("so many are free");
            let run = Run { block: start, blocks: self.free_from(start, left) };
            self.set(run, true);
            runs.push(run);
            left -= run.blocks;
            goal = run.end();
        }
        true
    }

    pub(super) fn free(&mut self, run: Run) {
        self.set(run, false);
        // A run that has become long enough begins before the freed one by less than its length.
        let from = run.block.saturating_sub(WINDOW - 1);
        for group in from / GROUP..=(run.end() - 1) / GROUP {
            for first in &mut self.first[group as usize] {
                *first = (*first).min(from.max(group * GROUP));
            }
        }
    }

    /// The first run of at least `least` free blocks at or after `goal`, or else from the start of the disk.
    fn find(&mut self, goal: u32, least: u32) -> Option<u32> {
        let goal = if goal < self.blocks { goal } else { 0 };
        self.find_within(goal, self.blocks, least).or_else(|| {
            // A run that begins before the goal may extend beyond it.
            self.find_within(0, goal.saturating_add(least).min(self.blocks), least)
        })
    }

    /// The first block from `from` to before `to` at which a run of at least `least` free blocks begins.
    fn find_within(&mut self, from: u32, to: u32, least: u32) -> Option<u32> {
        let mut from = from;
        while from < to {
            let group = (from / GROUP) as usize;
            let end = to.min((group as u32 + 1).saturating_mul(GROUP));
            let known = self.first[group][least as usize - 1];
            let found = self.scan(from.max(known), end, least);
            if from <= known {
                self.first[group][least as usize - 1] = known.max(found.unwrap_or(end));
            }
            if found.is_some() {
                return found;
            }
            from = end;
        }
        None
    }

    /// The same, block by block.
    fn scan(&self, from: u32, to: u32, least: u32) -> Option<u32> {
        let mut block = from;
        while block < to {
            let word = self.used[(block / 64) as usize] | !(u64::MAX << (block % 64));
            if word == u64::MAX {
                block = (block / 64 + 1) * 64;
                continue;
            }
            block = block / 64 * 64 + word.trailing_ones();
            if block >= to {
                return None;
            }
            let blocks = self.free_from(block, least);
            if blocks >= least {
                return Some(block);
            }
            block += blocks;
        }
        None
    }

    /// The number of consecutive free blocks from a free one on, at most `most`.
    fn free_from(&self, block: u32, most: u32) -> u32 {
        let mut end = block;
        while end < self.blocks && end - block < most {
            let word = self.used[(end / 64) as usize] >> (end % 64);
            let free = word.trailing_zeros().min(64 - end % 64);
            end += free;
            if !end.is_multiple_of(64) || free == 0 {
                break;
            }
        }
        (end.min(self.blocks) - block).min(most)
    }

    fn set(&mut self, run: Run, used: bool) {
        let mut block = run.block;
        while block < run.end() {
            let bit = block % 64;
            let count = (64 - bit).min(run.end() - block);
            let mask = (u64::MAX >> (64 - count)) << bit;
            let word = &mut self.used[(block / 64) as usize];
            debug_assert_eq!(*word & mask == 0, used, "a block is taken once and freed once");
            *word ^= mask;
            block += count;
        }
        let blocks = u64::from(run.blocks);
        self.free = if used { self.free - blocks } else { self.free + blocks };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_of_a_window_are_preferred_to_single_blocks() {
        let mut allocator = Allocator::new(200);
        let mut runs = Vec::new();
        assert!(allocator.allocate(0, 200, &mut runs));
        for (block, blocks) in [(10, 3), (40, 9), (130, 70)] {
            allocator.free(Run { block, blocks });
        }
        runs.clear();
        assert!(allocator.allocate(5, 20, &mut runs));
        assert_eq!(runs, [Run { block: 40, blocks: 9 }, Run { block: 130, blocks: 11 }]);
        runs.clear();
        assert!(allocator.allocate(5, 2, &mut runs), "a small file fits the small hole");
        assert_eq!(runs, [Run { block: 10, blocks: 2 }]);
        runs.clear();
        assert!(allocator.allocate(190, 15, &mut runs), "over the end to the start");
        assert_eq!(runs, [Run { block: 190, blocks: 10 }, Run { block: 141, blocks: 5 }]);
        assert!(!allocator.allocate(0, 200, &mut runs));
    }

    #[test]
    fn directories_are_spread_over_the_groups() {
        let allocator = Allocator::new(3 * GROUP - 5);
        assert_eq!([0, 1, 2, 3].map(|directory| allocator.home_of(directory)), [0, GROUP, 2 * GROUP, 0]);
        assert_eq!(allocator.free_blocks(), u64::from(3 * GROUP - 5));
    }

    /// The runs that an allocation takes, found block by block in a plain map of the disk.
    fn slow(used: &mut [bool], goal: u32, needed: u32) -> Vec<Run> {
        let mut runs = Vec::new();
        let (mut left, mut goal) = (needed as usize, goal as usize);
        while left > 0 {
            let is_free = |block: usize, least: usize| used[block..].iter().take_while(|used| !**used).count() >= least;
            let goal_or_start = if goal < used.len() { goal } else { 0 };
            let find = |least| (goal_or_start..used.len()).chain(0..goal_or_start).find(|&block| is_free(block, least));
            let block = find(left.min(WINDOW as usize)).or_else(|| find(1)).unwrap();
            let free = used[block..].iter().take_while(|used| !**used).count();
            let blocks = free.min(left);
            used[block..block + blocks].fill(true);
            runs.push(Run { block: block as u32, blocks: blocks as u32 });
            (left, goal) = (left - blocks, block + blocks);
        }
        runs
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// On an aged disk of three groups, holes lie across words and groups.
        #[test]
        fn search_from_the_first_known_hole_finds_what_a_search_block_by_block_does(
            steps in prop::collection::vec((0_u8..3, 0_u32..3, 0_u32..400, 1_u32..40, any::<prop::sample::Index>()), 1..300),
        ) {
            let blocks = 2 * GROUP + 300;
            let (mut allocator, mut used) = (Allocator::new(blocks), vec![false; blocks as usize]);
            let mut taken = Vec::new();
            // The ends of the groups alone are free, so that few blocks decide.
            for (block, end) in [(200, GROUP - 200), (GROUP + 200, 2 * GROUP - 200)] {
                allocator.set(Run { block, blocks: end - block }, true);
                used[block as usize..end as usize].fill(true);
            }
            for (kind, group, offset, needed, pick) in steps {
                if kind == 0 && !taken.is_empty() {
                    let run: Run = taken.swap_remove(pick.index(taken.len()));
                    allocator.free(run);
                    used[run.block as usize..run.end() as usize].fill(false);
                } else {
                    let goal = if kind == 1 { group * GROUP } else { (group * GROUP + offset).saturating_sub(200) };
                    let mut runs = Vec::new();
                    if allocator.allocate(goal, needed, &mut runs) {
                        prop_assert_eq!(&runs, &slow(&mut used, goal, needed));
                        taken.append(&mut runs);
                    }
                }
                prop_assert_eq!(allocator.free_blocks(), used.iter().filter(|used| !**used).count() as u64);
            }
        }
    }
}
