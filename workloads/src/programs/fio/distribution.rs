//! The distribution of random accesses over the blocks of a file (`random_distribution`): uniform, Zipf or Pareto.

use rand::{Rng, RngExt};

use crate::programs::generators::unit;

/// The distribution, as the job file names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Law {
    /// `random`: every block is equally likely.
    Uniform,
    /// `zipf:θ`: the block of rank r has a probability proportional to r^-θ.
    Zipf(f64),
    /// `pareto:h`: a share h of the blocks gets a share 1-h of the accesses; the same holds within that share.
    Pareto(f64),
}

/// A distribution over a number of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distribution {
    blocks: u64,
    /// Maps a rank to a block.
    multiplier: u64,
    kind: Kind,
}

impl Distribution {
    /// The block of a rank.
    fn place(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.multiplier) % u128::from(self.blocks)) as u64
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Uniform,
    Zipf { theta: f64, zeta: f64, eta: f64 },
    Pareto { power: f64 },
}

impl Law {
    /// The distribution over `blocks` blocks, at least one.
    pub(super) fn over(self, blocks: u64) -> Distribution {
        let kind = match self {
            Law::Uniform => Kind::Uniform,
            Law::Zipf(theta) => {
                let zeta = zeta(blocks, theta);
                let two = 1.0 + libm::pow(0.5, theta);
                let eta = (1.0 - libm::pow(2.0 / blocks as f64, 1.0 - theta)) / (1.0 - two / zeta);
                Kind::Zipf { theta, zeta, eta }
            }
            Law::Pareto(h) => Kind::Pareto { power: libm::log(h) / libm::log(1.0 - h) },
        };
        let blocks = blocks.max(1);
        Distribution { blocks, multiplier: multiplier(blocks), kind }
    }
}

impl Distribution {
    /// The next block. Frequent blocks are spread over the file, as in fio.
    pub(super) fn sample(&self, generator: &mut impl Rng) -> u64 {
        let blocks = self.blocks;
        let rank = match self.kind {
            Kind::Uniform => return generator.random_range(0..blocks),
            Kind::Zipf { theta, zeta, eta } => {
                // Gray et al. 1994, "Quickly generating billion-record synthetic databases", section 3.2.
                let u = unit(generator);
                if u * zeta < 1.0 || blocks == 1 {
                    0
                } else if u * zeta < 1.0 + libm::pow(0.5, theta) || blocks == 2 {
                    1
                } else {
                    (blocks as f64 * libm::pow(eta * u - eta + 1.0, 1.0 / (1.0 - theta))) as u64
                }
            }
            Kind::Pareto { power } => ((blocks - 1) as f64 * libm::pow(unit(generator), power)) as u64,
        };
        self.place(rank)
    }
}

/// The sum of r^-θ over the ranks 1 to n; for large ranks by the Euler-Maclaurin formula.
fn zeta(n: u64, theta: f64) -> f64 {
    let term = |rank: f64| libm::pow(rank, -theta);
    let summed = n.min(10_000);
    let sum: f64 = (1..=summed).map(|rank| term(rank as f64)).sum();
    if n == summed {
        return sum;
    }
    let (from, to) = (summed as f64, n as f64);
    let integral = (libm::pow(to, 1.0 - theta) - libm::pow(from, 1.0 - theta)) / (1.0 - theta);
    let slopes = -theta * (term(to) / to - term(from) / from);
    sum + integral + (term(to) - term(from)) / 2.0 + slopes / 12.0
}

/// The multiplier that spreads ranks over the blocks: about the golden section of their number, and coprime to it, so
/// that every block has one rank.
fn multiplier(blocks: u64) -> u64 {
    let golden = (blocks as f64 * 0.618_033_988_749_894_9) as u64;
    (golden.max(1)..).find(|&multiplier| greatest_common_divisor(multiplier, blocks) == 1).unwrap_or(1)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::programs::generators::Generators;

    /// The shares of the blocks in 200,000 samples, the most frequent first.
    fn shares(law: Law, blocks: u64) -> Vec<f64> {
        let distribution = law.over(blocks);
        let mut generator = Generators::new(3).take();
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..200_000 {
            *counts.entry(distribution.sample(&mut generator)).or_default() += 1;
        }
        assert!(counts.keys().all(|&block| block < blocks));
        let mut shares: Vec<f64> = counts.values().map(|&count| count as f64 / 2e5).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        shares
    }

    #[test]
    fn zipf_ranks_have_their_theoretical_shares() {
        for theta in [0.6, 1.2] {
            let shares = shares(Law::Zipf(theta), 1 << 40);
            let zeta = zeta(1 << 40, theta);
            for (rank, &share) in shares.iter().enumerate().take(2) {
                let expected = 1.0 / libm::pow(rank as f64 + 1.0, theta) / zeta;
                assert!(expected < 1e-4 || (share / expected - 1.0).abs() < 0.05, "{theta} {rank}: {share} {expected}");
            }
        }
    }

    #[test]
    fn approximated_sum_of_a_long_tail_equals_the_exact_sum() {
        for theta in [0.5, 0.99, 1.2, 2.0] {
            let terms: f64 = (1..=50_000).map(|rank| libm::pow(f64::from(rank), -theta)).sum();
            assert!((zeta(50_000, theta) / terms - 1.0).abs() < 1e-9, "{theta}");
        }
    }

    #[test]
    fn pareto_gives_a_share_of_blocks_the_other_share_of_accesses() {
        // Ranks below h n are a share 1-h: u^power < h where u < 1-h.
        let distribution = Law::Pareto(0.2).over(1_000_000);
        let mut generator = Generators::new(3).take();
        let hot: std::collections::BTreeSet<u64> = (0..200_000).map(|rank| distribution.place(rank)).collect();
        assert_eq!(hot.len(), 200_000, "every rank has a block of its own");
        let hits = (0..100_000).filter(|_| hot.contains(&distribution.sample(&mut generator))).count();
        assert!((hits as f64 / 1e5 - 0.8).abs() < 0.01, "{hits}");
    }

    #[test]
    fn uniform_blocks_are_equally_frequent() {
        let shares = shares(Law::Uniform, 10);
        assert!(shares.iter().all(|share| (share - 0.1).abs() < 0.005), "{shares:?}");
    }
}
