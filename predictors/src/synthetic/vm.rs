//! Draws the VMs of synthetic setups at random: fio processes that read and write, in guests with page cache and
//! journal.
//!
//! Every VM has one or two readers; four of five VMs write, too. Processes run in closed loops with fixed think times.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Sectors};
use workloads::Guest;
use workloads::guest::files::Files;
use workloads::guest::journal::Journal;
use workloads::guest::memory::MemorySettings;
use workloads::programs;

use super::{SetupError, spec};

/// Pages of each VM's page cache: 32 MiB.
const PAGES: u32 = 8192;

/// A VM: its workloads and the place of its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VmPlan {
    name: String,
    seed: u64,
    place: Lba,
    size: Sectors,
    pub(super) workloads: Vec<String>,
}

impl VmPlan {
    /// Draws VM number `vm` of setup number `setup`. Its disk is part `vm` of a drive in parts of size `share`. The
    /// draw depends on these numbers only.
    pub(super) fn draw(seed: u64, setup: usize, vm: usize, share: Sectors) -> VmPlan {
        let number = seed.wrapping_mul(1 << 16).wrapping_add((setup * 256 + vm) as u64);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
        let size_mb = (share.bytes() >> 20) / 8;
        let mut workloads: Vec<String> = (0..random.random_range(1..=2)).map(|_| reads(&mut random, size_mb)).collect();
        // Four of five VMs write, too.
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

    /// The same VM with its disk at this place.
    pub(super) fn at(self, place: Lba) -> VmPlan {
        VmPlan { place, ..self }
    }

    /// Builds the guest with its files and processes.
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

/// Draws the tunables that reading and writing processes share: their number, the size of their files (up to `size_mb`
/// MB in all) and their think time.
fn common(random: &mut Xoshiro256PlusPlus, size_mb: u64) -> String {
    let jobs = random.random_range(1..=4u64);
    let size = (size_mb * random.random_range(10..=100) / 100 / jobs).max(16);
    let think = one_of(random, &[2, 5, 10, 20, 50]);
    format!("numjobs={jobs},size={size}m,runtime=1h,thinktime={think}ms")
}

/// Draws a workload that reads, sequentially or at random.
fn reads(random: &mut Xoshiro256PlusPlus, size_mb: u64) -> String {
    let common = common(random, size_mb);
    match random.random_range(0..3) {
        0 => format!("fio:rw=read,direct=on,bs={}k,{common}", one_of(random, &[64, 128, 256])),
        _ => format!("fio:rw=randread,direct=on,bs={}k,{common}", one_of(random, &[4, 8, 16, 64])),
    }
}

/// Draws a workload that writes at random: past the page cache, through it with each write made durable, or into it.
/// The page cache writes dirty pages in bursts.
fn writes(random: &mut Xoshiro256PlusPlus, size_mb: u64) -> String {
    let common = common(random, size_mb);
    let kind = one_of(random, &["direct=on", "direct=off,fsync=1", "direct=off"]);
    format!("fio:rw=randwrite,{kind},bs={}k,{common}", one_of(random, &[4, 8, 16]))
}
