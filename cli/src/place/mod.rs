//! `iocast place`: finds an assignment of VMs to LUNs within limits, and confirms it by replay.

mod plan;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use predictors::place::{self, Standing, Task};
use predictors::synthetic::Ran;
use predictors::{OperationForecast, PREDICTORS, VmForecast};
use replay::sources::{Mapping, TimeWindow};
use report::HeatFigure;
use traces::results::SCHEMA_VERSION;
use traces::results::isolation::IsolationProfile;
use traces::results::placement::{Interference, PlacedLun, PlacedVm, Placement, Share, Standing as StoredStanding};
use traces::spec::Spec;
use traces::trace::ReadOptions;
use traces::{Nanos, Sectors};

use self::plan::{Lun, Plan, Source, Vm};
use crate::arguments::Place;
use crate::error::UsageError;
use crate::files::Files;
use crate::output::{print, print_json};
use crate::output_format::OutputFormat;
use crate::predict::profiles::{DiskPlace, Window, measure, read};
use crate::progress::Progress;
use crate::storage::Storage;
use crate::vms::{self, Named};

pub fn run(arguments: &Place) -> Result<()> {
    let plan = Plan::read(&arguments.plan)?;
    let spec: Spec = plan.predictor.parse().map_err(UsageError::from_display)?;
    let entry = predictors::find(&spec.name).map_err(UsageError::from_display)?;
    let method = entry.build(&spec).map_err(UsageError::from_display)?;
    let Some(predictor) = method.predictor().filter(|_| !entry.needs_traces) else {
        return Err(UsageError(by_profiles(&spec.name)).into());
    };
    let endings = [".svg".to_owned(), ".png".to_owned()];
    let planned = |stem: &std::path::PathBuf| Files::planned(stem.clone(), arguments.force, &endings, &[]);
    let files = arguments.output.as_ref().map(planned).transpose()?;
    let (alone, takes) = alone(&plan)?;
    // The last VM on a drive may end where no other could begin.
    let drive_capacity = |lun: &Lun| lun.storage.as_ref().map(|storage| vms::aligned(storage.capacity));
    let task = Task {
        drive_capacity: plan.luns.iter().map(drive_capacity).collect(),
        takes,
        limits: plan.vms.iter().map(Vm::limits).collect(),
        separate: plan.apart().map_err(UsageError)?,
        predictor: &*predictor,
        seed: plan.seed,
        alone,
    };
    let placed = place::place(&task)?;
    let placement = tell(&plan, &task, &placed)?;
    if let Some(files) = files {
        let caption = format!("forecast by {} on LUN {}", plan.predictor, placement.interference.lun);
        let figure =
            HeatFigure { title: "Interference between VMs", caption: &caption, interference: &placement.interference };
        let mut written = Vec::new();
        files.write(&endings[0], figure.svg(arguments.size)?.as_bytes(), &mut written)?;
        files.write(&endings[1], &figure.png(arguments.size)?, &mut written)?;
    }
    match arguments.output_format {
        OutputFormat::Json => print_json(&placement),
        format => print(&tables::render(&placement, format)),
    }
}

/// Explains that a predictor that simulates traces cannot place VMs, and names those that can.
fn by_profiles(name: &str) -> String {
    let others: Vec<&str> = PREDICTORS.iter().filter(|entry| !entry.needs_traces).map(|entry| entry.name).collect();
    format!(
        "{name} simulates traces request by request, which is too slow for the thousands of groups that a placement \
         forecasts; place with a predictor that uses profiles ({}), and forecast the resulting groups with iocast \
         predict",
        others.join(", ")
    )
}

