//! `iocast predict`: what machines get of a device they share, from a capture of each alone.

pub mod profiles;
mod tables;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use predictors::{PREDICTORS, Predictor, predictor};
use traces::results::SCHEMA_VERSION;
use traces::results::prediction::{Outcome, PairPrediction, Predictions};
use traces::spec::{Spec, parse_list};

use crate::arguments::{OutputFormat, Predict, UsageError};
use crate::files::Files;
use crate::output::{print, print_json};
use profiles::Alone;

pub fn run(arguments: &Predict) -> Result<()> {
    arguments.check()?;
    let predictors = chosen(&arguments.predictors)?;
    let machines = profiles::named(&arguments.machines)?;
    let endings: Vec<String> = machines.iter().map(|machine| format!("-{}.json", machine.name)).collect();
    let planned = |stem: &std::path::PathBuf| Files::planned(stem.clone(), arguments.force, &endings, &[]);
    let files = arguments.output.as_ref().map(planned).transpose()?;
    let alone = profiles::gather(&machines, arguments)?;
    predictors::check::check(&alone.profiles)?;
    let outcomes = predictors.iter().map(|(name, predictor)| (name.clone(), outcome(&**predictor, &alone)));
    let predictors: BTreeMap<String, Outcome> = outcomes.collect();
    let names = alone.profiles.iter().map(|profile| profile.vm.clone()).collect();
    let predictions = Predictions {
        schema_version: SCHEMA_VERSION,
        program: format!("iocast {}", env!("CARGO_PKG_VERSION")),
        pairs: vec![PairPrediction { vms: names, truth: None, predictors }],
        alone: alone.profiles,
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

/// A predictor under the name that the user gave it.
pub type Chosen = (String, Box<dyn Predictor>);

/// The predictors that are asked for, each under the name it was given.
pub fn chosen(list: &str) -> Result<Vec<Chosen>> {
    let specs = if list == "all" {
        PREDICTORS.iter().map(|entry| Spec { name: entry.name.to_owned(), given: Vec::new() }).collect()
    } else {
        parse_list(list).map_err(UsageError::from_display)?
    };
    let built = |spec: &Spec| Ok((spec.to_string(), predictors::build(spec).map_err(UsageError::from_display)?));
    specs.iter().map(built).collect()
}

/// What a predictor makes of machines, or why nothing.
pub fn outcome(predictor: &dyn Predictor, alone: &Alone) -> Outcome {
    match predictor::predict(predictor, &alone.profiles, &alone.recordings) {
        Ok(consolidation) => Outcome::Forecast(consolidation.forecast()),
        Err(error) => Outcome::Refused { refused: error.to_string() },
    }
}
