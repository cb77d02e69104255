//! A drive with the scheduling in front of it, and what VMs get there when their traces are replayed closed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use drive_models::BuiltDrive;
use predictors::check::{REPLAYED_BEHIND, REPLAYED_ON};
use predictors::synthetic::{Ran, Tap};
use replay::host::Single;
use replay::sources::{Closed, MergedTraces, TimeWindow};
use replay::{Engine, Host, Stage};
use traces::trace::ReadOptions;
use traces::{Sectors, Timestamp};

use crate::error::UsageError;
use crate::scheduling::Scheduling;
use crate::vms::Vm;

/// A drive with the scheduling in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    pub drive: String,
    pub scheduling: Scheduling,
    /// The drive capacity.
    pub capacity: Sectors,
}

impl Storage {
    /// `drive` behind a stage, of `scheduler` (fifo) and `depth` (what the drive's queue holds), or behind the layers of
    /// `stack`.
    ///
    /// # Errors
    /// As [`Scheduling::new`]; a drive that cannot be built.
    pub fn new(
        drive: String,
        scheduler: Option<&str>,
        depth: Option<u32>,
        stack: Option<&str>,
    ) -> Result<Storage, UsageError> {
        let build = || -> Result<BuiltDrive> { Ok(drive_models::build(&drive.parse()?)?) };
        let built = build().map_err(|problem| UsageError(problem.to_string()))?;
        let scheduling = Scheduling::new(scheduler, depth, &built, stack)?;
        let capacity = built.drive.capacity();
        Ok(Storage { drive, scheduling, capacity })
    }

    /// What each of `vms` gets here when their traces are replayed closed, together, until the first has used up
    /// its trace ([`Closed::used_up`]).
    ///
    /// # Errors
    /// A trace that cannot be read, does not fit the drive or cannot be replayed closed.
    pub fn replay(
        &self,
        vms: &[&Vm],
        options: &ReadOptions,
        window: TimeWindow,
        done: Arc<AtomicU64>,
    ) -> Result<Vec<Ran>> {
        let drive = drive_models::build(&self.drive.parse()?)?.drive;
        let traces = vms.iter().map(|vm| vm.open(options)).collect::<Result<Vec<_>>>()?;
        let workload = MergedTraces::new(traces, window, self.capacity).with_progress(done);
        match &self.scheduling {
            Scheduling::Stage { scheduler, limits } => {
                let stage = Stage::new(schedulers::build(scheduler)?.scheduler, *limits);
                self.run(Single::new(stage, drive), workload, vms)
            }
            Scheduling::Stack(stack) => self.run(stack.build(drive), workload, vms),
        }
    }

    fn run<H: Host>(&self, host: H, workload: MergedTraces, vms: &[&Vm]) -> Result<Vec<Ran>> {
        let ended = Engine::on(Closed::new(workload), host, Tap::new(vms.len())).run().context(self.drive.clone())?;
        let read = ended.source.traces().read();
        let used_up = ended.source.used_up().flatten().min();
        let until = ended.observer.until().min(used_up.unwrap_or(Timestamp::MAX));
        let names = vms.iter().map(|vm| vm.name.clone());
        let mut ran = ended.observer.ran(names, Timestamp::ZERO, until, self.capacity);
        for ((ran, vm), read) in ran.iter_mut().zip(vms).zip(&read) {
            let mut trace = vm.provenance(read);
            // Whatever layer it was recorded at, its response times are now those above the scheduler of this storage.
            trace.layer = ran.profile.trace.as_ref().map_or(trace.layer, |seen| seen.layer);
            trace.made.insert(REPLAYED_ON.to_owned(), self.drive.clone());
            trace.made.insert(REPLAYED_BEHIND.to_owned(), self.scheduling.to_string());
            ran.profile.trace = Some(trace);
            ran.profile.program = traces::program_version();
        }
        Ok(ran)
    }
}
