//! The cost of a group of VMs on one LUN.
//!
//! It comes from a predictor's forecast of the group, the limits of its VMs and the capacity of the LUN's drive. A
//! lower cost is better; capacity counts before limits, and limits before slowdown.

use traces::Sectors;
use traces::results::isolation::{Footprint, IsolatedOperation, IsolationProfile};

use super::{Forecasts, Limits, Task};
use crate::predictor::{Isolated, OperationForecast, PredictError, VmForecast};

/// A figure that a plan can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Mean response time of reads.
    ReadResponse,
    /// 99th percentile of the response time of reads.
    ReadP99,
    /// Mean response time of writes.
    WriteResponse,
    /// Reads per second.
    ReadIops,
    /// Writes per second.
    WriteIops,
}

impl Figure {
    /// The figure's name in plans and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Figure::ReadResponse => "read_response",
            Figure::ReadP99 => "read_p99",
            Figure::WriteResponse => "write_response",
            Figure::ReadIops => "read_iops",
            Figure::WriteIops => "write_iops",
        }
    }

    /// Whether a larger value is better.
    const fn is_rate(self) -> bool {
        matches!(self, Figure::ReadIops | Figure::WriteIops)
    }

    /// The distance from `value` to `limit` as a share of the limit; negative if the limit is exceeded.
    pub fn slack(self, value: f64, limit: f64) -> f64 {
        if self.is_rate() { value / limit - 1.0 } else { 1.0 - value / limit }
    }
}

/// A limit of a VM with the forecast of its figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The number of the VM.
    pub vm: usize,
    /// The limited figure.
    pub figure: Figure,
    /// The limit: ns, or requests per second.
    pub limit: f64,
    /// The forecast of the figure; `None` if the predictor does not forecast it.
    pub forecast: Option<f64>,
    /// The distance from the forecast to the limit as a share of the limit; negative if the limit is exceeded, -1
    /// without a forecast.
    pub slack: f64,
}

impl Standing {
    fn new(vm: usize, figure: Figure, limit: f64, forecast: Option<f64>) -> Standing {
        let slack = forecast.map_or(-1.0, |forecast| figure.slack(forecast, limit));
        Standing { vm, figure, limit, forecast, slack }
    }
}

/// A VM keeps at least this share of its throughput in the slowdown, even if less is forecast or nothing. It keeps the
/// slowdown finite.
const THROUGHPUT_LEFT_MIN: f64 = 1e-3;

/// The cost of a group of VMs on a LUN, or of several groups.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Sectors of the VMs beyond the drive capacity, as a share of it.
    pub(super) overfull: f64,
    /// Sum of the excesses over limits, each as a share of its limit.
    pub(super) exceeded: f64,
    /// Sum over VMs of the share that they lose of their throughput alone on the LUN that is best for them.
    pub(super) lost: f64,
    /// Sum over VMs of their slowdown beyond 1. The lost throughput hardly distinguishes assignments to overloaded
    /// LUNs, since together the VMs get the full throughput of these LUNs in every assignment.
    pub(super) slowdown: f64,
}

impl Cost {
    pub(super) fn plus(self, other: Cost) -> Cost {
        Cost {
            overfull: self.overfull + other.overfull,
            exceeded: self.exceeded + other.exceeded,
            lost: self.lost + other.lost,
            slowdown: self.slowdown + other.slowdown,
        }
    }

    pub(super) fn minus(self, other: Cost) -> Cost {
        Cost {
            overfull: self.overfull - other.overfull,
            exceeded: self.exceeded - other.exceeded,
            lost: self.lost - other.lost,
            slowdown: self.slowdown - other.slowdown,
        }
    }

    /// Compares capacity first, then limits, then slowdown. Differences that rounding may cause count as equal.
    pub(super) fn less_than(self, other: Cost) -> bool {
        const ROUNDING: f64 = 1e-9;
        let Cost { overfull, exceeded, slowdown, .. } = self.minus(other);
        let less = [overfull, exceeded, slowdown].into_iter().find(|by| by.abs() > ROUNDING);
        less.is_some_and(|by| by < 0.0)
    }
}

/// The forecast of each of `members` together on `lun`. If the predictor refuses the group, the forecasts are empty.
pub fn forecast(task: &Task<'_>, lun: usize, members: &[usize]) -> Vec<VmForecast> {
    // Empty forecasts exceed every limit and leave no throughput, so the search avoids groups that are refused.
    together(task, lun, members).unwrap_or_else(|_| vec![VmForecast::default(); members.len()])
}

/// The reason why the predictor refuses `members` on `lun`; `None` if it has a forecast.
pub fn refused(task: &Task<'_>, lun: usize, members: &[usize]) -> Option<PredictError> {
    together(task, lun, members).err()
}

