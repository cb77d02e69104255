//! CPU seconds of the standard load through a stack, 32 outstanding on the linear Cheetah without its cache.
//!
//! `cargo run --release -p iocast-bench --example stack -- guest=fifo@depth=32/hypervisor=fifo@depth=32/lun=fifo 10000000`:
//! a stack as `iocast compare` takes it, and requests.

use std::env;

use drive_models::DriveModel;
use iocast_bench::closed_loop::{OUTSTANDING, PAGE, cheetah_without_cache};
use iocast_bench::cost;
use replay::sources::RandomClosed;
use replay::sources::random::RandomLoad;
use replay::stack::StackSpec;
use replay::{Engine, Metrics};

fn main() {
    let mut arguments = env::args().skip(1);
    let stack = arguments.next().unwrap_or_else(|| "guest=fifo@depth=32/hypervisor=fifo@depth=32/lun=fifo".to_owned());
    let requests: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let drive = cheetah_without_cache();
    let load = RandomLoad {
        requests,
        outstanding: OUTSTANDING,
        sectors: PAGE,
        sectors_max: PAGE,
        capacity: drive.capacity(),
        reads_percent: 67,
        seed: 1,
    };
    let built = StackSpec::of(&stack).expect("a stack, as in `iocast list stacks`").build(Box::new(drive));
    let before = cost::cpu_seconds().unwrap_or(0.0);
    let ended = Engine::on(RandomClosed::new(load), built, Metrics::new()).run();
    let metrics = ended.expect("a generated load has no errors").observer;
    let cpu = cost::cpu_seconds().unwrap_or(f64::NAN) - before;
    let resident = cost::resident_max_bytes().unwrap_or(0);
    println!(
        "{stack}: {requests} requests, {cpu:.2} CPU seconds, {:.2} million per CPU second, {} MB resident, simulated {:.0} s",
        requests as f64 / cpu / 1e6,
        resident / 1_000_000,
        metrics.span().as_s_f64()
    );
}
