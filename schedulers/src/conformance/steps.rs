//! Random sequences of calls, and how they read.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::Operation;

/// One call of a scheduler, or of its surroundings. Picks are taken modulo the number of candidates; without a
/// candidate nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is what its name says")]
pub enum Step {
    /// A request arrives. The stream decides its VM, its priority and whether somebody waits for it.
    Insert { lba: u64, sectors: u64, operation: Operation, stream: u32 },
    /// Time passes.
    Pass { us: u64 },
    /// Time passes up to the last wait that the scheduler asked for.
    FollowWait,
    /// The level below takes so many more requests.
    Dispatch { reads: u32, writes: u32 },
    /// A request that was sent completes.
    Complete { pick: usize },
    /// A request that was sent comes back unserved.
    Requeue { pick: usize },
    /// A waiting request is cancelled.
    Remove { pick: usize },
    /// Another policy sends a waiting request.
    Follow { pick: usize },
    /// A waiting request grows at its end.
    BackMerge { pick: usize, sectors: u64 },
    /// A waiting request grows at its start.
    FrontMerge { pick: usize, sectors: u64 },
    /// One waiting request is joined behind another.
    Join { pick: usize, with: usize },
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Insert { lba, sectors, operation, stream } => {
                write!(formatter, "insert a {operation} of {sectors} sectors at {lba}, stream {stream}")
            }
            Step::Pass { us } => write!(formatter, "{us} us pass"),
            Step::FollowWait => formatter.write_str("time passes up to the last wait"),
            Step::Dispatch { reads, writes } => {
                write!(formatter, "dispatch with capacity for {reads} reads and {writes} others")
            }
            Step::Complete { pick } => write!(formatter, "the sent request number {pick} completes"),
            Step::Requeue { pick } => write!(formatter, "the sent request number {pick} comes back unserved"),
            Step::Remove { pick } => write!(formatter, "the waiting request number {pick} is cancelled"),
            Step::Follow { pick } => write!(formatter, "another policy sends the waiting request number {pick}"),
            Step::BackMerge { pick, sectors } => {
                write!(formatter, "the waiting request number {pick} grows by {sectors} sectors at its end")
            }
            Step::FrontMerge { pick, sectors } => {
                write!(formatter, "the waiting request number {pick} grows by {sectors} sectors at its start")
            }
            Step::Join { pick, with } => {
                write!(formatter, "the waiting request number {with} is joined behind number {pick}")
            }
        }
    }
}

/// A random sequence of up to 250 steps, the same for the same seed.
pub fn random_steps(seed: u64) -> Vec<Step> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let count = random.random_range(1..=250);
    (0..count).map(|_| random_step(&mut random)).collect()
}

/// A step; arrivals and dispatches are most frequent, and addresses often equal or adjacent.
fn random_step(random: &mut Xoshiro256PlusPlus) -> Step {
    let pick = |random: &mut Xoshiro256PlusPlus| random.random_range(0..1000);
    match random.random_range(0..29) {
        0..8 => {
            let lba = match random.random_range(0..3) {
                0 => random.random_range(0..2000),
                1 => random.random_range(0..20) * 8,
                _ => 999_999,
            };
            let operation = match random.random_range(0..6) {
                0..3 => Operation::Read,
                3..5 => Operation::Write,
                _ => Operation::Discard,
            };
            let (sectors, stream) = (random.random_range(0..300), random.random_range(0..4));
            Step::Insert { lba, sectors, operation, stream }
        }
        8..10 => Step::Pass { us: random.random_range(0..20_000) },
        10 => Step::FollowWait,
        11..19 => Step::Dispatch { reads: random.random_range(0..3), writes: random.random_range(0..3) },
        19..23 => Step::Complete { pick: pick(random) },
        23 => Step::Requeue { pick: pick(random) },
        24 => Step::Remove { pick: pick(random) },
        25 => Step::Follow { pick: pick(random) },
        26 => Step::BackMerge { pick: pick(random), sectors: random.random_range(1..50) },
        27 => Step::FrontMerge { pick: pick(random), sectors: random.random_range(1..50) },
        _ => Step::Join { pick: pick(random), with: pick(random) },
    }
}
