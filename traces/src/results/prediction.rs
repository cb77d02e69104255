//! What `iocast predict` stores: forecasts of machines that share a device.

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
    /// The machines alone.
    pub alone: Vec<IsolationProfile>,
    /// Who is put together, two or more.
    pub pairs: Vec<PairPrediction>,
}

/// Machines that share a device.
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
pub enum Outcome {
    /// It says nothing of these machines.
    Refused {
        /// Why.
        refused: String,
    },
    /// What it says.
    Forecast(Forecast),
}

/// Machines together. Lists hold a figure for each, or nothing where the method says nothing or the machine has no such requests.
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
    /// Reads per second of all together.
    pub total_read_iops: Option<f64>,
    /// Writes per second of all together.
    pub total_write_iops: Option<f64>,
    /// Share of reads among all requests.
    pub mix_read: Option<f64>,
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
    /// Errors of each predictor by figure: `read_response`, `write_response`, `read_iops`, `write_iops` of every machine,
    /// `total_read_iops`, `total_write_iops`, `mix_read` of all together.
    pub summary: BTreeMap<String, BTreeMap<String, ForecastError>>,
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
    /// Its 95 % confidence interval (Student's t) over machines or pairs.
    pub ci95: Option<[f64; 2]>,
    /// The largest.
    pub max: Option<f64>,
}
