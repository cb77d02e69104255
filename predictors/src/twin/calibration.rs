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

/// The VMs whose errors are compared.
struct Compared<'a> {
    /// By the numbers of their traces, in the order in which their errors are summed.
    vms: &'a [usize],
    /// Their places in `vms`, those of the largest errors on the device before first. Few of these suffice to exceed
    /// the error of a better device.
    worst_first: Vec<usize>,
}

impl<'a> Compared<'a> {
    fn of(vms: &'a [usize]) -> Compared<'a> {
        Compared { vms, worst_first: (0..vms.len()).collect() }
    }
}

impl Alone<'_> {
    /// The figures of one VM alone, in a simulation of `duration_max` at most.
    fn one(&self, fitted: &FittedDevice, vm: usize, duration_max: Nanos) -> Result<VmForecast, PredictError> {
        Ok(self.each(std::slice::from_ref(fitted), vm, duration_max)?.remove(0))
    }

    /// The same on each of `fits`, whose read caches fill alike.
    fn each(&self, fits: &[FittedDevice], vm: usize, duration_max: Nanos) -> Result<Vec<VmForecast>, PredictError> {
        let run = Run { fits, order: self.order, seed: self.seed, vms: vm..vm + 1, duration_max };
        Ok(simulate(self.traces, self.workloads, &run)?.into_iter().flatten().collect())
    }

    /// The error of one VM simulated alone on each of `fits`, whose read caches fill alike: the sum of the absolute
    /// logarithms of simulated by measured throughput, mean response time and its percentiles.
    fn errors_of(&self, fits: &[FittedDevice], vm: usize) -> Result<Vec<f64>, PredictError> {
        let measured = measured(&self.traces[vm]);
        let simulated = self.each(fits, vm, COMPARISON_DURATION_MAX)?;
        Ok(simulated.iter().map(|simulated| log_error(simulated, &measured)).collect())
    }

    /// The error of the VMs simulated alone: the sum of the error of each. Of an error above `most` only that is known:
    /// no further VM is then simulated. `known` is the error of the VM at one place, if it is known.
    fn error(
        &self,
        fitted: &FittedDevice,
        vms: &mut Compared<'_>,
        most: f64,
        known: Option<(usize, f64)>,
    ) -> Result<f64, PredictError> {
        // An error that is not known is 0. A sum in one order never falls when an addend grows, rounded or not.
        let mut errors = vec![0.0; vms.vms.len()];
        let mut sum = 0.0;
        for &place in &vms.worst_first {
            if sum > most {
                break;
            }
            errors[place] = match known.filter(|(of, _)| *of == place) {
                Some((_, error)) => error,
                None => self.errors_of(std::slice::from_ref(fitted), vms.vms[place])?.remove(0),
            };
            sum = errors.iter().fold(0.0, |sum, error| sum + error);
        }
        vms.worst_first.sort_by(|one, other| errors[*other].total_cmp(&errors[*one]));
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
        let error = |fitted| self.error(fitted, &mut Compared::of(&all_vms), f64::INFINITY, None);
        let of_cached = error(&cached)?;
        // An error is never negative, so a small one needs no comparison.
        let worse = of_cached > excess && of_cached > error(&plain)? + excess;
        Ok(if worse { plain } else { cached })
    }

    /// The first of `fits` whose error for `vms` is as small as any, and that error. A single fit is not simulated.
    fn closest(
        &self,
        mut fits: Vec<FittedDevice>,
        vms: &[usize],
    ) -> Result<Option<(FittedDevice, Option<f64>)>, PredictError> {
        if fits.len() < 2 {
            return Ok(fits.pop().map(|fitted| (fitted, None)));
        }
        let mut compared = Compared::of(vms);
        let (mut errors, mut least) = (Vec::new(), f64::INFINITY);
        for fitted in &fits {
            // Wherever a larger error would do, the smaller one before it does.
            let error = self.error(fitted, &mut compared, least, None)?;
            least = least.min(error);
            errors.push(error);
        }
        Ok(first_of_smallest(&errors).map(|place| (fits.swap_remove(place), Some(errors[place]))))
    }

