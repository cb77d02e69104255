//! How close iocast, fio and btreplay come to the times of a trace, side by side on one loop device, by the kernel's
//! events (`make punctuality`; needs root, fio and blktrace).
//!
//! Two traces of reads of 4 KiB: one every millisecond for 10 s, and 10,000 per second for SECONDS. It fails if one of
//! these bounds is missed:
//!
//! - At gaps of 1 ms iocast's p99 is at most a tenth of that of fio's best setting.
//! - At 10,000 per second iocast's p99 is at most 100 µs.
//! - The drift there is at most 0.1 % of the span.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::Value;

/// The settings of fio that are tried. With `--io_submit_mode=offload`, fio 3.33 replays nothing and never ends.
const FIO: [&str; 3] =
    ["fio", "fio=--ioengine=psync --iodepth=1", "fio=--ioengine=io_uring --iodepth_batch_complete_min=1"];
const P99_NS_MAX: u64 = 100_000;
const DRIFT_SHARE_MAX: f64 = 0.001;
const TIMES_CLOSER_MIN: u64 = 10;
const DEVICE_BYTES: usize = 256 << 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let iocast = arguments.next().ok_or("usage: punctuality IOCAST [SECONDS]")?;
    let seconds: u64 = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let disk = folder.path().join("disk");
    fs::write(&disk, vec![7; DEVICE_BYTES])?;
    let device = Loop::new(&disk)?;
    let mut failed = Vec::new();

    let slow = trace(&folder.path().join("slow.csv"), 10_000, 1_000_000)?;
    println!("a read every 1 ms for 10 s");
    let ours = p99(&replayed(&iocast, &device, &slow, "iocast")?);
    replayed(&iocast, &device, &slow, "btreplay")?;
    let mut best = u64::MAX;
    for setting in FIO {
        best = best.min(p99(&replayed(&iocast, &device, &slow, setting)?));
    }
    println!("  fio's best p99 is {} times iocast's", best / ours.max(1));
    if best < ours.saturating_mul(TIMES_CLOSER_MIN) {
        failed.push(format!("fio's best p99 is less than {TIMES_CLOSER_MIN} times iocast's"));
    }

    let fast = trace(&folder.path().join("fast.csv"), seconds * 10_000, 100_000)?;
    println!("10,000 reads per second for {seconds} s");
    let ours = replayed(&iocast, &device, &fast, "iocast")?;
    replayed(&iocast, &device, &fast, "btreplay")?;
    replayed(&iocast, &device, &fast, FIO[0])?;
    if p99(&ours) > P99_NS_MAX {
        failed.push(format!("p99 is above {P99_NS_MAX} ns"));
    }
    if ours["drift_share"].as_f64().unwrap_or(f64::INFINITY).abs() > DRIFT_SHARE_MAX {
        failed.push(format!("the drift is above {DRIFT_SHARE_MAX} of the span"));
    }
    for reason in &failed {
        println!("MISSED: {reason}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes `count` reads, one every `gap_ns`.
fn trace(path: &Path, count: u64, gap_ns: u64) -> Result<String, Box<dyn Error>> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(
        file,
        "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,completed_ns,error"
    )?;
    let pages = DEVICE_BYTES as u64 / 4096;
    for number in 0..count {
        writeln!(file, "{},read,{},8,,0,0,1,0,,,,0", number * gap_ns, number * 4001 % pages * 8)?;
    }
    file.flush()?;
    Ok(path.display().to_string())
}

/// Lets one engine replay the trace, and prints its line.
fn replayed(iocast: &str, device: &Loop, trace: &str, engine: &str) -> Result<Value, Box<dyn Error>> {
    let arguments = ["replay", trace, "--device", &device.0, "--engine", engine, "--output-format", "json"];
    let output = Command::new(iocast).args(arguments).output()?;
    let result: Value =
        serde_json::from_slice(&output.stdout).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let figures = result["engines"][0].clone();
    let us = |ns: &Value| ns.as_f64().unwrap_or(f64::NAN) / 1000.0;
    let late = &figures["issue_time_error"];
    println!(
        "  {engine:<56} p50 {:>10.1}  p99 {:>10.1}  max {:>10.1} us  drift {:>9.4} %  missing {}{}",
        us(&late["percentiles_ns"]["p50"]),
        us(&late["percentiles_ns"]["p99"]),
        us(&late["max_ns"]),
        figures["drift_share"].as_f64().unwrap_or(f64::NAN) * 100.0,
        figures["missing_requests"],
        figures["failure"].as_str().map(|failure| format!("  {failure}")).unwrap_or_default(),
    );
    Ok(figures)
}

fn p99(figures: &Value) -> u64 {
    figures["issue_time_error"]["percentiles_ns"]["p99"].as_u64().unwrap_or(u64::MAX)
}

/// A loop device over a file, past the page cache.
struct Loop(String);

impl Loop {
    fn new(disk: &Path) -> Result<Loop, Box<dyn Error>> {
        let output = Command::new("losetup").args(["-f", "--show", "--direct-io=on"]).arg(disk).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        Ok(Loop(String::from_utf8(output.stdout)?.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It fails only if the device is gone already.
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}
