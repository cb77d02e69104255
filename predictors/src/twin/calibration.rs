//! Selects the kind of the device and its fit.
//!
//! `device/` fits every kind that the device may be. The calibration simulates VMs alone on each fit and compares
//! throughput, mean response time and percentiles with the isolated traces. It selects the fit with the smallest error.
//! For a disk it decides whether the drive has a write cache; for an array it scales the members' time for a sector.
//!
//! It compares VMs alone only: behaviour that a device shows only under several VMs stays unknown.

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

/// The most simulated time of a VM in a comparison of fits. Chosen because longer simulations made the inference of an
/// array take more than a twentieth of traces of 300 s.
const COMPARISON_DURATION_MAX: Nanos = Nanos::from_s(60);
/// Largest difference of two errors (sums of absolute logarithms) that counts as none. Set by judgement; not varied.
const ERROR_DIFFERENCE_MIN: f64 = 0.02;

/// Steps to a factor of 2 in the search for members' times for a sector. The search ends with half a step. Set by
/// judgement; not varied.
const SECTOR_TIME_STEPS_PER_OCTAVE: f64 = 4.0;
/// The most steps of that search in each direction. Set by judgement; not varied.
const SECTOR_TIME_STEPS_MAX: i32 = 4;
/// Largest error, as a share of the best one so far, that a further step of that search may have to be accepted. Set by
/// judgement; not varied.
const ACCEPTED_ERROR_SHARE_MAX: f64 = 0.9;
/// Error for each VM by which a disk with a write cache may exceed one without and still be selected. Set by judgement;
/// not varied.
const CACHE_EXCESS_ERROR_MAX: f64 = 0.3;

/// The selected device, and the figures of each VM alone on it.
pub(super) struct CalibratedDevice {
    pub(super) fitted: FittedDevice,
    pub(super) alone: Vec<VmForecast>,
}

/// The traces, and how each VM is simulated alone.
struct Alone<'a> {
    traces: &'a [IsolatedTrace],
    /// Workloads of the first traces, or of all.
    workloads: &'a [Workload],
    /// Number of VMs to forecast, which are the first.
    own: usize,
    order: DispatchOrder,
    seed: u64,
}

