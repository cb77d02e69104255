//! Kim, Kang and Choi 2015, "A burstiness-aware I/O scheduler for MapReduce applications on virtualized
//! environments": Figures 2, 3 and 5 to 9. The paper's future work is added: the scheduler on flash and on an array.
//!
//! Four guests on partitions of one SATA disk, under Xen, with cfq in the guests and in the control domain. The paper's
//! scheduler runs between Blkback and cfq (stack `xen-ba`) or is left out (stack `xen-cfq`).

mod choices;
mod claims;
mod figures;
mod results;
mod scenario;
mod statements;

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use traces::Nanos;
use traces::results::SCHEMA_VERSION;
use traces::results::reproduction::{Alternative, Claim, Reproduction};

use self::choices::Choices;
use self::scenario::{Outcome, Scenario};
use super::{Paper, ReproduceError};

/// The registry's row.
pub const PAPER: Paper = Paper {
    name: "kim2015",
    title: "Kim, Kang, Choi 2015: a burstiness-aware I/O scheduler for VMs",
    jobs: |seeds, alternatives| {
        let seeds: Vec<u64> = (0..seeds as u64).collect();
        distinct(&planned(&seeds, alternatives)).len() as u64
    },
    reproduce,
};

/// Number of seeds for alternatives.
const SEEDS_OF_ALTERNATIVES: usize = 1;

/// The paper's two stacks: without and with its own scheduler.
const STACKS: [&str; 2] = ["xen-cfq", "xen-ba"];

/// Shares of reads in the sweep over fio's mix, in per cent.
const READS: [u32; 5] = [0, 25, 50, 75, 100];

/// Drives for the future work.
const DEVICES: [&str; 2] = ["sata-ssd", "iscsi-raid5-15"];

/// The time for which VMs read without an end: the paper's Terasort under cfq.
const ENDLESS: Nanos = Nanos::from_s(192);

/// A VM that is not bursty: 20 reads of 4 KiB a second.
const LIGHT: &str = "fio:rw=randread,bs=4k,size=1g,direct=on,thinktime=50ms,runtime=20s";

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
    /// Four VMs that read without an end.
    Endless,
    /// Three bursty VMs and one that is not.
    Light,
    /// The reading VMs on another device, by its number.
    Device(usize),
}

/// A job: a part under one of the stacks.
type Job = (Part, usize, Scenario);

/// The jobs of the frozen choices, and then those of each alternative with a few seeds.
fn planned(seeds: &[u64], alternatives: bool) -> Vec<Vec<Job>> {
    let few = &seeds[..seeds.len().min(SEEDS_OF_ALTERNATIVES)];
    let mut planned = vec![jobs(seeds, &Choices::FROZEN)];
    if alternatives {
        planned.extend(Choices::alternatives().iter().map(|(.., choices)| jobs(few, choices)));
    }
    planned
}

/// All jobs of the choices. Jobs without random parts run for the first seed only.
fn jobs(seeds: &[u64], choices: &Choices) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (nth, &seed) in seeds.iter().enumerate() {
        for (index, stack) in STACKS.into_iter().enumerate() {
            let vms = |vms: usize, workload: &str| Scenario {
                workloads: vec![workload.to_owned(); vms],
                stack,
                drive: "sata-500",
                time: None,
                cache_pages: choices.cache_mb << 8,
                seed,
            };
            let mut add = |part, scenario| jobs.push((part, index, scenario));
            for reads in READS {
                let fio = format!("fio:rw=rw,bs=4k,size={},direct=off,rwmixread={reads}", choices.fio_file);
                add(Part::Fio(reads), vms(4, &fio));
            }
            let mut light = Scenario { time: Some(Nanos::from_s(20)), ..vms(4, "dd:size=8g") };
            light.workloads[3] = LIGHT.to_owned();
            add(Part::Light, light);
            if nth > 0 {
                continue;
            }
            add(Part::Endless, Scenario { time: Some(ENDLESS), ..vms(4, "dd:size=8g") });
            for count in [1, 4] {
                add(Part::Dd { vms: count }, vms(count, "dd:size=1g"));
            }
            add(Part::Iozone, vms(4, &format!("iozone:size={}g", choices.iozone_gb)));
            add(Part::Terasort, vms(4, &format!("terasort:data={}", choices.terasort)));
            for (number, drive) in DEVICES.into_iter().enumerate() {
                add(Part::Device(number), Scenario { drive, ..vms(4, "dd:size=1g") });
            }
        }
    }
    jobs
}

