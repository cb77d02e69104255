//! Machines and their device, told from recordings and ready to be played together.

use traces::Nanos;
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::DevicePolicy;

use super::calibration::{self, CalibratedDevice};
use super::device::evidence::{Evidence, REQUESTS_MIN};
use super::device::policy::{DispatchOrder, Policy};
use super::device::{FittedDevice, durable_first};
use super::intervals;
use super::simulation::meter::measured;
use super::simulation::{self, Run, simulate};
use super::workload::{self, Workload};
use crate::isolated_trace::IsolatedTrace;
use crate::predictor::{OperationForecast, PredictError, VmForecast};

/// What the recordings of machines alone tell of the machines and of the device that they are to share.
pub struct Model<'a> {
    /// First those of the machines that are played.
    traces: &'a [IsolatedTrace],
    /// As far as they tell of the device, of others' recordings behind the machines' own.
    vms: Vec<Workload>,
    fitted: FittedDevice,
    order: DispatchOrder,
    /// Whether the order is sure.
    sure: bool,
    /// What each machine gets of the device in a play alone.
    alone: Vec<VmForecast>,
    /// Of others' recordings.
    told_by_others: Option<String>,
    seed: u64,
}

impl<'a> Model<'a> {
    /// Of the machines of the profiles `alone`, whose are the first of the `traces`; all of these tell of the device.
    ///
    /// # Errors
    /// [`PredictError::DoesNotHold`] if a recording is missing, too short to be played, reaches beyond the last address, or if times follow
    /// nothing; [`PredictError::Profile`] if one has too few requests.
    pub fn infer(
        alone: &[IsolationProfile],
        traces: &'a [IsolatedTrace],
        seed: u64,
    ) -> Result<Model<'a>, PredictError> {
        enough(alone, traces)?;
        let vms = alone.len();
        let learned = Evidence::of_vms(traces, vms);
        let told_by_others = learned.told_by_others(vms);
        let Evidence { traces, disk, policy, sure, .. } = learned;
        // Of others only what an array's streams wait for is told.
        let one_after_another = disk.is_some() && policy != Policy::Unknown;
        let telling = if one_after_another { vms } else { traces.len() };
        let inferred: Vec<Workload> = traces[..telling].iter().map(workload::infer).collect();
        let delay = disk.as_ref().map_or(Nanos::ZERO, |fitted| fitted.delay);
        let order = DispatchOrder { policy, durable_first: durable_first::is_durable_first(traces, delay) };
        let simulated = calibration::fit(traces, &inferred, vms, order, disk, seed)?;
        let CalibratedDevice { fitted, alone } = simulated.ok_or_else(|| {
            PredictError::DoesNotHold(
                "the recordings' service times follow no line; their times cannot be right".to_owned(),
            )
        })?;
        Ok(Model { traces, vms: inferred, fitted, order, sure, alone, told_by_others, seed })
    }

    /// What each machine gets of the device together with the others.
    ///
    /// # Errors
    /// [`PredictError::DoesNotHold`] if they cannot be played.
    pub fn forecast(&self) -> Result<Vec<VmForecast>, PredictError> {
        let vms = 0..self.alone.len();
        let run =
            Run { fitted: &self.fitted, order: self.order, seed: self.seed, vms, duration_max: simulation::UNLIMITED };
        let together = simulate(self.traces, &self.vms, &run)?;
        let concurrent = matches!(self.fitted, FittedDevice::Concurrent(_));
        let vm = |((together, simulated), trace): ((&VmForecast, &VmForecast), &IsolatedTrace)| {
            let measured = measured(trace);
            VmForecast {
                reads: scaled(together.reads, simulated.reads, measured.reads, concurrent),
                writes: scaled(together.writes, simulated.writes, measured.writes, concurrent),
            }
        };
        Ok(together.iter().zip(&self.alone).zip(self.traces).map(vm).collect())
    }

    /// In which order the device takes what waits for it.
    pub fn policy(&self) -> DevicePolicy {
        DevicePolicy { name: self.order.policy.kind().to_owned(), sure: self.sure }
    }

    /// What the device is, in words, and what others' recordings told of it.
    pub fn shown(&self) -> Vec<String> {
        [shown(&self.fitted, self.order, self.sure)].into_iter().chain(self.told_by_others.clone()).collect()
    }
}

/// That there is a recording of each machine, with requests in it that a device can have.
fn enough(alone: &[IsolationProfile], traces: &[IsolatedTrace]) -> Result<(), PredictError> {
    if traces.len() < alone.len() {
        return Err(PredictError::DoesNotHold(
            "the twin plays captures, and a profile tells no single requests; give the captures themselves".to_owned(),
        ));
    }
    if let Some(beyond) = traces.iter().position(|trace| trace.end().sector() == u64::MAX) {
        let which = alone
            .get(beyond)
            .map_or_else(|| format!("further capture {}", beyond + 1 - alone.len()), |of| of.vm.clone());
        return Err(PredictError::DoesNotHold(format!(
            "{which}: from its place on the device requests reach up to the last address or beyond; give it another place"
        )));
    }
    let few = alone.iter().zip(traces).find(|(_, trace)| trace.len() < REQUESTS_MIN);
    few.map_or(Ok(()), |(profile, trace)| {
        let few = trace.len();
        let what = format!("{few} requests with completions; the twin learns the device from {REQUESTS_MIN} at least");
        Err(PredictError::profile(profile, what))
    })
}

