//! Prints how many service completions per CPU second a simulation of the paper's net makes.
//! `cargo run --release -p iocast-queueing --example speed`
#![allow(clippy::unwrap_used)] // An example may stop at once.

use std::time::Instant;

use iocast_queueing::net::description::parse;
use iocast_queueing::simulation::{Settings, simulate};

fn main() {
    let net = parse(include_str!("../nets/noorshams2014.toml"), "noorshams2014.toml").unwrap();
    for histograms in [false, true] {
        let events = 20_000_000;
        let settings = Settings { precision: None, events: [events, events], histograms, ..Settings::default() };
        let start = Instant::now();
        let result = simulate(&net, &settings).unwrap();
        // One replication runs on one thread, so wall time is CPU time on an idle machine.
        let seconds = start.elapsed().as_secs_f64();
        let storage: f64 = result.places[3].colors.iter().map(|color| color.throughput.mean * result.time).sum();
        println!(
            "histograms {histograms}: {:.2} million completions per second, {:.2} million of them in the storage; \
             reads {:.5}, writes {:.5} per ms",
            result.completions as f64 / seconds / 1e6,
            storage / seconds / 1e6,
            result.places[3].colors[0].throughput.mean,
            result.places[3].colors[1].throughput.mean,
        );
    }
}
