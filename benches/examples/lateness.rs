//! How late a served drive is: `iocast serve` under fio's random reads of 4 KiB, at depths 1, 8 and 32.
//!
//! `cargo run --release -p benches --example lateness -- IOCAST SECONDS`; `make lateness` does it, and fails if replies
//! of a hard disk are late by more than 0.5 ms at p99. It is no test: what else the machine does makes replies late, so
//! that it says something on a quiet machine only.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use traces::results::serving::Serving;

const DRIVES: [&str; 2] = ["cheetah-15k4", "cheetah-15k4-mechanical"];
const DEPTHS: [u32; 3] = [1, 8, 32];
/// What replies may be late at p99, in nanoseconds.
const BOUND_NS: u64 = 500_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(iocast), Some(seconds)) = (arguments.next(), arguments.next()) else {
        return Err("expected the program iocast and a number of seconds".into());
    };
    let iocast = Path::new(&iocast).canonicalize()?;
    let seconds: u32 = seconds.parse()?;
    println!("{:26} {:>6} {:>9} {:>9} {:>9} {:>9}", "late by, us", "depth", "replies", "p50", "p99", "max");
    let mut worst = 0;
    for (drive, depth) in DRIVES.iter().flat_map(|drive| DEPTHS.map(|depth| (drive, depth))) {
        let late = serve(&iocast, drive, depth, seconds)?.lateness;
        let of = |name: &str| late.percentiles_ns.get(name).copied().unwrap_or_default();
        let us = |ns: u64| ns as f64 / 1e3;
        let (p50, p99) = (of("p50"), of("p99"));
        println!(
            "{drive:26} {depth:>6} {:>9} {:>9.1} {:>9.1} {:>9.1}",
            late.count,
            us(p50),
            us(p99),
            us(late.moments.max_ns.unwrap_or_default())
        );
        worst = worst.max(p99);
    }
    if worst > BOUND_NS {
        return Err(
            format!("late by {:.1} us at p99; the bound is {:.1}", worst as f64 / 1e3, BOUND_NS as f64 / 1e3).into()
        );
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
