//! Random loads, the same for the same seed: processes with patterns and priorities, depths, gaps of time.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Flags, Lba, Nanos, Operation, Priority, Request, Sectors, StreamId, Timestamp, VmId};

use super::{Difference, Pair};

/// What varies from sequence to sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Whether processes have priorities of all classes.
    pub(crate) classes: bool,
    pub(crate) merges: bool,
    pub(crate) requeues: bool,
    pub(crate) discards: bool,
    pub(crate) idle_gaps: bool,
    /// VMs, among which the processes are dealt out.
    pub(crate) vms: u16,
}

/// All of it, of one VM.
pub(crate) const ALL: Load =
    Load { classes: true, merges: true, requeues: true, discards: true, idle_gaps: true, vms: 1 };

#[derive(Debug)]
struct Process {
    priority: Priority,
    /// Of 8.
    writes: u32,
    sync_writes: bool,
    sequential: bool,
    next: u64,
    sectors: u64,
}

fn priority(random: &mut Xoshiro256PlusPlus) -> Priority {
    let class = random.random_range(0..4);
    Priority::new(class, if class == 0 { 0 } else { random.random_range(0..8) }).unwrap_or(Priority::NONE)
}

/// A number whose logarithm is even.
fn spread(random: &mut Xoshiro256PlusPlus, most: u64) -> u64 {
    let bits = random.random_range(0..=most.ilog2());
    random.random_range(1..=(1_u64 << bits)).min(most)
}

struct Random {
    random: Xoshiro256PlusPlus,
    processes: Vec<Process>,
    load: Load,
    footprint: u64,
}

impl Random {
    fn request(&mut self) -> Request {
        let random = &mut self.random;
        let which = random.random_range(0..self.processes.len());
        let process = &mut self.processes[which];
        if self.load.classes && random.random_range(0..200) == 0 {
            process.priority = priority(random);
        }
        let operation = match random.random_range(0..8) {
            roll if roll < process.writes => Operation::Write,
            _ => Operation::Read,
        };
        let operation =
            if self.load.discards && random.random_range(0..50) == 0 { Operation::Discard } else { operation };
        let sectors = if random.random_range(0..16) == 0 { spread(random, 1024) } else { process.sectors };
        if !process.sequential || random.random_range(0..64) == 0 {
            process.next = random.random_range(0..self.footprint) * 8;
        }
        let mut request = Request::new(Timestamp::ZERO, operation, Lba::new(process.next), Sectors::new(sectors));
        process.next += sectors;
        request.stream = StreamId(which as u32);
        request.vm = VmId(which as u16 % self.load.vms);
        request.cpu = which as u16 % 4;
        request.priority = process.priority;
        if operation == Operation::Write && process.sync_writes {
            request.flags = Flags::SYNC;
        }
        if random.random_range(0..32) == 0 {
            request.flags |= Flags::META;
        }
        request
    }

    fn gap(&mut self, mean_ns: u64, tick_ns: u64, now: Timestamp) -> Nanos {
        let random = &mut self.random;
        let ns = match random.random_range(0..1000) {
            0..2 if self.load.idle_gaps => spread(random, 20_000_000_000),
            2..10 => tick_ns - now.as_ns() % tick_ns,
            10..14 => tick_ns - now.as_ns() % tick_ns - 1,
            _ => random.random_range(0..=2 * mean_ns),
        };
        Nanos::from_ns(ns)
    }
}

/// Runs one sequence of about `steps` steps.
///
/// # Errors
/// The first difference.
pub(crate) fn run(pair: &mut Pair, seed: u64, load: Load, steps: u32) -> Result<(), Difference> {
    pair.merges = load.merges;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let depth = spread(&mut random, 1024) as usize;
    let in_flight = spread(&mut random, 32) as usize;
    let mean_ns = spread(&mut random, 4_000_000).max(1000);
    let footprint = 1 << random.random_range(6..24);
    let count = random.random_range(1..=8);
    let processes = (0..count).map(|_| Process {
        priority: if load.classes { priority(&mut random) } else { Priority::NONE },
        writes: random.random_range(0..=8),
        sync_writes: random.random(),
        sequential: random.random(),
        next: random.random_range(0..1 << 20) * 8,
        sectors: 8 << random.random_range(0..6),
    });
    let processes = processes.collect();
    let mut random = Random { random, processes, load, footprint };
    let fills = random.random.random_range(1..=8);
    for _ in 0..steps {
        let gap = random.gap(mean_ns, 4_000_000, pair.now);
        let gap = match pair.wait().filter(|_| random.random.random_range(0..4) == 0) {
            Some(wait) => wait.max(pair.now).since(pair.now),
            None => gap,
        };
        pair.pass(gap, in_flight.saturating_sub(pair.sent.len()) as u32)?;
        if random.random.random_range(0..8) < fills {
            let room = depth.saturating_sub(pair.waiting.len());
            let batch = spread(&mut random.random, 8) as usize;
            for _ in 0..batch.min(room) {
                let request = random.request();
                pair.arrive(request)?;
            }
            pair.dispatch(in_flight.saturating_sub(pair.sent.len()) as u32)?;
        }
        if !pair.sent.is_empty() {
            let nth = if random.random.random() { 0 } else { random.random.random_range(0..pair.sent.len()) };
            let id = pair.sent.keys().nth(nth).copied().unwrap_or_default();
            if load.requeues && random.random.random_range(0..300) == 0 {
                pair.requeue(id);
            } else {
                pair.complete(id);
            }
        }
        pair.dispatch(in_flight.saturating_sub(pair.sent.len()) as u32)?;
    }
    Ok(())
}
