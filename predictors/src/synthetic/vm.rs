//! Machines drawn at random.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Sectors};
use workloads::Guest;
use workloads::guest::files::Files;
use workloads::guest::journal::Journal;
use workloads::guest::memory::MemorySettings;
use workloads::programs;

use super::{SetupError, spec};

/// Pages of each machine's cache: 32 MiB.
const PAGES: u32 = 8192;

/// A machine: what its processes do, and where its disk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VmPlan {
    name: String,
    seed: u64,
    place: Lba,
    size: Sectors,
    pub(super) workloads: Vec<String>,
}

impl VmPlan {
    /// The `vm`th of the `setup`th setup, whose disk is the `vm`th of equal shares. The same for the same seed.
    pub(super) fn draw(seed: u64, setup: usize, vm: usize, share: Sectors) -> VmPlan {
        let number = seed.wrapping_mul(1 << 16).wrapping_add((setup * 256 + vm) as u64);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
        let size_mb = (share.bytes() >> 20) / 8;
        let mut workloads: Vec<String> = (0..random.random_range(1..=2)).map(|_| reads(&mut random, size_mb)).collect();
        // Four of five write, too.
        if random.random_range(0..5) > 0 {
            workloads.push(writes(&mut random, size_mb));
        }
        VmPlan {
            name: super::Campaign::name(setup, vm),
            seed: number,
            place: Lba::new(share.count() * vm as u64),
            size: share,
            workloads,
        }
    }

    /// Its processes, ready to run.
    pub(super) fn boot(&self) -> Result<Guest, SetupError> {
        let mut files = Files::new(self.size);
        let journal = Journal::new(&mut files)?;
        let mut programs = Vec::new();
        for (index, workload) in self.workloads.iter().enumerate() {
            let workload = programs::build(&spec(workload)?)?;
            programs.extend(workload.processes(&mut files, self.seed.wrapping_add(index as u64))?);
        }
        let memory = Some(MemorySettings { pages: PAGES, ..MemorySettings::default() });
        Ok(Guest { name: self.name.clone(), place: self.place, files, journal: Some(journal), memory, programs })
    }
}

fn one_of<T: Copy>(random: &mut Xoshiro256PlusPlus, list: &[T]) -> T {
    list[random.random_range(0..list.len())]
}

/// How many processes there are, over files of up to `size_mb` in all, and how long they think.
fn common(random: &mut Xoshiro256PlusPlus, size_mb: u64) -> String {
    let jobs = random.random_range(1..=4u64);
    let size = (size_mb * random.random_range(10..=100) / 100 / jobs).max(16);
    let think = one_of(random, &[2, 5, 10, 20, 50]);
    format!("numjobs={jobs},size={size}m,runtime=1h,thinktime={think}ms")
}

/// Processes that read.
fn reads(random: &mut Xoshiro256PlusPlus, size_mb: u64) -> String {
    let common = common(random, size_mb);
    match random.random_range(0..3) {
        0 => format!("fio:rw=read,direct=on,bs={}k,{common}", one_of(random, &[64, 128, 256])),
        _ => format!("fio:rw=randread,direct=on,bs={}k,{common}", one_of(random, &[4, 8, 16, 64])),
    }
}

/// Processes that write: past the page cache, with each write made durable, or into the page cache, from which it is written in bursts.
fn writes(random: &mut Xoshiro256PlusPlus, size_mb: u64) -> String {
    let common = common(random, size_mb);
    let kind = one_of(random, &["direct=on", "direct=off,fsync=1", "direct=off"]);
    format!("fio:rw=randwrite,{kind},bs={}k,{common}", one_of(random, &[4, 8, 16]))
}
