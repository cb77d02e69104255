//! How long forecasts take: formulas from profiles, the twin of two VMs of 300 s, a placement of a hundred
//! VMs on ten LUNs.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use predictors::place::{Forecasts, Limits, Task, place};
use predictors::synthetic::{Campaign, Ran, SYNTHETIC_SETUPS};
use predictors::twin::Model;
use predictors::{Isolated, IsolatedTrace, build, predictor};
use traces::results::isolation::IsolationProfile;
use traces::{Nanos, Sectors};

/// Setups with a single drive, and with an array.
const DRIVE: usize = 0;
const ARRAY: usize = 3;

/// Two VMs alone on a synthetic setup for as long as the paper's runs.
fn alone(setup: usize) -> Vec<Ran> {
    let campaign = Campaign { vms: 2, span: Nanos::from_s(300), ..Campaign::default() };
    campaign.alone(SYNTHETIC_SETUPS[setup], setup).expect("a shipped setup runs")
}

fn formulas(criterion: &mut Criterion) {
    let profiles: Vec<IsolationProfile> = alone(DRIVE).into_iter().map(|ran| ran.profile).collect();
    let mut group = criterion.benchmark_group("two VMs from profiles");
    for name in ["casale", "casale-refined", "hol", "qpn"] {
        let spec = name.parse().expect("a name is a spec");
        let predictor = build(&spec).expect("a name of the registry").predictor().expect("it forecasts");
        // What a method refuses takes its time, too.
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(predictor::predict(&*predictor, Isolated::of_profiles(black_box(&profiles)))));
        });
    }
    group.finish();
}

fn twin(criterion: &mut Criterion) {
    const SEED: u64 = 1;
    for (name, setup) in [("a drive", DRIVE), ("an array", ARRAY)] {
        let (profiles, traces): (Vec<IsolationProfile>, Vec<IsolatedTrace>) =
            alone(setup).into_iter().map(|ran| (ran.profile, ran.trace)).unzip();
        let mut group = criterion.benchmark_group(format!("the twin of two VMs of 300 s on {name}"));
        group.sample_size(10);
        group.bench_function("inference", |bencher| {
            bencher.iter(|| black_box(Model::infer(&profiles, &traces, SEED)));
        });
        let model = Model::infer(&profiles, &traces, SEED).expect("a shipped setup's times follow something");
        group.bench_function("forecast", |bencher| bencher.iter(|| black_box(model.forecast())));
        group.finish();
    }
}

fn placement(criterion: &mut Criterion) {
    const VMS: usize = 100;
    const LUNS: usize = 10;
    let profile = alone(DRIVE).remove(0).profile;
    let vm = |number: usize| {
        let mut profile = profile.clone();
        profile.vm = format!("vm{number}");
        // From a twentieth of the load to a quarter of it.
        let share = 0.05 + 0.002 * number as f64;
        profile.reads.iops *= share;
        profile.writes.iops *= share;
        profile.busy_share = profile.busy_share.map(|busy| busy * share);
        profile
    };
    let alone: Vec<IsolationProfile> = (0..VMS).map(vm).collect();
    let mut group = criterion.benchmark_group("a hundred VMs on ten LUNs");
    group.sample_size(10);
    for name in ["sum", "casale"] {
        let predictor = build(&name.parse().expect("a name is a spec"))
            .expect("a name of the registry")
            .predictor()
            .expect("it forecasts");
        let task = Task {
            drive_capacity: vec![None; LUNS],
            takes: vec![Sectors::ZERO; VMS],
            limits: vec![Limits::default(); VMS],
            alone: vec![alone.clone(); LUNS],
            separate: vec![(0, 1), (2, 3)],
            forecasts: Forecasts::Profiles(&*predictor),
            seed: 1,
        };
        group.bench_function(name, |bencher| bencher.iter(|| black_box(place(&task))));
    }
    group.finish();
}

criterion_group!(group, formulas, twin, placement);
criterion_main!(group);
