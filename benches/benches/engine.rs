//! The engine's speed: requests per second of the standard load under each scheduler, and on each
//! drive.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use iocast_bench::closed_loop::{self, OUTSTANDING};

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

/// Drives beside the shipped profiles: arrays of members that take no time to work out, and a drive with a queue.
const DRIVES_BEYOND_PROFILES: &[&str] = &[
    "raid:member=fixed,scheduler=fifo,level=0,members=4",
    "raid:member=fixed,scheduler=fifo,level=10,members=8",
    "raid:member=fixed,scheduler=fifo,level=5,members=15",
    "raid:member=fixed,scheduler=fifo,level=6,members=8,failed=3",
    "cheetah-15k5:queue_depth=32,queue_order=satf",
];

/// A drive is made outside the measured time.
fn drives(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("closed loop, 32 outstanding, half of them writes, none");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    let profiles = drive_models::PROFILES.iter().map(|(name, _)| *name);
    for name in profiles.chain(DRIVES_BEYOND_PROFILES.iter().copied()) {
        group.bench_function(name, |bencher| {
            let drive = || {
                let spec = name.parse().expect("a spec");
                drive_models::build(&spec).expect("a drive that can be").drive
            };
            let scheduler = || {
                let spec = "none".parse().expect("a name is a spec");
                schedulers::build(&spec).expect("a name of the registry").scheduler
            };
            let run = |drive| closed_loop::run_on(drive, scheduler(), OUTSTANDING, REQUESTS, 50, closed_loop::PAGE);
            bencher.iter_batched(drive, |drive| black_box(run(drive).expect("no errors")), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(group, engine, drives);
criterion_main!(group);
