//! What came of a capture.

use serde::Serialize;

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The time that was asked for has passed.
    Time,
    /// The trace has the size that was asked for.
    Size,
    /// There is too little space left.
    FreeSpace,
    /// The user stopped it.
    Interrupted,
    /// A device has vanished.
    DeviceGone,
    /// The output failed: a full disk, a reader that is gone.
    OutputFailed,
    /// ClockReading the events failed.
    InputFailed,
}

/// What came of a capture, as it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureSummary {
    /// Version of this layout.
    pub schema_version: u32,
    /// The backend.
    pub backend: &'static str,
    /// Those that were tried before it, and why they do not work.
    pub refused: Vec<(&'static str, String)>,
    /// Names of the devices.
    pub devices: Vec<String>,
    /// The files that were written.
    pub files: Vec<String>,
    /// How long it lasted.
    pub lasted_ns: u64,
    /// Events that were read.
    pub events: u64,
    /// Requests that were stored; none for raw captures.
    pub requests: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Events that the kernel had no room for, or that exceeded the rate.
    pub lost_events: u64,
    /// Those of them that exceeded `--max-rate`.
    pub above_rate_events: u64,
    /// Events without a partner, by kind.
    pub unmatched: std::collections::BTreeMap<String, u64>,
    /// Events that could not be used, by reason.
    pub skipped: std::collections::BTreeMap<String, u64>,
    /// Share of the requests that are no virtual machine's, where that was asked for.
    pub unattributed_share: Option<f64>,
    /// Names of the virtual machines.
    pub vms: Vec<String>,
    /// CPU time of the capture itself.
    pub cpu_ns: u64,
    /// Times that the wall clock was set.
    pub clock_steps: u64,
    /// Why it ended.
    pub stopped_by: StopReason,
    /// What failed, in words.
    pub failure: Option<String>,
}

impl CaptureSummary {
    /// CPU seconds for a million events; `None` if there was none.
    pub fn cpu_s_per_million_events(&self) -> Option<f64> {
        (self.events > 0).then(|| self.cpu_ns as f64 / 1e9 / (self.events as f64 / 1e6))
    }
}
