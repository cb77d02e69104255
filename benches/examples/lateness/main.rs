//! How late a served drive is, and how many requests it serves: `iocast serve` under random reads of 4 KiB, at depths
//! 1, 8 and 32, from fio over NBD and from a guest's ring over vhost-user.
//!
//! `cargo run --release -p iocast-bench --example lateness -- IOCAST SECONDS`; `make lateness` does it. It fails if replies
//! of a hard disk are too late, or if a drive that takes no time serves too few requests per second at its best depth.
//! The bounds are those of [`OVER_NBD`] and [`OVER_VHOST_USER`]. It is no test: other load on the host makes replies
//! late, so the result counts on a quiet host only.

#[path = "../../../serve/tests/support/guest.rs"]
#[allow(dead_code, reason = "the tests of the server use the rest")]
mod guest;

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use guest::{Guest, IN, OK, Setup};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::serving::Serving;

const DRIVES: [&str; 2] = ["cheetah-15k4", "cheetah-15k4-mechanical"];
const DEPTHS: [u32; 3] = [1, 8, 32];
/// A drive that takes no time.
const INSTANT: &str = "fixed:service=0";
const IMAGE_BYTES: u64 = 1 << 30;
const READ_BYTES: u32 = 4096;

/// Reads from the socket at this depth for so many seconds.
type Load = fn(&Path, u32, u32) -> Result<(), Box<dyn Error>>;

/// A way to the drive, and what it must keep.
struct Way {
    name: &'static str,
    /// What `--listen` has before the socket's path.
    listen: &'static str,
    load: Load,
    /// The most that replies may be late at p99 and at the median, in nanoseconds.
    p99_max_ns: u64,
    p50_max_ns: u64,
    /// The fewest requests per second of a drive that takes no time.
    iops_min: f64,
}

const OVER_NBD: Way =
    Way { name: "NBD", listen: "unix", load: fio, p99_max_ns: 500_000, p50_max_ns: 100_000, iops_min: 50_000.0 };
const OVER_VHOST_USER: Way = Way {
    name: "vhost-user",
    listen: "vhost-user",
    load: ring,
    p99_max_ns: 200_000,
    p50_max_ns: 50_000,
    iops_min: 150_000.0,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(iocast), Some(seconds)) = (arguments.next(), arguments.next()) else {
        return Err("expected the program iocast and a number of seconds".into());
    };
    let iocast = Path::new(&iocast).canonicalize()?;
    let seconds: u32 = seconds.parse()?;
    let mut missed = Vec::new();
    for way in [OVER_NBD, OVER_VHOST_USER] {
        println!(
            "{:38} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}",
            format!("late by, us, over {}", way.name),
            "depth",
            "replies",
            "per s",
            "p50",
            "p99",
            "max"
        );
        missed.extend(measure(&way, &iocast, seconds)?);
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("; ").into()) }
}

/// Prints a row for each load. Returns what was missed, if anything.
fn measure(way: &Way, iocast: &Path, seconds: u32) -> Result<Option<String>, Box<dyn Error>> {
    let (mut worst_p50, mut worst_p99, mut most) = (0, 0, 0.0f64);
    for (drive, depth) in DRIVES.iter().chain([&INSTANT]).flat_map(|drive| DEPTHS.map(|depth| (*drive, depth))) {
        let late = serve(way, iocast, drive, depth, seconds)?.lateness;
        let of = |name: &str| late.percentiles_ns.get(name).copied().unwrap_or_default();
        let us = |ns: u64| ns as f64 / 1e3;
        let (p50, p99) = (of("p50"), of("p99"));
        let rate = late.count as f64 / f64::from(seconds);
        println!(
            "{drive:38} {depth:>6} {:>9} {rate:>9.0} {:>9.1} {:>9.1} {:>9.1}",
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
    let is_kept = worst_p99 <= way.p99_max_ns && worst_p50 <= way.p50_max_ns && most >= way.iops_min;
    Ok((!is_kept).then(|| {
        let (p50, p99) = (worst_p50 / 1000, worst_p99 / 1000);
        format!(
            "over {}: late by up to {p50} us at the median and {p99} us at p99 (bounds {} and {}); {most:.0} requests \
             per second (at least {})",
            way.name,
            way.p50_max_ns / 1000,
            way.p99_max_ns / 1000,
            way.iops_min
        )
    }))
}

/// Serves `drive` to the load for so long.
fn serve(way: &Way, iocast: &Path, drive: &str, depth: u32, seconds: u32) -> Result<Serving, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (socket, report) = (folder.path().join("disk"), folder.path().join("report.json"));
    let mut server = Command::new(iocast)
        .args(["serve", "--drive", drive, "--image", "memory:1g", "--listen"])
        .arg(format!("{}:{}", way.listen, socket.display()))
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
    let loaded = (way.load)(&socket, depth, seconds);
    let found = Command::new("kill").args(["-TERM", &server.id().to_string()]).status()?;
    let ended = server.wait()?;
    loaded?;
    if !(found.success() && ended.success()) {
        return Err(format!("iocast serve: {ended}").into());
    }
    Ok(serde_json::from_slice(&std::fs::read(&report)?)?)
}

fn fio(socket: &Path, depth: u32, seconds: u32) -> Result<(), Box<dyn Error>> {
    let fio = Command::new("fio")
        .args(["--name=read", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--size=1g", "--time_based"])
        .arg(format!("--uri=nbd+unix:///?socket={}", socket.display()))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={seconds}"))
        .stdout(Stdio::null())
        .status()?;
    if fio.success() { Ok(()) } else { Err(format!("fio: {fio}").into()) }
}

/// One queue of a guest, which is notified of answers as a real one is.
fn ring(socket: &Path, depth: u32, seconds: u32) -> Result<(), Box<dyn Error>> {
    let mut guest = Guest::start(socket, Setup { queues: 1, entries: 128, slots: depth.into(), without: 0 });
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut read = |guest: &mut Guest, slot: u64| {
        let block = random.random_range(0..IMAGE_BYTES / u64::from(READ_BYTES));
        guest.request(0, slot, (IN, block * u64::from(READ_BYTES) / 512), &[], READ_BYTES);
    };
    (0..u64::from(depth)).for_each(|slot| read(&mut guest, slot));
    guest.kick(0);
    let end = Instant::now() + Duration::from_secs(seconds.into());
    while Instant::now() < end {
        let mut answer = Some(guest.wait(0));
        while let Some((head, _)) = answer {
            let slot = u64::from(head / 3);
            if guest.status(0, slot) != OK {
                return Err("a read failed".into());
            }
            read(&mut guest, slot);
            answer = guest.poll(0);
        }
        guest.kick(0);
    }
    Ok(())
}
