//! CPU seconds and resident memory of the engine's standard load.
//!
//! `cargo run --release -p iocast-bench --example closed_loop -- deadline 10000000 67` names the scheduler, the number of
//! requests, and the reads in a hundred. A fourth argument names a drive, which gets all outstanding requests at once.
//! A fifth is the longest request in KB (4 without).

use std::env;

use iocast_bench::closed_loop::{self, OUTSTANDING};
use iocast_bench::cost;
use traces::Sectors;

fn main() {
    let mut arguments = env::args().skip(1);
    let scheduler = arguments.next().unwrap_or_else(|| "fifo".to_owned());
    let requests: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let reads_percent: u32 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100);
    let spec = scheduler.parse().expect("a scheduler, as in `iocast list schedulers`");
    let built = schedulers::build(&spec).expect("a scheduler, as in `iocast list schedulers`");
    let drive = arguments.next().map(|text| {
        let spec = text.parse().expect("a drive, as in `iocast list drives`");
        drive_models::build(&spec).expect("a drive, as in `iocast list drives`").drive
    });
    let longest_kb: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(4);
    let longest = Sectors::new(longest_kb * 2);
    // What a drive is preconditioned with is not the engine's time.
    let before = cost::cpu_seconds().unwrap_or(0.0);
    let metrics = match drive {
        Some(drive) => closed_loop::run_on(drive, built.scheduler, OUTSTANDING, requests, reads_percent, longest),
        None => closed_loop::run(built.scheduler, requests, reads_percent),
    };
    let metrics = metrics.expect("a generated load has no errors");
    let cpu = cost::cpu_seconds().unwrap_or(f64::NAN) - before;
    let resident = cost::resident_max_bytes().unwrap_or(0);
    println!(
        "{scheduler}: {requests} requests, {reads_percent} % reads, {cpu:.2} CPU seconds, {:.2} million per CPU second, {} MB resident, \
         simulated {:.0} s",
        requests as f64 / cpu / 1e6,
        resident / 1_000_000,
        metrics.span().as_s_f64()
    );
}
