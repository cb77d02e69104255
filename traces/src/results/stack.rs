//! What happened between the layers of a stack, and who got how much.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Moments, RuleFigures};
use crate::error::WriteError;
use crate::formats::parquet::TableWriter;
use crate::units::{Nanos, Timestamp};

/// The stack of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackFigures {
    /// The stack as a line, as `--stack` takes it.
    pub spec: String,
    /// Its layers, the guests' first.
    pub layers: Vec<LayerFigures>,
    /// How evenly the VMs were served.
    pub fairness: Fairness,
}

/// One layer. Requests are counted as they leave it, merged and split by it and by those above.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerFigures {
    /// Its name.
    pub layer: String,
    /// Its scheduler with what was given.
    pub scheduler: String,
    /// Every setting of the layer, as one would write it.
    pub settings: BTreeMap<String, String>,
    /// The rules of its scheduler, over all its stages, in the order in which they are tried; none if it has only one.
    #[serde(default)]
    pub rules: Vec<RuleFigures>,
    /// Requests sent on, without flushes.
    pub requests: u64,
    /// How many of them were from another VM than the one before (Kim et al. 2015, Fig. 7).
    pub context_switches: u64,
    /// Requests of the layer above merged into one that was waiting.
    pub merged: u64,
    /// Flushes sent on.
    pub flushes: u64,
    /// From sending a request on until the drive began with it, or with the first part of it.
    pub time_to_drive: Moments,
    /// From sending a request on until it came back.
    pub time_below: Moments,
    /// Mean distance the head moved per request sent on, hits counted as zero.
    pub seek_distance_mean_sectors: Option<f64>,
    /// Share of requests that came from the drive's cache altogether.
    pub cache_hit_share: Option<f64>,
}

/// Jain's index of the bytes that each VM was served, (Σx)² / (n·Σx²): 1 if all got the same, 1/n if one
/// got everything (Jain, Chiu and Hawe 1984, DEC TR-301). Of the VMs that asked for something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Over the whole run.
    pub jain: Option<f64>,
    /// The length of an interval.
    pub interval_ns: Nanos,
    /// Intervals in which at least two VMs had something outstanding and anything was served.
    pub intervals: u64,
    /// The index in these intervals, of the VMs that had something outstanding in them: mean.
    pub jain_interval_mean: Option<f64>,
    /// Least.
    pub jain_interval_min: Option<f64>,
}

/// What one VM was served in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmInterval {
    /// Reads and writes that completed.
    pub requests: u64,
    /// Bytes that reads asked for which completed.
    pub read_bytes: u64,
    /// Bytes that writes asked for which completed.
    pub write_bytes: u64,
    /// The sum of the response times of these reads and writes, in ns.
    pub response_sum_ns: u64,
}

const COLUMNS: [&str; 7] = ["start_ns", "length_ns", "vm", "requests", "read_bytes", "write_bytes", "response_sum_ns"];

/// Writes who was served how much when, as Parquet: a row for each interval and each VM that had something
/// outstanding in it.
pub struct VmSeriesWriter {
    table: TableWriter,
    length: Nanos,
}

impl VmSeriesWriter {
    /// Begins a file that will be `path`, for intervals of that length.
    ///
    /// # Errors
    /// The file system's.
    pub fn create(path: &Path, length: Nanos) -> Result<VmSeriesWriter, WriteError> {
        Ok(VmSeriesWriter { table: TableWriter::create(path, "vm_interval", &COLUMNS)?, length })
    }

    /// Adds a row: the VM by its number.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&mut self, start: Timestamp, vm: usize, served: &VmInterval) -> Result<(), WriteError> {
        let VmInterval { requests, read_bytes, write_bytes, response_sum_ns } = *served;
        let length = self.length.as_ns();
        self.table.row(&[start.as_ns(), length, vm as u64, requests, read_bytes, write_bytes, response_sum_ns])
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The file system's.
    pub fn finish(self) -> Result<(), WriteError> {
        self.table.finish()
    }
}
