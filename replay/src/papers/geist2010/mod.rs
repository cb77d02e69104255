//! Geist, Jones and Westall 2010, "Predicting Disk Scheduling Performance with Virtual Machines": Tables
//! 1 to 3, the prediction of hits by the shadow cache, and Figure 1.
//!
//! The real machine is the mechanical model of the Cheetah 15K.4; the virtual one is the line that the
//! throttle makes of a virtual disk, in the real disk's scale ([`drive_models`]' `throttle` shows that
//! the throttle does make it). Both run the same processes on the same aged file system, and the kernel takes
//! the next request from the scheduler while the drive serves one (a look-ahead of one), so that the paper's
//! service time, from leaving the scheduler to completion, includes the wait behind the request before.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use traces::results::SCHEMA_VERSION;
use traces::results::reproduction::{Alternative, Cell, GroupError, Rank, Reproduction};

use self::choices::Choices;
use self::numbers::{Columns, SCHEDULERS, TABLE_2, TABLE_3};
use self::run::{Machine, Measured, Prepared};
use super::estimate::{cell, group_error};
use super::{Paper, ReproduceError};
use crate::surge::Image;

pub mod choices;
pub mod figure1;
pub mod numbers;
pub mod run;
pub mod statements;
pub mod table1;

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

/// How many of the seeds alternatives are tried with.
const SEEDS_OF_ALTERNATIVES: usize = 2;

/// Files of the workload.
pub const FILES: u32 = 1_000_000;

const MACHINES: [(Machine, &str); 2] = [(Machine::Real, "real"), (Machine::Virtual, "virtual")];
const TABLES: [(&str, [Columns; 2]); 2] = [("2", TABLE_2), ("3", TABLE_3)];

fn reproduce(seeds: &[u64], alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError> {
    let alternatives = if alternatives { Choices::alternatives() } else { Vec::new() };
    let few = &seeds[..seeds.len().min(SEEDS_OF_ALTERNATIVES)];
    let frozen = seeds.iter().map(|&seed| (seed, Choices::FROZEN));
    let others = alternatives.iter().flat_map(|(_, _, choices)| few.iter().map(move |&seed| (seed, *choices)));
    let jobs: Vec<(u64, Choices)> = frozen.chain(others).collect();
    let run = |(seed, choices): &(u64, Choices)| {
        let runs = replicate(*seed, FILES, choices);
        done.fetch_add(1, Ordering::Relaxed);
        runs
    };
    let runs: Vec<Runs> = jobs.par_iter().map(run).collect::<Result<_, _>>()?;
    let (frozen, others) = runs.split_at(seeds.len());
    let mut cells = table1::cells()?;
    cells.extend(self::cells(frozen));
    let (figure, series) = figure1::regenerate()?;
    cells.extend(figure);
    let alternatives: Vec<Alternative> = alternatives
        .iter()
        .zip(others.chunks(few.len().max(1)))
        .map(|(&(name, value, _), runs)| alternative(name, value, runs))
        .collect();
    Ok(Reproduction {
        schema_version: SCHEMA_VERSION,
        paper: PAPER.title.to_owned(),
        seeds: seeds.to_vec(),
        choices: statements::choices(),
        errors: errors(&cells),
        ranks: ranks(frozen),
        statements: statements::statements(),
        alternatives,
        figures: series,
        cells,
    })
}

/// All runs of a seed: by table, machine and scheduler.
pub type Runs = [[[Measured; 3]; 2]; 2];

/// Makes all runs of a seed.
///
/// # Errors
/// A part is refused, or the files do not fit the disk.
pub fn replicate(seed: u64, files: u32, choices: &Choices) -> Result<Runs, ReproduceError> {
    let mut runs = Runs::default();
    let capacity = |machine| -> Result<_, ReproduceError> {
        Ok(drive_models::build(&choices.drive(machine).parse()?)?.drive.capacity())
    };
    let capacity = capacity(Machine::Real)?.min(capacity(Machine::Virtual)?);
    let prepared = Prepared::new(Image::build(&choices.image(files, capacity, seed))?);
    for (machine, of_machine) in [Machine::Real, Machine::Virtual].into_iter().enumerate() {
        for (table, direct) in [true, false].into_iter().enumerate() {
            for (index, scheduler) in SCHEDULERS.into_iter().enumerate() {
                runs[table][machine][index] = run::run(&prepared, of_machine, direct, scheduler, choices, seed)?;
            }
        }
    }
    Ok(runs)
}

/// The quantities of a table: their name, unit, what the paper has, what a run has, and whether the
/// cell is among those that errors are taken over.
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
        for (machine, (of_machine, word)) in MACHINES.iter().enumerate() {
            for (index, scheduler) in SCHEDULERS.iter().enumerate() {
                let column = format!("{word} {scheduler}");
                for (row, unit, paper, ours, counts) in ROWS {
                    let values: Vec<f64> = seeds.iter().map(|runs| ours(&runs[table][machine][index])).collect();
                    let starves = *of_machine == Machine::Real && table == 0 && *scheduler == "cfq" && row != ROWS[0].0;
                    let paper = Some(paper(&columns[machine])[index]);
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

/// How often the order of the schedulers is the paper's.
pub fn ranks(seeds: &[Runs]) -> Vec<Rank> {
    let mut ranks = Vec::new();
    for (table, (number, columns)) in TABLES.iter().enumerate() {
        for (machine, (_, word)) in MACHINES.iter().enumerate() {
            for (row, _, paper, ours, _) in [ROWS[2], ROWS[4]] {
                let sign = if row == ROWS[2].0 { 1.0 } else { -1.0 };
                let paper = paper(&columns[machine]);
                let is_right = |runs: &&Runs| {
                    let ours: Vec<f64> = runs[table][machine].iter().map(ours).collect();
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

/// What another choice leads to.
pub fn alternative(name: &str, value: &str, seeds: &[Runs]) -> Alternative {
    let all_right = |runs: &&Runs| ranks(std::slice::from_ref(runs)).iter().all(|rank| rank.right == 1);
    Alternative {
        name: name.to_owned(),
        value: value.to_owned(),
        errors: errors(&cells(seeds)),
        ranks_right: [seeds.iter().filter(all_right).count() as u64, seeds.len() as u64],
    }
}
