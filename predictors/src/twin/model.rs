//! The model of VMs and their device, inferred from isolated traces, and the forecast that it gives.
//!
//! [`Model::infer`] runs the twin's steps up to calibration, [`Model::forecast`] simulates the VMs together. The
//! forecast of a figure is the simulated one, corrected by the error of the simulation of the VM alone.

use traces::Nanos;
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::DevicePolicy;

use super::calibration::{self, CalibratedDevice};
use super::device::evidence::{Evidence, REQUESTS_MIN};
use super::device::policy::{DispatchOrder, Policy};
use super::device::{FittedDevice, durable_first};
use super::intervals::{self, Wide};
use super::simulation::meter::measured;
use super::simulation::{self, Run, simulate};
use super::workload::{self, Workload};
use crate::isolated_trace::IsolatedTrace;
use crate::predictor::{OperationForecast, PredictError, VmForecast};

/// VMs and the device that they are to share, as inferred from isolated traces.
pub struct Model<'a> {
    /// First those of the VMs to forecast.
    traces: &'a [IsolatedTrace],
    /// First those of the VMs to forecast. Behind them those of further traces, if calibration uses them.
    workloads: Vec<Workload>,
    fitted: FittedDevice,
    order: DispatchOrder,
    /// Whether the order is certain.
    sure: bool,
    /// The figures of each VM to forecast, simulated alone on the fitted device.
    alone: Vec<VmForecast>,
    /// The contribution of further traces.
    further_traces_note: Option<String>,
    seed: u64,
}

impl<'a> Model<'a> {
    /// Infers the model of the VMs whose profiles are `alone`. Theirs are the first of the `traces`; the device is
    /// inferred from all.
    ///
    /// # Errors
    /// [`PredictError::DoesNotHold`] if a trace is missing, too short to be simulated or reaches beyond the last
    /// address, or if no device model fits its times. [`PredictError::Profile`] if a trace has too few requests.
    pub fn infer(
        alone: &[IsolationProfile],
        traces: &'a [IsolatedTrace],
        seed: u64,
    ) -> Result<Model<'a>, PredictError> {
        check_traces(alone, traces)?;
        let vms = alone.len();
        let evidence = Evidence::of_vms(traces, vms);
        let further_traces_note = evidence.further_traces_note(vms);
        let Evidence { traces, disk, policy, sure, .. } = evidence;
        // Calibration uses the workloads of further traces only for arrays.
        let is_disk = disk.is_some() && policy != Policy::Unknown;
        let used = if is_disk { vms } else { traces.len() };
        let workloads: Vec<Workload> = traces[..used].iter().map(workload::infer).collect();
        let delay = disk.as_ref().map_or(Nanos::ZERO, |fitted| fitted.delay);
        let order = DispatchOrder { policy, durable_first: durable_first::is_durable_first(traces, delay) };
        let calibrated = calibration::fit(traces, &workloads, vms, order, disk, seed)?;
        let CalibratedDevice { fitted, alone } = calibrated.ok_or_else(|| {
            PredictError::DoesNotHold(
                "no device model fits the service times of the traces; check their issue and completion times"
                    .to_owned(),
            )
        })?;
        Ok(Model { traces, workloads, fitted, order, sure, alone, further_traces_note, seed })
    }

    /// The figures of each VM on the device together with the others.
    ///
    /// # Errors
    /// [`PredictError::DoesNotHold`] if they cannot be simulated.
    pub fn forecast(&self) -> Result<Vec<VmForecast>, PredictError> {
        Ok(self.forecast_with_doubts()?.into_iter().map(|(forecast, _)| forecast).collect())
    }

    /// The same, with why intervals of each VM are wide.
    ///
    /// # Errors
    /// As [`Model::forecast`].
    pub(crate) fn forecast_with_doubts(&self) -> Result<Vec<(VmForecast, Wide)>, PredictError> {
        let vms = 0..self.alone.len();
        let fits = std::slice::from_ref(&self.fitted);
        let run = Run { fits, order: self.order, seed: self.seed, vms, duration_max: simulation::UNLIMITED };
        let together = simulate(self.traces, &self.workloads, &run)?.remove(0);
        let concurrent = matches!(self.fitted, FittedDevice::Concurrent(_));
        let vm = |((together, simulated), trace): ((&VmForecast, &VmForecast), &IsolatedTrace)| {
            let measured = measured(trace);
            let mut wide = Wide::default();
            let forecast = VmForecast {
                reads: bias_corrected(together.reads, simulated.reads, measured.reads, concurrent, &mut wide),
                writes: bias_corrected(together.writes, simulated.writes, measured.writes, concurrent, &mut wide),
            };
            (forecast, wide)
        };
        Ok(together.iter().zip(&self.alone).zip(self.traces).map(vm).collect())
    }

    /// The dispatch order of the device.
    pub fn policy(&self) -> DevicePolicy {
        DevicePolicy { name: self.order.policy.kind().to_owned(), sure: self.sure }
    }

    /// Notes for the user: the device in words, and the contribution of further traces.
    pub fn notes(&self) -> Vec<String> {
        [describe(&self.fitted, self.order, self.sure)].into_iter().chain(self.further_traces_note.clone()).collect()
    }
}

