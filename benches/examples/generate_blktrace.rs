//! Writes a generated blktrace capture, and keeps it: what `iocast stat` and its peers are measured on.
//!
//! `cargo run --release -p iocast-bench --example generate_blktrace -- STEM REQUESTS` (5 events each). The stem `-` is
//! standard output, for captures that no disk holds.

use std::io;
use std::path::PathBuf;

use iocast_bench::capture;

const SEED: u64 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(stem), Some(requests)) = (arguments.next(), arguments.next()) else {
        return Err("expected a stem and a number of requests".into());
    };
    let requests = requests.parse()?;
    if stem == "-" {
        return Ok(capture::write_to(&mut [io::stdout().lock()], requests, SEED)?);
    }
    let files = capture::write(&PathBuf::from(stem), requests, SEED)?;
    for file in files {
        println!("{}", file.display());
    }
    Ok(())
}