impl Alone<'_> {
    /// The figures of one VM alone, in a simulation of `duration_max` at most.
    fn one(&self, fitted: &FittedDevice, vm: usize, duration_max: Nanos) -> Result<VmForecast, PredictError> {
        let run = Run { fitted, order: self.order, seed: self.seed, vms: vm..vm + 1, duration_max };
        let simulated = simulate(self.traces, self.workloads, &run)?;
        Ok(simulated.first().copied().unwrap_or_else(|| measured(&self.traces[vm])))
    }

    /// The error of `vms` simulated alone: the sum of the absolute logarithms of simulated by measured throughput, mean
    /// response time and its percentiles. The sum stops early when it exceeds `most`.
    fn error(&self, fitted: &FittedDevice, vms: &[usize], most: f64) -> Result<f64, PredictError> {
        let mut sum = 0.0;
        for &vm in vms {
            if sum > most {
                break;
            }
            sum += log_error(&self.one(fitted, vm, COMPARISON_DURATION_MAX)?, &measured(&self.traces[vm]));
        }
        Ok(sum)
    }

    /// The disk, with a write cache if the traces show one. VMs alone say little about what a cache does to other VMs,
    /// and fit as well without one. So the cache is kept unless the VMs fit far better without it.
    fn disk_with_cache(&self, plain: FittedDisk) -> Result<FittedDevice, PredictError> {
        let cached = disk::with_cache(self.traces, &plain).map(FittedDevice::Disk);
        let plain = FittedDevice::Disk(plain);
        let all_vms: Vec<usize> = (0..self.own).collect();
        let Some(cached) = cached else { return Ok(plain) };
        let excess = CACHE_EXCESS_ERROR_MAX * all_vms.len() as f64;
        let worse =
            self.error(&cached, &all_vms, f64::INFINITY)? > self.error(&plain, &all_vms, f64::INFINITY)? + excess;
        Ok(if worse { plain } else { cached })
    }

    /// The first of `fits` whose error for `vms` is as small as any.
    fn closest(&self, mut fits: Vec<FittedDevice>, vms: &[usize]) -> Result<Option<FittedDevice>, PredictError> {
        if fits.len() < 2 {
            return Ok(fits.pop());
        }
        let errors: Vec<f64> =
            fits.iter().map(|fitted| self.error(fitted, vms, f64::INFINITY)).collect::<Result<_, _>>()?;
        Ok(first_of_smallest(&errors).map(|place| fits.swap_remove(place)))
    }

    /// `fitted` with the members' time for a sector scaled so that the error of `streams` is smallest. What an array
    /// reads ahead is much longer than the random reads that the members were fitted to, and their times may say little
    /// about it.
    fn with_sector_time(&self, fitted: &FittedArray, streams: &[usize]) -> Result<FittedDevice, PredictError> {
        let with = |step: f64| FittedDevice::Array(fitted.with_sectors((step / SECTOR_TIME_STEPS_PER_OCTAVE).exp2()));
        let mut best = (0.0, self.error(&with(0.0), streams, f64::INFINITY)?);
        let mut attempt = |step: f64| -> Result<f64, PredictError> {
            let accepted = best.1 * ACCEPTED_ERROR_SHARE_MAX - ERROR_DIFFERENCE_MIN;
            let error = self.error(&with(step), streams, accepted)?;
            if error <= accepted {
                best = (step, error);
            }
            Ok(best.0)
        };
        let mut whole = 0.0;
        for step in (1..=SECTOR_TIME_STEPS_MAX).flat_map(|step| [step, -step]) {
            whole = attempt(f64::from(step))?;
        }
        attempt(whole + 0.5)?;
        let step = attempt(whole - 0.5)?;
        Ok(with(step))
    }
}

/// The first error that is as small as any, to within [`ERROR_DIFFERENCE_MIN`].
fn first_of_smallest(errors: &[f64]) -> Option<usize> {
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    errors.iter().position(|error| *error <= least + ERROR_DIFFERENCE_MIN)
}

/// The sum of the absolute logarithms of simulated by measured figures, without those that either lacks.
fn log_error(simulated: &VmForecast, measured: &VmForecast) -> f64 {
    let of = |simulated: &OperationForecast, measured: &OperationForecast| {
        let percentiles = simulated.percentiles_ns.into_iter().zip(measured.percentiles_ns);
        let pairs = [(simulated.iops, measured.iops), (simulated.response_ns, measured.response_ns)]
            .into_iter()
            .chain(percentiles);
        let log = |(simulated, measured): (Option<f64>, Option<f64>)| Some(libm::log(simulated? / measured?).abs());
        pairs.filter_map(log).filter(|log| log.is_finite()).sum::<f64>()
    };
    of(&simulated.reads, &measured.reads) + of(&simulated.writes, &measured.writes)
}