/// Checks that there is a trace of each VM, with enough requests and addresses that a device can have.
fn check_traces(alone: &[IsolationProfile], traces: &[IsolatedTrace]) -> Result<(), PredictError> {
    if traces.len() < alone.len() {
        return Err(PredictError::DoesNotHold(
            "the twin simulates single requests, which a profile does not contain; give the captures themselves"
                .to_owned(),
        ));
    }
    if let Some(beyond) = traces.iter().position(|trace| trace.end().sector() == u64::MAX) {
        let which = alone
            .get(beyond)
            .map_or_else(|| format!("further capture {}", beyond + 1 - alone.len()), |of| of.vm.clone());
        return Err(PredictError::DoesNotHold(format!(
            "{which}: at its place on the device, requests reach the last address or beyond; give it another place"
        )));
    }
    let few = alone.iter().zip(traces).find(|(_, trace)| trace.len() < REQUESTS_MIN);
    few.map_or(Ok(()), |(profile, trace)| {
        let few = trace.len();
        let what =
            format!("{few} requests with completions; the twin needs at least {REQUESTS_MIN} to infer the device");
        Err(PredictError::profile(profile, what))
    })
}

/// The device in words.
fn describe(fitted: &FittedDevice, order: DispatchOrder, sure: bool) -> String {
    match fitted {
        FittedDevice::Disk(_) => format!(
            "dispatch order of the device{}: {}{}; delay to the device: {}",
            if sure { "" } else { " (uncertain)" },
            order.policy,
            if order.durable_first { ", durable writes ahead of all" } else { "" },
            Nanos::from_us(fitted.delay().as_ns() / 1000)
        ),
        FittedDevice::Array(fitted) => fitted.to_string(),
        FittedDevice::Concurrent(_) => {
            "the device serves several requests at once or in an unknown order: response times are modelled by the \
             number of requests in flight"
                .to_owned()
        }
    }
}

/// The exponent of the correction is the share of a response time that the VM alone accounts for, to this power. Chosen
/// with both labs and the synthetic setups of seed 101 in view.
const BIAS_FADING_EXPONENT: f64 = 0.5;

