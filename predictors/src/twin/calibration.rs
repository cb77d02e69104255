//! What kind of device the recordings are of, and how it is fitted: each kind that it may be is fitted, and that is taken with which the
//! machines alone, played, come closest to what was recorded.

use traces::Nanos;

use super::device::array::{self, FittedArray};
use super::device::disk::{self, FittedDisk};
use super::device::policy::{DispatchOrder, Policy};
use super::device::{FittedDevice, concurrent};
use super::simulation::meter::measured;
use super::simulation::{self, Run, simulate};
use super::workload::Workload;
use crate::isolated_trace::IsolatedTrace;
use crate::predictor::{OperationForecast, PredictError, VmForecast};

/// So long a play of a machine tells of which kind the device is.
const CHOSEN_BY: Nanos = Nanos::from_s(60);
/// What comes closer by less than this (a logarithm) comes as close.
const AS_CLOSE: f64 = 0.02;

/// Steps in which members' times for a sector are tried, so many to a factor of 2, and so many at most; in the end half a step.
const STEPS: f64 = 4.0;
const STEPS_MOST: i32 = 4;
/// What is further away misses no more than so many times what the nearer misses.
const CLEARLY_LESS: f64 = 0.9;

/// What is off by so much more (a sum of logarithms over a machine's figures) is no likeness.
const FAR_OFF: f64 = 0.3;

/// The device with what each machine gets of it alone.
pub(super) struct CalibratedDevice {
    pub(super) fitted: FittedDevice,
    pub(super) alone: Vec<VmForecast>,
}

/// The recordings, and how each machine is played alone.
struct Alone<'a> {
    traces: &'a [IsolatedTrace],
    /// Of the first recordings, or of all.
    vms: &'a [Workload],
    /// So many of the first are of those that the forecast is for.
    own: usize,
    order: DispatchOrder,
    seed: u64,
}

impl Alone<'_> {
    /// What one machine gets, by no more than so long a play.
    fn one(&self, fitted: &FittedDevice, vm: usize, most: Nanos) -> Result<VmForecast, PredictError> {
        let run = Run { fitted, order: self.order, seed: self.seed, vms: vm..vm + 1, duration_max: most };
        let simulated = simulate(self.traces, self.vms, &run)?;
        Ok(simulated.first().copied().unwrap_or_else(|| measured(&self.traces[vm])))
    }

    /// By how much what `vms` get alone is off what was recorded: the sum of the absolute logarithms of throughput, mean response and its
    /// percentiles. If it is more than `most`, no more than that is known.
    fn missed(&self, fitted: &FittedDevice, vms: &[usize], most: f64) -> Result<f64, PredictError> {
        let mut missed = 0.0;
        for &vm in vms {
            if missed > most {
                break;
            }
            missed += off(&self.one(fitted, vm, CHOSEN_BY)?, &measured(&self.traces[vm]));
        }
        Ok(missed)
    }

    /// The device that serves one request after another, with a cache if one shows: machines alone do not tell well what it does to others,
    /// and are met as well without it. So it has one unless they are met far better without.
    fn disk_with_cache(&self, plain: FittedDisk) -> Result<FittedDevice, PredictError> {
        let cached = disk::with_cache(self.traces, &plain).map(FittedDevice::Disk);
        let plain = FittedDevice::Disk(plain);
        let everybody: Vec<usize> = (0..self.own).collect();
        let Some(cached) = cached else { return Ok(plain) };
        let far_better = FAR_OFF * everybody.len() as f64;
        let worse = self.missed(&cached, &everybody, f64::INFINITY)?
            > self.missed(&plain, &everybody, f64::INFINITY)? + far_better;
        Ok(if worse { plain } else { cached })
    }

    /// Of `fits` the first that comes as close as any to what was recorded of `vms`.
    fn closest(&self, mut fits: Vec<FittedDevice>, vms: &[usize]) -> Result<Option<FittedDevice>, PredictError> {
        if fits.len() < 2 {
            return Ok(fits.pop());
        }
        let missed: Vec<f64> =
            fits.iter().map(|fitted| self.missed(fitted, vms, f64::INFINITY)).collect::<Result<_, _>>()?;
        Ok(first_as_close(&missed).map(|place| fits.swap_remove(place)))
    }

    /// `fitted` with members that take so many times as long for a sector that `streams` come closest to what was recorded: what is read ahead
    /// is much longer than what was read at random, and the times of that alone may tell little of it.
    fn with_sectors(&self, fitted: &FittedArray, streams: &[usize]) -> Result<FittedDevice, PredictError> {
        let with = |step: f64| FittedDevice::Array(fitted.with_sectors((step / STEPS).exp2()));
        let mut best = (0.0, self.missed(&with(0.0), streams, f64::INFINITY)?);
        let mut attempt = |step: f64| -> Result<f64, PredictError> {
            let enough = best.1 * CLEARLY_LESS - AS_CLOSE;
            let missed = self.missed(&with(step), streams, enough)?;
            if missed <= enough {
                best = (step, missed);
            }
            Ok(best.0)
        };
        let mut whole = 0.0;
        for step in (1..=STEPS_MOST).flat_map(|step| [step, -step]) {
            whole = attempt(f64::from(step))?;
        }
        attempt(whole + 0.5)?;
        let step = attempt(whole - 0.5)?;
        Ok(with(step))
    }
}

/// The first that misses as little as any.
fn first_as_close(missed: &[f64]) -> Option<usize> {
    let least = missed.iter().copied().fold(f64::INFINITY, f64::min);
    missed.iter().position(|missed| *missed <= least + AS_CLOSE)
}

