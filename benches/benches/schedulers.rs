//! Decisions per second of every scheduler of the registry with 1 to 1024 requests waiting. A table gives them in CPU
//! time with the growth in N; criterion keeps track of the same figures.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use iocast_bench::decisions::{Device, Steady, WAITING};
use schedulers::SCHEDULERS;

fn steady(name: &str, device: Device, waiting: usize) -> Steady {
    let spec = name.parse().expect("a name is a spec");
    Steady::new(schedulers::build(&spec).expect("a name of the registry").scheduler, device, waiting)
}

fn mechanical() -> Device {
    let spec = "cheetah-15k5".parse().expect("a name is a spec");
    let drive = drive_models::build_mechanical(&spec).expect("a shipped profile");
    Device::Mechanical(Box::new(drive.expect("a profile of a mechanical drive")))
}

/// Growth is the exponent of N in the time per decision from 32 to 1024 waiting: 0 constant, 1 linear.
fn print_table() {
    print!("{:14}", "decisions/s");
    for waiting in WAITING {
        print!("{waiting:>12}");
    }
    println!("{:>9}", "growth");
    for entry in SCHEDULERS {
        print_row(entry.name, entry.name, Device::distance);
    }
    print_row("satf, 15K.5", "satf", mechanical);
}

fn print_row(title: &str, name: &str, device: fn() -> Device) {
    let rates = WAITING.map(|waiting| {
        let mut steady = steady(name, device(), waiting);
        for _ in 0..2 * waiting {
            steady.step();
        }
        steady.decisions_per_cpu_second(Duration::from_millis(150))
    });
    print!("{title:14}");
    for rate in rates {
        print!("{rate:>12.0}");
    }
    println!("{:>9.2}", (rates[2] / rates[4]).ln() / 32_f64.ln());
}

fn schedulers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one dispatch, completion and insertion");
    group.throughput(Throughput::Elements(1)).sample_size(10);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500));
    for entry in SCHEDULERS {
        for waiting in WAITING {
            group.bench_with_input(BenchmarkId::new(entry.name, waiting), &waiting, |bencher, &waiting| {
                let mut steady = steady(entry.name, Device::distance(), waiting);
                bencher.iter(|| black_box(steady.step()));
            });
        }
    }
    group.finish();
}

criterion_group!(group, schedulers);

fn main() {
    if std::env::args().any(|argument| argument == "--bench") {
        print_table();
    }
    if !std::env::args().any(|argument| argument == "--table") {
        group();
        Criterion::default().configure_from_args().final_summary();
    }
}
