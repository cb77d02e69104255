//! Tables 2 and 3 of Geist et al. 2010 and the shadow cache, from the runs of all seeds: cells, errors, bars and ranks.

use traces::results::RuleFigures;
use traces::results::reproduction::{Alternative, Bar, Cell, Claim, Evidence, GroupError, Rank};
use traces::statistics::mean_and_half_width;

use super::claims::claims;
use super::numbers::{self, Columns, SCHEDULERS, TABLE_2, TABLE_3};
use super::run::{Measured, Quantity, System};
use super::{Runs, SYSTEMS};
use crate::estimate::{cell, group_error};
use crate::ranking::Ranking;
use crate::rules;

/// The tables: number, and the paper's columns by system.
pub(super) const TABLES: [(&str, [Columns; 2]); 2] = [("2", TABLE_2), ("3", TABLE_3)];

/// What the tables are called whose real columns are those of the drive before it was changed.
const FIRST_DRIVE: &str = "real drive before its columns had been seen";

/// A quantity of the tables.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// The paper's values by scheduler.
    pub(super) paper: fn(&Columns) -> [f64; 3],
    /// The value of a run.
    pub(super) ours: Quantity,
    /// Whether it is one of the paper's three measures, which are ranked and count towards errors.
    pub(super) is_measure: bool,
    /// Whether a high value is a good one.
    pub(super) high_is_good: bool,
}

/// The rows of the tables.
pub(super) const ROWS: [Row; 5] = [
    row("mean service", "ms", |paper| paper.mean_service, |ours| ours.service[0]),
    variance("variance service", |paper| paper.variance_service, |ours| ours.service[1]),
    row("mean response", "ms", |paper| paper.mean_response, |ours| ours.response[0]),
    variance("variance response", |paper| paper.variance_response, |ours| ours.response[1]),
    Row { high_is_good: true, ..row("throughput", "sectors/ms", |paper| paper.throughput, |ours| ours.throughput) },
];

const fn row(name: &'static str, unit: &'static str, paper: fn(&Columns) -> [f64; 3], ours: Quantity) -> Row {
    Row { name, unit, paper, ours, is_measure: true, high_is_good: false }
}

const fn variance(name: &'static str, paper: fn(&Columns) -> [f64; 3], ours: Quantity) -> Row {
    Row { is_measure: false, ..row(name, "ms2", paper, ours) }
}

/// How the columns of a system in a table (by index) stand to the paper's.
pub(super) fn evidence(table: usize, system: System) -> Evidence {
    match (system, table) {
        (System::Real, _) => Evidence::Fitted,
        (System::Virtual, 0) => Evidence::ChosenOn,
        (System::Virtual, _) => Evidence::Forecast,
    }
}

/// The same of the real drive before it was changed: what a service is was read off Table 2.
fn evidence_of_first_drive(table: usize) -> Evidence {
    if table == 0 { Evidence::ChosenOn } else { Evidence::Forecast }
}

/// The cells of Tables 2 and 3 and of the shadow cache.
pub fn cells(seeds: &[Runs]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (table, (number, columns)) in TABLES.iter().enumerate() {
        for (system, (of_system, word)) in SYSTEMS.into_iter().enumerate() {
            let evidence = evidence(table, of_system);
            let runs = |runs: &Runs| runs[table][system].clone();
            cells.extend(system_cells(&seeds.iter().map(runs).collect::<Vec<_>>(), &columns[system], |row, cfq| {
                let starves = cfq && of_system == System::Real && table == 0 && row.name != ROWS[0].name;
                (*number, word, row.is_measure && !starves, evidence)
            }));
        }
    }
    cells.extend(shadow_cache(seeds, "shadow cache", Evidence::Fitted));
    for (index, scheduler) in SCHEDULERS.iter().enumerate() {
        for (table, (number, _)) in TABLES.iter().enumerate() {
            for (system, (_, word)) in SYSTEMS.iter().enumerate() {
                let runs: Vec<&[RuleFigures]> = seeds.iter().map(|runs| &*runs[table][system][index].rules).collect();
                let column = format!("Table {number}, {word}");
                cells.extend(rules::cells(&format!("rules of {scheduler}"), &column, &runs));
            }
        }
    }
    cells
}

