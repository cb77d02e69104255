//! Places VMs on LUNs: searches the assignment whose forecast keeps all limits with the least slowdown.
//!
//! Each group of VMs on a LUN is forecast ([`Forecasts`]): from their isolation profiles on that LUN, or in a way of the
//! caller's, such as a replay. The *cost* of an assignment has three parts, compared in this order:
//!
//! 1. sectors beyond the drive capacity of LUNs, which must be zero in the end;
//! 2. excesses over limits, as shares of the limits;
//! 3. the sum of the VMs' slowdown factors, each against the VM alone on the LUN that is best for it. One VM that gets
//!    a quarter of its throughput is worse than two that get half.
//!
//! The search places VMs by best fit: those that keep their device busiest first, each where the cost grows least.
//! Single moves and swaps follow, in an order drawn from a seed. Each is made if it lowers the cost, until none does.
//! Random moves then restart the improvement several times (`search`). The result need not be the best assignment.

mod cost;
mod search;

use serde::{Deserialize, Serialize};
use traces::Sectors;
use traces::results::isolation::IsolationProfile;

pub use cost::{Figure, Standing, best_alone, forecast, read_p99_ns, refused};
pub use search::{improve, judge, place};

use crate::predictor::{PredictError, Predictor, VmForecast};

/// The forecast of VMs, by their numbers in ascending order, on the LUN of this number.
pub type GroupForecast<'a> = dyn Fn(usize, &[usize]) -> Result<Vec<VmForecast>, PredictError> + 'a;

/// How two or more VMs on a LUN are forecast.
#[derive(Clone, Copy)]
pub enum Forecasts<'a> {
    /// From their profiles alone on the LUN.
    Profiles(&'a dyn Predictor),
    /// By the caller, who remembers forecasts that are expensive.
    Groups(&'a GroupForecast<'a>),
}

/// The limits of a VM: the least throughput and the longest response times; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Mean response time of reads, ns.
    pub read_response_ns: Option<f64>,
    /// 99th percentile of the response time of reads, ns. If the predictor forecasts none, the percentile alone is
    /// scaled by the growth of the mean.
    pub read_p99_ns: Option<f64>,
    /// Mean response time of writes, ns.
    pub write_response_ns: Option<f64>,
    /// Reads per second.
    pub read_iops: Option<f64>,
    /// Writes per second.
    pub write_iops: Option<f64>,
}

/// VMs to place, and the LUNs for them.
pub struct Task<'a> {
    /// By VM: its limits.
    pub limits: Vec<Limits>,
    /// By LUN: the profile of each VM alone on it.
    pub alone: Vec<Vec<IsolationProfile>>,
    /// By LUN: its drive capacity, if it is limited.
    pub drive_capacity: Vec<Option<Sectors>>,
    /// By VM: the sectors that it needs on a LUN.
    pub takes: Vec<Sectors>,
    /// Pairs of VMs that must not share a LUN.
    pub separate: Vec<(usize, usize)>,
    /// Forecasts VMs together.
    pub forecasts: Forecasts<'a>,
    /// Seed of the order in which moves are tried.
    pub seed: u64,
}

/// An assignment with its forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// By VM: its LUN.
    pub lun_of: Vec<usize>,
    /// Sum of the excesses over limits, as shares of the limits; 0 if all limits are kept.
    pub exceeded: f64,
    /// Sum over VMs of the share that they lose of their throughput alone on the LUN that is best for them.
    pub lost: f64,
    /// Every limit with its forecast, the tightest first.
    pub standings: Vec<Standing>,
    /// Number of groups that were forecast.
    pub forecasts: u64,
}

/// The reason why there is no placement.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlaceError {
    /// No VM or no LUN.
    #[error("a placement needs VMs and LUNs, and there are {vms} VMs and {luns} LUNs")]
    Nothing {
        /// Number of VMs.
        vms: usize,
        /// Number of LUNs.
        luns: usize,
    },
    /// Best fit finds no assignment that keeps the separations.
    #[error("every LUN has a VM that must not share a LUN with VM {0}; there are too few LUNs for the separations")]
    Separations(String),
    /// The search finds no assignment in which all VMs fit.
    #[error(
        "the VMs need {takes} sectors, and no assignment was found that fits: the best one puts {there} sectors on \
         a LUN of {holds}; there are too few LUNs, or the LUNs are too small"
    )]
    Capacity {
        /// Sectors of all VMs.
        takes: Sectors,
        /// Sectors on a LUN that is too full in the best assignment.
        there: Sectors,
        /// Drive capacity of that LUN.
        holds: Sectors,
    },
    /// An impossible profile.
    #[error(transparent)]
    Profile(#[from] PredictError),
}
