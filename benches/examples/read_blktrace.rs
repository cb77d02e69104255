//! CPU seconds and resident memory of reading a generated blktrace capture into requests.
//!
//! `cargo run --release -p iocast-bench --example read_blktrace -- 2000000` (requests; 5 events each)

use iocast_bench::{capture, cost};
use traces::trace::ReadOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests: u64 = std::env::args().nth(1).map_or(Ok(2_000_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let stem = folder.path().join("generated");
    capture::write(&stem, requests, 1)?;
    let before = cost::cpu_seconds().unwrap_or(f64::NAN);
    let mut reader = traces::formats::open(&stem, &ReadOptions::default())?;
    let (mut read, mut completed) = (0u64, 0u64);
    while let Some(record) = reader.next()? {
        read += 1;
        completed += u64::from(record.response_time().is_some());
    }
    assert_eq!((read, completed), (requests, requests), "every request is read, with its completion");
    let cpu = cost::cpu_seconds().unwrap_or(f64::NAN) - before;
    let events = requests * capture::EVENTS_PER_REQUEST;
    let resident = cost::resident_max_bytes().unwrap_or(0);
    println!(
        "{events} events in {cpu:.2} CPU seconds, {:.1} million per CPU second, {} MB resident",
        events as f64 / cpu / 1e6,
        resident / 1_000_000
    );
    Ok(())
}