/// How far the VM's nine means of a table are from the real system's, with the paper's own: the point of the paper.
pub fn virtual_against_real(seeds: &[Runs]) -> Vec<Cell> {
    let apart = |tables: &[usize], value: &dyn Fn(usize, usize, usize, &Row) -> f64| {
        let mut all = Vec::new();
        for &table in tables {
            for row in ROWS.iter().filter(|row| row.is_measure) {
                all.extend((0..SCHEDULERS.len()).map(|scheduler| {
                    let [real, virtual_] = [0, 1].map(|system| value(table, system, scheduler, row));
                    (virtual_ / real - 1.0).abs() * 100.0
                }));
            }
        }
        all.iter().sum::<f64>() / all.len() as f64
    };
    let of = |(row, tables): (&str, &[usize])| {
        let paper = apart(tables, &|table, system, scheduler, row| (row.paper)(&TABLES[table].1[system])[scheduler]);
        let ours =
            |runs: &Runs| apart(tables, &|table, system, scheduler, row| (row.ours)(&runs[table][system][scheduler]));
        let values: Vec<f64> = seeds.iter().map(ours).collect();
        let names = ["virtual system against the real one", row, "mean absolute difference"];
        cell(names, "%", Some(paper), &values, false).by(evidence(tables[0], System::Real))
    };
    let rows: [(&str, &[usize]); 3] = [("Table 2", &[0]), ("Table 3", &[1]), ("both", &[0, 1])];
    rows.into_iter().map(of).collect()
}

/// The halves of tables in which our variances order the schedulers otherwise than the paper's do, in words.
pub fn orders_of_variances(cells: &[Cell]) -> String {
    let (mut all, mut otherwise) = (0, Vec::new());
    for (number, _) in TABLES {
        for (_, word) in SYSTEMS {
            for row in ROWS.iter().filter(|row| !row.is_measure) {
                let of = |scheduler: &&&str| {
                    let column = format!("{word} {scheduler}");
                    cells.iter().find(|cell| cell.table == number && cell.row == row.name && cell.column == column)
                };
                let order = |value: &dyn Fn(&Cell) -> Option<f64>| {
                    let value = |scheduler: &&str| of(&scheduler).and_then(value).unwrap_or(f64::NAN);
                    let mut names = SCHEDULERS;
                    names.sort_by(|one, other| value(one).total_cmp(&value(other)));
                    names
                };
                let (paper, ours) = (order(&|cell| cell.paper), order(&|cell| Some(cell.ours)));
                all += 1;
                if paper != ours {
                    otherwise.push(format!(
                        "Table {number}, {word}, {} (paper: {}; ours: {})",
                        row.name,
                        paper.join(", "),
                        ours.join(", ")
                    ));
                }
            }
        }
    }
    let but = if otherwise.is_empty() { String::new() } else { format!(" Otherwise in {}.", otherwise.join("; ")) };
    format!(
        "By variance, the least first, the schedulers have the paper's order in {} of {all} rows.{but}",
        all - otherwise.len()
    )
}

/// The real columns and the shadow cache on the drive before it was changed.
pub fn cells_of_first_drive(seeds: &[Runs]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (table, (number, columns)) in TABLES.iter().enumerate() {
        let name = format!("{number}, {FIRST_DRIVE}");
        let runs = |runs: &Runs| runs[table][0].clone();
        cells.extend(system_cells(&seeds.iter().map(runs).collect::<Vec<_>>(), &columns[0], |row, cfq| {
            let starves = cfq && table == 0 && row.name != ROWS[0].name;
            (&name, "real", row.is_measure && !starves, evidence_of_first_drive(table))
        }));
    }
    let name = format!("shadow cache, {FIRST_DRIVE}");
    // What a hit takes follows from the paper's mark of one.
    cells.extend(shadow_cache(seeds, &name, Evidence::ChosenOn));
    cells
}

/// The cells of a system in a table. `judge` gives, for a row and whether the column is cfq's, the name of the table,
/// the word for the system, whether the cell counts, and how it stands to the paper's.
fn system_cells<'a>(
    seeds: &[[Measured; 3]],
    columns: &Columns,
    judge: impl Fn(&Row, bool) -> (&'a str, &'a str, bool, Evidence),
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (index, scheduler) in SCHEDULERS.iter().enumerate() {
        for row in &ROWS {
            let (table, word, counts, evidence) = judge(row, *scheduler == "cfq");
            let column = format!("{word} {scheduler}");
            let values: Vec<f64> = seeds.iter().map(|runs| (row.ours)(&runs[index])).collect();
            let paper = Some((row.paper)(columns)[index]);
            cells.push(cell([table, row.name, &column], row.unit, paper, &values, counts).by(evidence));
        }
    }
    cells
}

/// The quantities of the shadow cache: name, the paper's value, the value of a run.
const SHADOW: [(&str, Option<f64>, Quantity); 5] = [
    ("share of services below 250 us (the paper's: if of 50,000)", Some(MARKED), |ours| ours.marked_as_hits),
    ("share of those that were predicted", Some(numbers::RECALL), |ours| ours.recall_of_marked),
    ("share of the drive's hits", None, |ours| ours.hits),
    ("recall", None, |ours| ours.recall_and_precision[0]),
    ("precision", None, |ours| ours.recall_and_precision[1]),
];