/// The profiles of every VM alone on each LUN, and the sectors that each VM takes up. A profile is measured from the
/// VM's trace, or from its replay on the LUN's drive. LUNs with equal storage share their profiles.
fn alone(plan: &Plan) -> Result<(Vec<Vec<IsolationProfile>>, Vec<Sectors>)> {
    let mut takes = vec![Sectors::ZERO; plan.vms.len()];
    let mut known: Vec<(Option<&Storage>, Vec<IsolationProfile>)> = Vec::new();
    let mut kinds: Vec<Option<&Storage>> = Vec::new();
    for lun in &plan.luns {
        if !kinds.contains(&lun.storage.as_ref()) {
            kinds.push(lun.storage.as_ref());
        }
    }
    let progress = Progress::jobs("alone", (kinds.len() * plan.vms.len()) as u64);
    let done = progress.counter(0);
    for kind in kinds {
        let mut profiles = Vec::new();
        for (vm, takes) in plan.vms.iter().zip(&mut takes) {
            let (profile, taken) = profile(plan, kind, vm).with_context(|| format!("VM {}", vm.name))?;
            profiles.push(profile);
            *takes = taken.max(*takes);
            done.fetch_add(1, Ordering::Relaxed);
        }
        known.push((kind, profiles));
    }
    let of =
        |lun: &Lun| known.iter().find(|(kind, _)| *kind == lun.storage.as_ref()).map(|(_, profiles)| profiles.clone());
    Ok((plan.luns.iter().filter_map(of).collect(), takes))
}

/// What a plan calls the part of the traces that it uses.
const WINDOW: &str = "`start` and `end` in the plan";

/// The profile of a VM alone on `storage`, and the sectors that it takes up there; 0 sectors without storage.
fn profile(plan: &Plan, storage: Option<&Storage>, vm: &Vm) -> Result<(IsolationProfile, Sectors)> {
    if let Some(storage) = storage {
        let (mut ran, takes) = replay(plan, storage, &[vm])?;
        let profile = ran.remove(0).profile;
        let is_cut = plan.start > Nanos::ZERO || plan.end.is_some();
        let requests = profile.reads.requests + profile.writes.requests;
        ensure!(!is_cut || requests > 0, "no request lies in the window of {WINDOW}");
        return Ok((profile, takes));
    }
    let profile = match vm.source().map_err(UsageError)? {
        Source::Profile(path) => IsolationProfile { vm: vm.name.clone(), ..read(path)? },
        Source::Capture(path) => {
            let window = Window { start: plan.start, end: plan.end, names: WINDOW };
            let none = AtomicU64::new(0);
            measure(&vm.name, path, &ReadOptions::default(), window, DiskPlace::default(), &none)?.0
        }
    };
    Ok((profile, Sectors::ZERO))
}

/// Replays VMs together on `storage`, next to each other, and states the sectors that they take up.
fn replay(plan: &Plan, storage: &Storage, together: &[&Vm]) -> Result<(Vec<Ran>, Sectors)> {
    let named = together.iter().map(|vm| {
        let path = vm.source().map_err(UsageError)?.path().to_owned();
        Ok(Named { name: vm.name.clone(), path, place: None })
    });
    let window = TimeWindow { from: plan.start, to: plan.end, limit: None };
    let (named, options) = (named.collect::<Result<_, UsageError>>()?, ReadOptions::default());
    let vms = vms::gather(named, &options, Mapping::Remap, window, storage.capacity)?;
    let ran = storage.replay(&vms.iter().collect::<Vec<_>>(), &options, window, Arc::default())?;
    Ok((ran, Sectors::new(vms.iter().map(|vm| vm.takes().count()).sum())))
}

