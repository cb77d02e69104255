//! Geist, Jones and Westall 2010, "Predicting Disk Scheduling Performance with Virtual Machines": Tables
//! 1 to 3, the prediction of hits by the shadow cache, and Figure 1.
//!
//! The drive of the real system is the mechanical model of the Cheetah 15K.4. The drive of the VM is the line that the
//! throttle makes of a virtual disk, in the real disk's scale. `throttled` shows that the throttle of [`drive_models`]
//! does make this line. Both systems run the same processes on the same aged file system. The kernel takes the next
//! request from the scheduler while the drive serves one (a look-ahead of one). The paper's service time, from leaving
//! the scheduler to completion, therefore includes the wait behind the request before.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use traces::Sectors;
use traces::results::SCHEMA_VERSION;
use traces::results::reproduction::Reproduction;

use self::choices::Choices;
use self::numbers::SCHEDULERS;
use self::parts::Parts;
use self::results::alternative;
use self::run::{Measured, Prepared, System};
use super::{Paper, ReproduceError};
use workloads::surge::Image;

pub mod choices;
pub mod claims;
pub mod figure1;
pub mod numbers;
pub mod parts;
pub mod results;
pub mod run;
pub mod shadow;
pub mod statements;
pub mod table1;
pub mod throttled;
pub mod virtual_disk;

/// The registry's row.
pub const PAPER: Paper = Paper {
    name: "geist2010",
    title: "Geist, Jones, Westall 2010: Predicting Disk Scheduling Performance with Virtual Machines",
    jobs: |seeds, alternatives| {
        let tried = if alternatives { Choices::alternatives().len() } else { 0 };
        (seeds * ON_ALL_SEEDS.len() + tried * seeds.min(SEEDS_OF_ALTERNATIVES)) as u64
    },
    reproduce,
};

/// The choices that are run with all seeds: the frozen ones, and the same on the real drive before it was changed.
const ON_ALL_SEEDS: [Choices; 2] = [Choices::FROZEN, Choices::FIRST_DRIVE];

/// Number of seeds for alternatives.
const SEEDS_OF_ALTERNATIVES: usize = 2;

/// Number of files of the workload.
pub const FILES: u32 = 1_000_000;

const SYSTEMS: [(System, &str); 2] = [(System::Real, "real"), (System::Virtual, "virtual")];

