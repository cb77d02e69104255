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

criterion_group!(group, engine);
criterion_main!(group);
