//! `iocast predict`: what machines get of a device they share, from a capture of each alone.

mod on_drive;
pub mod profiles;
mod tables;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use predictors::profile::overlap;
use predictors::{Consolidation, Method, Outcomes, PREDICTORS, PredictError, predictor};
use serde::Deserialize;
use traces::results::SCHEMA_VERSION;
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::{Outcome, PairPrediction, Predictions};
use traces::spec::{Spec, parse_list};

use crate::arguments::Predict;
use crate::error::UsageError;
use crate::files::Files;
use crate::output::{print, print_json};
use crate::output_format::OutputFormat;
use profiles::Alone;

pub fn run(arguments: &Predict) -> Result<()> {
    arguments.check()?;
    let mut predictors = chosen(&arguments.predictors)?;
    let known = arguments.learn_from.as_deref().map(known).transpose()?.unwrap_or_default();
    let machines = profiles::named(arguments.vms.iter().chain(&arguments.also))?;
    let together = arguments.vms.len();
    let endings: Vec<String> =
        machines[..together].iter().map(|machine| format!("-{}.json", machine.named.name)).collect();
    let planned = |stem: &std::path::PathBuf| Files::planned(stem.clone(), arguments.force, &endings, &[]);
    let files = arguments.output.as_ref().map(planned).transpose()?;
    let storage = arguments.replayed_on.storage()?;
    let (mut alone, truth) = match &storage {
        Some(storage) => {
            let (alone, truth) = on_drive::replay(&machines, together, storage, arguments)?;
            (alone, Some(truth))
        }
        None => (profiles::gather(&machines, arguments)?, None),
    };
    predictors::check::check(&alone.profiles)?;
    let also = alone.profiles.split_off(together);
    let mut forecasts = outcomes(&predictors, &alone);
    forecasts.extend(learned(&mut predictors, &forecasts, &known.iter().collect::<Vec<_>>()));
    let names = alone.profiles.iter().map(|profile| profile.vm.clone()).collect();
    let predictions = Predictions {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
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
    match arguments.output_format {
        OutputFormat::Json => print_json(&predictions)?,
        format => print(&tables::render(&predictions, format))?,
    }
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

/// How much of what each machine touches every other touches, too.
fn overlaps(alone: &[IsolationProfile]) -> Vec<Vec<Option<f64>>> {
    let shared = |one: usize, other: usize| match one == other {
        true => None,
        false => overlap(&alone[one].footprint, &alone[other].footprint),
    };
    let all = 0..alone.len();
    all.clone().map(|one| all.clone().map(|other| shared(one, other)).collect()).collect()
}

/// A predictor under the name that the user gave it.
pub type Chosen = (String, Method);

/// The predictors that are asked for, each under the name it was given.
pub fn chosen(list: &str) -> Result<Vec<Chosen>> {
    let specs = if list == "all" {
        PREDICTORS.iter().map(|entry| Spec { name: entry.name.to_owned(), given: Vec::new() }).collect()
    } else {
        parse_list(list).map_err(UsageError::from_display)?
    };
    let built = |spec: &Spec| Ok((spec.to_string(), predictors::build(spec).map_err(UsageError::from_display)?));
    let mut chosen = specs.iter().map(built).collect::<Result<Vec<Chosen>>>()?;
    // Who learns from others brings them along.
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

/// What the predictors that do not learn make of machines, or why nothing.
pub fn outcomes(predictors: &[Chosen], alone: &Alone) -> Outcomes {
    let of = |(name, method): &Chosen| match method {
        Method::Predictor(predictor) => {
            Some((name.clone(), outcome(predictor::predict(&**predictor, alone.isolated()))))
        }
        Method::Corrector(_) => None,
    };
    predictors.iter().filter_map(of).collect()
}

/// What those that learn make of the `others`' forecasts, after having learned from what is `known`.
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

/// What is read of consolidations whose truth is known.
#[derive(Deserialize)]
struct Known {
    pairs: Vec<PairPrediction>,
}

/// Consolidations whose truth is known.
fn known(path: &Path) -> Result<Vec<PairPrediction>> {
    let path_text = path.display();
    let says = "iocast validate consolidation, or predict --drive, prints with --output-format json";
    let text = std::fs::read_to_string(path).with_context(|| format!("{path_text}: cannot be read"))?;
    let known: Known = serde_json::from_str(&text).with_context(|| format!("{path_text}: is not what {says}"))?;
    ensure!(known.pairs.iter().any(|pair| pair.truth.is_some()), "{path_text}: knows no truth, as what {says}");
    Ok(known.pairs)
}