/// The simulated figures of a VM together, corrected by the error of those simulated alone. The correction fades as
/// responses get longer than alone: then they are due to the other VMs, about which the error alone says nothing.
fn bias_corrected(
    together: OperationForecast,
    simulated: OperationForecast,
    measured: OperationForecast,
    concurrent: bool,
    wide: &mut Wide,
) -> OperationForecast {
    // A response without time is due to the VM alone.
    let responses = simulated.response_ns.zip(together.response_ns.filter(|together| *together > 0.0));
    let own_share = responses.map_or(1.0, |(simulated, together)| (simulated / together).clamp(0.0, 1.0));
    let weight = own_share.powf(BIAS_FADING_EXPONENT);
    let figure = |together: Option<f64>, simulated: Option<f64>, measured: Option<f64>| {
        let error = measured
            .zip(simulated.filter(|simulated| *simulated > 0.0))
            .map(|(measured, simulated)| measured / simulated);
        together.map(|together| together * error.map_or(1.0, |error| error.powf(weight)))
    };
    OperationForecast {
        iops: figure(together.iops, simulated.iops, measured.iops),
        response_ns: figure(together.response_ns, simulated.response_ns, measured.response_ns),
        percentiles_ns: std::array::from_fn(|index| {
            let of = |operation: &OperationForecast| operation.percentiles_ns[index];
            figure(of(&together), of(&simulated), of(&measured))
        }),
        requests: None,
        spread: intervals::spread(&together, &simulated, &measured, concurrent, wide),
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use traces::{Lba, Operation, StreamId, Timestamp};

    use super::*;
    use crate::isolated_trace::TracedRequest;
    use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};

    /// The time from arrival to issue of a request, and from issue to completion.
    type Times = (Nanos, Nanos);
    type Random = Xoshiro256PlusPlus;

    /// Changes of requests that make a trace inconsistent.
    const CHANGES: [fn(&mut TracedRequest, &mut Times, usize, &mut Random); 17] = [
        |_, (_, took), _, _| *took = Nanos::from_ms(3),
        |_, (_, took), _, _| *took = Nanos::ZERO,
        |_, (_, took), index, _| *took = Nanos::from_ms([1, 9][index % 2]),
        |_, (_, took), _, _| *took = Nanos::from_ns(took.as_ns() * 3),
        |_, (waited, _), _, _| *waited = Nanos::from_ns(waited.as_ns() * 100),
        |_, (waited, _), _, random| *waited = Nanos::from_us(random.random_range(0..9000)),
        |request, _, _, _| request.lba = Lba::new(request.lba.sector() % 64),
        |request, _, _, random| request.lba = Lba::new(random.random_range(0..1 << 40)),
        |request, _, _, random| request.sectors = random.random_range(1..4096),
        |request, _, index, _| request.stream = StreamId(index as u32),
        |request, _, _, _| request.stream = StreamId(0),
        |request, _, index, _| request.operation = [Operation::Read, Operation::Write, Operation::Flush][index % 3],
        |request, _, _, _| request.operation = Operation::Write,
        |request, _, index, _| (request.sync, request.durable) = (index % 2 == 0, index % 4 == 0),
        |request, _, index, _| request.arrival += Nanos::from_s((index / 1000 * 3600) as u64),
        |request, _, _, _| request.arrival = Timestamp::ZERO,
        |request, _, _, _| request.arrival = Timestamp::from_ns(request.arrival.as_ns() / 100),
    ];

    fn change(trace: &mut IsolatedTrace, change: usize, random: &mut Random) {
        for (index, request) in trace.requests.iter_mut().enumerate() {
            let mut times = (request.issued.since(request.arrival), request.completed.since(request.issued));
            CHANGES[change](request, &mut times, index, random);
            let (waited, took) = times;
            request.issued = request.arrival + waited;
            request.completed = request.issued + took;
            // As a trace reader has it.
            request.durable &= request.operation == Operation::Write;
            request.sync |= request.operation != Operation::Write;
        }
    }

    #[test]
    fn inconsistent_traces_give_finite_figures_or_an_error() {
        let number = |figure: Option<f64>| assert!(figure.is_none_or(|figure| figure.is_finite() && figure >= 0.0));
        let of = |forecast: &OperationForecast| {
            [forecast.iops, forecast.response_ns].into_iter().chain(forecast.percentiles_ns).for_each(number);
            forecast.spread.into_iter().flat_map(|spread| spread.deviations()).map(Some).for_each(number);
        };
        let span = Nanos::from_s(4);
        let campaign = Campaign { vms: 3, span, warm_up: Nanos::from_s(1), ..Campaign::default() };
        let mut forecast = 0;
        for (number, setup) in SYNTHETIC_SETUPS.iter().enumerate() {
            let ran = campaign.alone(*setup, number).unwrap().into_iter();
            let (profiles, alone): (Vec<IsolationProfile>, Vec<IsolatedTrace>) =
                ran.map(|ran| (ran.profile, ran.trace)).unzip();
            let mut random = Random::seed_from_u64(number as u64);
            for first in 0..CHANGES.len() {
                let mut traces = alone.clone();
                // Change one trace or all, then one of them in another way.
                let vm = random.random_range(0..4);
                let changed = traces.iter_mut().enumerate().filter(|(index, _)| vm == 3 || vm == *index);
                changed.for_each(|(_, trace)| change(trace, first, &mut random));
                let (vm, other) = (random.random_range(0..3), random.random_range(0..CHANGES.len()));
                change(&mut traces[vm], other, &mut random);
                match Model::infer(&profiles[..2], &traces, 1).and_then(|model| model.forecast()) {
                    Ok(vms) => {
                        vms.iter().for_each(|vm| [vm.reads, vm.writes].iter().for_each(of));
                        forecast += 1;
                    }
                    Err(error) => assert!(error.to_string().contains("a trace is too short"), "{error}"),
                }
            }
        }
        assert!(forecast > 60, "{forecast}");
    }

    fn operation(response_ms: f64, iops: f64) -> OperationForecast {
        OperationForecast::of_means(Some(iops), Some(response_ms * 1e6))
    }

    #[test]
    fn correction_fades_as_responses_grow_beyond_those_alone() {
        let (simulated, measured) = (operation(10.0, 100.0), operation(20.0, 50.0));
        let forecast = |response_ms: f64, iops: f64| {
            let corrected =
                bias_corrected(operation(response_ms, iops), simulated, measured, false, &mut Wide::default());
            (corrected.response_ns.unwrap() / 1e6, corrected.iops.unwrap())
        };
        // As long as alone: the whole correction.
        assert_eq!(forecast(10.0, 100.0), (20.0, 50.0));
        // Four times as long as alone: the square root of the factor.
        let (response, iops) = forecast(40.0, 25.0);
        assert!((response - 40.0 * 2f64.sqrt()).abs() < 1e-9 && (iops - 25.0 / 2f64.sqrt()).abs() < 1e-9);
        // Shorter than alone: still the whole correction.
        assert_eq!(forecast(5.0, 200.0), (10.0, 100.0));
    }
}
