//! Measured VMs of a lab beside a paper's numbers.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use capture::lab::alone;
use papers::Paper;
use papers::casale2011::{self, PAIRS, Run, VMS};
use traces::results::reproduction::Reproduction;
use traces::trace::ReadOptions;
use traces::{Record, formats};

use crate::arguments::Reproduce;
use crate::error::UsageError;
use crate::lab_results::Lab;
use crate::predict::profiles::{Alone, Window};

/// The lab results that come with the project.
const SAMPLES: &str = "traces/samples/lab-virtio";

/// Adds the lab's measurements, if the paper has a comparison with a lab and lab results exist.
///
/// # Errors
/// A folder that holds no lab results, or results of other VMs.
pub fn add(paper: &Paper, arguments: &Reproduce, reproduction: &mut Reproduction) -> Result<()> {
    let comparable = paper.name == casale2011::PAPER.name;
    ensure!(
        comparable || arguments.lab.is_none(),
        UsageError(format!("--lab: {} cannot be compared with measured VMs", paper.name))
    );
    if !comparable {
        return Ok(());
    }
    let samples = Path::new(SAMPLES);
    let Some(folder) = arguments.lab.as_deref().or_else(|| samples.is_dir().then_some(samples)) else {
        reproduction.statements.push(format!(
            "No measured VMs: {SAMPLES} does not exist; --lab FOLDER names results of iocast capture lab."
        ));
        return Ok(());
    };
    let lab = Lab::read(folder)?;
    let runs = runs(&lab)?;
    let shown = PAIRS[PAIRS.len() - 1];
    let records = at_lun(&lab, &group(&lab, shown)?)?;
    casale2011::add_measured(reproduction, &runs, &records, &lab.results.drive)
        .with_context(|| format!("{}: its VMs", folder.display()))?;
    if records.is_empty() {
        reproduction
            .statements
            .push(format!("No Figures 2 and 3 of measured VMs: {} holds no log of the LUN.", folder.display()));
    }
    Ok(())
}

/// The group in which a pair ran together.
fn group(lab: &Lab<'_>, pair: [usize; 2]) -> Result<String> {
    let names = pair.map(|vm| VMS[vm]);
    let is = |vms: &[String]| vms.len() == 2 && names.iter().all(|name| vms.iter().any(|vm| vm == name));
    let found = lab.groups.iter().find(|(_, vms)| is(vms)).map(|(group, _)| group.clone());
    found.with_context(|| {
        format!("{}: {} and {} never ran together in this lab", lab.folder.display(), names[0], names[1])
    })
}

fn runs(lab: &Lab<'_>) -> Result<Vec<Run>> {
    let vms: Vec<String> = VMS.map(str::to_owned).to_vec();
    let groups = PAIRS.iter().map(|&pair| group(lab, pair)).collect::<Result<Vec<String>>>()?;
    let made = |group: &String| lab.results.runs.iter().filter(|run| run.group == *group).count();
    let repetitions = groups.iter().map(made).min().unwrap_or(0) as u32;
    let run = |repetition: u32| {
        let alone = lab.measured(&vms, repetition, alone)?.profiles;
        let together = PAIRS.iter().zip(&groups).map(|(pair, group)| {
            let vms = pair.map(|vm| vms[vm].clone());
            let Alone { profiles, .. } = lab.measured(&vms, repetition, |_| group.clone())?;
            <[_; 2]>::try_from(profiles).map_err(|_| anyhow::anyhow!("{group}: it must have two VMs"))
        });
        Ok(Run { together: together.collect::<Result<Vec<_>>>()?, alone })
    };
    (1..=repetitions).map(run).collect()
}

/// The LUN's log of the group's first run, for a time before its end as long as the lab's window; `None` without a log.
fn at_lun(lab: &Lab<'_>, group: &str) -> Result<Vec<Record>> {
    let path = lab.folder.join("runs").join(group).join("1").join("lun.parquet");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let options = ReadOptions::default();
    let mut reader = formats::open(&path, &options)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    // The log begins before the workloads do, and ends with them.
    let last = records.iter().map(|record| record.request.arrival).max().unwrap_or_default();
    let Window { start, end, .. } = lab.window();
    records.retain(|record| end.is_none_or(|end| last.since(record.request.arrival) < end.saturating_sub(start)));
    Ok(records)
}
