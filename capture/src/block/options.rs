//! What a capture is asked for, and the progress that it reports.

use std::path::PathBuf;
use std::time::Duration;

use traces::Layer;
use traces::results::histograms::SecondOfVm;

use super::attribution::AttributeBy;
use super::device::BlockDevice;
use super::output::Output;
use super::store::Rotate;

/// Settings of a capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The devices to trace.
    pub devices: Vec<BlockDevice>,
    /// The backend's name; the first that works if none is named.
    pub backend: Option<String>,
    /// The trace's destination; for raw captures, the beginning of the files' names.
    pub output: Output,
    /// Keep the kernel's raw data, and write no trace.
    pub raw: bool,
    /// Also keep the kernel's raw data, in files whose names begin so.
    pub raw_too: Option<PathBuf>,
    /// Record scheduler decisions only.
    pub decisions_only: bool,
    /// Write histograms by second and VM, and no trace.
    pub histograms: bool,
    /// Overwrite existing files.
    pub force: bool,
    /// Permit writing onto a traced device.
    pub allow_self_capture: bool,
    /// How requests are attributed to VMs.
    pub vm_by: AttributeBy,
    /// The layer of the trace, instead of guest-queue.
    pub layer: Option<Layer>,
    /// Size of the kernel's buffer for each CPU, in KiB.
    pub buffer_kib: u64,
    /// End after this time.
    pub seconds: Option<Duration>,
    /// End when the trace has this many bytes.
    pub size_bytes: Option<u64>,
    /// End when fewer bytes are free at the destination.
    pub free_bytes: u64,
    /// When a new file begins.
    pub rotate: Option<Rotate>,
    /// The most files, or pieces of a raw capture, that stay when new ones begin; all if none is given.
    pub keep: Option<u32>,
    /// The most CPU time that the capture itself takes, in percent of one CPU.
    pub cpu_percent: Option<f64>,
    /// The most events per second; further ones are dropped.
    pub rate: Option<u64>,
}

/// The size of the kernel's buffer for each CPU, in KiB, if none is asked for.
const BUFFER_KIB: u64 = 16 << 10;

impl CaptureOptions {
    /// A capture of these devices into this output as a trace, by the first backend that works, without limits.
    pub fn new(devices: Vec<BlockDevice>, output: Output) -> CaptureOptions {
        CaptureOptions {
            devices,
            backend: None,
            output,
            raw: false,
            raw_too: None,
            decisions_only: false,
            histograms: false,
            force: false,
            allow_self_capture: false,
            vm_by: AttributeBy::Device,
            layer: None,
            buffer_kib: BUFFER_KIB,
            seconds: None,
            size_bytes: None,
            free_bytes: 0,
            rotate: None,
            keep: None,
            cpu_percent: None,
            rate: None,
        }
    }
}

/// A capture's progress, reported once a second.
#[derive(Clone, Debug)]
pub struct CaptureProgress {
    /// The backend.
    pub backend: &'static str,
    /// Time since the beginning.
    pub lasted: Duration,
    /// Events in the last second.
    pub events_per_second: u64,
    /// Events so far.
    pub events: u64,
    /// Lost events so far.
    pub lost: u64,
    /// Bytes written so far.
    pub written_bytes: u64,
    /// CPU time that the capture has taken, in percent of one CPU.
    pub cpu_percent: f64,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The seconds that have ended since the last report, of an [`Output::Watcher`]. Each has a line, of no request if
    /// there was none.
    pub seconds: Vec<SecondOfVm>,
}
