//! All runs of a plan: disks prepared once, then each machine alone and groups together, again and again.

mod runner;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use traces::results::lab::LabResults;

use super::image::GuestImage;
use super::plan::{Plan, Transport};
use super::process::require;
use super::results::summarise;
use super::{LabError, sandbox};
use runner::{LabRunner, carried};

/// The plan, in the folder of its results.
const PLAN_FILE: &str = "plan.toml";
/// About how long it takes to prepare a disk, and what a run takes beside its workload; for the time that is shown to
/// be left.
const DISK_ESTIMATE: Duration = Duration::from_secs(45);
const RUN_OVERHEAD_ESTIMATE: Duration = Duration::from_secs(25);

/// Where a lab works and with what.
#[derive(Clone, Debug)]
pub struct Lab {
    /// What is done.
    pub plan: Plan,
    /// The plan as it was written.
    pub plan_text: String,
    /// The folder that the plan's relative paths start from.
    pub plan_folder: PathBuf,
    /// The folder of the results; made if it is not there.
    pub folder: PathBuf,
    /// What guests boot.
    pub image: GuestImage,
    /// The program that serves the disk, converts and captures the wire: `iocast`.
    pub iocast: PathBuf,
}

/// Who is told how far a lab is.
pub trait LabProgress {
    /// `what` begins, step `step` of `steps`; it and the rest take about `left`.
    fn begins(&mut self, what: &str, step: usize, steps: usize, left: Duration);
}

/// That the programs which `plan` needs are installed: before the work, not in the middle of it.
///
/// # Errors
/// The first that is missing, with its Debian package if there is one.
pub fn check_programs(plan: &Plan) -> Result<(), LabError> {
    require(&[
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("nbdkit", "nbdkit"),
        ("nbdfuse", "libnbd-bin"),
        ("tar", "tar"),
        ("unshare", "util-linux"),
        ("ip", "iproute2"),
    ])?;
    if plan.vms.iter().any(|vm| vm.disk == Transport::Iscsi) {
        require(&[("tgtd", "tgt"), ("tgtadm", "tgt"), ("dumpcap", "wireshark-common"), ("mount", "mount")])?;
    }
    plan.vms.iter().try_for_each(|vm| carried(vm).map(drop))
}

/// Makes every run of the plan.
///
/// # Errors
/// The first run that fails ends it, or `stop` does; what was finished before stays.
pub fn run(lab: &Lab, watch: &mut dyn LabProgress, stop: &AtomicBool) -> Result<LabResults, LabError> {
    let plan = &lab.plan;
    std::fs::create_dir_all(&lab.folder).map_err(LabError::io(&lab.folder))?;
    keep_plan(lab)?;
    let scratch = tempfile::tempdir().map_err(LabError::io(&std::env::temp_dir()))?;
    let groups = plan.groups();
    let (disks, all_runs) = (plan.vms.len(), groups.len() * plan.repetitions as usize);
    let steps = disks + all_runs;
    let left = |disks: usize, runs: usize| {
        DISK_ESTIMATE * disks as u32 + (RUN_OVERHEAD_ESTIMATE + Duration::from_secs(plan.seconds.into())) * runs as u32
    };
    let accelerator = lab.image.accelerator(plan.guest.accelerator, scratch.path())?;
    let bench = LabRunner { lab, accelerator, sockets: scratch.path(), stop };
    for vm in 0..disks {
        watch.begins(
            &format!("preparing the disk of {}", plan.vms[vm].name),
            1 + vm,
            steps,
            left(disks - vm, all_runs),
        );
        bench.prepare(vm)?;
    }
    let mut runs = Vec::new();
    for repetition in 1..=plan.repetitions {
        for group in &groups {
            if let Some(made) = bench.made(group, repetition)? {
                runs.push(made);
                continue;
            }
            let what = format!("{}, repetition {repetition} of {}", group.name, plan.repetitions);
            watch.begins(&what, 1 + disks + runs.len(), steps, left(0, all_runs - runs.len()));
            runs.push(bench.run(group, repetition)?);
        }
    }
    Ok(summarise(plan, &lab.image.version, accelerator, runs))
}

/// Keeps the plan with its results. Where there are some, they have to be of the same plan, but for the number of repetitions.
fn keep_plan(lab: &Lab) -> Result<(), LabError> {
    let kept = lab.folder.join(PLAN_FILE);
    if kept.is_file() {
        let before = Plan { repetitions: lab.plan.repetitions, ..Plan::parse(&kept)? };
        if before != lab.plan {
            let problem = format!("{} is not this plan: name another folder", kept.display());
            return Err(LabError::Host(problem));
        }
    }
    std::fs::write(&kept, &lab.plan_text).map_err(LabError::io(&kept))
}

/// That this user may do what `plan` needs.
///
/// # Errors
/// iSCSI needs root.
pub fn check_rights(plan: &Plan) -> Result<(), LabError> {
    if sandbox::is_entered() || sandbox::is_root() || plan.vms.iter().all(|vm| vm.disk != Transport::Iscsi) {
        return Ok(());
    }
    Err(LabError::Host(
        "a target and its disks over iSCSI need root (CAP_SYS_ADMIN to mount, CAP_NET_RAW to record the wire); virtio \
         disks do not"
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests;