/// The scenarios without those that occur before.
fn distinct(planned: &[Vec<Job>]) -> Vec<&Scenario> {
    let mut distinct: Vec<&Scenario> = Vec::new();
    for (.., scenario) in planned.iter().flatten() {
        if !distinct.contains(&scenario) {
            distinct.push(scenario);
        }
    }
    distinct
}

/// The outcomes of all jobs of some choices.
struct Outcomes<'a> {
    choices: Choices,
    jobs: Vec<(Part, usize, &'a Outcome)>,
}

impl Outcomes<'_> {
    /// The outcomes of a part under a stack: one for each seed, or a single one.
    fn of(&self, part: Part, stack: usize) -> impl Iterator<Item = &Outcome> {
        self.jobs.iter().filter(move |(p, s, _)| (*p, *s) == (part, stack)).map(|(_, _, outcome)| *outcome)
    }

    /// A quantity of both stacks, seed by seed.
    fn both(&self, part: Part, quantity: impl Fn(&Outcome) -> f64) -> [Vec<f64>; 2] {
        [0, 1].map(|stack| self.of(part, stack).map(&quantity).collect())
    }
}

fn reproduce(seeds: &[u64], alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError> {
    let planned = planned(seeds, alternatives);
    let scenarios = distinct(&planned);
    let run = |scenario: &&Scenario| {
        let outcome = scenario::run(scenario)?;
        done.fetch_add(1, Ordering::Relaxed);
        Ok::<_, ReproduceError>(outcome)
    };
    let ran: Vec<Outcome> = scenarios.par_iter().map(run).collect::<Result<_, _>>()?;
    let outcome_of = |wanted: &Scenario| {
        let found = scenarios.iter().zip(&ran).find(|(scenario, _)| **scenario == wanted);
        found.expect("every planned scenario has run").1
    };
    let outcomes = |choices: Choices, jobs: &[Job], seeds: &[u64]| {
        let of_seeds = jobs.iter().filter(|(.., scenario)| seeds.contains(&scenario.seed));
        let jobs = of_seeds.map(|(part, stack, scenario)| (*part, *stack, outcome_of(scenario))).collect();
        Outcomes { choices, jobs }
    };
    let frozen = outcomes(Choices::FROZEN, &planned[0], seeds);
    let mut others = Vec::new();
    if alternatives {
        let few = &seeds[..seeds.len().min(SEEDS_OF_ALTERNATIVES)];
        let as_chosen = outcomes(Choices::FROZEN, &planned[0], few);
        others.push(alternative("as chosen", "on the same seeds", &as_chosen));
        for ((name, value, choices), jobs) in Choices::alternatives().into_iter().zip(&planned[1..]) {
            others.push(alternative(name, value, &outcomes(choices, jobs, few)));
        }
    }
    let cells = figures::cells(&frozen);
    Ok(Reproduction {
        schema_version: SCHEMA_VERSION,
        paper: PAPER.title.to_owned(),
        seeds: seeds.to_vec(),
        choices: statements::choices(),
        errors: results::errors(&cells),
        bars: results::bars(&frozen, &cells),
        ranks: results::ranks(&frozen),
        claims: claims::claims(&frozen),
        alternatives: others,
        figures: figures::series(&frozen),
        statements: statements::statements(&frozen),
        cells,
    })
}

/// The results of another choice.
fn alternative(name: &str, value: &str, outcomes: &Outcomes<'_>) -> Alternative {
    let ranks = results::ranks(outcomes);
    let pairs = || ranks.iter().flat_map(|rank| rank.pairs.iter().map(|pair| [pair.right, rank.seeds]));
    Alternative {
        name: name.to_owned(),
        value: value.to_owned(),
        errors: results::errors(&figures::cells(outcomes)),
        claims_hold: Claim::count(&claims::claims(outcomes)),
        pairs_right: [pairs().map(|[right, _]| right).sum(), pairs().map(|[_, seeds]| seeds).sum()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_run_only_what_their_choice_changes() {
        let planned = planned(&[1, 2, 3], true);
        assert_eq!(planned.len(), 1 + Choices::alternatives().len());
        let frozen = distinct(&planned[..1]).len();
        // Each seed has five mixes and the light VM under both stacks; the first has seven more parts.
        assert_eq!(frozen, 2 * (3 * 6 + 7));
        assert_eq!((PAPER.jobs)(3, false), frozen as u64);
        let added = |nth: usize| distinct(&[planned[0].clone(), planned[nth].clone()]).len() - frozen;
        // Terasort alone, everything, fio, IOzone alone; all with one seed.
        assert_eq!([1, 3, 5, 6].map(added), [2, 2 * (6 + 7), 2 * 5, 2]);
    }
}
