//! How well a capture of a VM alone on one device, replayed on another, tells what the VM does there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What `iocast validate cross` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The part of the split that is shown; `None` without a split.
    pub part: Option<String>,
    /// Each VM from each device to each other, and each repetition.
    pub cases: Vec<CrossCase>,
    /// The errors over all cases, by figure.
    pub summary: Vec<CrossSummary>,
    /// Cases that are not in the summary, and why.
    pub left_out: Vec<CrossLeftOut>,
}

/// A VM that was captured on one device, replayed on another, and captured there, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CrossCase {
    /// The VM.
    pub vm: String,
    /// What it runs.
    pub workload: String,
    /// The lab whose capture is replayed.
    pub from: String,
    /// The lab whose device it is replayed on, and whose capture is the truth.
    pub to: String,
    /// The repetition in both labs.
    pub repetition: u32,
    /// The layers of the replay, as `iocast compare --stack` takes them. The delays and the bandwidth between guest and
    /// drive are those that the other VMs of the lab `to` measured.
    pub stack: String,
    /// The drive of the replay.
    pub drive: String,
    /// The time over which the replay was measured: until a process had used up its captured requests.
    pub replayed_ns: u64,
    /// The figures by name.
    pub figures: BTreeMap<String, CrossFigure>,
}

/// A figure of a case. Absent values could not be measured: no requests, or too few for a percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CrossFigure {
    /// As captured in the lab `from`.
    pub captured: Option<f64>,
    /// As replayed on the device of the lab `to`.
    pub replayed: Option<f64>,
    /// As captured there.
    pub truth: Option<f64>,
}

impl CrossFigure {
    /// The replayed figure over the truth, less one.
    pub fn error(&self) -> Option<f64> {
        over(self.replayed, self.truth)
    }

    /// The error of whoever takes the captured figure for that of the other device.
    pub fn unchanged_error(&self) -> Option<f64> {
        over(self.captured, self.truth)
    }
}

fn over(value: Option<f64>, truth: Option<f64>) -> Option<f64> {
    let (value, truth) = (value?, truth?);
    (truth > 0.0).then(|| value / truth - 1.0)
}

/// The errors of a figure over cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossSummary {
    /// The figure.
    pub figure: String,
    /// Cases that have it.
    pub cases: u64,
    /// The median of the errors' amounts.
    pub median: f64,
    /// Their 90th percentile.
    pub p90: f64,
    /// The median of the errors with their sign: above zero, replays are too high.
    pub bias: f64,
    /// The median and the 90th percentile of whoever takes the captured figure for that of the other device.
    pub unchanged: [f64; 2],
}

/// A case without a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossLeftOut {
    /// The VM.
    pub vm: String,
    /// The labs.
    pub from: String,
    /// The lab of the truth.
    pub to: String,
    /// Why.
    pub why: String,
}
