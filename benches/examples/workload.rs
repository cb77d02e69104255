//! CPU seconds of a generated workload, closed loop, over the linear Cheetah without its cache.
//!
//! `cargo run --release -p iocast-bench --example workload -- surge:direct=on,metadata=off 2000000 fifo 0`: a workload as
//! `iocast compare --workload` takes it, requests, a scheduler, and pages of the guest's page cache. What it takes
//! to fill the guest's disk is not counted.

use std::env;

use drive_models::DriveModel;
use iocast_bench::closed_loop::cheetah_without_cache;
use iocast_bench::cost;
use replay::metrics::Class;
use replay::{Engine, Limits, Metrics, Stage};
use traces::Lba;
use workloads::guest::Files;
use workloads::guest::memory::MemorySettings;
use workloads::{Guest, Guests, Until};

fn main() {
    let mut arguments = env::args().skip(1);
    let workload = arguments.next().unwrap_or_else(|| "surge:direct=on,metadata=off".to_owned());
    let requests: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let scheduler = arguments.next().unwrap_or_else(|| "fifo".to_owned());
    let pages: u32 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let drive = cheetah_without_cache();
    let mut files = Files::new(drive.capacity());
    let spec = workload.parse().expect("a workload, as in `iocast list workloads`");
    let built = workloads::programs::build(&spec).expect("a workload, as in `iocast list workloads`");
    let programs = built.processes(&mut files, 1).expect("files that fit the drive");
    let memory = (pages > 0).then(|| MemorySettings { pages, ..MemorySettings::default() });
    let guest = Guest { name: workload.clone(), place: Lba::ZERO, files, journal: None, memory, programs };
    let source = Guests::new(vec![guest], Until { requests: Some(requests), time: None });
    let scheduler_spec = scheduler.parse().expect("a scheduler, as in `iocast list schedulers`");
    let built = schedulers::build(&scheduler_spec).expect("a scheduler, as in `iocast list schedulers`");
    let stage = Stage::new(built.scheduler, Limits::default());
    let before = cost::cpu_seconds().unwrap_or(0.0);
    let metrics = Engine::new(source, stage, drive, Metrics::new()).run().expect("its disk does not fill up").observer;
    let cpu = cost::cpu_seconds().unwrap_or(f64::NAN) - before;
    let resident = cost::resident_max_bytes().unwrap_or(0);
    let done: u64 =
        [Class::Read, Class::Write, Class::Other].map(|class| metrics.total(class).response.count()).iter().sum();
    println!(
        "{workload} on {scheduler}, {pages} pages of cache: {done} requests, {cpu:.2} CPU seconds, {:.2} million per CPU second, \
         {} MB resident, simulated {:.0} s",
        done as f64 / cpu / 1e6,
        resident / 1_000_000,
        metrics.span().as_s_f64()
    );
}
