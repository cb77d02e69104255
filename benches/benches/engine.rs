//! The engine's speed: requests per second of the standard load under each scheduler, and on each
//! drive.

use std::hint::black_box;

use benches::closed_loop::{self, OUTSTANDING};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const REQUESTS: u64 = 100_000;

fn engine(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("closed loop, 32 outstanding, linear Cheetah");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for entry in schedulers::SCHEDULERS {
        group.bench_function(entry.name, |bencher| {
            let spec = entry.name.parse().expect("a name is a spec");
            bencher.iter(|| {
                let scheduler = schedulers::build(&spec).expect("a name of the registry").scheduler;
                black_box(closed_loop::run(scheduler, REQUESTS, 100).expect("a generated load has no errors"))
            });
        });
    }
    group.finish();
}

/// A drive is made outside the measured time.
fn drives(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("closed loop, 32 outstanding, half of them writes, none");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, _) in drive_models::PROFILES {
        group.bench_function(*name, |bencher| {
            let drive = || {
                let spec = name.parse().expect("a name is a spec");
                drive_models::build(&spec).expect("a shipped profile").drive
            };
            let scheduler = || {
                let spec = "none".parse().expect("a name is a spec");
                schedulers::build(&spec).expect("a name of the registry").scheduler
            };
            let run = |drive| closed_loop::run_on(drive, scheduler(), OUTSTANDING, REQUESTS, 50);
            bencher.iter_batched(drive, |drive| black_box(run(drive).expect("no errors")), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(group, engine, drives);
criterion_main!(group);