fn off(simulated: &VmForecast, measured: &VmForecast) -> f64 {
    let of = |simulated: &OperationForecast, measured: &OperationForecast| {
        let percentiles = simulated.percentiles_ns.into_iter().zip(measured.percentiles_ns);
        let pairs = [(simulated.iops, measured.iops), (simulated.response_ns, measured.response_ns)]
            .into_iter()
            .chain(percentiles);
        let off = |(simulated, measured): (Option<f64>, Option<f64>)| Some(libm::log(simulated? / measured?).abs());
        pairs.filter_map(off).filter(|off| off.is_finite()).sum::<f64>()
    };
    of(&simulated.reads, &measured.reads) + of(&simulated.writes, &measured.writes)
}

/// The device, if times follow anything, as `traces` show it, the first of which are of the `vms`. It may serve several at once
/// only if its order is unknown, or if it is not `disk`; and if its members show, it has them.
pub(super) fn fit(
    traces: &[IsolatedTrace],
    vms: &[Workload],
    own: usize,
    order: DispatchOrder,
    disk: Option<FittedDisk>,
    seed: u64,
) -> Result<Option<CalibratedDevice>, PredictError> {
    let alone = Alone { traces, vms, own, order, seed };
    let disk = disk.map(|plain| alone.disk_with_cache(plain)).transpose()?;
    let fitted = match disk::capacity(traces) {
        Some(capacity) if disk.is_none() || order.policy == Policy::Unknown => {
            let (members, streams) = array::fits(traces, capacity);
            let members = members.into_iter().map(FittedDevice::Array).collect();
            match alone.closest(members, &streams)? {
                Some(FittedDevice::Array(members)) => Some(alone.with_sectors(&members, &streams)?),
                _ => {
                    let several = concurrent::fit(traces, capacity).map(FittedDevice::Concurrent);
                    let everybody: Vec<usize> = (0..own).collect();
                    alone.closest(disk.into_iter().chain(several).collect(), &everybody)?
                }
            }
        }
        _ => disk,
    };
    let Some(fitted) = fitted else { return Ok(None) };
    let alone = (0..own).map(|vm| alone.one(&fitted, vm, simulation::UNLIMITED)).collect::<Result<_, _>>()?;
    Ok(Some(CalibratedDevice { fitted, alone }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_has_a_cache_unless_machines_are_met_far_better_without() {
        use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};
        use crate::twin::device::fit_disk;
        use crate::twin::workload::infer;

        let alone = Campaign::default().alone(SYNTHETIC_SETUPS[0], 0).unwrap();
        let has_cache = |members: [usize; 2]| {
            let traces = members.map(|vm| alone[vm].trace.clone());
            let vms = [infer(&traces[0]), infer(&traces[1])];
            let order = DispatchOrder { policy: Policy::Fcfs, durable_first: true };
            let fitted = fit(&traces, &vms, 2, order, fit_disk(&traces), 1).unwrap().unwrap().fitted;
            let FittedDevice::Disk(fitted) = fitted else { panic!("it is none") };
            fitted.has_cache()
        };
        assert!(has_cache([0, 1]));
        // The third writes so much that the cache is full, of which nothing is known.
        assert!(!has_cache([2, 4]));
    }

    #[test]
    fn what_streams_wait_for_tells_what_members_take_for_a_sector() {
        use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};
        use crate::twin::workload::infer;

        let campaign = Campaign { vms: 4, span: Nanos::from_s(20), ..Campaign::default() };
        let traces: Vec<IsolatedTrace> =
            campaign.alone(SYNTHETIC_SETUPS[3], 3).unwrap().into_iter().map(|ran| ran.trace).collect();
        let vms: Vec<Workload> = traces.iter().map(infer).collect();
        let order = DispatchOrder { policy: Policy::Unknown, durable_first: false };
        let alone = Alone { traces: &traces, vms: &vms, own: 4, order, seed: 1 };
        let (mut fits, streams) = array::fits(&traces, disk::capacity(&traces).unwrap());
        assert_eq!(streams, [0, 1, 3]);
        let fitted = fits.swap_remove(0);
        let missed = |fitted: &FittedDevice| alone.missed(fitted, &streams, f64::INFINITY).unwrap();
        for factor in [1.0, 1.4, 3.5] {
            let wrong = fitted.with_sectors(factor);
            let (before, after) =
                (missed(&FittedDevice::Array(wrong.clone())), alone.with_sectors(&wrong, &streams).unwrap());
            assert!(missed(&after) < 0.5 * before, "{factor}: {before} {}", missed(&after));
        }
    }

    #[test]
    fn of_those_that_come_as_close_the_first_is_taken() {
        assert_eq!(first_as_close(&[0.5, 0.015, 0.3, 0.0]), Some(1));
        assert_eq!(first_as_close(&[0.5, 0.03, 0.3, 0.0]), Some(3));
        assert_eq!(first_as_close(&[]), None);
    }

    #[test]
    fn what_is_off_counts_both_ways_and_nothing_that_is_missing() {
        let of = |iops: f64, ms: f64| OperationForecast::of_means(Some(iops), Some(ms * 1e6));
        let vm = |reads: OperationForecast| VmForecast { reads, ..VmForecast::default() };
        let found = off(&vm(of(200.0, 5.0)), &vm(of(100.0, 10.0)));
        assert!((found - 2.0 * libm::log(2.0)).abs() < 1e-12, "{found}");
        assert_eq!(off(&VmForecast::default(), &vm(of(100.0, 10.0))), 0.0);
        // Two of equal means are told apart by their percentiles.
        let with = |p99: f64| vm(OperationForecast { percentiles_ns: [None, None, Some(p99)], ..of(100.0, 10.0) });
        assert!((off(&with(3e7), &with(1e7)) - libm::log(3.0)).abs() < 1e-12);
    }
}
