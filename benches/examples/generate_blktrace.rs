//! Writes a generated blktrace capture, and keeps it: what `iocast stat` and its peers are measured on.
//!
//! `cargo run --release -p iocast-bench --example generate_blktrace -- STEM REQUESTS` (5 events each)

use std::path::PathBuf;

use iocast_bench::capture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(stem), Some(requests)) = (arguments.next(), arguments.next()) else {
        return Err("expected a stem and a number of requests".into());
    };
    let files = capture::write(&PathBuf::from(stem), requests.parse()?, 1)?;
    for file in files {
        println!("{}", file.display());
    }
    Ok(())
}
