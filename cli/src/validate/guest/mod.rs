//! `iocast validate guest`: one workload under each real scheduler in a guest and under ours in simulation, on the same
//! drive.

mod compared;
mod folder;
mod runs;
pub mod tables;

use std::path::Path;

use anyhow::{Result, ensure};
use traces::results::SCHEMA_VERSION;
use traces::results::guest::{GuestSimulation, GuestValidation, GuestVm};
use traces::spec::did_you_mean;
use traces::{Nanos, SECTOR_BYTES, Sectors, Timestamp};

use self::compared::{Under, compare};
use self::folder::GuestFolder;
use crate::arguments::ValidateGuest;
use crate::document::present;
use crate::error::UsageError;
use crate::validate::guest_queue::{Behind, Link, simulate};
use crate::validate::guest_requests::{self, FIGURES, figures};

/// The schedulers of Linux 6, by the kernel's names.
const KERNEL_SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "bfq", "kyber"];

/// The values of [`FIGURES`] of one run.
type Values = [Option<f64>; FIGURES.len()];

pub fn run(arguments: &ValidateGuest) -> Result<()> {
    let report = arguments.report.planned()?;
    let schedulers = schedulers(arguments.schedulers.as_deref())?;
    let folder = if arguments.input.is_dir() { arguments.input.clone() } else { runs::make(arguments, &schedulers)? };
    let found = GuestFolder::read(&folder, arguments.schedulers.is_some().then_some(schedulers))?;
    let result = validated(&found)?;
    if !result.late_runs.is_empty() {
        eprintln!(
            "iocast: warning: the served drive was over 1 ms late for 1 % of requests in {}; the host was busy. Delete \
             these folders and repeat the runs with PLAN.toml --resume and less other load",
            result.late_runs.join(", ")
        );
    }
    present(&result, &tables::document(&result), arguments.output_format, &report, Vec::new())
}

/// The schedulers that are compared, the baseline first.
fn schedulers(given: Option<&[String]>) -> Result<Vec<String>> {
    let Some(given) = given else { return Ok(KERNEL_SCHEDULERS.map(str::to_owned).to_vec()) };
    for (index, name) in given.iter().enumerate() {
        let (known, hint) = (KERNEL_SCHEDULERS.join(", "), did_you_mean(name, KERNEL_SCHEDULERS.into_iter()));
        ensure!(
            KERNEL_SCHEDULERS.contains(&name.as_str()),
            UsageError(format!(
                "--schedulers: `{name}` is no scheduler of the guests' kernel, which has {known}{hint}"
            ))
        );
        ensure!(!given[..index].contains(name), UsageError(format!("--schedulers names {name} twice")));
    }
    ensure!(given.len() > 1, UsageError("--schedulers: a comparison needs two or more".to_owned()));
    Ok(given.to_vec())
}

/// Compares the runs of a folder with replays of its captures.
fn validated(found: &GuestFolder) -> Result<GuestValidation> {
    let plan = &found.plan;
    let vms = (0..plan.vms.len()).map(|vm| validated_vm(found, vm)).collect::<Result<_>>()?;
    Ok(GuestValidation {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        kernel: found.kernel.clone(),
        accelerator: found.accelerator.clone(),
        drive: plan.lun.drive.clone(),
        queue_depth: plan.guest.queue_depth,
        baseline: found.schedulers[0].clone(),
        repetitions: found.repetitions,
        measured_seconds: plan.seconds - plan.warm_up_seconds,
        late_runs: found.late_runs()?,
        vms,
    })
}

fn validated_vm(found: &GuestFolder, vm: usize) -> Result<GuestVm> {
    let plan = &found.plan;
    let name = &plan.vms[vm].name;
    let capture = found.capture(vm);
    let records = guest_requests::read(&capture, Nanos::from_s(found.capture_seconds.into()))?;
    ensure!(!records.is_empty(), "{}: holds no request; delete {} and repeat", capture.display(), found.path.display());
    let behind = Behind {
        drive: plan.lun.drive.clone(),
        scheduler: plan.lun.scheduler.clone().unwrap_or_else(|| "fifo".to_owned()),
        place: Sectors::new(plan.place(vm) / SECTOR_BYTES),
        link: Link::default(),
    };
    let queue = found.queue(vm)?;
    let at = |seconds: u32| Timestamp::ZERO.saturating_add(Nanos::from_s(seconds.into()));
    let (begin, end) = (at(plan.warm_up_seconds), at(plan.seconds));
    let mut simulations = Vec::new();
    let mut values: Vec<(Vec<Values>, Values)> = Vec::new();
    for scheduler in &found.schedulers {
        let (stack, ours) = simulate(&records, &capture, scheduler, [queue; 2], &behind)?;
        let until = ours.used_up.map_or(end, |used_up| used_up.min(end));
        let span = until.saturating_since(begin);
        if span < end.saturating_since(begin) {
            eprintln!(
                "iocast: warning: {name} under {scheduler}: a process used up its captured requests after {:.1} s of \
                 the simulation, so simulated figures cover less time; a longer capture (--capture-seconds) helps",
                until.as_ns() as f64 / 1e9
            );
        }
        simulations.push(GuestSimulation { scheduler: scheduler.clone(), stack, measured_seconds: span.as_s_f64() });
        values.push((measured(found, vm, scheduler, begin, end)?, figures(&ours.done, begin, until)));
    }
    let mut compared = Vec::new();
    for (index, (figure, more_is_better)) in FIGURES.into_iter().enumerate() {
        let under = |(scheduler, (measured, ours)): (&String, &(Vec<Values>, Values))| {
            let measured = measured.iter().map(|values| values[index]).collect::<Option<Vec<f64>>>()?;
            Some(Under { scheduler: scheduler.clone(), measured, simulated: ours[index] })
        };
        // A figure that a run does not have, such as times of writes of which there are none, is left out.
        let unders: Option<Vec<Under>> = found.schedulers.iter().zip(&values).map(under).collect();
        compared.extend(unders.map(|unders| compare(figure, more_is_better, unders)));
    }
    Ok(GuestVm { vm: name.clone(), simulations, figures: compared })
}

/// The figures of each repetition under a scheduler.
fn measured(found: &GuestFolder, vm: usize, scheduler: &str, begin: Timestamp, end: Timestamp) -> Result<Vec<Values>> {
    let of = |repetition| -> Result<Values> {
        let path: &Path = &found.run(vm, scheduler, repetition);
        let records = guest_requests::read(path, Nanos::from_s(found.plan.seconds.into()))?;
        Ok(figures(&guest_requests::done(&records), begin, end))
    };
    (1..=found.repetitions).map(of).collect()
}
