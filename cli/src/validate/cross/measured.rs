//! Cases of labs: the same VMs, each alone, on different drives, disks and schedulers.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use capture::lab::alone;
use rayon::prelude::*;
use traces::results::cross::{CrossCase, CrossLeftOut};
use traces::{Nanos, Record, SECTOR_BYTES, Sectors, Timestamp};

use super::link::link;
use super::{Captured, Outcome, compared};
use crate::arguments::ValidateCross;
use crate::error::UsageError;
use crate::lab_results::Lab;
use crate::progress::Progress;
use crate::validate::guest_queue::{Behind, GuestQueue, simulate};
use crate::validate::guest_requests;
use crate::validate::split::Split;

/// Every VM from each lab to each other one, in each repetition; of a split those of the part that is asked for.
pub fn cases(arguments: &ValidateCross) -> Result<Vec<Outcome>> {
    let labs = arguments.labs.iter().map(|folder| AloneLab::read(folder)).collect::<Result<Vec<_>>>()?;
    for (index, lab) in labs.iter().enumerate() {
        let is_twice = labs[..index].iter().any(|other| other.name == lab.name);
        ensure!(!is_twice, UsageError(format!("two labs have the name {}; rename a folder", lab.name)));
    }
    let split = arguments.split.as_deref().map(Split::read).transpose()?;
    let (planned, left_out) = planned(&labs, split.as_ref(), arguments.part.as_deref())?;
    ensure!(
        !planned.is_empty(),
        UsageError("no VM ran the same workload alone in two of the labs (in the part that is asked for)".to_owned())
    );
    let progress = Progress::jobs("replaying", planned.len() as u64);
    let done = progress.counter(0);
    let run = |case: &Planned<'_>| {
        let found = case.run();
        done.fetch_add(1, Ordering::Relaxed);
        found
    };
    let mut found: Vec<Outcome> = planned.par_iter().map(run).collect::<Result<_>>()?;
    found.extend(left_out.into_iter().map(Err));
    Ok(found)
}

/// A lab, with its VMs alone.
struct AloneLab<'a> {
    lab: Lab<'a>,
    /// The name of its folder.
    name: String,
}

impl AloneLab<'_> {
    fn read(folder: &Path) -> Result<AloneLab<'_>> {
        let lab = Lab::read(folder)?;
        Ok(AloneLab { name: lab.name()?, lab })
    }

    /// The group in which a VM is alone.
    fn alone(&self, vm: usize) -> String {
        alone(&self.lab.plan.vms[vm].name)
    }

    /// The capture of a VM alone.
    fn capture(&self, vm: usize, repetition: u32) -> PathBuf {
        let name = &self.lab.plan.vms[vm].name;
        self.lab.folder.join(format!("runs/{}/{repetition}/{name}.parquet", self.alone(vm)))
    }

    /// The repetitions in which a VM ran alone.
    fn repetitions(&self, vm: usize) -> Vec<u32> {
        let group = self.alone(vm);
        self.lab.results.runs.iter().filter(|run| run.group == group).map(|run| run.repetition).collect()
    }

    /// The scheduler of the guests' kernel.
    fn scheduler(&self) -> Result<&str> {
        self.lab.plan.guest.scheduler.as_deref().with_context(|| {
            let folder = self.lab.folder.display();
            format!("{folder}: its plan leaves the guests' scheduler to the kernel; name it in a plan")
        })
    }

    /// The queue of the guests' disks. A virtio and an iSCSI disk count as turning for the kernel.
    fn queue(&self, vm: usize) -> GuestQueue {
        GuestQueue::of(self.lab.plan.guest.queue_depth, self.lab.plan.vms[vm].disk, true)
    }

    fn behind(&self, vm: usize) -> Behind {
        let plan = &self.lab.plan;
        Behind {
            drive: plan.lun.drive.clone(),
            scheduler: plan.lun.scheduler.clone().unwrap_or_else(|| "fifo".to_owned()),
            place: Sectors::new(plan.place(vm) / SECTOR_BYTES),
            link: link(&self.lab.results.runs, &plan.vms[vm].name),
        }
    }

    /// The part of a run that is measured.
    fn window(&self) -> (Timestamp, Timestamp) {
        let at = |seconds: u32| Timestamp::ZERO.saturating_add(Nanos::from_s(seconds.into()));
        (at(self.lab.plan.warm_up_seconds), at(self.lab.plan.seconds))
    }

    fn records(&self, vm: usize, repetition: u32) -> Result<Vec<Record>> {
        guest_requests::read(&self.capture(vm, repetition), Nanos::from_s(self.lab.plan.seconds.into()))
    }
}

