//! The paper's net with exponential services, whose answer a Markov chain gives, and how often intervals hold it.

use iocast_queueing::net::Net;
use iocast_queueing::net::description::parse;
use iocast_queueing::simulation::{Settings, simulate};
use rayon::prelude::*;

/// Throughput of reads and writes, per millisecond, from the Markov chain.
pub const EXACT: [f64; 2] = [0.829_257_9, 0.340_624_3];

pub fn papers_net() -> Net {
    let text = include_str!("../../nets/noorshams2014.toml").replace("shape = 4", "shape = 1");
    parse(&text, "test").unwrap()
}

/// The share of seeds whose interval holds the throughput of the storage, for reads and writes.
pub fn share_covered(net: &Net, exact: [f64; 2], settings: &Settings, seeds: u64) -> [f64; 2] {
    let held_by = |seed: u64| {
        let result = simulate(net, &Settings { seed, ..settings.clone() }).unwrap();
        let storage = result.places.iter().find(|place| place.name == "storage").unwrap();
        [0, 1].map(|at| u32::from(storage.colors[at].throughput.holds(exact[at])))
    };
    let held =
        (0..seeds).into_par_iter().map(held_by).reduce(|| [0; 2], |sum, more| [sum[0] + more[0], sum[1] + more[1]]);
    held.map(|held| f64::from(held) / seeds as f64)
}
