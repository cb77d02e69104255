//! Histograms of a block device by second and VM (`iocast capture block --histograms`), and their summary (`iocast
//! stat`). Response times are D2C: from the issue to the device to the completion. The time before the issue is not in
//! them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of [`SecondOfVm`].
pub const HISTOGRAMS_VERSION: u32 = 1;

/// One line of a file of histograms: the requests of one VM on one device that completed within one second.
///
/// A second in which a VM had no request has no line, except the first and the last of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondOfVm {
    /// [`HISTOGRAMS_VERSION`]. The first key of each line, by which such files are recognised.
    pub histograms_version: u32,
    /// When it began, in ns since 1970 (UTC). A multiple of a second, except where the capture began or the wall clock
    /// was set.
    pub start_unix_ns: i64,
    /// How much of it was captured.
    pub length_ns: u64,
    /// A capture begins with it, so that nothing is known of the time before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins: bool,
    /// The device, as the kernel names it.
    pub device: String,
    /// The VM, cgroup or process; `unattributed` for requests without one.
    pub vm: String,
    /// Reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<OperationInSecond>,
    /// Writes, with zeroing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<OperationInSecond>,
    /// Discards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<OperationInSecond>,
    /// Flushes that the kernel sent to the device; one may serve several that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<OperationInSecond>,
    /// Requests in flight at the device, of all VMs, times how long: divided by `length_ns`, their mean number.
    pub device_in_flight_ns: u64,
    /// The most requests in flight at the device, of all VMs.
    pub device_in_flight_max: u64,
    /// Commands that were passed through to the device and completed. They are in no histogram.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub passed_through: u64,
    /// Events of all devices that the kernel's buffer could not hold. On one line of a second only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_events: u64,
    /// Events of the device without a partner, by kind: `C without D`, `D without C` and others. On one line of a
    /// second only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmatched: BTreeMap<String, u64>,
    /// Events of the device that could not be used, by reason. On one line of a second only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, u64>,
}

/// The requests of one operation that completed in a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationInSecond {
    /// How many.
    pub requests: u64,
    /// Their data.
    pub bytes: u64,
    /// The sum of their times from issue to completion.
    pub d2c_sum_ns: u64,
    /// The longest of these times.
    pub d2c_max_ns: u64,
    /// The histogram of these times: the least number of each bucket that was hit, in order, and how often it was hit.
    /// [`crate::histograms::LogHistogram`] says which buckets there are.
    pub d2c_ns: Vec<(u64, u64)>,
    /// The histogram of their sizes in sectors of 512 bytes, in the same form.
    pub sectors: Vec<(u64, u64)>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What `iocast stat` prints of histograms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramStatistics {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The files, without the folders of absolute paths.
    pub files: Vec<String>,
    /// The most by which a percentile may differ from the exact one, as a share of it.
    pub error_share: f64,
    /// Lines that were read.
    pub lines: u64,
    /// Last lines of files that were cut short, as a killed capture leaves them.
    pub cut_lines: u64,
    /// Lines left out because `--lenient` asked for it, by reason.
    pub skipped_lines: BTreeMap<String, u64>,
    /// Events that the captures lost.
    pub lost_events: u64,
    /// Events without a partner, by kind.
    pub unmatched: BTreeMap<String, u64>,
    /// Events that the captures could not use, by reason.
    pub skipped_events: BTreeMap<String, u64>,
    /// The devices.
    pub devices: Vec<HistogramDevice>,
    /// Each VM on each device.
    pub vms: Vec<HistogramVm>,
    /// The seconds with the most requests, of any VM and device, the busiest first.
    pub busiest: Vec<BusySecond>,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramDevice {
    /// Its name.
    pub device: String,
    /// When its first second began, in ns since 1970.
    pub start_unix_ns: i64,
    /// The time over which it was captured: the gaps between captures are left out.
    pub captured_ns: u64,
    /// The mean number of requests in flight over this time.
    pub in_flight_mean: f64,
    /// The most at any time.
    pub in_flight_max: u64,
    /// Commands that were passed through.
    pub passed_through: u64,
}

/// A VM on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramVm {
    /// The device.
    pub device: String,
    /// The VM.
    pub vm: String,
    /// Seconds in which it had a request.
    pub active_seconds: u64,
    /// Reads, writes, discards and flushes, by name; operations without a request are absent.
    pub operations: BTreeMap<String, HistogramFigures>,
}

/// The requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramFigures {
    /// How many completed.
    pub requests: u64,
    /// Their data.
    pub bytes: u64,
    /// Requests per second of the time over which the device was captured.
    pub iops: f64,
    /// Bytes per second of this time.
    pub bytes_per_s: f64,
    /// Mean time from issue to completion, exact.
    pub d2c_mean_ns: f64,
    /// The longest, exact.
    pub d2c_max_ns: u64,
    /// Percentiles of this time by name.
    pub d2c_percentiles_ns: BTreeMap<String, u64>,
    /// Percentiles of the size in sectors by name.
    pub sectors_percentiles: BTreeMap<String, u64>,
}

/// A second in which a VM had many requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusySecond {
    /// When it began, in ns since 1970.
    pub start_unix_ns: i64,
    /// How much of it was captured.
    pub length_ns: u64,
    /// The device.
    pub device: String,
    /// The VM.
    pub vm: String,
    /// Requests of all operations that completed.
    pub requests: u64,
    /// Their data.
    pub bytes: u64,
    /// The mean number of requests in flight at the device, of all VMs.
    pub device_in_flight_mean: f64,
    /// The 99th percentile of the time from issue to completion, of all operations.
    pub d2c_p99_ns: u64,
}
