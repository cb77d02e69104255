//! What `iocast predict` stores: forecasts of VMs that share a device.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::isolation::IsolationProfile;

/// Forecasts by several predictors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The VMs alone.
    pub alone: Vec<IsolationProfile>,
    /// Further VMs alone on the same device, that tell of it and are not put together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<IsolationProfile>,
    /// By VM of `alone`, and by the others: the share of what it touches of the device that the other touches,
    /// too. Nothing of itself, and where a profile does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlap: Vec<Vec<Option<f64>>>,
    /// What the forecasts lack: as questions, each with the option that answers it and what is assumed without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The predictor whose forecast to rely on, as it is named in `pairs`; nothing if none has a forecast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<String>,
    /// Who is put together, two or more.
    pub pairs: Vec<PairPrediction>,
}

/// VMs that share a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairPrediction {
    /// Their names; all lists of figures are in this order.
    pub vms: Vec<String>,
    /// What really happened, where that is known.
    pub truth: Option<Forecast>,
    /// What each predictor says.
    pub predictors: BTreeMap<String, Outcome>,
}

/// What a predictor made of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "one for each predictor and group, and nearly all are forecasts")]
pub enum Outcome {
    /// It says nothing of these VMs.
    Refused {
        /// Why.
        refused: String,
    },
    /// What it says.
    Forecast(Forecast),
}

/// The percentiles of response times that are forecast: hundredths of a percent, and the name.
pub const FORECAST_PERCENTILES: [(u32, &str); 3] = [(5_000, "p50"), (9_500, "p95"), (9_900, "p99")];

/// The probability with which a truth is to lie within [`Intervals`].
pub const STATED: f64 = 0.9;

/// Between which two values each figure lies with a probability of [`STATED`], by what the method says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Mean response time of reads, D2C.
    pub read_response_ns: Vec<Option<[f64; 2]>>,
    /// Of writes.
    pub write_response_ns: Vec<Option<[f64; 2]>>,
    /// Reads per second.
    pub read_iops: Vec<Option<[f64; 2]>>,
    /// Writes per second.
    pub write_iops: Vec<Option<[f64; 2]>>,
    /// 99th percentile of the response time of reads; empty if the method states none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_p99_ns: Vec<Option<[f64; 2]>>,
    /// Of writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_p99_ns: Vec<Option<[f64; 2]>>,
}

/// In which order a device takes what waits for it: `fcfs`, `read-priority`, `read-priority-drain`, `weighted`, or
/// `unknown` for any other and for a device that serves several at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePolicy {
    /// The name.
    pub name: String,
    /// Whether what was seen leaves no other.
    pub sure: bool,
}

/// How often devices' policies were inferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identified {
    /// Groups whose device's policy is known.
    pub groups: u64,
    /// Of them: the right one was inferred.
    pub right: u64,
    /// The right one, surely.
    pub right_and_sure: u64,
    /// A wrong one, surely.
    pub wrong_but_sure: u64,
}

/// VMs together. Lists hold a figure for each, or nothing where the method says nothing or the VM has no such
/// requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Mean response time of reads, D2C.
    pub read_response_ns: Vec<Option<f64>>,
    /// Of writes.
    pub write_response_ns: Vec<Option<f64>>,
    /// Reads per second.
    pub read_iops: Vec<Option<f64>>,
    /// Writes per second.
    pub write_iops: Vec<Option<f64>>,
    /// Percentiles of the response time of reads by name; those of [`FORECAST_PERCENTILES`] that the method has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub read_percentiles_ns: BTreeMap<String, Vec<Option<f64>>>,
    /// Of writes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub write_percentiles_ns: BTreeMap<String, Vec<Option<f64>>>,
    /// Reads that were measured, for figures that are a measurement: their percentiles rest on these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_requests: Vec<Option<u64>>,
    /// Writes that were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_requests: Vec<Option<u64>>,
    /// How sure the method is, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals_90: Option<Intervals>,
    /// Reads per second of all together.
    pub total_read_iops: Option<f64>,
    /// Writes per second of all together.
    pub total_write_iops: Option<f64>,
    /// Share of reads among all requests.
    pub mix_read: Option<f64>,
    /// The device's policy, where it is known or inferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<DevicePolicy>,
    /// What to know about the figures.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Forecasts held against what really happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Consolidations {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// Where the truth is from.
    pub truth: String,
    /// Who was put together; truth and forecasts are means over the repetitions.
    pub pairs: Vec<PairPrediction>,
    /// Errors of each predictor by figure: `read_response`, `write_response`, `read_p99`, `write_p99`, `read_iops`,
    /// `write_iops` of every VM, `total_read_iops`, `total_write_iops`, `mix_read` of all together.
    pub summary: BTreeMap<String, BTreeMap<String, ForecastError>>,
    /// The same over groups of this many VMs, where there are groups of several sizes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_size: BTreeMap<usize, BTreeMap<String, BTreeMap<String, ForecastError>>>,
    /// By predictor that infers policies, where they are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, Identified>,
}

/// How far off forecasts of one figure are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForecastError {
    /// Of how many it was forecast.
    pub forecasts: u64,
    /// Of how many it was not, though there is a truth.
    pub left_out: u64,
    /// Mean of the absolute relative errors.
    pub mean: Option<f64>,
    /// Its 95 % confidence interval (Student's t) over VMs or pairs.
    pub ci95: Option<[f64; 2]>,
    /// The largest.
    pub max: Option<f64>,
    /// Of the truths that the predictor states an interval for, the share within it; it states [`STATED`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_stated: Option<f64>,
}
