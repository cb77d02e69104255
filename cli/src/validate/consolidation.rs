//! `iocast validate consolidation`: forecasts compared with measurements of VMs together, in a lab or synthetic setups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use capture::lab::alone;
use predictors::errors::{by_size, errors, mean, policies};
use predictors::{Consolidation, Outcomes};
use traces::results::SCHEMA_VERSION;
use traces::results::prediction::{Consolidations, Outcome, PairPrediction};

use crate::arguments::ValidateConsolidation;
use crate::document::present;
use crate::error::UsageError;
use crate::lab_results::Lab;
use crate::predict::profiles::Alone;
use crate::predict::{Chosen, chosen, learned, outcomes};
use crate::progress::Progress;
use crate::validate::split::Split;
use crate::validate::{errors_tables, replayed};

pub fn run(arguments: &ValidateConsolidation) -> Result<()> {
    let mut predictors = chosen(&arguments.predictors)?;
    let report = arguments.report.planned()?;
    let (truth, mut pairs) = match &arguments.lab {
        Some(folder) => measured(folder, arguments, &predictors)?,
        None => replayed::pairs(arguments, &predictors)?,
    };
    leave_out(&mut pairs, &mut predictors);
    let result = Consolidations {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        truth,
        summary: errors(&pairs),
        by_size: by_size(&pairs),
        policies: policies(&pairs),
        pairs,
    };
    present(&result, &errors_tables::document(&result), arguments.output_format, &report, Vec::new())
}

/// Adds the forecasts of predictors that learn. For each group they learn from the groups that share no VM with it.
fn leave_out(pairs: &mut [PairPrediction], predictors: &mut [Chosen]) {
    let learned: Vec<Outcomes> = pairs
        .iter()
        .map(|pair| {
            let apart = |other: &&PairPrediction| other.vms.iter().all(|vm| !pair.vms.contains(vm));
            learned(predictors, &pair.predictors, &pairs.iter().filter(apart).collect::<Vec<_>>())
        })
        .collect();
    pairs.iter_mut().zip(learned).for_each(|(pair, learned)| pair.predictors.extend(learned));
}

/// A line on the origin of the truth, and every group of a lab with its forecasts; of a split the groups of one part.
fn measured(
    folder: &Path,
    arguments: &ValidateConsolidation,
    predictors: &[Chosen],
) -> Result<(String, Vec<PairPrediction>)> {
    let lab = Lab::read(folder)?;
    let groups: Vec<(&str, &[String])> =
        lab.groups.iter().filter(|(_, vms)| vms.len() > 1).map(|(name, vms)| (name.as_str(), vms.as_slice())).collect();
    ensure!(!groups.is_empty(), UsageError(format!("{}: {}", folder.display(), why_no_groups(&lab))));
    let isolation = Isolation::read(&lab, &groups)?;
    let split = arguments.split.as_deref().map(Split::read).transpose()?;
    let parts = split.map(|split| groups.iter().map(|(_, vms)| part(&lab, &split, vms)).collect::<Result<Vec<_>>>());
    let parts = parts.transpose()?;
    let of_part = |at: usize| parts.as_ref().is_none_or(|parts| Some(parts[at]) == arguments.part.as_deref());
    let groups: Vec<_> =
        groups.into_iter().enumerate().filter(|(at, _)| of_part(*at)).map(|(_, group)| group).collect();
    ensure!(!groups.is_empty(), UsageError("no VMs ran together in the part that is asked for".to_owned()));
    let progress = Progress::jobs("measuring", groups.len() as u64);
    let done = progress.counter(0);
    let mut pairs = Vec::new();
    for (group, vms) in groups {
        pairs.push(isolation.pair(&lab, group, vms, predictors)?);
        done.fetch_add(1, Ordering::Relaxed);
    }
    let of = arguments.part.as_ref().map_or_else(String::new, |part| format!(", the part {part}"));
    Ok((format!("measured: guests {} on {}{of}", lab.results.kernel, lab.results.drive), pairs))
}

/// Why no group of a lab can be forecast.
fn why_no_groups(lab: &Lab<'_>) -> String {
    match lab.plan.groups().iter().filter(|group| group.members.len() > 1).count() {
        0 => "no VMs run together in this lab's plan; its setting `together` names groups that do".to_owned(),
        planned => format!(
            "none of the {planned} groups of VMs of this lab's plan has been recorded; `iocast capture lab` with --resume \
             records them"
        ),
    }
}

/// The part that a group belongs to.
fn part(lab: &Lab<'_>, split: &Split, vms: &[String]) -> Result<&'static str> {
    let planned = lab.plan.vms.iter().enumerate().filter(|(_, planned)| vms.contains(&planned.name));
    let workloads: Vec<String> = planned.map(|(vm, _)| lab.workload(vm)).collect();
    split.part(&workloads, &[&lab.name()?])
}

/// Every VM of a lab's groups alone, by repetition.
struct Isolation {
    vms: Vec<String>,
    repetitions: BTreeMap<u32, Alone>,
}

impl Isolation {
    fn read(lab: &Lab<'_>, groups: &[(&str, &[String])]) -> Result<Isolation> {
        let vms: BTreeSet<&String> = groups.iter().flat_map(|(_, vms)| *vms).collect();
        let vms: Vec<String> = vms.into_iter().cloned().collect();
        // Of a lab that was stopped the last repetition may lack VMs alone, and has no groups then.
        let of_groups = lab.results.runs.iter().filter(|run| run.vms.len() > 1);
        let repetitions: BTreeSet<u32> = of_groups.map(|run| run.repetition).collect();
        let progress = Progress::jobs("reading", repetitions.len() as u64);
        let done = progress.counter(0);
        let read = |repetition: u32| {
            let alone = lab.measured(&vms, repetition, alone)?;
            done.fetch_add(1, Ordering::Relaxed);
            Ok((repetition, alone))
        };
        let repetitions = repetitions.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Isolation { vms, repetitions })
    }

    /// A group with its measured truth and the forecasts from the VMs alone in the same repetition, averaged over
    /// repetitions.
    fn pair(&self, lab: &Lab<'_>, group: &str, vms: &[String], predictors: &[Chosen]) -> Result<PairPrediction> {
        let members: Vec<usize> = vms.iter().filter_map(|vm| self.vms.iter().position(|other| other == vm)).collect();
        let mut truths = Vec::new();
        let mut forecasts: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
        for run in lab.results.runs.iter().filter(|run| run.group == group) {
            let together = lab.measured(vms, run.repetition, |_| group.to_owned())?;
            truths.push(Consolidation::measured(&together.profiles).forecast());
            for (name, outcome) in
                outcomes(predictors, &self.repetitions[&run.repetition].of(&members), &AtomicU64::new(0))
            {
                forecasts.entry(name).or_default().push(outcome);
            }
        }
        let predictors = forecasts.into_iter().map(|(name, outcomes)| (name, together(outcomes))).collect();
        Ok(PairPrediction { vms: vms.to_vec(), truth: Some(mean(&truths)), predictors })
    }
}

/// The mean of the forecasts of several repetitions. If one is refused, the result is a refusal.
fn together(outcomes: Vec<Outcome>) -> Outcome {
    let mut forecasts = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Forecast(forecast) => forecasts.push(forecast),
            refused @ Outcome::Refused { .. } => return refused,
        }
    }
    Outcome::Forecast(mean(&forecasts))
}
