//! Captures replayed closed on a drive behind a scheduler or layers, as somebody who records there would see them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use predictors::check::{REPLAYED_BEHIND, REPLAYED_ON};
use predictors::replayed::{Door, Ran};
use replay::host::Single;
use replay::sources::{Closed, TimeWindow, Workload};
use replay::stack::StackSpec;
use replay::{Engine, Host, Limits, Stage};
use traces::trace::ReadOptions;
use traces::{Sectors, Timestamp};

use crate::error::UsageError;
use crate::vms::Vm;

/// A drive and what stands before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Storage {
    pub drive: String,
    pub before: Before,
    /// What the drive holds.
    pub capacity: Sectors,
}

/// What stands before a drive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Before {
    /// A scheduler, and how many requests the drive has at once.
    Scheduler { scheduler: String, depth: u32 },
    /// Layers, as `--stack` has them.
    Stack(String),
}

impl Storage {
    /// `drive` behind what is named of the rest: layers, or a scheduler (fifo) and a depth (1).
    ///
    /// # Errors
    /// Layers beside a scheduler or a depth, a depth of 0, or parts that cannot be built.
    pub fn new(
        drive: String,
        scheduler: Option<String>,
        depth: Option<u32>,
        stack: Option<String>,
    ) -> Result<Storage, UsageError> {
        let refused = |problem: &str| Err(UsageError(problem.to_owned()));
        let before = match stack {
            Some(_) if scheduler.is_some() || depth.is_some() => {
                return refused(
                    "a stack has schedulers and depths of its own; name either it or a scheduler and a depth",
                );
            }
            Some(stack) => Before::Stack(stack),
            None => Before::Scheduler {
                scheduler: scheduler.unwrap_or_else(|| "fifo".to_owned()),
                depth: depth.unwrap_or(1),
            },
        };
        if matches!(before, Before::Scheduler { depth: 0, .. }) {
            return refused("depth 0 lets nothing through");
        }
        let built = |drive: &str| -> Result<Sectors> {
            match &before {
                Before::Scheduler { scheduler, .. } => drop(schedulers::build(&scheduler.parse()?)?),
                Before::Stack(stack) => drop(StackSpec::of(stack)?),
            }
            Ok(drive_models::build(&drive.parse()?)?.drive.capacity())
        };
        let capacity = built(&drive).map_err(|problem| UsageError(problem.to_string()))?;
        Ok(Storage { drive, before, capacity })
    }

    /// What each of `vms` gets here when their captures are replayed closed beside one another, until the first has nothing more to send.
    ///
    /// # Errors
    /// A capture that cannot be read or does not fit; one that cannot be replayed closed.
    pub fn replay(
        &self,
        vms: &[&Vm],
        options: &ReadOptions,
        window: TimeWindow,
        done: Arc<AtomicU64>,
    ) -> Result<Vec<Ran>> {
        let drive = drive_models::build(&self.drive.parse()?)?.drive;
        let traces = vms.iter().map(|vm| vm.open(options)).collect::<Result<Vec<_>>>()?;
        let workload = Workload::new(traces, window, self.capacity).with_progress(done);
        match &self.before {
            Before::Scheduler { scheduler, depth } => {
                let scheduler = schedulers::build(&scheduler.parse()?)?.scheduler;
                let stage = Stage::new(scheduler, Limits { depth: *depth, ..Limits::default() });
                self.run(Single::new(stage, drive), workload, vms)
            }
            Before::Stack(stack) => self.run(StackSpec::of(stack)?.build(drive), workload, vms),
        }
    }

    fn run<H: Host>(&self, host: H, workload: Workload, vms: &[&Vm]) -> Result<Vec<Ran>> {
        let ended = Engine::on(Closed::new(workload), host, Door::new(vms.len())).run().context(self.drive.clone())?;
        let read = ended.source.workload().read();
        let until = ended.observer.until();
        let names = vms.iter().map(|vm| vm.name.clone());
        let mut ran = ended.observer.ran(names, Timestamp::ZERO, until, self.capacity);
        for ((ran, vm), read) in ran.iter_mut().zip(vms).zip(&read) {
            let mut trace = vm.provenance(read);
            // Wherever it was recorded, its responses are what was seen at the door.
            trace.layer = ran.profile.trace.as_ref().map_or(trace.layer, |seen| seen.layer);
            trace.made.insert(REPLAYED_ON.to_owned(), self.drive.clone());
            trace.made.insert(REPLAYED_BEHIND.to_owned(), self.before.to_string());
            ran.profile.trace = Some(trace);
            ran.profile.program = traces::program_version();
        }
        Ok(ran)
    }
}

impl std::fmt::Display for Before {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Before::Scheduler { scheduler, depth } => write!(formatter, "{scheduler}, depth {depth}"),
            Before::Stack(stack) => formatter.write_str(stack),
        }
    }
}
