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
use traces::results::reproduction::{Alternative, Bar, Cell, GroupError, Rank, Reproduction};
use traces::statistics::mean_and_half_width;

use self::choices::Choices;
use self::numbers::{Columns, SCHEDULERS, TABLE_2, TABLE_3};
use self::run::{Measured, Prepared, System};
use super::estimate::{cell, group_error};
use super::{Paper, ReproduceError};
use workloads::surge::Image;

pub mod choices;
pub mod figure1;
pub mod numbers;
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
        (seeds + tried * seeds.min(SEEDS_OF_ALTERNATIVES)) as u64
    },
    reproduce,
};

/// Number of seeds for alternatives.
const SEEDS_OF_ALTERNATIVES: usize = 2;

/// Number of files of the workload.
pub const FILES: u32 = 1_000_000;

const SYSTEMS: [(System, &str); 2] = [(System::Real, "real"), (System::Virtual, "virtual")];
const TABLES: [(&str, [Columns; 2]); 2] = [("2", TABLE_2), ("3", TABLE_3)];

fn reproduce(seeds: &[u64], alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError> {
    let alternatives = if alternatives { Choices::alternatives() } else { Vec::new() };
    let all: Vec<Choices> =
        [Choices::FROZEN].into_iter().chain(alternatives.iter().map(|&(.., choices)| choices)).collect();
    let of_choices = replicate_all(seeds, &all, done)?;
    let (frozen, others) = (&of_choices[0], &of_choices[1..]);
    let mut cells = table1::cells()?;
    cells.extend(self::cells(frozen));
    let (first, runs) = (seeds[0], &frozen[0]);
    let prepared = prepared(first, FILES, &Choices::FROZEN)?;
    cells.extend(shadow::cells(&prepared, first)?);
    cells.extend(throttled::cells(&prepared, first, runs)?);
    let (figure, series) = figure1::regenerate()?;
    cells.extend(figure);
    let few = &frozen[..frozen.len().min(SEEDS_OF_ALTERNATIVES)];
    let others = alternatives.iter().zip(others).map(|(&(name, value, _), runs)| alternative(name, value, runs));
    let chosen = (!alternatives.is_empty()).then(|| alternative("as chosen", "on the same seeds", few));
    let alternatives: Vec<Alternative> = chosen.into_iter().chain(others).collect();
    Ok(Reproduction {
        schema_version: SCHEMA_VERSION,
        paper: PAPER.title.to_owned(),
        seeds: seeds.to_vec(),
        choices: statements::choices(),
        errors: errors(&cells),
        bars: bars(frozen),
        ranks: ranks(frozen),
        statements: statements::statements(),
        alternatives,
        figures: series,
        cells,
    })
}

/// The runs of each choice by seed: the first choice with all seeds, the others with a few.
fn replicate_all(seeds: &[u64], all: &[Choices], done: &AtomicU64) -> Result<Vec<Vec<Runs>>, ReproduceError> {
    let jobs: Vec<(u64, Vec<usize>)> = seeds
        .iter()
        .enumerate()
        .flat_map(|(nth, &seed)| {
            let tried = if nth < SEEDS_OF_ALTERNATIVES { all.len() } else { 1 };
            by_image(&all[..tried]).into_iter().map(move |group| (seed, group))
        })
        .collect();
    let run = |(seed, group): &(u64, Vec<usize>)| {
        let choices: Vec<Choices> = group.iter().map(|&nth| all[nth]).collect();
        replicate_each(*seed, FILES, &choices, done)
    };
    let runs: Vec<Vec<Runs>> = jobs.par_iter().map(run).collect::<Result<_, _>>()?;
    let mut of_choices: Vec<Vec<Runs>> = vec![Vec::new(); all.len()];
    for ((_, group), runs) in jobs.iter().zip(runs) {
        for (&nth, runs) in group.iter().zip(runs) {
            of_choices[nth].push(runs);
        }
    }
    Ok(of_choices)
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

/// Makes all runs of a seed.
///
/// # Errors
/// An invalid part, or files that do not fit the disk.
pub fn replicate(seed: u64, files: u32, choices: &Choices) -> Result<Runs, ReproduceError> {
    let runs = replicate_each(seed, files, std::slice::from_ref(choices), &AtomicU64::new(0))?;
    Ok(runs.into_iter().next().unwrap_or_default())
}

/// Makes all runs of a seed for several choices with the same file system, which is filled once. A run that an earlier
/// choice has made is reused. Counts the completed choices.
///
/// # Errors
/// As [`replicate`].
pub fn replicate_each(
    seed: u64,
    files: u32,
    choices: &[Choices],
    done: &AtomicU64,
) -> Result<Vec<Runs>, ReproduceError> {
    let Some(first) = choices.first() else { return Ok(Vec::new()) };
    let prepared = prepared(seed, files, first)?;
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
                        None => run::run(&prepared, &setup, direct, seed)?,
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

/// The quantities of a table: name, unit, the paper's value, the value of a run, and whether the cell counts towards
/// errors.
type Row = (&'static str, &'static str, fn(&Columns) -> [f64; 3], fn(&Measured) -> f64, bool);

const ROWS: [Row; 5] = [
    ("mean service", "ms", |paper| paper.mean_service, |ours| ours.service[0], true),
    ("variance service", "ms2", |paper| paper.variance_service, |ours| ours.service[1], false),
    ("mean response", "ms", |paper| paper.mean_response, |ours| ours.response[0], true),
    ("variance response", "ms2", |paper| paper.variance_response, |ours| ours.response[1], false),
    ("throughput", "sectors/ms", |paper| paper.throughput, |ours| ours.throughput, true),
];

/// The cells of Tables 2 and 3 and of the shadow cache.
pub fn cells(seeds: &[Runs]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (table, (number, columns)) in TABLES.iter().enumerate() {
        for (system, (of_system, word)) in SYSTEMS.iter().enumerate() {
            for (index, scheduler) in SCHEDULERS.iter().enumerate() {
                let column = format!("{word} {scheduler}");
                for (row, unit, paper, ours, counts) in ROWS {
                    let values: Vec<f64> = seeds.iter().map(|runs| ours(&runs[table][system][index])).collect();
                    let starves = *of_system == System::Real && table == 0 && *scheduler == "cfq" && row != ROWS[0].0;
                    let paper = Some(paper(&columns[system])[index]);
                    cells.push(cell([number, row, &column], unit, paper, &values, counts && !starves));
                }
            }
        }
    }
    let of_cats = |ours: fn(&Measured) -> f64| -> Vec<f64> { seeds.iter().map(|runs| ours(&runs[0][0][0])).collect() };
    let marked = numbers::HITS as f64 / numbers::REQUESTS as f64;
    let shadow = [
        ("share of services below 250 us", Some(marked), of_cats(|ours| ours.marked_as_hits)),
        ("share of those that were predicted", Some(numbers::RECALL), of_cats(|ours| ours.recall_of_marked)),
        ("share of the drive's hits", None, of_cats(|ours| ours.hits)),
        ("recall", None, of_cats(|ours| ours.recall_and_precision[0])),
        ("precision", None, of_cats(|ours| ours.recall_and_precision[1])),
    ];
    for (row, paper, values) in shadow {
        cells.push(cell(["shadow cache", row, "real cats"], "share", paper, &values, false));
    }
    cells
}

/// The errors over the groups that are judged.
pub fn errors(cells: &[Cell]) -> Vec<GroupError> {
    let group = |name: &str, bar, tables: &'static [&'static str], word: &'static str| {
        group_error(name, cells, bar, |cell| tables.contains(&cell.table.as_str()) && cell.column.starts_with(word))
    };
    vec![
        group("Table 2, virtual (chosen on)", Some(0.12), &["2"], "virtual"),
        group("Table 3, virtual", Some(0.20), &["3"], "virtual"),
        group("Tables 2 and 3, real", Some(0.18), &["2", "3"], "real"),
    ]
}

/// The bounds of the shadow cache.
fn bars(seeds: &[Runs]) -> Vec<Bar> {
    let mean = |ours: fn(&Measured) -> f64| {
        mean_and_half_width(&seeds.iter().map(|runs| ours(&runs[0][0][0])).collect::<Vec<_>>()).0
    };
    let marked = numbers::HITS as f64 / numbers::REQUESTS as f64;
    vec![
        Bar::new(
            "share of services below 250 us",
            mean(|ours| ours.marked_as_hits),
            Some(marked - 0.1),
            Some(marked + 0.1),
        ),
        Bar::new("recall of the shadow cache", mean(|ours| ours.recall_and_precision[0]), Some(0.97), None),
        Bar::new("precision of the shadow cache", mean(|ours| ours.recall_and_precision[1]), Some(0.95), None),
    ]
}

/// For each ranked quantity, how often the schedulers have the paper's order.
pub fn ranks(seeds: &[Runs]) -> Vec<Rank> {
    let mut ranks = Vec::new();
    for (table, (number, columns)) in TABLES.iter().enumerate() {
        for (system, (_, word)) in SYSTEMS.iter().enumerate() {
            for (row, _, paper, ours, _) in [ROWS[2], ROWS[4]] {
                let sign = if row == ROWS[2].0 { 1.0 } else { -1.0 };
                let paper = paper(&columns[system]);
                let is_right = |runs: &&Runs| {
                    let ours: Vec<f64> = runs[table][system].iter().map(ours).collect();
                    pairs().all(|(one, other)| {
                        let excused = (paper[one] - paper[other]).abs() <= 0.03 * paper[one].min(paper[other]);
                        excused || ((paper[one] - paper[other]) * (ours[one] - ours[other])) > 0.0
                    })
                };
                let mut order = [0, 1, 2];
                order.sort_by(|&one, &other| (sign * paper[one]).total_cmp(&(sign * paper[other])));
                ranks.push(Rank {
                    what: format!("Table {number}, {word}, {row}"),
                    order: order.map(|index| SCHEDULERS[index].to_owned()).into(),
                    right: seeds.iter().filter(is_right).count() as u64,
                    seeds: seeds.len() as u64,
                });
            }
        }
    }
    ranks
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    [(0, 1), (0, 2), (1, 2)].into_iter()
}

/// The results of another choice.
pub fn alternative(name: &str, value: &str, seeds: &[Runs]) -> Alternative {
    let all_right = |runs: &&Runs| ranks(std::slice::from_ref(runs)).iter().all(|rank| rank.right == 1);
    Alternative {
        name: name.to_owned(),
        value: value.to_owned(),
        errors: errors(&cells(seeds)),
        ranks_right: [seeds.iter().filter(all_right).count() as u64, seeds.len() as u64],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_choices_share_are_those_they_make_alone() {
        let all: Vec<Choices> = Choices::alternatives().into_iter().map(|(.., choices)| choices).collect();
        let groups = by_image(&all);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<usize>>(), [5, 1, 1, 1, 1, 1]);
        // With fewer files the page cache holds nearly all of them, and few requests reach the drive.
        const FILES: u32 = 40_000;
        let shared = [Choices::FROZEN, Choices { timers: choices::Clock::Disk, ..Choices::FROZEN }];
        let done = AtomicU64::new(0);
        let together = replicate_each(1, FILES, &shared, &done).unwrap();
        assert_eq!(done.into_inner(), 2);
        let together: Vec<String> = together.iter().map(|runs| format!("{runs:?}")).collect();
        for (choices, together) in shared.iter().zip(&together) {
            assert_eq!(format!("{:?}", replicate(1, FILES, choices).unwrap()), *together);
        }
        assert_ne!(together[1], together[0], "the choice changes something");
    }
}
