//! Which machines go to which LUN: the assignment whose forecast keeps all limits, and in which machines get least slower.
//!
//! What a group of machines gets on a LUN is a predictor's forecast of them together, of each machine alone on that LUN. The *cost* of
//! an assignment is first what is on LUNs beyond what they hold, which in the end is to be nothing, then what limits are exceeded by, then how
//! many times slower machines get than alone, in the sum: one that gets a quarter of its throughput is worse than two that get half. Machines are placed by best fit, those that keep their device busiest first,
//! each where the cost grows least; then single moves and swaps are tried in an order drawn from a seed, and made if they lower the cost,
//! until none does.

mod cost;
mod search;

use serde::{Deserialize, Serialize};
use traces::Sectors;
use traces::results::isolation::IsolationProfile;

pub use cost::{Figure, Standing, forecast, read_p99_ns, refused};
pub use search::place;

use crate::predictor::{PredictError, Predictor};

/// What a machine must get at least, or wait at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Mean response time of reads, ns.
    pub read_response_ns: Option<f64>,
    /// Their 99th percentile, ns. Of a method that forecasts none, the one alone, longer by as much as the mean.
    pub read_p99_ns: Option<f64>,
    /// Mean response time of writes, ns.
    pub write_response_ns: Option<f64>,
    /// Reads per second.
    pub read_iops: Option<f64>,
    /// Writes per second.
    pub write_iops: Option<f64>,
}

/// What is to be placed where.
pub struct Task<'a> {
    /// Each machine's limits.
    pub limits: Vec<Limits>,
    /// By LUN: each machine alone on it.
    pub alone: Vec<Vec<IsolationProfile>>,
    /// By LUN: what it holds, if that bounds who goes there.
    pub drive_capacity: Vec<Option<Sectors>>,
    /// By machine: what it takes of a LUN.
    pub takes: Vec<Sectors>,
    /// Machines that must not share a LUN.
    pub separate: Vec<(usize, usize)>,
    /// Forecasts machines together.
    pub predictor: &'a dyn Predictor,
    /// Of the order in which moves are tried.
    pub seed: u64,
}

/// An assignment with its forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The LUN of each machine.
    pub lun_of: Vec<usize>,
    /// What is exceeded, as shares of limits; 0 if all are kept.
    pub exceeded: f64,
    /// Throughput lost against alone, as a sum of shares over machines.
    pub lost: f64,
    /// Every limit with its forecast, the tightest first: the first binds.
    pub standings: Vec<Standing>,
    /// Groups that were forecast.
    pub forecasts: u64,
}

/// Why nothing can be placed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlaceError {
    /// No machine or no LUN.
    #[error("there are {machines} machines and {luns} LUNs; both are needed")]
    Nothing {
        /// Machines.
        machines: usize,
        /// LUNs.
        luns: usize,
    },
    /// Separations that no assignment keeps, as far as best fit finds.
    #[error(
        "machine {0} finds no LUN without one that it must be apart from; there are too few LUNs for the separations"
    )]
    Separations(String),
    /// Machines that are larger than the LUNs, as far as the search finds.
    #[error(
        "the machines take {takes} sectors, and no assignment was found that fits: in the best {there} would be on a LUN that holds {holds}; \
         there are too few LUNs, or too small ones"
    )]
    Capacity {
        /// What all machines take.
        takes: Sectors,
        /// What is on a LUN that is too full in the best that was found.
        there: Sectors,
        /// What it holds.
        holds: Sectors,
    },
    /// A profile cannot be.
    #[error(transparent)]
    Profile(#[from] PredictError),
}