/// Selects the device that `traces` were recorded on; `None` if no model fits. The first `own` traces are those of the
/// VMs to forecast.
///
/// The device may serve several requests at once only if its order is unknown or no disk was fitted. It is an array if
/// its members show in the traces.
pub(super) fn fit(
    traces: &[IsolatedTrace],
    workloads: &[Workload],
    own: usize,
    order: DispatchOrder,
    disk: Option<FittedDisk>,
    seed: u64,
) -> Result<Option<CalibratedDevice>, PredictError> {
    let alone = Alone { traces, workloads, own, order, seed };
    let disk = disk.map(|plain| alone.disk_with_cache(plain)).transpose()?;
    let fitted = match disk::capacity(traces) {
        Some(capacity) if disk.is_none() || order.policy == Policy::Unknown => {
            let (members, streams) = array::fits(traces, capacity);
            let members = members.into_iter().map(FittedDevice::Array).collect();
            match alone.closest(members, &streams)? {
                Some(FittedDevice::Array(members)) => Some(alone.with_sector_time(&members, &streams)?),
                _ => {
                    let several = concurrent::fit(traces, capacity).map(FittedDevice::Concurrent);
                    let all_vms: Vec<usize> = (0..own).collect();
                    alone.closest(disk.into_iter().chain(several).collect(), &all_vms)?
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
    fn disk_has_a_write_cache_unless_vms_fit_far_better_without() {
        use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};
        use crate::twin::device::fit_disk;
        use crate::twin::workload::infer;

        let alone = Campaign::default().alone(SYNTHETIC_SETUPS[0], 0).unwrap();
        let has_cache = |members: [usize; 2]| {
            let traces = members.map(|vm| alone[vm].trace.clone());
            let vms = [infer(&traces[0]), infer(&traces[1])];
            let order = DispatchOrder { policy: Policy::Fcfs, durable_first: true };
            let fitted = fit(&traces, &vms, 2, order, fit_disk(&traces), 1).unwrap().unwrap().fitted;
            let FittedDevice::Disk(fitted) = fitted else { panic!("the device is no disk") };
            fitted.has_cache()
        };
        assert!(has_cache([0, 1]));
        // The third VM writes so much that it fills the cache, whose capacity is unknown.
        assert!(!has_cache([2, 4]));
    }

    #[test]
    fn wrong_sector_times_of_members_are_corrected_by_sequential_streams() {
        use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};
        use crate::twin::workload::infer;

        let campaign = Campaign { vms: 4, span: Nanos::from_s(20), ..Campaign::default() };
        let traces: Vec<IsolatedTrace> =
            campaign.alone(SYNTHETIC_SETUPS[3], 3).unwrap().into_iter().map(|ran| ran.trace).collect();
        let workloads: Vec<Workload> = traces.iter().map(infer).collect();
        let order = DispatchOrder { policy: Policy::Unknown, durable_first: false };
        let alone = Alone { traces: &traces, workloads: &workloads, own: 4, order, seed: 1 };
        let (mut fits, streams) = array::fits(&traces, disk::capacity(&traces).unwrap());
        assert_eq!(streams, [0, 1, 3]);
        let fitted = fits.swap_remove(0);
        let error = |fitted: &FittedDevice| alone.error(fitted, &streams, f64::INFINITY).unwrap();
        for factor in [1.0, 1.4, 3.5] {
            let wrong = fitted.with_sectors(factor);
            let (before, after) =
                (error(&FittedDevice::Array(wrong.clone())), alone.with_sector_time(&wrong, &streams).unwrap());
            assert!(error(&after) < 0.5 * before, "{factor}: {before} {}", error(&after));
        }
    }

    #[test]
    fn first_of_equally_small_errors_is_selected() {
        assert_eq!(first_of_smallest(&[0.5, 0.015, 0.3, 0.0]), Some(1));
        assert_eq!(first_of_smallest(&[0.5, 0.03, 0.3, 0.0]), Some(3));
        assert_eq!(first_of_smallest(&[]), None);
    }

    #[test]
    fn log_error_counts_both_directions_and_skips_missing_figures() {
        let of = |iops: f64, ms: f64| OperationForecast::of_means(Some(iops), Some(ms * 1e6));
        let vm = |reads: OperationForecast| VmForecast { reads, ..VmForecast::default() };
        let found = log_error(&vm(of(200.0, 5.0)), &vm(of(100.0, 10.0)));
        assert!((found - 2.0 * libm::log(2.0)).abs() < 1e-12, "{found}");
        assert_eq!(log_error(&VmForecast::default(), &vm(of(100.0, 10.0))), 0.0);
        // Equal means with different percentiles differ.
        let with = |p99: f64| vm(OperationForecast { percentiles_ns: [None, None, Some(p99)], ..of(100.0, 10.0) });
        assert!((log_error(&with(3e7), &with(1e7)) - libm::log(3.0)).abs() < 1e-12);
    }
}
