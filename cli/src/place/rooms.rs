//! Machines on a LUN, replayed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use predictors::replayed::{Door, Ran};
use replay::sources::{Closed, Mapping, TimeWindow, Workload};
use replay::{Engine, Limits, Stage};
use traces::Timestamp;
use traces::spec::Spec;
use traces::trace::ReadOptions;

use super::plan::{Lun, Plan, Vm};
use crate::vms::gather;

/// What each of `machines` gets on `lun`, whose drive is `drive`, when their captures are replayed there closed, one behind the other
/// on it; until the first has nothing more to send.
///
/// # Errors
/// A capture that cannot be read or does not fit; none that could be replayed closed.
pub fn replay(plan: &Plan, lun: &Lun, drive: &str, machines: &[&Vm]) -> Result<Vec<Ran>> {
    let drive: Spec = drive.parse()?;
    let drive = drive_models::build(&drive)?.drive;
    let scheduler = schedulers::build(&lun.scheduler.parse()?)?.scheduler;
    let window = TimeWindow { from: plan.start, to: plan.end, limit: None };
    let options = ReadOptions::default();
    let named: Vec<String> = machines.iter().map(|vm| format!("{}={}", vm.name, vm.capture.display())).collect();
    let capacity = drive.capacity();
    let vms = gather(&[], &named, &options, Mapping::Remap, window, capacity)?;
    let traces = vms.iter().map(|vm| vm.open(&options)).collect::<Result<Vec<_>>>()?;
    let source = Closed::new(Workload::new(traces, window, capacity).with_progress(Arc::new(AtomicU64::new(0))));
    let limits = Limits { depth: lun.depth, ..Limits::default() };
    let engine = Engine::new(source, Stage::new(scheduler, limits), drive, Door::new(machines.len()));
    let door = engine.run().with_context(|| format!("LUN {}", lun.name))?.observer;
    let until = door.until();
    Ok(door.ran(machines.iter().map(|vm| vm.name.clone()), Timestamp::ZERO, until, capacity))
}
