//! The folder of `iocast validate guest`: a lab for the capture, and one for each scheduler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use capture::lab::{Plan, PlannedVm, RESULTS_FILE, alone};
use serde::Deserialize;
use traces::results::lab::LabResults;

use super::KERNEL_SCHEDULERS;
use crate::error::UsageError;
use crate::validate::guest_queue::GuestQueue;

/// The folder of the lab that makes the captures.
pub const CAPTURE_FOLDER: &str = "capture";
/// The plan that was given.
pub const PLAN_FILE: &str = "plan.toml";
/// A drive is late in a run if its replies are later than this at p99, in nanoseconds.
const LATE_NS: u64 = 1_000_000;

/// The runs under each scheduler, and the captures that are replayed.
pub struct GuestFolder {
    pub path: PathBuf,
    pub plan: Plan,
    /// The baseline first.
    pub schedulers: Vec<String>,
    pub repetitions: u32,
    pub kernel: String,
    pub accelerator: String,
    /// How long the workload of a capture ran.
    pub capture_seconds: u32,
}

impl GuestFolder {
    /// Reads the folder. Without `schedulers`, those that the folder has.
    ///
    /// # Errors
    /// A lab is missing or incomplete, or schedulers that do not begin with that of the captures.
    pub fn read(path: &Path, schedulers: Option<Vec<String>>) -> Result<GuestFolder> {
        let plan = Plan::read_kept(&path.join(PLAN_FILE))
            .with_context(|| format!("{}: cannot be read; name a folder of runs, or a plan", path.display()))?;
        let captured = Plan::read_kept(&path.join(CAPTURE_FOLDER).join(PLAN_FILE))?;
        let Some(baseline) = captured.guest.scheduler.clone() else {
            bail!("{}: the captures name no scheduler; begin again in another folder", path.display());
        };
        let schedulers = schedulers.unwrap_or_else(|| {
            let others = KERNEL_SCHEDULERS.iter().filter(|name| **name != baseline && path.join(name).is_dir());
            [baseline.clone()].into_iter().chain(others.map(|name| (*name).to_owned())).collect()
        });
        ensure!(
            schedulers[0] == baseline,
            UsageError(format!(
                "--schedulers: {} was captured under {baseline}, which must come first, not {}",
                path.display(),
                schedulers[0]
            ))
        );
        let labs = schedulers.iter().map(|name| results(&path.join(name))).collect::<Result<Vec<_>>>()?;
        let captures = results(&path.join(CAPTURE_FOLDER))?;
        let complete = |lab: &LabResults| complete_repetitions(&captured, lab);
        let repetitions = labs.iter().map(complete).min().unwrap_or(0);
        ensure!(
            repetitions > 0 && complete(&captures) > 0,
            "{}: no repetition has every VM; complete the runs with PLAN.toml --resume",
            path.display()
        );
        let [kernel, accelerator] = [labs[0].kernel.clone(), labs[0].accelerator.clone()];
        let capture_seconds = captured.seconds;
        Ok(GuestFolder { path: path.to_owned(), plan, schedulers, repetitions, kernel, accelerator, capture_seconds })
    }

    /// The capture of a VM that is replayed.
    pub fn capture(&self, vm: usize) -> PathBuf {
        self.run(vm, CAPTURE_FOLDER, 1)
    }

    /// The trace of a VM in a run.
    pub fn run(&self, vm: usize, lab: &str, repetition: u32) -> PathBuf {
        let name = &self.plan.vms[vm].name;
        self.path.join(lab).join(format!("runs/{}/{repetition}/{name}.parquet", alone(name)))
    }