fn together(task: &Task<'_>, lun: usize, members: &[usize]) -> Result<Vec<VmForecast>, PredictError> {
    let alone = &task.alone[lun];
    if members.len() < 2 {
        return Ok(members.iter().map(|&vm| VmForecast::measured(&alone[vm])).collect());
    }
    match task.forecasts {
        Forecasts::Groups(forecast) => forecast(lun, members),
        Forecasts::Profiles(predictor) => {
            let profiles: Vec<IsolationProfile> = members.iter().map(|&vm| alone[vm].clone()).collect();
            Ok(predictor.predict(Isolated::of_profiles(&profiles))?.vms)
        }
    }
}

/// The 99th percentile of a VM's read response time, ns. If the predictor forecasts none, the percentile alone is
/// scaled by the growth of the mean.
pub fn read_p99_ns(alone: &IsolationProfile, got: &VmForecast) -> Option<f64> {
    let grown = || {
        let p99 = *alone.reads.response_percentiles_ns.get("p99")? as f64;
        Some(p99 * got.reads.response_ns? / alone.reads.response_ns?)
    };
    got.reads.percentile("p99").or_else(grown)
}

/// The limits of a VM with their forecasts.
pub(super) fn standings(limits: &Limits, alone: &IsolationProfile, vm: usize, got: &VmForecast) -> Vec<Standing> {
    [
        (Figure::ReadResponse, limits.read_response_ns, got.reads.response_ns),
        (Figure::ReadP99, limits.read_p99_ns, read_p99_ns(alone, got)),
        (Figure::WriteResponse, limits.write_response_ns, got.writes.response_ns),
        (Figure::ReadIops, limits.read_iops, got.reads.iops),
        (Figure::WriteIops, limits.write_iops, got.writes.iops),
    ]
    .into_iter()
    .filter_map(|(figure, limit, forecast)| Some(Standing::new(vm, figure, limit?, forecast)))
    .collect()
}

/// The throughput of a VM alone on the LUN on which it has most, requests per second.
fn throughput_alone_max(task: &Task<'_>, vm: usize) -> f64 {
    let on = |alone: &Vec<IsolationProfile>| alone[vm].reads.iops + alone[vm].writes.iops;
    task.alone.iter().map(on).fold(0.0, f64::max)
}

/// For each limit of a VM, its standing alone on the LUN that keeps it best, with that LUN.
pub fn best_alone(task: &Task<'_>, vm: usize) -> Vec<(usize, Standing)> {
    let on = |lun: usize| {
        let alone = &task.alone[lun][vm];
        standings(&task.limits[vm], alone, vm, &VmForecast::measured(alone)).into_iter().map(move |of| (lun, of))
    };
    let mut best: Vec<(usize, Standing)> = Vec::new();
    for (lun, standing) in (0..task.alone.len()).flat_map(on) {
        match best.iter_mut().find(|(_, best)| best.figure == standing.figure) {
            Some(best) if best.1.slack < standing.slack => *best = (lun, standing),
            Some(_) => {}
            None => best.push((lun, standing)),
        }
    }
    best
}

/// The cost of `members` on `lun`.
pub(super) fn cost(task: &Task<'_>, lun: usize, members: &[usize]) -> Cost {
    let forecast = forecast(task, lun, members);
    let of = |(&vm, got): (&usize, &VmForecast)| {
        let alone = &task.alone[lun][vm];
        let standings = standings(&task.limits[vm], alone, vm, got);
        let exceeded = standings.iter().map(|standing| (-standing.slack).max(0.0)).sum();
        let rate = |got: &OperationForecast| got.iops.unwrap_or(0.0);
        let before = throughput_alone_max(task, vm);
        let after = rate(&got.reads) + rate(&got.writes);
        let left = if before > 0.0 { (after / before).min(1.0) } else { 1.0 };
        Cost { exceeded, lost: 1.0 - left, slowdown: 1.0 / left.max(THROUGHPUT_LEFT_MIN) - 1.0, ..Cost::default() }
    };
    let group = Cost { overfull: overfull(task, lun, members), ..Cost::default() };
    members.iter().zip(&forecast).map(of).fold(group, Cost::plus)
}

/// The sectors that `members` need on a LUN.
pub(super) fn taken(task: &Task<'_>, members: &[usize]) -> Sectors {
    Sectors::new(members.iter().fold(0, |sum, &vm| task.takes[vm].count().saturating_add(sum)))
}

/// The sectors of `members` beyond the drive capacity of `lun`, as a share of it.
fn overfull(task: &Task<'_>, lun: usize, members: &[usize]) -> f64 {
    let Some(drive_capacity) = task.drive_capacity[lun].map(Sectors::count) else { return 0.0 };
    taken(task, members).count().saturating_sub(drive_capacity) as f64 / drive_capacity.max(1) as f64
}

/// A copy of `profile` without the figures that no formula uses, so that groups are quick to copy.
pub(super) fn slim(profile: &IsolationProfile) -> IsolationProfile {
    let operation = |of: &IsolatedOperation| IsolatedOperation {
        found_joint: Vec::new(),
        dispersion: Vec::new(),
        response_autocorrelation: Vec::new(),
        ..of.clone()
    };
    IsolationProfile {
        trace: None,
        reads: operation(&profile.reads),
        writes: operation(&profile.writes),
        footprint: Footprint::default(),
        ..profile.clone()
    }
}