    /// `fitted` with the members' time for a sector scaled so that the error of `streams` is smallest. What an array
    /// reads ahead is much longer than the random reads that the members were fitted to, and their times may say little
    /// about it. `error` is that of `fitted`, if it is known.
    fn with_sector_time(
        &self,
        fitted: &FittedArray,
        streams: &[usize],
        error: Option<f64>,
    ) -> Result<FittedDevice, PredictError> {
        let with = |step: f64| FittedDevice::Array(fitted.with_sectors((step / SECTOR_TIME_STEPS_PER_OCTAVE).exp2()));
        let mut compared = Compared::of(streams);
        let mut best = match error {
            Some(error) => (0.0, error),
            None => (0.0, self.error(&with(0.0), &mut compared, f64::INFINITY, None)?),
        };
        // One VM is simulated with all steps of an attempt together: the contents of the read cache are followed once.
        let mut attempt = |steps: &[f64]| -> Result<f64, PredictError> {
            let fits: Vec<FittedDevice> = steps.iter().map(|step| with(*step)).collect();
            let worst = compared.worst_first.first().copied();
            let errors = worst.map(|place| self.errors_of(&fits, streams[place])).transpose()?;
            for (index, (step, fitted)) in steps.iter().zip(&fits).enumerate() {
                let accepted = best.1 * ACCEPTED_ERROR_SHARE_MAX - ERROR_DIFFERENCE_MIN;
                let known = worst.zip(errors.as_ref()).map(|(place, errors)| (place, errors[index]));
                let error = self.error(fitted, &mut compared, accepted, known)?;
                if error <= accepted {
                    best = (*step, error);
                }
            }
            Ok(best.0)
        };
        let whole: Vec<f64> = (1..=SECTOR_TIME_STEPS_MAX).flat_map(|step| [step, -step]).map(f64::from).collect();
        let whole = attempt(&whole)?;
        let step = attempt(&[whole + 0.5, whole - 0.5])?;
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
    // An array needs no disk, and whether a disk has a write cache takes long to decide.
    let disk_with_cache = |disk: Option<FittedDisk>| disk.map(|plain| alone.disk_with_cache(plain)).transpose();
    let fitted = match disk::capacity(traces) {
        Some(capacity) if disk.is_none() || order.policy == Policy::Unknown => {
            let (members, streams) = array::fits(traces, capacity);
            let members = members.into_iter().map(FittedDevice::Array).collect();
            match alone.closest(members, &streams)? {
                Some((FittedDevice::Array(members), error)) => Some(alone.with_sector_time(&members, &streams, error)?),
                _ => {
                    let several = concurrent::fit(traces, capacity).map(FittedDevice::Concurrent);
                    let all_vms: Vec<usize> = (0..own).collect();
                    let fits = disk_with_cache(disk)?.into_iter().chain(several).collect();
                    alone.closest(fits, &all_vms)?.map(|(fitted, _)| fitted)
                }
            }
        }
        _ => disk_with_cache(disk)?,
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
        let error =
            |fitted: &FittedDevice| alone.error(fitted, &mut Compared::of(&streams), f64::INFINITY, None).unwrap();
        for factor in [1.0, 1.4, 3.5] {
            let wrong = fitted.with_sectors(factor);
            let (before, after) =
                (error(&FittedDevice::Array(wrong.clone())), alone.with_sector_time(&wrong, &streams, None).unwrap());
            assert!(error(&after) < 0.5 * before, "{factor}: {before} {}", error(&after));
        }
    }

    /// The error of all VMs, each simulated by itself.
    fn whole_error(alone: &Alone<'_>, fitted: &FittedDevice, vms: &[usize]) -> f64 {
        let of = |vm: &usize| {
            log_error(&alone.one(fitted, *vm, COMPARISON_DURATION_MAX).unwrap(), &measured(&alone.traces[*vm]))
        };
        vms.iter().map(of).fold(0.0, |sum, error| sum + error)
    }

    #[test]
    fn devices_are_selected_as_if_every_error_was_known() {
        use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};
        use crate::twin::workload::infer;

        let campaign = Campaign { vms: 4, span: Nanos::from_s(20), ..Campaign::default() };
        let traces: Vec<IsolatedTrace> =
            campaign.alone(SYNTHETIC_SETUPS[3], 3).unwrap().into_iter().map(|ran| ran.trace).collect();
        let workloads: Vec<Workload> = traces.iter().map(infer).collect();
        let order = DispatchOrder { policy: Policy::Unknown, durable_first: false };
        let alone = Alone { traces: &traces, workloads: &workloads, own: 4, order, seed: 1 };
        let (fits, _) = array::fits(&traces, disk::capacity(&traces).unwrap());
        let streams = [3, 0, 1];
        for factor in [0.4, 2.5] {
            let fitted = fits[0].with_sectors(factor);
            let with = |step: f64| fitted.with_sectors((step / SECTOR_TIME_STEPS_PER_OCTAVE).exp2());
            let error =
                |halves: i32| whole_error(&alone, &FittedDevice::Array(with(f64::from(halves) / 2.0)), &streams);
            let errors: Vec<f64> = (-9..=9).map(error).collect();
            let error = |step: f64| errors[(2.0 * step + 9.0) as usize];

            let (device, whole) = (FittedDevice::Array(with(0.0)), error(0.0));
            let mut compared = Compared::of(&streams);
            for (place, vm) in streams.into_iter().enumerate() {
                let known = alone.errors_of(std::slice::from_ref(&device), vm).unwrap()[0];
                assert!(known > 0.0);
                for most in [f64::INFINITY, whole] {
                    assert_eq!(alone.error(&device, &mut compared, most, Some((place, known))).unwrap(), whole);
                }
                assert!(alone.error(&device, &mut compared, 0.99 * whole, None).unwrap() > 0.99 * whole);
            }

            // Step by step, and every VM.
            let mut best = 0.0;
            let mut attempt = |step: f64| {
                if error(step) <= error(best) * ACCEPTED_ERROR_SHARE_MAX - ERROR_DIFFERENCE_MIN {
                    best = step;
                }
                best
            };
            let mut whole = 0.0;
            for step in 1..=SECTOR_TIME_STEPS_MAX {
                attempt(f64::from(step));
                whole = attempt(f64::from(-step));
            }
            attempt(whole + 0.5);
            let step = attempt(whole - 0.5);
            for known in [None, Some(error(0.0))] {
                let FittedDevice::Array(found) = alone.with_sector_time(&fitted, &streams, known).unwrap() else {
                    panic!("the device is no array")
                };
                assert_eq!(format!("{found:?}"), format!("{:?}", with(step)), "{factor} {known:?}");
            }

            let steps = [4.0, -2.0, 1.0, 0.0, 1.0, 2.0, -4.0];
            let fits: Vec<FittedDevice> = steps.iter().map(|step| FittedDevice::Array(with(*step))).collect();
            let place = first_of_smallest(&steps.map(error)).unwrap();
            let (closest, least) = alone.closest(fits, &streams).unwrap().unwrap();
            let FittedDevice::Array(closest) = closest else { panic!("the device is no array") };
            assert_eq!(format!("{closest:?}"), format!("{:?}", with(steps[place])), "{factor}");
            assert_eq!(least, Some(error(steps[place])), "{factor}");
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
