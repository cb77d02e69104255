//! The engine's speed: requests per second of the standard load under each scheduler.

use std::hint::black_box;

use benches::closed_loop;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

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

/// Random requests of 4 KiB, a third of them writes, in front of arrays; nothing of the drives' own time.
fn arrays(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("closed loop, 32 outstanding, arrays of fixed members");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for array in [
        "level=0,members=4",
        "level=10,members=8",
        "level=5,members=15",
        "level=6,members=8,failed=3",
        "level=5,members=7,stripe_unit=256k,read_cache=1g,prefetch=1m,write_cache=64m",
    ] {
        group.bench_function(array, |bencher| {
            let spec = format!("raid:member=fixed,scheduler=fifo,{array}").parse().expect("a spec");
            bencher.iter(|| {
                let drive = drive_models::build(&spec).expect("an array that can be").drive;
                black_box(closed_loop::run_on(drive, REQUESTS).expect("a generated load has no errors"))
            });
        });
    }
    group.finish();
}

criterion_group!(group, engine, arrays);
criterion_main!(group);
