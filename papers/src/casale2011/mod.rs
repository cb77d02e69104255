//! Casale, Kraft, Krishnamurthy 2011: Tables I to III and Figures 2 and 3.
//!
//! The paper's own numbers test its formulas on its own inputs (`formula`). The same tables of machines of ours say how well the formulas
//! forecast: of machines replayed in the paper's environment as far as it is described (`replayed`), and of measured ones
//! ([`add_measured`]). Errors on our machines say nothing of the paper's, whose machines, drives and guests were others.

mod formula;
mod own;
mod queues;
mod replayed;

use std::sync::atomic::AtomicU64;

use crate::{Paper, ReproduceError};
use traces::Record;
use traces::results::SCHEMA_VERSION;
use traces::results::reproduction::{Choice, Reproduction, Source};
use traces::spec::SpecError;

pub use self::own::{MACHINES, PAIRS, Run};
use predictors::casale;
use predictors::predictor::{PredictError, Predictor};

/// The row of the table of papers.
pub const PAPER: Paper = Paper {
    name: "casale2011",
    title: "Casale, Kraft, Krishnamurthy 2011: consolidation predictors",
    jobs: |seeds, _| (seeds * replayed::GROUPS) as u64,
    reproduce,
};

fn casale() -> Result<Box<dyn Predictor>, SpecError> {
    Ok(casale::published::ENTRY.by_default()?.predictor().expect("it forecasts"))
}

fn reproduce(seeds: &[u64], _alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError> {
    let casale = casale()?;
    let formula = formula::formula(&*casale);
    let mut choices = formula::choices();
    choices.extend(replayed::choices());
    let mut reproduction = Reproduction {
        schema_version: SCHEMA_VERSION,
        paper:
            "Casale, Kraft, Krishnamurthy 2011, A Model of Storage I/O Performance Interference in Virtualized Systems"
                .to_owned(),
        seeds: seeds.to_vec(),
        choices,
        cells: formula.cells,
        errors: Vec::new(),
        bars: formula.bars,
        ranks: Vec::new(),
        alternatives: Vec::new(),
        figures: Vec::new(),
        statements: formula::statements(formula.misprints),
    };
    let (runs, records) = replayed::runs(seeds, done)?;
    match add(&mut reproduction, Source::Replayed, &runs, &records) {
        Ok(()) => {}
        Err(error) => reproduction.statements.push(format!("No tables of replayed machines: {error}.")),
    }
    Ok(reproduction)
}

/// Adds what machines of a lab were: `runs` of [`MACHINES`] and [`PAIRS`], and all requests of web and mail together at the LUN.
///
/// # Errors
/// What is wrong with a profile.
pub fn add_measured(
    reproduction: &mut Reproduction,
    runs: &[Run],
    records: &[Record],
    drive: &str,
) -> Result<(), PredictError> {
    reproduction.choices.push(Choice::new(
        "measured machines",
        &format!("guests of a lab on {drive}"),
        "real kernels on a served drive of known times; workloads in fio shaped like FileBench's",
    ));
    add(reproduction, Source::Measured, runs, records)
}

fn add(reproduction: &mut Reproduction, source: Source, runs: &[Run], records: &[Record]) -> Result<(), PredictError> {
    let (cells, errors) = own::tables(source, runs)?;
    reproduction.cells.extend(cells);
    reproduction.errors.extend(errors);
    reproduction.figures.extend(queues::figures(own::word(source), records));
    Ok(())
}