fn reproduce(seeds: &[u64], alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError> {
    let tried = if alternatives { Choices::alternatives() } else { Vec::new() };
    let all: Vec<Choices> = ON_ALL_SEEDS.into_iter().chain(tried.iter().map(|&(.., choices)| choices)).collect();
    let (of_choices, parts) = replicate_all(seeds, &all, done)?;
    let (frozen, first_drive) = (&of_choices[0], &of_choices[1]);
    let mut cells = table1::cells()?;
    cells.extend(results::cells(frozen));
    cells.extend(results::cells_of_first_drive(first_drive));
    cells.extend(results::virtual_against_real(frozen));
    let (first, runs) = (seeds[0], &frozen[0]);
    let prepared = prepared(first, FILES, &Choices::FROZEN)?;
    cells.extend(parts::cells(&parts));
    cells.extend(shadow::cells(&prepared, first)?);
    cells.extend(throttled::cells(&prepared, first, runs)?);
    let (figure, series) = figure1::regenerate()?;
    cells.extend(figure);
    let few = |runs: &[Runs]| runs[..runs.len().min(SEEDS_OF_ALTERNATIVES)].to_vec();
    let mut others = Vec::new();
    if alternatives {
        others.push(alternative("as chosen", "on the same seeds", &few(frozen)));
        let runs = of_choices[ON_ALL_SEEDS.len()..].iter();
        others.extend(tried.iter().zip(runs).map(|(&(name, value, _), runs)| alternative(name, value, runs)));
        others.push(alternative("real drive", "as before all three choices of it", &few(first_drive)));
    }
    Ok(Reproduction {
        schema_version: SCHEMA_VERSION,
        paper: PAPER.title.to_owned(),
        seeds: seeds.to_vec(),
        choices: statements::choices(),
        errors: results::errors(&cells),
        bars: results::bars(frozen, first_drive),
        ranks: results::ranks(frozen),
        claims: claims::claims(frozen),
        statements: statements::statements()
            .into_iter()
            .chain([throttled::statement(&cells), results::orders_of_variances(&cells), parts::statement(&parts)])
            .collect(),
        alternatives: others,
        figures: series,
        cells,
    })
}

/// The runs of each choice by seed: [`ON_ALL_SEEDS`] with all seeds, the others with a few. The parts of CATS by seed.
fn replicate_all(
    seeds: &[u64],
    all: &[Choices],
    done: &AtomicU64,
) -> Result<(Vec<Vec<Runs>>, Vec<Parts>), ReproduceError> {
    let jobs: Vec<(u64, Vec<usize>)> = seeds
        .iter()
        .enumerate()
        .flat_map(|(nth, &seed)| {
            let tried = if nth < SEEDS_OF_ALTERNATIVES { all.len() } else { ON_ALL_SEEDS.len() };
            by_image(&all[..tried]).into_iter().map(move |group| (seed, group))
        })
        .collect();
    let run = |(seed, group): &(u64, Vec<usize>)| {
        let choices: Vec<Choices> = group.iter().map(|&nth| all[nth]).collect();
        let prepared = prepared(*seed, FILES, &choices[0])?;
        let is_frozen = group.first() == Some(&0);
        let parts = is_frozen.then(|| parts::run(&prepared, *seed)).transpose()?;
        Ok::<_, ReproduceError>((replicate_each(&prepared, *seed, &choices, done)?, parts))
    };
    let ran: Vec<(Vec<Runs>, Option<Parts>)> = jobs.par_iter().map(run).collect::<Result<_, _>>()?;
    let mut of_choices: Vec<Vec<Runs>> = vec![Vec::new(); all.len()];
    let mut parts = Vec::new();
    for ((_, group), (runs, of_parts)) in jobs.iter().zip(ran) {
        for (&nth, runs) in group.iter().zip(runs) {
            of_choices[nth].push(runs);
        }
        parts.extend(of_parts);
    }
    Ok((of_choices, parts))
}

/// All runs of a seed: by table, system and scheduler.
pub type Runs = [[[Measured; 3]; 2]; 2];

/// The indices of the choices, in groups with the same file system.
fn by_image(choices: &[Choices]) -> Vec<Vec<usize>> {
    let image = |nth: usize| choices[nth].image(FILES, Sectors::ZERO, 0);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for nth in 0..choices.len() {
        match groups.iter_mut().find(|group| image(group[0]) == image(nth)) {
            Some(group) => group.push(nth),
            None => groups.push(vec![nth]),
        }
    }
    groups
}

/// Makes all runs of a seed for several choices with the same file system. A run that an earlier choice has made is
/// reused. Counts the completed choices.
///
/// # Errors
/// An invalid part.
fn replicate_each(
    prepared: &Prepared,
    seed: u64,
    choices: &[Choices],
    done: &AtomicU64,
) -> Result<Vec<Runs>, ReproduceError> {
    let mut each: Vec<Runs> = Vec::new();
    for (nth, of_choice) in choices.iter().enumerate() {
        let mut runs = Runs::default();
        for (system, (of_system, _)) in SYSTEMS.into_iter().enumerate() {
            for (table, direct) in [true, false].into_iter().enumerate() {
                for (index, scheduler) in SCHEDULERS.into_iter().enumerate() {
                    let setup = run::setup(of_system, scheduler, of_choice)?;
                    let mut made = None;
                    for (earlier, runs) in choices[..nth].iter().zip(&each) {
                        if run::setup(of_system, scheduler, earlier)? == setup {
                            made = Some(runs[table][system][index].clone());
                        }
                    }
                    runs[table][system][index] = match made {
                        Some(made) => made,
                        None => run::run(prepared, &setup, direct, seed)?,
                    };
                }
            }
        }
        each.push(runs);
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(each)
}

/// The file system of a seed, the same for both systems.
fn prepared(seed: u64, files: u32, choices: &Choices) -> Result<Prepared, ReproduceError> {
    let capacity = |system| -> Result<_, ReproduceError> {
        Ok(drive_models::build(&choices.drive(system).parse()?)?.drive.capacity())
    };
    let capacity = capacity(System::Real)?.min(capacity(System::Virtual)?);
    Ok(Prepared::new(Image::build(&choices.image(files, capacity, seed))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_choices_share_are_those_they_make_alone() {
        let all: Vec<Choices> = Choices::alternatives().into_iter().map(|(.., choices)| choices).collect();
        let groups = by_image(&all);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<usize>>(), [10, 1, 1, 1, 1, 1]);
        // With fewer files the page cache holds nearly all of them, and few requests reach the drive.
        const FILES: u32 = 40_000;
        let shared = [Choices::FROZEN, Choices { timers: choices::Clock::Disk, ..Choices::FROZEN }];
        let done = AtomicU64::new(0);
        let prepared = prepared(1, FILES, &shared[0]).unwrap();
        let together = replicate_each(&prepared, 1, &shared, &done).unwrap();
        assert_eq!(done.into_inner(), 2);
        let together: Vec<String> = together.iter().map(|runs| format!("{runs:?}")).collect();
        for (choices, together) in shared.iter().zip(&together) {
            let alone = replicate_each(&prepared, 1, &[*choices], &AtomicU64::new(0)).unwrap();
            assert_eq!(format!("{:?}", alone[0]), *together);
        }
        assert_ne!(together[1], together[0], "the choice changes something");
    }
}
