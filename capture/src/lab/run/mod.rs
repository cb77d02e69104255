//! Makes all runs of a plan: prepares the disks once, then runs each VM alone and the groups together, in every
//! repetition.

mod runner;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use traces::results::lab::LabResults;
use traces::whole_file::write_whole;

use super::LabError;
use super::image::GuestImage;
use super::plan::Plan;
use super::results::summarise;
use crate::scratch::Scratch;
use runner::LabRunner;

/// The file of the results in their folder.
pub const RESULTS_FILE: &str = "lab.json";
/// The plan's file in the folder of results.
const PLAN_FILE: &str = "plan.toml";
/// The folder of the VMs' jobs in the folder of results.
pub(super) const JOBS_FOLDER: &str = "jobs";
/// About how long it takes to prepare a disk, and how long a run takes besides its workload; for the estimate of the
/// time left.
const DISK_ESTIMATE: Duration = Duration::from_secs(45);
const RUN_OVERHEAD_ESTIMATE: Duration = Duration::from_secs(25);

/// The inputs of a lab.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The plan.
    pub plan: Plan,
    /// The plan's text.
    pub plan_text: String,
    /// The folder from which the plan's relative paths start.
    pub plan_folder: PathBuf,
    /// The folder of results; created if missing.
    pub folder: PathBuf,
    /// The image that VMs boot.
    pub image: GuestImage,
    /// The program `iocast`, which serves the drive, converts traces and captures the wire.
    pub iocast: PathBuf,
}

/// Receives a lab's progress.
pub trait LabProgress {
    /// Step `step` of `steps`, `what`, begins; it and the rest take about `left`.
    fn begins(&mut self, what: &str, step: usize, steps: usize, left: Duration);
}

/// Makes every run of the plan. Stores the results before each run, so that those of a lab that ends early can be read.
///
/// # Errors
/// The first run that fails, or `stop`, ends the lab. Complete runs are kept.
pub fn run(lab: &Lab, watch: &mut dyn LabProgress, stop: &AtomicBool) -> Result<LabResults, LabError> {
    let plan = &lab.plan;
    std::fs::create_dir_all(&lab.folder).map_err(LabError::io(&lab.folder))?;
    keep_plan(lab)?;
    let jobs = keep_jobs(lab)?;
    let path = lab.folder.join(RESULTS_FILE);
    let scratch = Scratch::new().map_err(LabError::io(&std::env::temp_dir()))?;
    let groups = plan.groups();
    let (disks, all_runs) = (plan.vms.len(), groups.len() * plan.repetitions as usize);
    let steps = disks + all_runs;
    let left = |disks: usize, runs: usize| {
        DISK_ESTIMATE * disks as u32 + (RUN_OVERHEAD_ESTIMATE + Duration::from_secs(plan.seconds.into())) * runs as u32
    };
    let accelerator = lab.image.accelerator(plan.guest.accelerator, scratch.path())?;
    let runner = LabRunner { lab, jobs, accelerator, sockets: scratch.path(), stop };
    for vm in 0..disks {
        watch.begins(
            &format!("preparing the disk of {}", plan.vms[vm].name),
            1 + vm,
            steps,
            left(disks - vm, all_runs),
        );
        runner.prepare(vm)?;
    }
    let results = |runs| summarise(plan, &lab.image.version, accelerator, runs);
    let mut runs = Vec::new();
    for repetition in 1..=plan.repetitions {
        for group in &groups {
            if let Some(made) = runner.existing_run(group, repetition)? {
                runs.push(made);
                continue;
            }
            let what = format!("{}, repetition {repetition} of {}", group.name, plan.repetitions);
            watch.begins(&what, 1 + disks + runs.len(), steps, left(0, all_runs - runs.len()));
            store(&path, &results(runs.clone()))?;
            runs.push(runner.run(group, repetition)?);
        }
    }
    let results = results(runs);
    store(&path, &results)?;
    Ok(results)
}

/// Stores results as JSON.
fn store(path: &Path, results: &impl Serialize) -> Result<(), LabError> {
    let mut json = serde_json::to_string_pretty(results).map_err(|error| LabError::io(path)(error.into()))?;
    json.push('\n');
    Ok(write_whole(path, json.as_bytes())?)
}

/// Copies the VMs' jobs beside the results, and returns them. A job that has changed since the first run would mix two
/// workloads.
fn keep_jobs(lab: &Lab) -> Result<Vec<String>, LabError> {
    let mut jobs = Vec::new();
    let folder = lab.folder.join(JOBS_FOLDER);
    std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
    for (vm, planned) in lab.plan.vms.iter().enumerate() {
        let job = lab.plan.job(vm, &lab.plan_folder).map_err(LabError::Host)?;
        let ending = if planned.filebench.is_some() { "f" } else { "fio" };
        let kept = folder.join(format!("{}.{ending}", planned.name));
        if !kept.is_file() {
            write_whole(&kept, job.as_bytes())?;
        } else if traces::read_text(&kept).map_err(LabError::io(&kept))? != job {
            let problem = format!("{} is not this job of {}: name another folder", kept.display(), planned.name);
            return Err(LabError::Host(problem));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

/// Saves the plan with its results. Existing results must be of the same plan, except for the number of repetitions.
fn keep_plan(lab: &Lab) -> Result<(), LabError> {
    let kept = lab.folder.join(PLAN_FILE);
    if kept.is_file() {
        let before = Plan { repetitions: lab.plan.repetitions, ..Plan::parse(&kept)? };
        if before != lab.plan {
            let problem = format!("{} is not this plan: name another folder", kept.display());
            return Err(LabError::Host(problem));
        }
    }
    Ok(write_whole(&kept, lab.plan_text.as_bytes())?)
}

#[cfg(test)]
mod tests;