    /// The runs in which the served drive was late.
    ///
    /// # Errors
    /// The report of a run cannot be read.
    pub fn late_runs(&self) -> Result<Vec<String>> {
        let mut late = Vec::new();
        for vm in &self.plan.vms {
            let of = |lab: &str, repetition: u32| format!("{lab}/runs/{}/{repetition}", alone(&vm.name));
            let measured = self.schedulers.iter().flat_map(|lab| (1..=self.repetitions).map(move |run| of(lab, run)));
            for run in [of(CAPTURE_FOLDER, 1)].into_iter().chain(measured) {
                if is_late(&self.path.join(&run))? {
                    late.push(run);
                }
            }
        }
        Ok(late)
    }

    /// The queue of a VM's disk, as its capture recorded it.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn queue(&self, vm: usize) -> Result<GuestQueue> {
        let path = self.capture(vm).with_extension("").join("queue.txt");
        let text = traces::read_text(&path).with_context(|| path.display().to_string())?;
        let Some(rotational) = text.lines().find_map(|line| line.strip_prefix("rotational ")) else {
            bail!("{}: has no line `rotational 0` or `rotational 1`", path.display());
        };
        Ok(GuestQueue::of(self.plan.guest.queue_depth, self.plan.vms[vm].disk, rotational.trim() == "1"))
    }
}

/// A part of the report of a served drive.
#[derive(Deserialize)]
struct Served {
    lateness: Lateness,
}

/// How late its replies were, by the name of the percentile.
#[derive(Deserialize)]
struct Lateness {
    percentiles_ns: BTreeMap<String, u64>,
}

/// Whether the served drive of the run in `folder` was late: the host was too busy to serve it.
fn is_late(folder: &Path) -> Result<bool> {
    let path = folder.join("lun.json");
    let text = traces::read_text(&path).with_context(|| path.display().to_string())?;
    let served: Served = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(served.lateness.percentiles_ns.get("p99").is_some_and(|&p99| p99 > LATE_NS))
}

/// How often every VM of a plan has run alone. A lab stores its results after each run, so the last repetition may lack
/// some.
fn complete_repetitions(plan: &Plan, lab: &LabResults) -> u32 {
    let runs_of = |vm: &PlannedVm| lab.runs.iter().filter(|run| run.group == alone(&vm.name)).count();
    plan.vms.iter().map(runs_of).min().unwrap_or(0) as u32
}

/// The results of one lab.
fn results(folder: &Path) -> Result<LabResults> {
    let path = folder.join(RESULTS_FILE);
    let text = traces::read_text(&path)
        .with_context(|| format!("{}: cannot be read; complete the runs with PLAN.toml --resume", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: is no result of a lab", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_counts_when_every_vm_has_run_in_it() {
        let vm =
            |name: &str| format!("[[vm]]\nname = \"{name}\"\nworkload = \"web\"\ndisk = \"virtio\"\nsize = \"64m\"\n");
        let plan = format!("seconds = 1\n[lun]\ndrive = \"x\"\nsize = \"1g\"\n{}{}", vm("a"), vm("b"));
        let plan: Plan = toml::from_str(&plan).unwrap();
        let run = |group: &str, repetition| {
            format!(
                r#"{{"group": "{group}", "repetition": {repetition}, "folder": "", "begun_unix_ns": 0, "vms": []}}"#
            )
        };
        let lab = |runs: &[String]| -> LabResults {
            let runs = runs.join(",");
            serde_json::from_str(&format!(
                r#"{{"schema_version": 1, "program": "", "drive": "", "kernel": "", "accelerator": "",
                    "measured_seconds": 1, "runs": [{runs}], "summary": []}}"#
            ))
            .unwrap()
        };
        let mut runs = vec![run("alone-a", 1)];
        assert_eq!(complete_repetitions(&plan, &lab(&runs)), 0);
        runs.extend([run("alone-b", 1), run("together-a-b", 1), run("alone-a", 2)]);
        assert_eq!(complete_repetitions(&plan, &lab(&runs)), 1);
        runs.push(run("alone-b", 2));
        assert_eq!(complete_repetitions(&plan, &lab(&runs)), 2);
    }
}
