//! Casale, Kraft, Krishnamurthy 2011: Tables I to III and Figures 2 and 3.
//!
//! `formula` tests the formulas on inputs that were solved from the paper's predictions, since it prints none. The same
//! tables for our VMs show the errors of the formulas:
//! `replayed` has VMs replayed in the paper's environment as far as the paper describes it, and [`add_measured`] adds
//! measured VMs. The errors for our VMs do not apply to the paper's, because its VMs, drives and guests were different.

mod formula;
mod own;
mod printed;
mod queues;
mod replayed;
mod twin;

use std::sync::atomic::AtomicU64;

use crate::{Paper, ReproduceError, rules};
use traces::Record;
use traces::results::SCHEMA_VERSION;
use traces::results::reproduction::{Alternative, Cell, Choice, Claim, Evidence, Reproduction, Source};
use traces::spec::SpecError;

pub use self::own::{PAIRS, Run, VMS};
use self::queues::Queues;
use self::replayed::{Environment, Replayed};
use predictors::casale;
use predictors::predictor::{PredictError, Predictor};

/// The registry's row.
pub const PAPER: Paper = Paper {
    name: "casale2011",
    title: "Casale, Kraft, Krishnamurthy 2011: consolidation predictors",
    jobs: |seeds, alternatives| {
        let others = if alternatives { Environment::alternatives().len() } else { 0 };
        (seeds * replayed::GROUPS + others * seeds.min(SEEDS_OF_ALTERNATIVES) * replayed::GROUPS) as u64
    },
    reproduce,
};

/// Number of seeds for alternatives.
const SEEDS_OF_ALTERNATIVES: usize = 1;

fn casale() -> Result<Box<dyn Predictor>, SpecError> {
    Ok(casale::published::ENTRY.by_default()?.predictor().expect("it forecasts"))
}

fn reproduce(seeds: &[u64], alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError> {
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
        cells: formula.cells.clone(),
        errors: Vec::new(),
        bars: formula.bars.clone(),
        ranks: Vec::new(),
        claims: Vec::new(),
        alternatives: Vec::new(),
        figures: Vec::new(),
        statements: formula::statements(formula),
    };
    let Replayed { runs, records, rules, traces } = replayed::runs(&Environment::FROZEN, seeds, done)?;
    if alternatives {
        let few = &seeds[..seeds.len().min(SEEDS_OF_ALTERNATIVES)];
        reproduction.alternatives.extend(alternative("as chosen", "on the same seed", &runs[..few.len()], &records));
        for (name, value, environment) in Environment::alternatives() {
            let Replayed { runs, records, .. } = replayed::runs(&environment, few, done)?;
            reproduction.alternatives.extend(alternative(name, value, &runs, &records));
        }
    }
    match add(&mut reproduction, Source::Replayed, &runs, &records) {
        Ok(()) => {}
        Err(error) => reproduction.statements.push(format!("No tables of replayed VMs: {error}.")),
    }
    match twin::errors(&runs[0], &traces) {
        Ok(errors) => reproduction.errors.extend(errors),
        Err(error) => reproduction.statements.push(format!("No forecasts of the twin: {error}.")),
    }
    reproduction.cells.extend(rules::cells("rules of the guests' cfq", "web and mail together", &[&rules]));
    Ok(reproduction)
}

/// The results in another environment: how near its measured figures are, and what holds of its queues. None if its
/// VMs have no tables.
fn alternative(name: &str, value: &str, runs: &[Run], records: &[Record]) -> Option<Alternative> {
    let (cells, mut errors) = own::tables(Source::Replayed, runs).ok()?;
    errors.retain(|error| error.group.ends_with(own::ENVIRONMENT));
    let claims = claims(runs, &Queues::of(records), &cells);
    let claims_hold =
        Claim::count(&claims.into_iter().filter(|claim| claim.place != queues::INPUT).collect::<Vec<_>>());
    Some(Alternative { name: name.to_owned(), value: value.to_owned(), errors, pairs_right: [0, 0], claims_hold })
}

/// Adds the measured VMs of a lab: `runs` of [`VMS`] and [`PAIRS`], and all requests of web and mail together at
/// the LUN.
///
/// # Errors
/// An impossible profile.
pub fn add_measured(
    reproduction: &mut Reproduction,
    runs: &[Run],
    records: &[Record],
    drive: &str,
) -> Result<(), PredictError> {
    reproduction.choices.push(Choice::new(
        "measured VMs",
        &format!("guests of a lab on {drive}"),
        "real kernels on a served drive of known times; workloads in fio shaped like FileBench's",
    ));
    add(reproduction, Source::Measured, runs, records)
}

/// What the paper says of its VMs and of its formulas, and how our replayed VMs stand to it.
fn claims(runs: &[Run], queues: &Queues, cells: &[Cell]) -> Vec<Claim> {
    // The replayed environment was chosen so that those about queues hold.
    let mut claims = queues.claims(own::word(Source::Replayed), Evidence::ChosenOn);
    claims.push(own::correlated_alone(runs));
    claims.extend(own::conclusions(cells));
    claims
}

fn add(reproduction: &mut Reproduction, source: Source, runs: &[Run], records: &[Record]) -> Result<(), PredictError> {
    let (cells, errors) = own::tables(source, runs)?;
    reproduction.errors.extend(errors);
    let queues = Queues::of(records);
    // A lab is not the paper's environment.
    if source == Source::Replayed {
        let alone = own::rates_alone(runs);
        reproduction.statements.extend(own::writes_of_web(&alone));
        reproduction.statements.extend(queues.sizes_of_bursts());
        reproduction.cells.extend(alone);
        reproduction.claims.extend(claims(runs, &queues, &cells));
    }
    if let Some(statement) = own::equation_6_on_writes(source, &cells) {
        reproduction.statements.push(statement);
    }
    reproduction.cells.extend(cells);
    reproduction.figures.extend(queues.figures(own::word(source)));
    Ok(())
}