/// The share of the paper's requests that it marks as hits.
const MARKED: f64 = numbers::HITS as f64 / numbers::REQUESTS as f64;

fn shadow_cache(seeds: &[Runs], table: &str, evidence: Evidence) -> Vec<Cell> {
    let of = |&(row, paper, ours): &(&str, Option<f64>, Quantity)| {
        let values: Vec<f64> = seeds.iter().map(|runs| ours(&runs[0][0][0])).collect();
        cell([table, row, "real cats"], "share", paper, &values, false).by(evidence)
    };
    SHADOW.iter().map(of).collect()
}

/// The errors over the groups that are judged.
pub fn errors(cells: &[Cell]) -> Vec<GroupError> {
    let group = |name: &str, bar, tables: &'static [&'static str], word: &'static str| {
        group_error(name, cells, Some(bar), |cell| {
            tables.contains(&cell.table.as_str()) && cell.column.starts_with(word)
        })
    };
    let mut errors = vec![
        group("Table 2, virtual", 0.12, &["2"], "virtual"),
        group("Table 3, virtual", 0.20, &["3"], "virtual"),
        group("Tables 2 and 3, real", 0.18, &["2", "3"], "real"),
    ];
    let is_measure = |cell: &Cell| ROWS.iter().any(|row| row.is_measure && row.name == cell.row);
    let all: Vec<Cell> = cells.iter().map(|cell| Cell { counts: is_measure(cell), ..cell.clone() }).collect();
    let is_real = |cell: &Cell| ["2", "3"].contains(&cell.table.as_str()) && cell.column.starts_with("real");
    errors.push(group_error("Tables 2 and 3, real, with all of cfq's cells", &all, None, is_real));
    let name = format!("Tables 2 and 3, {FIRST_DRIVE}");
    errors.extend(
        Some(group_error(&name, cells, Some(0.18), |cell| cell.table.ends_with(FIRST_DRIVE)))
            .filter(|error| error.cells > 0),
    );
    errors
}

/// The bounds of the shadow cache, on the drive as it is and as it was before it was changed.
pub fn bars(seeds: &[Runs], first_drive: &[Runs]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (runs, evidence, drive) in
        [(seeds, Evidence::Fitted, String::new()), (first_drive, Evidence::Forecast, format!(", {FIRST_DRIVE}"))]
    {
        for (nth, at_least, at_most) in [(0, MARKED - 0.1, Some(MARKED + 0.1)), (3, 0.97, None), (4, 0.95, None)] {
            let quantity = &SHADOW[nth];
            let values: Vec<f64> = runs.iter().map(|runs| (quantity.2)(&runs[0][0][0])).collect();
            let what = format!("shadow cache, {}{drive}", quantity.0);
            let (mean, half) = mean_and_half_width(&values);
            // Only the first has the paper's mark of a hit in it.
            let evidence = if nth == 0 { evidence.max(Evidence::ChosenOn) } else { evidence };
            let bar = Bar::new(&what, mean, Some(at_least), at_most, evidence);
            bars.push(bar.within(half.map(|half| [mean - half, mean + half])));
        }
    }
    bars
}

/// The order of the schedulers by each of the paper's three measures.
pub fn ranks(seeds: &[Runs]) -> Vec<Rank> {
    let mut ranks = Vec::new();
    for (table, (number, columns)) in TABLES.iter().enumerate() {
        for (system, (of_system, word)) in SYSTEMS.into_iter().enumerate() {
            for row in ROWS.iter().filter(|row| row.is_measure) {
                let ranking = Ranking {
                    what: format!("Table {number}, {word}, {}", row.name),
                    names: &SCHEDULERS,
                    paper: Some(&(row.paper)(&columns[system])),
                    ours: seeds.iter().map(|runs| runs[table][system].iter().map(row.ours).collect()).collect(),
                    high_is_good: row.high_is_good,
                    evidence: evidence(table, of_system),
                };
                ranks.push(ranking.rank());
            }
        }
    }
    ranks
}

/// The results of another choice.
pub fn alternative(name: &str, value: &str, seeds: &[Runs]) -> Alternative {
    let ranks = ranks(seeds);
    let pairs = || ranks.iter().flat_map(|rank| &rank.pairs);
    Alternative {
        name: name.to_owned(),
        value: value.to_owned(),
        errors: errors(&cells(seeds)),
        claims_hold: Claim::count(&claims(seeds)),
        pairs_right: [pairs().map(|pair| pair.right).sum(), (pairs().count() * seeds.len()) as u64],
    }
}
