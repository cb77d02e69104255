//! `iocast predict`: forecasts of VMs that share a device, from a trace or an isolation profile of each alone. With
//! `--solve` it solves a queueing Petri net instead (`solve.rs`).

mod charts;
mod missing;
mod on_drive;
pub mod profiles;
mod solve;
pub mod tables;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use predictors::profile::overlap;
use predictors::{Consolidation, Method, Outcomes, PREDICTORS, PredictError, predictor};
use serde::Deserialize;
use traces::results::SCHEMA_VERSION;
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::{Outcome, PairPrediction, Predictions};
use traces::spec::{Spec, parse_list};

use crate::arguments::Predict;
use crate::document::present;
use crate::error::UsageError;
use crate::files::Files;
use crate::progress::Progress;
use profiles::Alone;

pub fn run(arguments: &Predict) -> Result<()> {
    arguments.span.check()?;
    if let Some(net) = &arguments.solving.solve {
        return solve::run(net, arguments);
    }
    let mut predictors = chosen(&arguments.predictors)?;
    let known = arguments.learn_from.as_deref().map(known).transpose()?.unwrap_or_default();
    let inputs = profiles::named(arguments.vms.iter().chain(&arguments.also))?;
    let together = arguments.vms.len();
    let endings: Vec<String> = inputs[..together].iter().map(|input| format!("-{}.json", input.named.name)).collect();
    let planned = |stem: &std::path::PathBuf| Files::planned(stem.clone(), arguments.force, &endings, &[]);
    let files = arguments.output.as_ref().map(planned).transpose()?;
    let report = arguments.report.planned(arguments.force)?;
    let storage = arguments.replayed_on.storage()?;
    let (mut alone, truth) = match &storage {
        Some(storage) => {
            let (alone, truth) = on_drive::replay(&inputs, together, storage, arguments)?;
            (alone, Some(truth))
        }
        None => (profiles::gather(&inputs, arguments)?, None),
    };
    predictors::check::check(&alone.profiles)?;
    let also = alone.profiles.split_off(together);
    let progress = Progress::jobs("forecasting", predictors.len() as u64);
    let mut forecasts = outcomes(&predictors, &alone, &progress.counter(0));
    forecasts.extend(learned(&mut predictors, &forecasts, &known.iter().collect::<Vec<_>>()));
    drop(progress);
    let names = alone.profiles.iter().map(|profile| profile.vm.clone()).collect();
    let predictions = Predictions {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        missing: missing::questions(&inputs, [&alone.profiles, &also], &forecasts, arguments),
        recommended: predictors::recommended(&forecasts).map(str::to_owned),
        pairs: vec![PairPrediction { vms: names, truth, predictors: forecasts }],
        overlap: overlaps(&alone.profiles),
        alone: alone.profiles,
        also,
    };
    let mut written = Vec::new();
    if let Some(files) = files {
        for (ending, profile) in endings.iter().zip(&predictions.alone) {
            let mut json = serde_json::to_string_pretty(profile)?;
            json.push('\n');
            files.write(ending, json.as_bytes(), &mut written)?;
        }
    }
    present(&predictions, &tables::document(&predictions), arguments.output_format, &report, written)?;
    let refusals: Vec<&str> = predictions.pairs[0]
        .predictors
        .values()
        .filter_map(|outcome| match outcome {
            Outcome::Refused { refused } => Some(refused.as_str()),
            Outcome::Forecast(_) => None,
        })
        .collect();
    ensure!(
        refusals.len() < predictions.pairs[0].predictors.len(),
        "no predictor has a forecast: {}",
        refusals.join("; ")
    );
    Ok(())
}

/// For each VM and each other VM, the share of the first one's footprint that the other touches, too.
fn overlaps(alone: &[IsolationProfile]) -> Vec<Vec<Option<f64>>> {
    let shared = |one: usize, other: usize| match one == other {
        true => None,
        false => overlap(&alone[one].footprint, &alone[other].footprint),
    };
    let all = 0..alone.len();
    all.clone().map(|one| all.clone().map(|other| shared(one, other)).collect()).collect()
}

/// A predictor with the name that the user gave.
pub type Chosen = (String, Method);

/// The requested predictors, each with the name that the user gave.
pub fn chosen(list: &str) -> Result<Vec<Chosen>> {
    let specs = if list == "all" {
        PREDICTORS.iter().map(|entry| Spec { name: entry.name.to_owned(), given: Vec::new() }).collect()
    } else {
        parse_list(list).map_err(UsageError::from_display)?
    };
    let built = |spec: &Spec| Ok((spec.to_string(), predictors::build(spec).map_err(UsageError::from_display)?));
    let mut chosen = specs.iter().map(built).collect::<Result<Vec<Chosen>>>()?;
    // A predictor that learns from others' forecasts needs these predictors as well.
    let learns_from = |(_, method): &Chosen| match method {
        Method::Predictor(_) => [].as_slice(),
        Method::Corrector(corrector) => corrector.learns_from(),
    };
    let needed: Vec<&str> = chosen.iter().flat_map(learns_from).copied().collect();
    for name in needed {
        if chosen.iter().all(|(other, _)| other != name) {
            chosen.push(built(&Spec { name: name.to_owned(), given: Vec::new() })?);
        }
    }
    Ok(chosen)
}

/// The forecasts, or the reasons for none, of the predictors that do not learn from known consolidations. Counts each
/// in `done`.
pub fn outcomes(predictors: &[Chosen], alone: &Alone, done: &AtomicU64) -> Outcomes {
    let of = |(name, method): &Chosen| match method {
        Method::Predictor(predictor) => {
            let outcome = outcome(predictor::predict(&**predictor, alone.isolated()));
            done.fetch_add(1, Ordering::Relaxed);
            Some((name.clone(), outcome))
        }
        Method::Corrector(_) => None,
    };
    predictors.iter().filter_map(of).collect()
}

/// The forecasts of the predictors that learn: the forecasts of the `others`, corrected by what the `known`
/// consolidations show.
pub fn learned(predictors: &mut [Chosen], others: &Outcomes, known: &[&PairPrediction]) -> Outcomes {
    let mut forecasts = Outcomes::new();
    for (name, method) in predictors {
        if let Method::Corrector(corrector) = method {
            corrector.learn(known);
            forecasts.insert(name.clone(), outcome(corrector.correct(others)));
        }
    }
    forecasts
}

fn outcome(consolidation: Result<Consolidation, PredictError>) -> Outcome {
    match consolidation {
        Ok(consolidation) => Outcome::Forecast(consolidation.forecast()),
        Err(error) => Outcome::Refused { refused: error.to_string() },
    }
}

/// The part of a result file that holds consolidations with known truth.
#[derive(Deserialize)]
struct Known {
    pairs: Vec<PairPrediction>,
}

/// Reads consolidations with known truth.
fn known(path: &Path) -> Result<Vec<PairPrediction>> {
    let path_text = path.display();
    let says = "iocast validate consolidation, or predict --drive, prints with --output-format json";
    let text = traces::read_text(path).with_context(|| format!("{path_text}: cannot be read"))?;
    let known: Known =
        serde_json::from_str(&text).with_context(|| format!("{path_text}: is not a file that {says}"))?;
    ensure!(
        known.pairs.iter().any(|pair| pair.truth.is_some()),
        "{path_text}: holds no consolidation with a known result, as a file does that {says}"
    );
    Ok(known.pairs)
}
