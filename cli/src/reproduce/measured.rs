//! Machines of a lab beside a paper's.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use papers::Paper;
use papers::casale2011::{self, MACHINES, PAIRS, Run};
use traces::results::reproduction::Reproduction;
use traces::trace::ReadOptions;
use traces::{Record, formats};

use crate::arguments::Reproduce;
use crate::error::UsageError;
use crate::lab_results::Lab;
use crate::predict::profiles::{Alone, Window};

/// Where the project keeps its own.
const SAMPLES: &str = "traces/samples/lab-virtio";

/// Adds what the lab measured, if the paper is one that it can stand beside and there is a lab.
///
/// # Errors
/// The lab that was asked for is none, or not of these machines.
pub fn add(paper: &Paper, arguments: &Reproduce, reproduction: &mut Reproduction) -> Result<()> {
    let comparable = paper.name == casale2011::PAPER.name;
    ensure!(
        comparable || arguments.lab.is_none(),
        UsageError(format!("--lab: there are no measured machines to set beside {}", paper.name))
    );
    if !comparable {
        return Ok(());
    }
    let samples = Path::new(SAMPLES);
    let Some(folder) = arguments.lab.as_deref().or_else(|| samples.is_dir().then_some(samples)) else {
        reproduction.statements.push(format!(
            "No measured machines: {SAMPLES} is not there; --lab FOLDER takes what iocast capture lab left."
        ));
        return Ok(());
    };
    let lab = Lab::read(folder)?;
    let runs = runs(&lab)?;
    let shown = PAIRS[PAIRS.len() - 1];
    let records = at_lun(&lab, &group(&lab, shown)?)?;
    casale2011::add_measured(reproduction, &runs, &records, &lab.results.drive)
        .with_context(|| format!("{}: its machines", folder.display()))?;
    if records.is_empty() {
        reproduction
            .statements
            .push(format!("No Figures 2 and 3 of measured machines: {} keeps no log of the LUN.", folder.display()));
    }
    Ok(())
}

/// The group in which a pair ran together.
fn group(lab: &Lab<'_>, pair: [usize; 2]) -> Result<String> {
    let names = pair.map(|machine| MACHINES[machine]);
    let is = |vms: &[String]| vms.len() == 2 && names.iter().all(|name| vms.iter().any(|vm| vm == name));
    let found = lab.groups.iter().find(|(_, vms)| is(vms)).map(|(group, _)| group.clone());
    found.with_context(|| format!("{}: {} and {} do not run together there", lab.folder.display(), names[0], names[1]))
}

fn runs(lab: &Lab<'_>) -> Result<Vec<Run>> {
    let vms: Vec<String> = MACHINES.map(str::to_owned).to_vec();
    let groups = PAIRS.iter().map(|&pair| group(lab, pair)).collect::<Result<Vec<String>>>()?;
    let repetitions = lab.results.runs.iter().map(|run| run.repetition).max().unwrap_or_default();
    let run = |repetition: u32| {
        let alone = lab.machines(&vms, repetition, |vm| format!("alone-{vm}"))?.profiles;
        let together = PAIRS.iter().zip(&groups).map(|(pair, group)| {
            let vms = pair.map(|machine| vms[machine].clone());
            let Alone { profiles, .. } = lab.machines(&vms, repetition, |_| group.clone())?;
            <[_; 2]>::try_from(profiles).map_err(|_| anyhow::anyhow!("{group}: two machines are expected"))
        });
        Ok(Run { together: together.collect::<Result<Vec<_>>>()?, alone })
    };
    (1..=repetitions).map(run).collect()
}

/// What the LUN logged of the group's first run within as long a time before its end as the lab measures; nothing if its log was not kept.
fn at_lun(lab: &Lab<'_>, group: &str) -> Result<Vec<Record>> {
    let path = lab.folder.join("runs").join(group).join("1").join("lun.parquet");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let options = ReadOptions::default();
    let mut reader = (formats::recognise(&path, &options)?.open)(&path, &options)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    // The log begins before the workloads do, and ends with them.
    let last = records.iter().map(|record| record.request.arrival).max().unwrap_or_default();
    let Window { start, end } = lab.window();
    records.retain(|record| end.is_none_or(|end| last.since(record.request.arrival) < end.saturating_sub(start)));
    Ok(records)
}