/// What the device is, in words.
fn shown(fitted: &FittedDevice, order: DispatchOrder, sure: bool) -> String {
    match fitted {
        FittedDevice::Disk(_) => format!(
            "the device takes requests in this order{}: {}{}; it is {} away",
            if sure { "" } else { ", which is not sure" },
            order.policy,
            if order.durable_first { ", durable writes ahead of all" } else { "" },
            Nanos::from_us(fitted.delay().as_ns() / 1000)
        ),
        FittedDevice::Array(fitted) => fitted.to_string(),
        FittedDevice::Concurrent(_) => {
            "the device serves several at once, or in no known order: response times go by what is \
                            under way"
                .to_owned()
        }
    }
}

/// By what power of the share that is left of a figure's own time what it is off by alone counts.
const FADES: f64 = 0.5;

/// The forecast is what the twin makes of machines together. What it is off by alone is put right, but the less the longer responses get:
/// then they are other machines' doing, of which it says nothing.
fn scaled(
    together: OperationForecast,
    simulated: OperationForecast,
    measured: OperationForecast,
    concurrent: bool,
) -> OperationForecast {
    // What takes no time is all its own.
    let responses = simulated.response_ns.zip(together.response_ns.filter(|together| *together > 0.0));
    let own = responses.map_or(1.0, |(simulated, together)| (simulated / together).clamp(0.0, 1.0));
    let counts = own.powf(FADES);
    let figure = |together: Option<f64>, simulated: Option<f64>, measured: Option<f64>| {
        let off = measured
            .zip(simulated.filter(|simulated| *simulated > 0.0))
            .map(|(measured, simulated)| measured / simulated);
        together.map(|together| together * off.map_or(1.0, |off| off.powf(counts)))
    };
    OperationForecast {
        iops: figure(together.iops, simulated.iops, measured.iops),
        response_ns: figure(together.response_ns, simulated.response_ns, measured.response_ns),
        percentiles_ns: std::array::from_fn(|index| {
            let of = |operation: &OperationForecast| operation.percentiles_ns[index];
            figure(of(&together), of(&simulated), of(&measured))
        }),
        spread: intervals::of(&together, &simulated, &measured, concurrent),
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

    /// How long a request waited, and how long it took then.
    type Times = (Nanos, Nanos);
    type Random = Xoshiro256PlusPlus;

    /// Changes of a request after which a recording does not fit together.
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
            // As a recorder has it.
            request.durable &= request.operation == Operation::Write;
            request.sync |= request.operation != Operation::Write;
        }
    }

    #[test]
    fn whatever_is_changed_in_recordings_figures_or_an_error_come_of_it() {
        let number = |figure: Option<f64>| assert!(figure.is_none_or(|figure| figure.is_finite() && figure >= 0.0));
        let of = |forecast: &OperationForecast| {
            [forecast.iops, forecast.response_ns].into_iter().chain(forecast.percentiles_ns).for_each(number);
            let spread = forecast.spread.map(|spread| [spread.iops, spread.response]);
            spread.into_iter().flatten().map(Some).for_each(number);
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
                // One of them or all, and one of these in another way.
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
                    Err(error) => assert!(error.to_string().contains("a recording is too short"), "{error}"),
                }
            }
        }
        assert!(forecast > 60, "{forecast}");
    }

    fn operation(response_ms: f64, iops: f64) -> OperationForecast {
        OperationForecast::of_means(Some(iops), Some(response_ms * 1e6))
    }

    #[test]
    fn what_the_twin_is_off_by_alone_fades_as_others_make_it_wait() {
        let (simulated, measured) = (operation(10.0, 100.0), operation(20.0, 50.0));
        let forecast = |response_ms: f64, iops: f64| {
            let scaled = scaled(operation(response_ms, iops), simulated, measured, false);
            (scaled.response_ns.unwrap() / 1e6, scaled.iops.unwrap())
        };
        // Nobody else: all of it.
        assert_eq!(forecast(10.0, 100.0), (20.0, 50.0));
        // Four times as long: the square root of the factor.
        let (response, iops) = forecast(40.0, 25.0);
        assert!((response - 40.0 * 2f64.sqrt()).abs() < 1e-9 && (iops - 25.0 / 2f64.sqrt()).abs() < 1e-9);
        // Faster than alone is no less its own.
        assert_eq!(forecast(5.0, 200.0), (10.0, 100.0));
    }
}
