//! What `iocast place` stores: which VMs go to which LUN, and what they get there.

use serde::{Deserialize, Serialize};

/// An assignment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The predictor that was asked, with its tunables.
    pub predictor: String,
    /// Of the order in which moves were tried.
    pub seed: u64,
    /// Groups that were forecast.
    pub forecasts: u64,
    /// What limits are exceeded by in the forecast, as a sum of shares of them; 0 if all are kept.
    pub exceeded: f64,
    /// Throughput that VMs lose in the forecast against alone on the LUN that is best for each, as a sum of shares over
    /// VMs.
    pub lost: f64,
    /// The LUNs with their VMs.
    pub luns: Vec<PlacedLun>,
    /// Every limit, the tightest first: the first is the one that binds.
    pub limits: Vec<Standing>,
    /// Who disturbs whom on the first LUN.
    pub interference: Interference,
    /// The same on each of the other LUNs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference_elsewhere: Vec<Interference>,
    /// What to know.
    pub notes: Vec<String>,
}

/// A LUN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedLun {
    /// Its name.
    pub lun: String,
    /// Its drive, if it is another than the captures'.
    pub drive: Option<String>,
    /// What is in front of its drive: a scheduler with a depth, or a stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Who is there.
    pub vms: Vec<PlacedVm>,
}

/// A VM on its LUN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedVm {
    /// Its name.
    pub vm: String,
    /// What it gets there alone.
    pub alone: Share,
    /// What is forecast.
    pub forecast: Share,
    /// What a replay of all of the LUN's captures gave it.
    pub replayed: Option<Share>,
}

/// What a VM gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Reads per second.
    pub read_iops: Option<f64>,
    /// Mean response time of reads (D2C).
    pub read_response_ns: Option<f64>,
    /// Its 99th percentile.
    pub read_p99_ns: Option<f64>,
    /// The reads that it rests on: those measured, or those of the VM alone from which it is forecast.
    #[serde(default)]
    pub reads: u64,
    /// Writes per second.
    pub write_iops: Option<f64>,
    /// Mean response time of writes.
    pub write_response_ns: Option<f64>,
}

/// A limit and how it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The VM.
    pub vm: String,
    /// Of which figure of [`Share`], without its unit.
    pub figure: String,
    /// The limit; ns, or requests per second.
    pub limit: f64,
    /// The forecast.
    pub forecast: Option<f64>,
    /// What the replay gave.
    pub replayed: Option<f64>,
    /// What the forecast leaves of the limit, as a share of it; below 0 it is exceeded.
    pub slack: f64,
    /// What the replay leaves of the limit, as a share of it; below 0 it is exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_slack: Option<f64>,
    /// Whether the replay keeps it.
    pub kept: Option<bool>,
}

impl Standing {
    /// What is left of the limit, by the replay if there was one, else by the forecast.
    pub fn left(&self) -> f64 {
        self.replayed_slack.unwrap_or(self.slack)
    }
}

/// Who disturbs whom, in pairs on one LUN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    /// On which LUN.
    pub lun: String,
    /// The VMs.
    pub vms: Vec<String>,
    /// By VM, and by the VM that shares the LUN with it: the share of its throughput alone that is left. Nothing of
    /// itself, and where nothing is forecast.
    pub left: Vec<Vec<Option<f64>>>,
}
