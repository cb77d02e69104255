//! Noorshams, Rostami, Kounev, Reussner 2014, "Modeling of I/O Performance Interference in Virtualized Environments
//! with Queueing Petri Nets": Figures 1, 7 and 8.
//!
//! Clients in one VM and in two VMs are measured on a testbed (`testbed.rs`). The paper's model and the refined one
//! (`predictors::qpn`) are calibrated with one VM (`experiment.rs`) and forecast two VMs.

mod claims;
mod experiment;
mod results;
mod statements;
mod testbed;

use std::sync::atomic::{AtomicU64, Ordering};

use predictors::qpn::mixes::{MeasuredMix, log_ratio};
use rayon::prelude::*;
use traces::results::SCHEMA_VERSION;
use traces::results::reproduction::{Alternative, Claim, Reproduction};

use self::experiment::{Measurements, Models, plan};
use self::results::Seed;
use self::testbed::Testbed;
use crate::{Paper, ReproduceError};

/// The registry's row.
pub const PAPER: Paper = Paper {
    name: "noorshams2014",
    title: "Noorshams, Rostami, Kounev, Reussner 2014: I/O interference with queueing Petri nets",
    jobs: |seeds, alternatives| {
        let others = if alternatives { Testbed::alternatives().len() * seeds.min(SEEDS_OF_ALTERNATIVES) } else { 0 };
        ((seeds + others) * plan().len()) as u64
    },
    reproduce,
};

/// Number of seeds for alternatives.
const SEEDS_OF_ALTERNATIVES: usize = 1;

fn reproduce(seeds: &[u64], alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError> {
    let measured = measure(&Testbed::FROZEN, seeds, done)?;
    let cells = results::cells(&measured);
    let mut others = Vec::new();
    if alternatives {
        let few = &seeds[..seeds.len().min(SEEDS_OF_ALTERNATIVES)];
        others.push(alternative("as chosen", "on the same seed", &measured[..few.len()]));
        for (name, value, testbed) in Testbed::alternatives() {
            others.push(alternative(name, value, &measure(&testbed, few, done)?));
        }
    }
    Ok(Reproduction {
        schema_version: SCHEMA_VERSION,
        paper: "Noorshams, Rostami, Kounev, Reussner 2014, Modeling of I/O Performance Interference in Virtualized \
                Environments with Queueing Petri Nets"
            .to_owned(),
        seeds: seeds.to_vec(),
        choices: statements::choices(),
        errors: results::group_errors(&cells),
        bars: results::bars(&cells),
        ranks: Vec::new(),
        claims: claims::claims(&measured),
        alternatives: others,
        figures: results::series(&measured),
        statements: statements::statements(&measured, measured.first().map(searched).transpose()?),
        cells,
    })
}

/// Measures the whole plan with each seed, and calibrates the models.
fn measure(testbed: &Testbed, seeds: &[u64], done: &AtomicU64) -> Result<Vec<Seed>, ReproduceError> {
    let plan = plan();
    let jobs: Vec<_> = seeds.iter().flat_map(|&seed| plan.iter().map(move |(_, vms)| (seed, vms))).collect();
    let run = |(seed, vms): &(u64, &Vec<testbed::Threads>)| {
        let measured = testbed.measure(vms, *seed)?;
        done.fetch_add(1, Ordering::Relaxed);
        Ok::<_, ReproduceError>(measured)
    };
    let measured: Vec<_> = jobs.par_iter().map(run).collect::<Result<_, _>>()?;
    let seed = |measured: &[_]| {
        let measured = Measurements::of(measured);
        let models = Models::calibrated(&measured).ok_or(ReproduceError::NotCalibrated)?;
        Ok(Seed { measured, models })
    };
    measured.chunks(plan.len()).map(seed).collect()
}

/// The results on another testbed.
fn alternative(name: &str, value: &str, seeds: &[Seed]) -> Alternative {
    Alternative {
        name: name.to_owned(),
        value: value.to_owned(),
        errors: results::group_errors(&results::cells(seeds)),
        pairs_right: [0, 0],
        claims_hold: Claim::count(&claims::claims(seeds)),
    }
}

/// How far weights that are searched by simulation are from the closed form: the greatest relative difference over the
/// mixes of one VM.
fn searched(seed: &Seed) -> Result<f64, ReproduceError> {
    let storage = &seed.models.published;
    let apart = |point: &experiment::Point| {
        let mix = MeasuredMix { threads: point.threads, responses: point.responses };
        let found = storage.searched_log_weight(&mix)?;
        Ok(found.map_or(f64::INFINITY, |found| (libm::exp(found - log_ratio(mix.rates())) - 1.0).abs()))
    };
    let all: Vec<f64> = seed.measured.one_vm.par_iter().map(apart).collect::<Result<_, ReproduceError>>()?;
    Ok(all.into_iter().fold(0.0, f64::max))
}

#[cfg(test)]
mod tests;
