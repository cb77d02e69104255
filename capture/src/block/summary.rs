//! The summary of a capture.

use serde::Serialize;

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The requested time has passed.
    Time,
    /// The trace has reached the requested size.
    Size,
    /// Too little space is free.
    FreeSpace,
    /// The user stopped it.
    Interrupted,
    /// A device has vanished.
    DeviceGone,
    /// The output failed: the disk is full, or the reader is gone.
    OutputFailed,
    /// Reading the events failed.
    InputFailed,
}

/// The summary of a capture, as it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureSummary {
    /// Version of this layout.
    pub schema_version: u32,
    /// The backend.
    pub backend: &'static str,
    /// Backends that were tried before, and why they failed.
    pub refused: Vec<(&'static str, String)>,
    /// Names of the devices.
    pub devices: Vec<String>,
    /// The files that were written.
    pub files: Vec<String>,
    /// The duration of the capture, in nanoseconds.
    pub lasted_ns: u64,
    /// Events that were read.
    pub events: u64,
    /// I/Os that the kernel itself counted on the devices meanwhile; `None` if it does not count them.
    pub kernel_ios: Option<u64>,
    /// Requests that were stored; zero for raw captures.
    pub requests: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Events that the kernel's buffer could not hold, or that exceeded the rate.
    pub lost_events: u64,
    /// Of these, events that exceeded `--max-rate`.
    pub above_rate_events: u64,
    /// Events without a partner, by kind.
    pub unmatched: std::collections::BTreeMap<String, u64>,
    /// Events that could not be used, by reason.
    pub skipped: std::collections::BTreeMap<String, u64>,
    /// Share of requests without a VM, if attribution was requested.
    pub unattributed_share: Option<f64>,
    /// Names of the VMs.
    pub vms: Vec<String>,
    /// CPU time of the capture itself, in nanoseconds.
    pub cpu_ns: u64,
    /// How often the wall clock was set.
    pub clock_steps: u64,
    /// Why it ended.
    pub stopped_by: StopReason,
    /// The error message, if it failed.
    pub failure: Option<String>,
}

impl CaptureSummary {
    /// CPU seconds per million events; `None` without events.
    pub fn cpu_s_per_million_events(&self) -> Option<f64> {
        (self.events > 0).then(|| self.cpu_ns as f64 / 1e9 / (self.events as f64 / 1e6))
    }
}
