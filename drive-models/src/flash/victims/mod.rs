//! The search for the block with the fewest valid units. There is a list of blocks for every count, so that a unit that
//! becomes invalid moves its block in constant time. Of blocks with equal counts, the one that reached that count last
//! is found first.

const NONE: u32 = u32::MAX;

/// Valid units of every block, and an index of the closed blocks by them.
#[derive(Clone, Debug)]
pub struct Victims {
    valid: Vec<u32>,
    listed: Vec<bool>,
    head: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// No listed block has fewer.
    least: usize,
}

impl Victims {
    /// `blocks` empty blocks of `units`, none of them listed.
    pub fn new(blocks: u32, units: u32) -> Victims {
        let blocks = blocks as usize;
        Victims {
            valid: vec![0; blocks],
            listed: vec![false; blocks],
            head: vec![NONE; units as usize + 1],
            next: vec![NONE; blocks],
            previous: vec![NONE; blocks],
            least: 0,
        }
    }

    /// The valid units of `block`.
    pub fn valid(&self, block: u32) -> u32 {
        self.valid[block as usize]
    }

    /// One more unit of `block`, which is open, is valid.
    pub fn gain(&mut self, block: u32) {
        self.valid[block as usize] += 1;
    }

    /// One unit of `block` is no longer valid.
    pub fn lose(&mut self, block: u32) {
        let index = block as usize;
        if self.listed[index] {
            self.unlink(block);
            self.valid[index] -= 1;
            self.link(block);
        } else {
            self.valid[index] -= 1;
        }
    }

    /// `units` valid ones of the block `from` have gone to the block `to`, neither of which may be collected.
    pub fn relocate(&mut self, from: u32, to: u32, units: u32) {
        self.valid[from as usize] -= units;
        self.valid[to as usize] += units;
    }

    /// `block`, which is empty, is closed with `valid` units.
    pub fn fill(&mut self, block: u32, valid: u32) {
        self.valid[block as usize] = valid;
        self.close(block);
    }

    /// `block` is full: it may be collected.
    pub fn close(&mut self, block: u32) {
        self.listed[block as usize] = true;
        self.link(block);
    }

    /// Takes the block with the fewest valid units out of the index.
    pub fn take_least(&mut self) -> Option<u32> {
        while self.least < self.head.len() {
            let block = self.head[self.least];
            if block != NONE {
                self.unlink(block);
                self.listed[block as usize] = false;
                return Some(block);
            }
            self.least += 1;
        }
        None
    }

    fn link(&mut self, block: u32) {
        let index = block as usize;
        let count = self.valid[index] as usize;
        let first = std::mem::replace(&mut self.head[count], block);
        self.next[index] = first;
        self.previous[index] = NONE;
        if first != NONE {
            self.previous[first as usize] = block;
        }
        self.least = self.least.min(count);
    }

    fn unlink(&mut self, block: u32) {
        let index = block as usize;
        let (previous, next) = (self.previous[index], self.next[index]);
        if previous == NONE {
            self.head[self.valid[index] as usize] = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
    }
}

#[cfg(test)]
mod tests;
