//! The offset and the length of the next access of a job (fio 3.33, `io_u.c`).

use rand::{Rng, RngExt};

use super::distribution::Distribution;
use super::options::{Lengths, Options};
use super::visited::Visited;

/// The number of times that a length that does not fit is drawn again before the shortest is used.
const DRAWS: u32 = 64;

/// A part of the file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// The state of the accesses of one process to its file.
#[derive(Clone, Debug)]
pub(super) struct Places {
    start: u64,
    end: u64,
    lengths: [Lengths; 3],
    align: [u64; 3],
    random: bool,
    random_percent: [u64; 3],
    wraps: bool,
    /// The offset of the next sequential access in each direction.
    positions: [u64; 3],
    distributions: [Distribution; 3],
    visited: Option<Visited>,
}

/// The shortest of these lengths.
pub(super) fn shortest(lengths: &Lengths) -> u64 {
    lengths.iter().map(|&(bytes, _)| bytes).min().unwrap_or(1)
}

/// The longest of these lengths.
pub(super) fn longest(lengths: &Lengths) -> u64 {
    lengths.iter().map(|&(bytes, _)| bytes).max().unwrap_or(1)
}

impl Places {
    /// The accesses to `region` bytes from `start` on.
    pub(super) fn new(job: &Options, start: u64, region: u64) -> Places {
        let align: [u64; 3] =
            std::array::from_fn(|direction| job.align[direction].unwrap_or(shortest(&job.lengths[direction])));
        // An access at the last block ends within the region.
        let blocks: [u64; 3] = std::array::from_fn(|direction| {
            let over = shortest(&job.lengths[direction]).saturating_sub(align[direction]);
            region.saturating_sub(over) / align[direction]
        });
        let has_map = job.random && job.maps();
        let direction = (0..3).find(|&direction| job.kind.has(direction)).unwrap_or(0);
        Places {
            start,
            end: start + region,
            lengths: job.lengths.clone(),
            align,
            random: job.random,
            random_percent: job.random_percent,
            wraps: job.time_based,
            positions: [start; 3],
            distributions: blocks.map(|blocks| job.law.over(blocks)),
            visited: has_map.then(|| Visited::none_of(blocks[direction])),
        }
    }

    /// Returns to the start of a pass.
    pub(super) fn restart(&mut self) {
        self.positions = [self.start; 3];
        if let Some(visited) = &mut self.visited {
            visited.clear();
        }
    }

    /// The next access of a direction; `None` when the pass is over.
    pub(super) fn next(&mut self, direction: usize, generator: &mut impl Rng) -> Option<Piece> {
        let percent = self.random_percent[direction];
        let at_random = self.random && (percent == 100 || generator.random_range(0..100) < percent);
        let in_sequence = if at_random { None } else { self.sequential(direction) };
        let offset = match in_sequence {
            Some(offset) => offset,
            None if self.random => self.random(direction, generator)?,
            None => return None,
        };
        let mut bytes = self.length(direction, offset, generator)?;
        if let Some(visited) = self.visited.as_mut().filter(|_| in_sequence.is_none()) {
            let align = self.align[direction];
            let blocks = visited.visit((offset - self.start) / align, bytes.div_ceil(align));
            bytes = bytes.min(blocks * align);
        }
        self.positions[direction] = offset + bytes;
        Some(Piece { offset, bytes })
    }

    fn sequential(&mut self, direction: usize) -> Option<u64> {
        let shortest = shortest(&self.lengths[direction]);
        if self.positions[direction] + shortest > self.end {
            if !self.wraps {
                return None;
            }
            self.positions[direction] = self.start;
        }
        Some(self.positions[direction])
    }

    fn random(&self, direction: usize, generator: &mut impl Rng) -> Option<u64> {
        let drawn = self.distributions[direction].sample(generator);
        let block = self.visited.as_ref().map_or(Some(drawn), |visited| visited.next_free(drawn))?;
        Some(self.start + block * self.align[direction])
    }

    /// A length that fits, if there is one.
    fn length(&self, direction: usize, offset: u64, generator: &mut impl Rng) -> Option<u64> {
        let lengths = &self.lengths[direction];
        let available = self.end - offset;
        let shortest = shortest(lengths);
        if shortest > available {
            return None;
        }
        if lengths.len() == 1 {
            return Some(shortest);
        }
        let weights: u32 = lengths.iter().map(|&(_, weight)| weight).sum();
        for _ in 0..DRAWS {
            let mut drawn = generator.random_range(0..weights);
            for &(bytes, weight) in lengths {
                if drawn < weight {
                    if bytes <= available {
                        return Some(bytes);
                    }
                    break;
                }
                drawn -= weight;
            }
        }
        Some(shortest)
    }
}
