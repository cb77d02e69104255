//! How late a served drive is, and how many requests it serves: `iocast serve` under fio's random reads of 4 KiB, at
//! depths 1, 8 and 32.
//!
//! `cargo run --release -p benches --example lateness -- IOCAST SECONDS`; `make lateness` does it. It fails if replies
//! of a hard disk are late by more than 0.5 ms at p99 or 100 us at the median, or if a drive that takes no time serves
//! fewer than 50,000 requests per second at the greatest depth. It is no test: other load on the host makes replies
//! late, so the result counts on a quiet host only.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use traces::results::serving::Serving;

const DRIVES: [&str; 2] = ["cheetah-15k4", "cheetah-15k4-mechanical"];
const DEPTHS: [u32; 3] = [1, 8, 32];
/// A drive that takes no time.
const INSTANT: &str = "fixed:service=0";
/// The most that replies may be late at p99 and at the median, in nanoseconds.
const P99_MAX_NS: u64 = 500_000;
const P50_MAX_NS: u64 = 100_000;
/// The fewest requests per second of a drive that takes no time.
const IOPS_MIN: f64 = 50_000.0;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(iocast), Some(seconds)) = (arguments.next(), arguments.next()) else {
        return Err("expected the program iocast and a number of seconds".into());
    };
    let iocast = Path::new(&iocast).canonicalize()?;
    let seconds: u32 = seconds.parse()?;
    println!(
        "{:26} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "late by, us", "depth", "replies", "per s", "p50", "p99", "max"
    );
    let (mut worst_p50, mut worst_p99, mut most) = (0, 0, 0.0f64);
    for (drive, depth) in DRIVES.iter().chain([&INSTANT]).flat_map(|drive| DEPTHS.map(|depth| (*drive, depth))) {
        let late = serve(&iocast, drive, depth, seconds)?.lateness;
        let of = |name: &str| late.percentiles_ns.get(name).copied().unwrap_or_default();
        let us = |ns: u64| ns as f64 / 1e3;
        let (p50, p99) = (of("p50"), of("p99"));
        let rate = late.count as f64 / f64::from(seconds);
        println!(
            "{drive:26} {depth:>6} {:>9} {rate:>9.0} {:>9.1} {:>9.1} {:>9.1}",
            late.count,
            us(p50),
            us(p99),
            us(late.moments.max_ns.unwrap_or_default())
        );
        if drive == INSTANT {
            most = most.max(rate);
        } else {
            (worst_p50, worst_p99) = (worst_p50.max(p50), worst_p99.max(p99));
        }
    }
    if worst_p99 > P99_MAX_NS || worst_p50 > P50_MAX_NS || most < IOPS_MIN {
        let (p50, p99) = (worst_p50 / 1000, worst_p99 / 1000);
        return Err(format!(
            "late by up to {p50} us at the median and {p99} us at p99 (bounds {} and {}); {most:.0} requests per \
             second (at least {IOPS_MIN})",
            P50_MAX_NS / 1000,
            P99_MAX_NS / 1000
        )
        .into());
    }
    Ok(())
}

/// Serves `drive` to fio for so long.
fn serve(iocast: &Path, drive: &str, depth: u32, seconds: u32) -> Result<Serving, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (socket, report) = (folder.path().join("disk"), folder.path().join("report.json"));
    let mut server = Command::new(iocast)
        .args(["serve", "--drive", drive, "--image", "memory:1g", "--listen"])
        .arg(format!("unix:{}", socket.display()))
        .arg("--report")
        .arg(&report)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()?;
    while !socket.exists() {
        if let Some(status) = server.try_wait()? {
            return Err(format!("iocast serve ended with {status}").into());
        }
        sleep(Duration::from_millis(10));
    }
    let fio = Command::new("fio")
        .args(["--name=read", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--size=1g", "--time_based"])
        .arg(format!("--uri=nbd+unix:///?socket={}", socket.display()))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={seconds}"))
        .stdout(Stdio::null())
        .status()?;
    let told = Command::new("kill").args(["-TERM", &server.id().to_string()]).status()?;
    let ended = server.wait()?;
    if !(fio.success() && told.success() && ended.success()) {
        return Err(format!("fio: {fio}; iocast serve: {ended}").into());
    }
    Ok(serde_json::from_slice(&std::fs::read(&report)?)?)
}
