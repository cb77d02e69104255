//! `iocast place`: finds an assignment of VMs to LUNs within limits, and confirms it by replay.

mod charts;
mod forecasts;
mod plan;
pub mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use predictors::place::{self, Forecasts, Standing, Task};
use predictors::synthetic::Ran;
use predictors::{IsolatedTrace, OperationForecast, VmForecast};
use replay::sources::{Mapping, TimeWindow};
use report::HeatFigure;
use traces::results::isolation::IsolationProfile;
use traces::results::placement::{Interference, PlacedLun, PlacedVm, Placement, Share, Standing as StoredStanding};
use traces::results::{SCHEMA_VERSION, supports_percentile};
use traces::trace::ReadOptions;
use traces::{Nanos, Sectors};

use self::forecasts::{Groups, Kind, Method};
use self::plan::{Lun, Plan, Source, Vm};
use crate::arguments::Place;
use crate::document::present;
use crate::error::{LimitsBroken, UsageError};
use crate::picture::PictureFiles;
use crate::predict::profiles::{DiskPlace, Window, measure, read};
use crate::progress::Progress;
use crate::storage::Storage;
use crate::vms::{self, Named};

pub fn run(arguments: &Place) -> Result<()> {
    let plan = Plan::read(&arguments.plan).map_err(UsageError::from_display)?;
    let files = PictureFiles::planned(&arguments.picture)?;
    let report = arguments.report.planned(arguments.picture.force)?;
    let groups = groups(&plan)?;
    let progress = Progress::groups("searching");
    let groups = groups.counted(progress.counter(0));
    // The last VM on a drive may end where no other could begin.
    let drive_capacity = |lun: &Lun| lun.storage.as_ref().map(|storage| vms::aligned(storage.capacity));
    let each = |lun: usize, members: &[usize]| groups.forecast(lun, members);
    let search = Task {
        drive_capacity: plan.luns.iter().map(drive_capacity).collect(),
        takes: groups.takes.clone(),
        limits: plan.vms.iter().map(Vm::limits).collect(),
        separate: plan.apart().map_err(|problem| plan.refused(problem))?,
        forecasts: groups.of_search(&each),
        seed: plan.seed,
        alone: groups.kind_of.iter().map(|&kind| groups.kinds[kind].profiles.clone()).collect(),
    };
    let found = place::place(&search)?;
    let exact = forecasts::with(&search, Forecasts::Groups(&each));
    // The formula may be far off, so the assignment that it chose is judged, and improved if limits are broken, by the
    // plan's own way of forecasting.
    let placed = match groups.too_many {
        true => match place::judge(&exact, found.lun_of) {
            kept if kept.exceeded == 0.0 => place::Placement { forecasts: found.forecasts, ..kept },
            broken => place::improve(&exact, &broken.lun_of),
        },
        false => found,
    };
    drop(progress);
    let placement = result(&plan, &groups, [&search, &exact], &placed)?;
    let mut written = Vec::new();
    if let Some(files) = files {
        let caption = format!("pairs of VMs, forecast by {}", groups.searched_by(&placement.predictor));
        let matrices = tables::matrices(&placement);
        let panels: Vec<(&str, &Interference)> = matrices.iter().map(|(names, of)| (names.as_str(), *of)).collect();
        let rows = "whose throughput is left";
        let figure = HeatFigure { title: "Interference between VMs", caption: &caption, rows, panels: &panels };
        files.write(&figure, &mut written)?;
    }
    present(&placement, &tables::document(&placement), arguments.output_format, &report, written)?;
    match tables::broken(&placement) {
        Some(broken) => Err(LimitsBroken(broken).into()),
        None => Ok(()),
    }
}

