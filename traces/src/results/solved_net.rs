//! What `iocast predict --solve` found of a queueing Petri net.

use serde::{Deserialize, Serialize};

/// A solved net. Times and rates are in the net's time unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolvedNet {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The net's name.
    pub net: String,
    /// Its file, without folders.
    pub file: String,
    /// The solver: `ctmc` is exact, `simulation` has intervals.
    pub solver: String,
    /// Number of states of the Markov chain, if it was solved.
    pub states: Option<u64>,
    /// The simulation, if there was one.
    pub simulation: Option<NetSimulation>,
    /// The places, in the order of the net.
    pub places: Vec<SolvedPlace>,
    /// The queues, in the order of the net.
    pub queues: Vec<SolvedQueue>,
    /// What to keep in mind.
    pub notes: Vec<String>,
}

/// A simulation of a net.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetSimulation {
    /// The seed.
    pub seed: u64,
    /// Number of independent replications.
    pub replications: u32,
    /// The half-width that was asked for, as a share of the mean.
    pub precision: f64,
    /// Whether every throughput and residence of a queueing place is as precise.
    pub reached: bool,
    /// Simulated time of all replications.
    pub time: f64,
    /// Their events.
    pub events: u64,
    /// Services that were completed.
    pub completions: u64,
}

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// Half of its 95 % confidence interval; absent of an exact figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
}

/// A place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolvedPlace {
    /// Its name.
    pub name: String,
    /// Its colors, in the order of the place.
    pub colors: Vec<SolvedColor>,
}

/// A color in a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolvedColor {
    /// Its name.
    pub name: String,
    /// Tokens that leave, per time unit.
    pub throughput: Figure,
    /// Mean number of tokens, in queue and depository.
    pub tokens: Figure,
    /// Mean time of a visit.
    pub residence: Figure,
    /// Median, 95th and 99th percentile of the time of a visit, of a simulation: upper bounds of buckets that are at
    /// most 1/128 wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residence_p50_p95_p99: Option<[f64; 3]>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolvedQueue {
    /// Its name.
    pub name: String,
    /// The mean share of servers that are busy; of an infinite server the mean number of tokens.
    pub utilisation: Figure,
}