/// A case before it is run.
struct Planned<'a> {
    from: &'a AloneLab<'a>,
    to: &'a AloneLab<'a>,
    /// The VM in each lab.
    vms: [usize; 2],
    repetition: u32,
}

/// All cases of a part, and pairs of runs that cannot be compared.
fn planned<'a>(
    labs: &'a [AloneLab<'a>],
    split: Option<&Split>,
    part: Option<&str>,
) -> Result<(Vec<Planned<'a>>, Vec<CrossLeftOut>)> {
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    for from in labs {
        for to in labs.iter().filter(|to| to.name != from.name) {
            for (vm, name) in from.lab.plan.vms.iter().enumerate().map(|(index, vm)| (index, &vm.name)) {
                let Some(there) = to.lab.plan.vms.iter().position(|other| other.name == *name) else { continue };
                let case =
                    split.map(|split| split.part(&[from.lab.workload(vm)], &[&from.name, &to.name])).transpose()?;
                if part.is_some() && case != part {
                    continue;
                }
                if let Some(why) = unlike(from, vm, to, there) {
                    let (from, to) = (from.name.clone(), to.name.clone());
                    left_out.push(CrossLeftOut { vm: name.clone(), from, to, why });
                    continue;
                }
                let repetitions = from.repetitions(vm);
                let both = to.repetitions(there).into_iter().filter(|repetition| repetitions.contains(repetition));
                planned.extend(both.map(|repetition| Planned { from, to, vms: [vm, there], repetition }));
            }
        }
    }
    Ok((planned, left_out))
}

/// Why a VM of two labs does not do the same in both.
fn unlike(from: &AloneLab<'_>, vm: usize, to: &AloneLab<'_>, there: usize) -> Option<String> {
    let (one, other) = (&from.lab.plan, &to.lab.plan);
    let differ = |what: &str, a: String, b: String| (a != b).then(|| format!("{what} differs: {a} and {b}"));
    differ("the workload", from.lab.workload(vm), to.lab.workload(there))
        .or_else(|| differ("the seed", one.seed.to_string(), other.seed.to_string()))
        .or_else(|| differ("the guests' memory", one.guest.memory.to_string(), other.guest.memory.to_string()))
        .or_else(|| differ("the disk's size", one.vms[vm].size.to_string(), other.vms[there].size.to_string()))
}

impl Planned<'_> {
    /// Replays and compares.
    fn run(&self) -> Result<Outcome> {
        let (from, to, [vm, there]) = (self.from, self.to, self.vms);
        let captured = Captured { records: &from.records(vm, self.repetition)?, window: from.window() };
        let truth = Captured { records: &to.records(there, self.repetition)?, window: to.window() };
        let behind = to.behind(there);
        let path = from.capture(vm, self.repetition);
        let queues = [from.queue(vm), to.queue(there)];
        let (stack, replayed) = simulate(captured.records, &path, to.scheduler()?, queues, &behind)?;
        let case = CrossCase {
            vm: from.lab.plan.vms[vm].name.clone(),
            workload: from.lab.workload(vm),
            from: from.name.clone(),
            to: to.name.clone(),
            repetition: self.repetition,
            stack,
            drive: behind.drive,
            ..CrossCase::default()
        };
        Ok(compared(case, &captured, replayed, &truth))
    }
}
