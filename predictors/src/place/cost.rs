//! What it costs to put machines on one LUN.

use traces::Sectors;
use traces::results::isolation::{Footprint, IsolatedOperation, IsolationProfile};

use super::{Limits, Task};
use crate::predictor::{Isolated, OperationForecast, PredictError, VmForecast};

/// A figure that limits are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Mean response time of reads.
    ReadResponse,
    /// Its 99th percentile.
    ReadP99,
    /// Mean response time of writes.
    WriteResponse,
    /// Reads per second.
    ReadIops,
    /// Writes per second.
    WriteIops,
}

impl Figure {
    /// As a plan and a table have it.
    pub const fn name(self) -> &'static str {
        match self {
            Figure::ReadResponse => "read_response",
            Figure::ReadP99 => "read_p99",
            Figure::WriteResponse => "write_response",
            Figure::ReadIops => "read_iops",
            Figure::WriteIops => "write_iops",
        }
    }

    /// Whether more is better.
    const fn is_rate(self) -> bool {
        matches!(self, Figure::ReadIops | Figure::WriteIops)
    }

    /// Whether a value keeps a limit.
    pub fn keeps(self, value: f64, limit: f64) -> bool {
        if self.is_rate() { value >= limit } else { value <= limit }
    }
}

/// A limit and what is forecast of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Of which machine.
    pub machine: usize,
    /// Of what.
    pub figure: Figure,
    /// The limit; ns, or requests per second.
    pub limit: f64,
    /// The forecast; nothing if the predictor has none.
    pub forecast: Option<f64>,
    /// What is left up to the limit as a share of it; negative if it is exceeded. Of what is not forecast -1.
    pub slack: f64,
}

impl Standing {
    fn new(machine: usize, figure: Figure, limit: f64, forecast: Option<f64>) -> Standing {
        let over = |forecast: f64| if figure.is_rate() { forecast / limit - 1.0 } else { 1.0 - forecast / limit };
        Standing { machine, figure, limit, forecast, slack: forecast.map_or(-1.0, over) }
    }
}

/// Of a machine that gets next to nothing, or of which nothing is forecast, so large a share of its throughput is taken to be left.
const LEAST_LEFT: f64 = 1e-3;

/// What a group costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// What is on it beyond what it holds, as a share of that.
    pub(super) overfull: f64,
    /// What limits are exceeded by, as shares of them.
    pub(super) exceeded: f64,
    /// The shares of their throughput that machines lose against alone.
    pub(super) lost: f64,
    /// How many times slower machines get, beyond 1. What is lost hardly tells assignments to full LUNs apart: however machines are divided
    /// among them, together they get what these LUNs have to give.
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

    /// Capacity comes first, then limits. What rounding may make is no gain.
    pub(super) fn less_than(self, other: Cost) -> bool {
        const ROUNDING: f64 = 1e-9;
        let Cost { overfull, exceeded, slowdown, .. } = self.minus(other);
        let less = [overfull, exceeded, slowdown].into_iter().find(|by| by.abs() > ROUNDING);
        less.is_some_and(|by| by < 0.0)
    }
}

/// What each of `members` gets on `lun`; nothing of a group that the predictor refuses.
pub fn forecast(task: &Task<'_>, lun: usize, members: &[usize]) -> Vec<VmForecast> {
    // A group that the method refuses is one that nobody should make: nothing is forecast of it.
    together(task, lun, members).unwrap_or_else(|_| vec![VmForecast::default(); members.len()])
}

/// Why there is no forecast of `members` on `lun`, if there is none.
pub fn refused(task: &Task<'_>, lun: usize, members: &[usize]) -> Option<PredictError> {
    together(task, lun, members).err()
}

fn together(task: &Task<'_>, lun: usize, members: &[usize]) -> Result<Vec<VmForecast>, PredictError> {
    let alone = &task.alone[lun];
    if members.len() < 2 {
        return Ok(members.iter().map(|&machine| VmForecast::measured(&alone[machine])).collect());
    }
    let profiles: Vec<IsolationProfile> = members.iter().map(|&machine| alone[machine].clone()).collect();
    Ok(task.predictor.predict(Isolated::of_profiles(&profiles))?.vms)
}

/// The 99th percentile of a machine's reads: as forecast, and by methods that have none that alone, longer by as much as the mean.
pub fn read_p99_ns(alone: &IsolationProfile, got: &VmForecast) -> Option<f64> {
    let grown = || {
        let p99 = *alone.reads.response_percentiles_ns.get("p99")? as f64;
        Some(p99 * got.reads.response_ns? / alone.reads.response_ns?)
    };
    got.reads.percentile("p99").or_else(grown)
}

/// The standings of a machine's limits under a forecast.
pub(super) fn standings(limits: &Limits, alone: &IsolationProfile, machine: usize, got: &VmForecast) -> Vec<Standing> {
    [
        (Figure::ReadResponse, limits.read_response_ns, got.reads.response_ns),
        (Figure::ReadP99, limits.read_p99_ns, read_p99_ns(alone, got)),
        (Figure::WriteResponse, limits.write_response_ns, got.writes.response_ns),
        (Figure::ReadIops, limits.read_iops, got.reads.iops),
        (Figure::WriteIops, limits.write_iops, got.writes.iops),
    ]
    .into_iter()
    .filter_map(|(figure, limit, forecast)| Some(Standing::new(machine, figure, limit?, forecast)))
    .collect()
}

/// What `members` on `lun` cost.
pub(super) fn cost(task: &Task<'_>, lun: usize, members: &[usize]) -> Cost {
    let forecast = forecast(task, lun, members);
    let of = |(&machine, got): (&usize, &VmForecast)| {
        let alone = &task.alone[lun][machine];
        let standings = standings(&task.limits[machine], alone, machine, got);
        let exceeded = standings.iter().map(|standing| (-standing.slack).max(0.0)).sum();
        let rate = |got: &OperationForecast| got.iops.unwrap_or(0.0);
        let before = alone.reads.iops + alone.writes.iops;
        let after = rate(&got.reads) + rate(&got.writes);
        let left = if before > 0.0 { (after / before).min(1.0) } else { 1.0 };
        Cost { exceeded, lost: 1.0 - left, slowdown: 1.0 / left.max(LEAST_LEFT) - 1.0, ..Cost::default() }
    };
    let group = Cost { overfull: overfull(task, lun, members), ..Cost::default() };
    members.iter().zip(&forecast).map(of).fold(group, Cost::plus)
}

/// What `members` take of a LUN.
pub(super) fn taken(task: &Task<'_>, members: &[usize]) -> Sectors {
    Sectors::new(members.iter().fold(0, |sum, &machine| task.takes[machine].count().saturating_add(sum)))
}

/// What `members` take beyond what `lun` holds, as a share of that.
fn overfull(task: &Task<'_>, lun: usize, members: &[usize]) -> f64 {
    let Some(drive_capacity) = task.drive_capacity[lun].map(Sectors::count) else { return 0.0 };
    taken(task, members).count().saturating_sub(drive_capacity) as f64 / drive_capacity.max(1) as f64
}

/// A profile without what no formula reads, so that groups are made quickly.
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