/// The LUNs by kind of storage, with every VM alone on each kind. A profile is measured from the VM's trace, or from its
/// replay on the drive.
fn groups(plan: &Plan) -> Result<Groups<'_>> {
    let mut takes = vec![Sectors::ZERO; plan.vms.len()];
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    let mut kind_of = Vec::new();
    for lun in &plan.luns {
        let storage = lun.storage.as_ref();
        let known = kinds.iter().position(|kind| kind.storage == storage);
        kind_of.push(known.unwrap_or(kinds.len()));
        if known.is_none() {
            let method = forecasts::method(plan, storage).map_err(|problem| plan.refused(problem))?;
            kinds.push(Kind { storage, method, profiles: Vec::new(), traces: Vec::new() });
        }
    }
    let progress = Progress::jobs("alone", (kinds.len() * plan.vms.len()) as u64);
    let done = progress.counter(0);
    for kind in &mut kinds {
        for (vm, takes) in plan.vms.iter().zip(&mut takes) {
            let alone = alone(plan, kind.storage, vm).with_context(|| format!("VM {}", vm.name))?;
            kind.profiles.push(alone.profile);
            *takes = alone.takes.max(*takes);
            if matches!(kind.method, Method::Traces(_)) {
                kind.traces.extend(alone.trace);
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    Groups::new(plan, kind_of, kinds, takes)
}

/// What a plan calls the part of the traces that it uses.
const WINDOW: &str = "`start` and `end` in the plan";

/// A VM alone on a kind of LUN.
struct Alone {
    profile: IsolationProfile,
    /// Missing if the VM is given as a profile.
    trace: Option<IsolatedTrace>,
    /// The sectors that it takes up; none without a drive and a trace.
    takes: Sectors,
}

fn alone(plan: &Plan, storage: Option<&Storage>, vm: &Vm) -> Result<Alone> {
    if let Some(storage) = storage {
        let (mut ran, takes) = replay(plan, storage, &[vm])?;
        let Ran { profile, trace } = ran.remove(0);
        let is_cut = plan.start > Nanos::ZERO || plan.end.is_some();
        let requests = profile.reads.requests + profile.writes.requests;
        ensure!(!is_cut || requests > 0, "no request lies in the window of {WINDOW}");
        return Ok(Alone { profile, trace: Some(trace), takes });
    }
    match vm.source().map_err(UsageError)? {
        Source::Profile(path) => {
            let profile = IsolationProfile { vm: vm.name.clone(), ..read(path)? };
            Ok(Alone { profile, trace: None, takes: Sectors::ZERO })
        }
        Source::Capture(path) => {
            let window = Window { start: plan.start, end: plan.end, names: WINDOW };
            let none = AtomicU64::new(0);
            let (profile, trace) =
                measure(&vm.name, path, &ReadOptions::default(), window, DiskPlace::default(), &none)?;
            let takes = vms::aligned(trace.sectors());
            Ok(Alone { profile, trace: Some(trace), takes })
        }
    }
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

/// The assignment with its forecast, its replay, and the interference between the VMs. Of the tasks, the first is that of
/// the search, and the second has the better forecasts.
fn result(
    plan: &Plan,
    groups: &Groups<'_>,
    [search, exact]: [&Task<'_>; 2],
    placed: &place::Placement,
) -> Result<Placement> {
    let mut luns = Vec::new();
    let mut replayed: Vec<Option<Share>> = vec![None; plan.vms.len()];
    let (mut notes, mut scaled) = (Vec::new(), Vec::new());
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
        let forecasts = place::forecast(exact, index, &members);
        notes.extend(place::refused(exact, index, &members).map(|why| format!("no forecast on {}: {why}", lun.name)));
        let vm = |(&vm, forecast): (&usize, &VmForecast)| {
            let alone = &exact.alone[index][vm];
            PlacedVm {
                vm: plan.vms[vm].name.clone(),
                alone: share(alone),
                forecast: forecast_share(alone, forecast),
                replayed: replayed[vm],
            }
        };
        let vms = members.iter().zip(&forecasts).map(vm).collect();
        if members.len() > 1 {
            let of = members.iter().zip(&forecasts);
            scaled.extend(of.filter_map(|(&vm, forecast)| scaled_percentile(plan, vm, forecast)));
        }
        let drive = lun.storage.as_ref().map(|storage| storage.drive.clone());
        let before = lun.storage.as_ref().map(|storage| storage.scheduling.to_string());
        luns.push(PlacedLun { lun: lun.name.clone(), drive, before, vms });
    }
    drop(progress);
    let mut limits: Vec<StoredStanding> =
        placed.standings.iter().map(|standing| stored(plan, standing, replayed[standing.vm])).collect();
    for vm in luns.iter().flat_map(|lun| &lun.vms) {
        notes.extend(withdraw_unsupported(vm, &mut limits));
    }
    limits.sort_by(|one, other| one.left().total_cmp(&other.left()));
    notes.extend(scaled);
    notes.extend((0..plan.vms.len()).flat_map(|vm| out_of_reach(plan, exact, vm)));
    notes.extend(groups.note());
    if plan.luns.iter().any(|lun| lun.storage.is_none()) {
        notes.push(
            "forecasts for a LUN without a drive are for the device on which the traces or profiles were recorded; \
             nothing is replayed there, and rates count device requests (after merging), while those of a LUN with a \
             drive count arrivals (before merging)"
                .to_owned(),
        );
    }
    let mut interferences = (0..plan.luns.len()).map(|lun| interference(plan, search, lun));
    Ok(Placement {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        predictor: forecasts::named(plan)?,
        seed: plan.seed,
        forecasts: placed.forecasts,
        exceeded: placed.exceeded,
        lost: placed.lost,
        luns,
        limits,
        interference: interferences.next().unwrap_or_default(),
        interference_elsewhere: interferences.collect(),
        notes,
    })
}

/// Takes back the figures of a limit on a 99th percentile that too few reads support, and says so. Nobody knows whether
/// such a limit is kept.
fn withdraw_unsupported(placed: &PlacedVm, limits: &mut [StoredStanding]) -> Option<String> {
    let name = place::Figure::ReadP99.name();
    let limit = limits.iter_mut().find(|limit| limit.vm == placed.vm && limit.figure == name)?;
    let reads = placed.replayed.unwrap_or(placed.forecast).reads;
    if supports_percentile(reads, "p99") {
        return None;
    }
    (limit.forecast, limit.slack) = (None, -1.0);
    (limit.replayed, limit.replayed_slack, limit.kept) = (None, None, None);
    Some(format!("{name} of {} rests on {reads} reads, too few to support it; give longer captures", placed.vm))
}

/// A note on a limit on a 99th percentile for which the predictor has no forecast.
fn scaled_percentile(plan: &Plan, vm: usize, forecast: &VmForecast) -> Option<String> {
    let (vm, name) = (&plan.vms[vm], place::Figure::ReadP99.name());
    (vm.limits().read_p99_ns.is_some() && forecast.reads.percentile("p99").is_none()).then(|| {
        format!(
            "{name} of {} is no forecast: the predictor has means only, and the p99 alone is scaled by their growth",
            vm.name
        )
    })
}

/// The limits that a VM breaks even alone on the LUN that is best for it.
fn out_of_reach(plan: &Plan, task: &Task<'_>, vm: usize) -> Vec<String> {
    let broken = place::best_alone(task, vm).into_iter().filter(|(_, standing)| standing.slack < 0.0);
    let name = &plan.vms[vm].name;
    let note = |(lun, Standing { figure, limit, forecast, .. }): (usize, Standing)| {
        let [limit, alone] = [Some(limit), forecast].map(|value| tables::figure(figure.name(), value));
        let (figure, lun) = (figure.name(), &plan.luns[lun].name);
        format!("no assignment keeps {figure} of {name}: the limit is {limit}, and alone on {lun} it is {alone}")
    };
    broken.map(note).collect()
}

fn share(profile: &IsolationProfile) -> Share {
    let (reads, writes) = (&profile.reads, &profile.writes);
    let rate = |iops: f64| (iops > 0.0).then_some(iops);
    Share {
        read_iops: rate(reads.iops),
        read_response_ns: reads.response_ns,
        read_p99_ns: reads.response_percentiles_ns.get("p99").map(|&p99| p99 as f64),
        reads: reads.requests,
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
        reads: reads.requests.unwrap_or(alone.reads.requests),
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
        replayed_slack: replayed.map(|replayed| figure.slack(replayed, limit)),
        kept: replayed.map(|replayed| figure.slack(replayed, limit) >= 0.0),
    }
}

/// The interference of every pair of VMs on a LUN.
fn interference(plan: &Plan, task: &Task<'_>, lun: usize) -> Interference {
    let rate = |got: &OperationForecast| got.iops.unwrap_or(0.0);
    let mut left = vec![vec![None; plan.vms.len()]; plan.vms.len()];
    for one in 0..plan.vms.len() {
        for other in one + 1..plan.vms.len() {
            for (got, [vm, beside]) in
                place::forecast(task, lun, &[one, other]).iter().zip([[one, other], [other, one]])
            {
                let alone = &task.alone[lun][vm];
                let (before, after) = (alone.reads.iops + alone.writes.iops, rate(&got.reads) + rate(&got.writes));
                if *got != VmForecast::default() && before > 0.0 {
                    left[vm][beside] = Some((after / before).min(1.0));
                }
            }
        }
    }
    Interference { lun: plan.luns[lun].name.clone(), vms: plan.vms.iter().map(|vm| vm.name.clone()).collect(), left }
}
