//! Every method gives finite figures or an error for isolated traces that no model would generate.
//!
//! Times, addresses, lengths and flags are drawn without regard to one another. Correctors learn from the forecasts
//! that come of these traces, and correct them.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::panic::{AssertUnwindSafe, catch_unwind};

use iocast_predictors::profile::Measure;
use iocast_predictors::{
    Consolidation, Isolated, IsolatedTrace, IsolatedTraceBuilder, OperationForecast, Outcomes, PREDICTORS,
    PredictError, predictor,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use traces::results::TraceProvenance;
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::{Forecast, Outcome, PairPrediction};
use traces::{Flags, Layer, Lba, Nanos, Observed, Operation, Record, Request, Sectors, StreamId, Timestamp, TraceMeta};

/// A distribution that a quantity is drawn from.
#[derive(Clone, Copy, Debug)]
enum Draw {
    Always(u64),
    Uniform(u64),
    /// Usually the first value. The second has a chance of one in the third.
    Either(u64, u64, u32),
    /// All magnitudes up to this number of bits, each as likely.
    Magnitudes(u32),
}

impl Draw {
    fn draw(self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self {
            Draw::Always(value) => value,
            Draw::Uniform(most) => random.random_range(0..=most),
            Draw::Either(often, seldom, one_in) => {
                if random.random_range(0..one_in) == 0 {
                    seldom
                } else {
                    often
                }
            }
            Draw::Magnitudes(bits) => {
                let most = 1u64 << random.random_range(0..bits);
                random.random_range(0..=most)
            }
        }
    }
}

fn nanos(most_bits: u32) -> impl Strategy<Value = Draw> {
    let most = (1u64 << most_bits) - 1;
    prop_oneof![
        Just(Draw::Always(0)),
        (0..most).prop_map(Draw::Always),
        (1..most).prop_map(Draw::Uniform),
        (0..1_000_000u64, 0..most, 2..200u32).prop_map(|(often, seldom, one_in)| Draw::Either(often, seldom, one_in)),
        (2..most_bits).prop_map(Draw::Magnitudes),
    ]
}

/// An odd VM: the distributions that its records are drawn from.
#[derive(Clone, Debug)]
struct OddVm {
    requests: usize,
    /// Time between arrivals, ns.
    gap: Draw,
    /// Time from arrival to issue, ns.
    wait: Draw,
    /// Time from issue to completion, ns.
    took: Draw,
    /// Sectors from the end of the last request (`relative`), or from the beginning of the device, to an address.
    jump: Draw,
    relative: bool,
    sectors: Draw,
    streams: u32,
    /// Operations, each as likely as the others.
    operations: Vec<Operation>,
    flags: Vec<Flags>,
    /// One request in this many never completes.
    lost: u32,
    place: u64,
    device: Option<u64>,
    seed: u64,
}

fn odd_vm() -> impl Strategy<Value = OddVm> {
    let operations = vec![Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
    let of = prop_oneof![Just(vec![Operation::Read]), prop::collection::vec(prop::sample::select(operations), 1..6)];
    let flags = vec![Flags::empty(), Flags::SYNC, Flags::FUA, Flags::PREFLUSH, Flags::SYNC | Flags::FUA];
    let flags = prop::collection::vec(prop::sample::select(flags), 1..4);
    let jump = prop_oneof![
        Just(Draw::Always(0)),
        (0..1u64 << 40).prop_map(Draw::Always),
        (0..1u64 << 36).prop_map(Draw::Uniform),
        Just(Draw::Uniform(u64::MAX)),
        (0..1u64 << 30, 2..300u32).prop_map(|(far, one_in)| Draw::Either(0, far, one_in)),
        (2..64u32).prop_map(Draw::Magnitudes),
    ];
    let sectors = prop_oneof![
        prop::sample::select(vec![0, 1, 8, 256, 2048, 1 << 16]).prop_map(Draw::Always),
        (1..4096u64).prop_map(Draw::Uniform),
        (1..16u32).prop_map(Draw::Magnitudes),
    ];
    let does = (100..700usize, nanos(36), nanos(30), nanos(34), jump, any::<bool>(), sectors);
    let device = prop_oneof![Just(None), (0..u64::MAX).prop_map(Some), Just(Some(1u64 << 28))];
    let is = (1..9u32, of, flags, 2..400u32, prop_oneof![9 => Just(0), 1 => any::<u64>()], device, any::<u64>());
    (does, is).prop_map(
        |(
            (requests, gap, wait, took, jump, relative, sectors),
            (streams, operations, flags, lost, place, device, seed),
        )| {
            OddVm {
                requests,
                gap,
                wait,
                took,
                jump,
                relative,
                sectors,
                streams,
                operations,
                flags,
                lost,
                place,
                device,
                seed,
            }
        },
    )
}

impl OddVm {
    fn records(&self) -> Vec<Record> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let (mut now, mut end) = (Timestamp::ZERO, Lba::ZERO);
        let record = |_| {
            now += Nanos::from_ns(self.gap.draw(&mut random));
            let operation = self.operations[random.random_range(0..self.operations.len())];
            let away = Sectors::new(self.jump.draw(&mut random));
            let lba = if self.relative { end } else { Lba::ZERO }.saturating_add(away);
            let sectors = if operation == Operation::Flush { 0 } else { self.sectors.draw(&mut random) };
            let sectors = Sectors::new(sectors.min(u64::from(u32::MAX)));
            // No reader lets a request end beyond the last address.
            let lba = lba.min(Lba::new(u64::MAX - sectors.count()));
            let mut request = Request::new(now, operation, lba, sectors);
            request.stream = StreamId(random.random_range(0..self.streams));
            request.flags = self.flags[random.random_range(0..self.flags.len())];
            end = request.end();
            let issued = now + Nanos::from_ns(self.wait.draw(&mut random));
            let completed = issued + Nanos::from_ns(self.took.draw(&mut random));
            let completed = (random.random_range(0..self.lost) > 0).then_some(completed);
            Record { request, observed: Observed { issued: Some(issued), completed, ..Observed::default() } }
        };
        (0..self.requests).map(record).collect()
    }

    fn alone(&self, vm: &str) -> (IsolationProfile, IsolatedTrace) {
        let meta = TraceMeta::new("csv", Layer::GuestQueue, "monotonic");
        let mut measure = Measure::new(&meta);
        let mut builder = IsolatedTraceBuilder::new(Sectors::new(self.place), self.device.map(Sectors::new));
        for record in self.records() {
            measure.record(&record);
            builder.record(&record);
        }
        let provenance = TraceProvenance { vm: vm.to_owned(), ..TraceProvenance::of(&meta, self.requests as u64) };
        (measure.finish(vm, "test", provenance, &meta).0, builder.finish())
    }
}

/// Whether there is a forecast. Panics if one of its figures is not finite or negative.
fn is_forecast(got: &Result<Consolidation, PredictError>) -> bool {
    let forecast = match got {
        Ok(forecast) => forecast,
        Err(error) => {
            assert!(!error.to_string().contains("leads to a figure of"), "{error}");
            return false;
        }
    };
    let number = |figure: Option<f64>| assert!(figure.is_none_or(|figure| figure.is_finite() && figure >= 0.0));
    let of = |operation: &OperationForecast| {
        number(operation.iops);
        number(operation.response_ns);
        operation.percentiles_ns.into_iter().for_each(number);
        let spread = operation.spread.map(|spread| [spread.iops, spread.response]);
        spread.into_iter().flatten().map(Some).for_each(number);
    };
    forecast.vms.iter().for_each(|vm| [vm.reads, vm.writes].iter().for_each(of));
    number(forecast.mix_read);
    true
}

fn outcome(got: Result<Consolidation, PredictError>) -> Outcome {
    match got {
        Ok(consolidation) => Outcome::Forecast(consolidation.forecast()),
        Err(error) => Outcome::Refused { refused: error.to_string() },
    }
}

/// Lets correctors learn from `outcomes` with each forecast in the place of the truth, and checks how they correct
/// `outcomes`.
fn check_correctors(outcomes: &Outcomes) {
    let truths = outcomes.values().filter_map(|outcome| match outcome {
        Outcome::Forecast(forecast) => Some(forecast.clone()),
        Outcome::Refused { .. } => None,
    });
    let pair = |truth: Forecast| PairPrediction {
        vms: (0..truth.read_iops.len()).map(|vm| vm.to_string()).collect(),
        truth: Some(truth),
        predictors: outcomes.clone(),
    };
    let known: Vec<PairPrediction> = truths.map(pair).collect();
    for mut corrector in PREDICTORS.iter().filter_map(|entry| entry.by_default().unwrap().corrector()) {
        is_forecast(&corrector.correct(outcomes));
        corrector.learn(&known.iter().collect::<Vec<_>>());
        let usable = |name: &&str| matches!(outcomes.get(*name), Some(Outcome::Forecast(_)));
        let corrected = is_forecast(&corrector.correct(outcomes));
        assert!(!corrected || corrector.learns_from().iter().all(usable), "corrected a refused forecast");
    }
}

/// The forecasts that methods which need traces make for a group of VMs; each forecast is checked.
fn forecasts(vms: &[OddVm], forecast: usize) -> u32 {
    let mut forecasts = 0;
    let alone = vms.iter().zip(["a", "b", "c"]).map(|(vm, name)| vm.alone(name));
    let (mut profiles, traces): (Vec<IsolationProfile>, Vec<IsolatedTrace>) = alone.unzip();
    profiles.truncate(forecast);
    let mut outcomes = Outcomes::new();
    for entry in PREDICTORS {
        let Some(predictor) = entry.by_default().unwrap().predictor() else { continue };
        let alone = Isolated { profiles: &profiles, traces: &traces };
        // Methods that need traces also get profiles that `predictor::predict` would refuse.
        let got = if entry.needs_traces { predictor.predict(alone) } else { predictor::predict(&*predictor, alone) };
        forecasts += u32::from(is_forecast(&got) && entry.needs_traces);
        outcomes.insert(entry.name.to_owned(), outcome(got));
    }
    check_correctors(&outcomes);
    forecasts
}

#[test]
fn odd_isolated_traces_give_finite_figures_or_an_error() {
    let config = ProptestConfig::default();
    // Half of proptest's number takes six seconds. The same groups each time; PROPTEST_CASES makes more of them.
    let cases = config.cases / 2;
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    // VMs that are traced for much longer than others are refused. Half of the groups have arrivals of one kind.
    let alike = |(mut vms, forecast, alike): (Vec<OddVm>, usize, bool)| {
        let (gap, requests) = (vms[0].gap, vms[0].requests);
        vms.iter_mut().filter(|_| alike).for_each(|vm| (vm.gap, vm.requests) = (gap, requests));
        (vms, forecast)
    };
    let group = (prop::collection::vec(odd_vm(), 2..=3), 2..=3usize, any::<bool>()).prop_map(alike);
    let groups: Vec<_> = (0..cases).map(|_| group.new_tree(&mut runner).unwrap().current()).collect();
    let made = groups.par_iter().map(|(vms, forecast)| {
        let made = catch_unwind(AssertUnwindSafe(|| forecasts(vms, *forecast)));
        made.unwrap_or_else(|_| panic!("{vms:?}, {forecast} of them forecast"))
    });
    let made: u32 = made.sum();
    assert!(made > cases / 4, "{made} of {cases}");
}