/// The assignment with its forecast, its replay, and the interference between the VMs.
fn tell(plan: &Plan, task: &Task<'_>, placed: &place::Placement) -> Result<Placement> {
    let mut luns = Vec::new();
    let mut replayed: Vec<Option<Share>> = vec![None; plan.vms.len()];
    let mut refused = Vec::new();
    let progress = Progress::jobs("confirming", plan.luns.len() as u64);
    let done = progress.counter(0);
    for (index, lun) in plan.luns.iter().enumerate() {
        let members: Vec<usize> = (0..plan.vms.len()).filter(|&vm| placed.lun_of[vm] == index).collect();
        if let Some(storage) = lun.storage.as_ref().filter(|_| !members.is_empty()) {
            let together: Vec<&Vm> = members.iter().map(|&vm| &plan.vms[vm]).collect();
            let (ran, _) = replay(plan, storage, &together).with_context(|| format!("LUN {}", lun.name))?;
            for (&vm, ran) in members.iter().zip(ran) {
                replayed[vm] = Some(share(&ran.profile));
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
        let forecasts = place::forecast(task, index, &members);
        refused.extend(place::refused(task, index, &members).map(|why| format!("no forecast on {}: {why}", lun.name)));
        let vm = |(&vm, forecast): (&usize, &VmForecast)| {
            let alone = &task.alone[index][vm];
            PlacedVm {
                vm: plan.vms[vm].name.clone(),
                alone: share(alone),
                forecast: forecast_share(alone, forecast),
                replayed: replayed[vm],
            }
        };
        let vms = members.iter().zip(&forecasts).map(vm).collect();
        let drive = lun.storage.as_ref().map(|storage| storage.drive.clone());
        let before = lun.storage.as_ref().map(|storage| storage.scheduling.to_string());
        luns.push(PlacedLun { lun: lun.name.clone(), drive, before, vms });
    }
    drop(progress);
    let limits = placed.standings.iter().map(|standing| stored(plan, standing, replayed[standing.vm])).collect();
    let mut notes = refused;
    if plan.luns.iter().any(|lun| lun.storage.is_none()) {
        notes.push(
            "forecasts for a LUN without a drive are for the device on which the traces or profiles were recorded; \
             nothing is replayed there"
                .to_owned(),
        );
    }
    Ok(Placement {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        predictor: plan.predictor.clone(),
        seed: plan.seed,
        forecasts: placed.forecasts,
        exceeded: placed.exceeded,
        lost: placed.lost,
        luns,
        limits,
        interference: interference(plan, task),
        notes,
    })
}

fn share(profile: &IsolationProfile) -> Share {
    let (reads, writes) = (&profile.reads, &profile.writes);
    let rate = |iops: f64| (iops > 0.0).then_some(iops);
    Share {
        read_iops: rate(reads.iops),
        read_response_ns: reads.response_ns,
        read_p99_ns: reads.response_percentiles_ns.get("p99").map(|&p99| p99 as f64),
        write_iops: rate(writes.iops),
        write_response_ns: writes.response_ns,
    }
}

fn forecast_share(alone: &IsolationProfile, forecast: &VmForecast) -> Share {
    let VmForecast { reads, writes } = forecast;
    Share {
        read_iops: reads.iops,
        read_response_ns: reads.response_ns,
        read_p99_ns: place::read_p99_ns(alone, forecast),
        write_iops: writes.iops,
        write_response_ns: writes.response_ns,
    }
}

fn stored(plan: &Plan, standing: &Standing, replayed: Option<Share>) -> StoredStanding {
    let Standing { vm, figure, limit, forecast, slack } = *standing;
    let replayed = replayed.and_then(|share| match figure {
        place::Figure::ReadResponse => share.read_response_ns,
        place::Figure::ReadP99 => share.read_p99_ns,
        place::Figure::WriteResponse => share.write_response_ns,
        place::Figure::ReadIops => share.read_iops,
        place::Figure::WriteIops => share.write_iops,
    });
    StoredStanding {
        vm: plan.vms[vm].name.clone(),
        figure: figure.name().to_owned(),
        limit,
        forecast,
        replayed,
        slack,
        kept: replayed.map(|replayed| figure.keeps(replayed, limit)),
    }
}

/// The interference of every pair of VMs on the first LUN.
fn interference(plan: &Plan, task: &Task<'_>) -> Interference {
    let all = 0..plan.vms.len();
    let rate = |got: &OperationForecast| got.iops.unwrap_or(0.0);
    let left = |one: usize, other: usize| {
        let alone = &task.alone[0][one];
        let before = alone.reads.iops + alone.writes.iops;
        let got = *place::forecast(task, 0, &[one, other]).first()?;
        let after = rate(&got.reads) + rate(&got.writes);
        (one != other && got != VmForecast::default() && before > 0.0).then(|| (after / before).min(1.0))
    };
    Interference {
        lun: plan.luns[0].name.clone(),
        vms: plan.vms.iter().map(|vm| vm.name.clone()).collect(),
        left: all.clone().map(|one| all.clone().map(|other| left(one, other)).collect()).collect(),
    }
}
