//! One generated blktrace capture through the old programs and through ours, in one run.
//!
//! `cargo run --release -p iocast-bench --example peers -- IOCAST EVENTS`; `make peers` does it. Every
//! program is measured for its CPU seconds, so that it does not matter what else runs. fio-btrace2fio
//! reads one file only, so it gets the one that blkparse has merged, and is asked to leave out no process.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use iocast_bench::{capture, cost};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(iocast), Some(events)) = (arguments.next(), arguments.next()) else {
        return Err("expected the program iocast and a number of events".into());
    };
    let iocast = Path::new(&iocast).canonicalize()?;
    let requests: u64 = events.parse::<u64>()? / capture::EVENTS_PER_REQUEST;
    let events = requests * capture::EVENTS_PER_REQUEST;
    let folder = tempfile::tempdir()?;
    capture::write(&folder.path().join("capture"), requests, 1)?;
    let command = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(folder.path()).args(arguments);
        command
    };
    let programs: [(&str, &Path, &[&str]); 6] = [
        ("blkparse (text)", Path::new("blkparse"), &["-i", "capture"]),
        ("blkparse -d (merge)", Path::new("blkparse"), &["-i", "capture", "-d", "merged", "-O"]),
        ("btt, of what that merged", Path::new("btt"), &["-i", "merged"]),
        (
            "fio-btrace2fio, of the same",
            Path::new("fio-btrace2fio"),
            &["-t", "0", "-n", "0", "-d", "replayed", "merged"],
        ),
        ("iocast stat", &iocast, &["stat", "capture"]),
        ("iocast convert (Parquet)", &iocast, &["convert", "capture", "capture.parquet"]),
    ];
    println!("{events} events in two files, 5 per request, at most 64 requests in flight\n");
    println!("{:28} {:>9} {:>22} {:>12}", "", "CPU s", "million events/CPU s", "resident MB");
    let mut costs = Vec::new();
    for (name, program, arguments) in programs {
        let cost = cost::of_program(&mut command(program, arguments))
            .map_err(|error| format!("{}: {error}", program.display()))?;
        print_cost(name, events, cost.cpu_seconds, cost.resident_max_bytes);
        costs.push(cost);
    }
    let (both, resident) =
        (costs[1].cpu_seconds + costs[2].cpu_seconds, costs[1].resident_max_bytes.max(costs[2].resident_max_bytes));
    print_cost("blkparse -d and btt together", events, both, resident);
    Ok(())
}

fn print_cost(name: &str, events: u64, cpu_seconds: f64, resident: u64) {
    let rate = events as f64 / cpu_seconds / 1e6;
    println!("{name:28} {cpu_seconds:>9.2} {rate:>22.2} {:>12}", resident / 1_000_000);
}
