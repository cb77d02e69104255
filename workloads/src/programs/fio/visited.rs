//! The set of blocks of a file that a pass has visited, as a tree of bits; fio calls it the random map.

/// The number of bits of a word.
const BITS: u64 = u64::BITS as u64;

/// A set of blocks. The search for the next block outside the set takes a number of steps that grows with the logarithm
/// of the number of blocks. A bit of an upper level is set when all bits below it are.
#[derive(Clone, Debug)]
pub(super) struct Visited {
    levels: Vec<Vec<u64>>,
    blocks: u64,
    left: u64,
}

impl Visited {
    /// An empty set over this number of blocks.
    pub(super) fn none_of(blocks: u64) -> Visited {
        let mut levels = Vec::new();
        let mut bits = blocks;
        loop {
            let words = bits.div_ceil(BITS);
            let mut level = vec![0; words as usize];
            if let (Some(last), rest @ 1..) = (level.last_mut(), bits % BITS) {
                *last = u64::MAX << rest;
            }
            levels.push(level);
            if words <= 1 {
                return Visited { levels, blocks, left: blocks };
            }
            bits = words;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Visited::none_of(self.blocks);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.left == 0
    }

    fn contains(&self, block: u64) -> bool {
        self.levels[0][(block / BITS) as usize] >> (block % BITS) & 1 == 1
    }

    /// The first block at or after `from` that was not visited, or else the first of all; `None` if all were visited.
    pub(super) fn next_free(&self, from: u64) -> Option<u64> {
        if self.is_complete() {
            return None;
        }
        self.free_from(from).or_else(|| self.free_from(0))
    }

    fn free_from(&self, from: u64) -> Option<u64> {
        let (mut level, mut at) = (0, from);
        // Go up until a word has a free bit at or after the place.
        loop {
            let words = self.levels.get(level)?;
            let free = !words.get((at / BITS) as usize)? & (u64::MAX << (at % BITS));
            if free != 0 {
                at = at / BITS * BITS + u64::from(free.trailing_zeros());
                break;
            }
            at = at / BITS + 1;
            level += 1;
        }
        // Then go down to the block.
        while level > 0 {
            level -= 1;
            at = at * BITS + u64::from(self.levels[level][at as usize].trailing_ones());
        }
        Some(at)
    }

    /// Visits up to `most` blocks from `block` on, but none from the first visited one on. Returns their number.
    pub(super) fn visit(&mut self, block: u64, most: u64) -> u64 {
        let mut visited = 0;
        while visited < most && block + visited < self.blocks && !self.contains(block + visited) {
            self.set(block + visited);
            visited += 1;
        }
        self.left -= visited;
        visited
    }

    fn set(&mut self, block: u64) {
        let mut at = block;
        for level in &mut self.levels {
            let word = &mut level[(at / BITS) as usize];
            *word |= 1 << (at % BITS);
            if *word != u64::MAX {
                return;
            }
            at /= BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compared with a vector of booleans.
        #[test]
        fn it_is_a_set_of_blocks(
            blocks in 1u64..9000, visits in proptest::collection::vec((0u64..9000, 1u64..300), 1..200),
        ) {
            let mut visited = Visited::none_of(blocks);
            let mut plain = vec![false; blocks as usize];
            for (from, most) in visits {
                let from = from % blocks;
                let expected = (from..blocks).chain(0..blocks).find(|&block| !plain[block as usize]);
                prop_assert_eq!(visited.next_free(from), expected);
                let run = (from..blocks).take(most as usize).take_while(|&block| !plain[block as usize]).count() as u64;
                prop_assert_eq!(visited.visit(from, most), run);
                plain[from as usize..(from + run) as usize].fill(true);
                prop_assert_eq!(visited.is_complete(), plain.iter().all(|&seen| seen));
            }
            visited.clear();
            prop_assert_eq!(visited.next_free(blocks - 1), Some(blocks - 1));
        }
    }
}
