//! Kim, Kang and Choi 2015, "A burstiness-aware I/O scheduler for MapReduce applications on virtualized
//! environments": Figures 2, 3 and 5 to 9. The paper's future work is added: the scheduler on flash and on an array.
//!
//! Four guests on partitions of one SATA disk, under Xen, with cfq in the guests and in the control domain. The paper's
//! scheduler runs between Blkback and cfq (stack `xen-ba`) or is left out (stack `xen-cfq`).

mod figures;
mod scenario;
mod statements;

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use traces::Nanos;
use traces::results::SCHEMA_VERSION;
use traces::results::reproduction::Reproduction;

use self::scenario::{Outcome, Scenario};
use super::{Paper, ReproduceError};

/// The registry's row.
pub const PAPER: Paper = Paper {
    name: "kim2015",
    title: "Kim, Kang, Choi 2015: a burstiness-aware I/O scheduler for VMs",
    jobs: |seeds, _alternatives| scenarios(&vec![0; seeds]).len() as u64,
    reproduce,
};

/// The paper's two stacks: without and with its own scheduler.
const STACKS: [&str; 2] = ["xen-cfq", "xen-ba"];

/// Shares of reads in the sweep over fio's mix, in per cent.
const READS: [u32; 5] = [0, 25, 50, 75, 100];

/// Drives for the future work.
const DEVICES: [&str; 2] = ["sata-ssd", "iscsi-raid5-15"];

const DD: &str = "dd:size=1g";
const IOZONE: &str = "iozone:size=2g";
const TERASORT: &str = "terasort";
/// A VM that is not bursty: 20 reads of 4 KiB a second.
const LIGHT: &str = "fio:rw=randread,bs=4k,size=1g,direct=on,thinktime=50ms,runtime=20s";

fn fio(reads: u32) -> String {
    format!("fio:rw=rw,bs=4k,size=2g,direct=off,rwmixread={reads}")
}

/// The experiment that a job belongs to, in the order of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// One VM or four that read a file of 1 GB.
    Dd { vms: usize },
    /// fio with this share of reads, in per cent.
    Fio(u32),
    /// IOzone's four phases.
    Iozone,
    /// Terasort.
    Terasort,
    /// Four VMs that read for as long as the paper's Terasort took.
    Shares,
    /// Three bursty VMs and one that is not.
    Light,
    /// The reading VMs on another device, by its number.
    Device(usize),
}

/// A job: a part under one of the stacks.
type Job = (Part, usize, Scenario);

/// All jobs. Jobs without random parts run for the first seed only.
fn scenarios(seeds: &[u64]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (nth, &seed) in seeds.iter().enumerate() {
        for (index, stack) in STACKS.into_iter().enumerate() {
            let mut add = |part, scenario| jobs.push((part, index, scenario));
            for reads in READS {
                add(Part::Fio(reads), Scenario::of(4, &fio(reads), stack, seed));
            }
            let mut light = Scenario::of(4, "dd:size=8g", stack, seed);
            light.workloads[3] = LIGHT.to_owned();
            light.time = Some(Nanos::from_s(20));
            add(Part::Light, light);
            if nth > 0 {
                continue;
            }
            let endless = Scenario { time: Some(Nanos::from_s(192)), ..Scenario::of(4, "dd:size=8g", stack, seed) };
            add(Part::Shares, endless);
            for vms in [1, 4] {
                add(Part::Dd { vms }, Scenario::of(vms, DD, stack, seed));
            }
            add(Part::Iozone, Scenario::of(4, IOZONE, stack, seed));
            add(Part::Terasort, Scenario::of(4, TERASORT, stack, seed));
            for (number, drive) in DEVICES.into_iter().enumerate() {
                add(Part::Device(number), Scenario { drive, ..Scenario::of(4, DD, stack, seed) });
            }
        }
    }
    jobs
}

/// The outcomes of all jobs.
struct Outcomes(Vec<(Part, usize, Outcome)>);

impl Outcomes {
    /// The outcomes of a part under a stack: one for each seed, or a single one.
    fn of(&self, part: Part, stack: usize) -> impl Iterator<Item = &Outcome> {
        self.0.iter().filter(move |(p, s, _)| (*p, *s) == (part, stack)).map(|(_, _, outcome)| outcome)
    }

    /// A quantity of both stacks, seed by seed.
    fn both(&self, part: Part, quantity: impl Fn(&Outcome) -> f64) -> [Vec<f64>; 2] {
        [0, 1].map(|stack| self.of(part, stack).map(&quantity).collect())
    }
}

fn reproduce(seeds: &[u64], _alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError> {
    let run = |(part, stack, scenario): &Job| {
        let outcome = scenario::run(scenario)?;
        done.fetch_add(1, Ordering::Relaxed);
        Ok::<_, ReproduceError>((*part, *stack, outcome))
    };
    let outcomes = Outcomes(scenarios(seeds).par_iter().map(run).collect::<Result<_, _>>()?);
    let cells = figures::cells(&outcomes);
    Ok(Reproduction {
        schema_version: SCHEMA_VERSION,
        paper: PAPER.title.to_owned(),
        seeds: seeds.to_vec(),
        choices: statements::choices(),
        errors: Vec::new(),
        bars: figures::bars(&outcomes, &cells),
        ranks: figures::ranks(&outcomes, seeds.len()),
        alternatives: Vec::new(),
        figures: figures::series(&outcomes),
        statements: statements::statements(),
        cells,
    })
}
