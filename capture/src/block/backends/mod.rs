//! The backends: ways to obtain the block layer's events. One file and one row in [`BACKENDS`] each.

pub(super) mod blk_tracer;
mod blktrace;
mod raw_pages;
pub(super) mod tracefs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use traces::Losses;
use traces::events::Placed;

use super::device::BlockDevice;
use super::error::CaptureError;
use super::supervisor::Supervisor;

/// The events that a capture needs. Each one costs the traced host time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventsNeeded {
    /// Of a request's whole path through the block layer.
    #[default]
    All,
    /// Of scheduler decisions: insert, issue, completion.
    Decisions,
    /// Of device requests: issue, completion, requeue.
    DeviceRequests,
    /// The same, and those by which a device request has the process that queued its first bio.
    QueuedDeviceRequests,
}

/// Settings of a backend.
#[derive(Clone, Debug)]
pub struct BackendSetup {
    /// The devices to trace.
    pub devices: Vec<BlockDevice>,
    /// Write the kernel's raw data to files whose names begin so.
    pub raw: Option<PathBuf>,
    /// The raw files are continued in further pieces ([`Backend::next_piece`]).
    pub rotates: bool,
    /// Also supply the events if raw files are written.
    pub decode: bool,
    /// Size of the kernel's buffer for each CPU, in KiB.
    pub buffer_kib: u64,
    /// The events to supply.
    pub events: EventsNeeded,
}

/// Supplies events while they happen. Dropping it switches tracing off.
pub trait Backend {
    /// Appends the events since the last sweep that no earlier event can precede.
    ///
    /// # Errors
    /// The kernel or the program reports an error.
    fn sweep(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError>;

    /// Pauses until a signal comes, much waits to be read, or `longest` has passed.
    fn wait(&mut self, longest: Duration) {
        sleep(longest);
    }

    /// Ends the raw files and goes on in files whose names begin with `stem`.
    ///
    /// # Errors
    /// A file cannot be written, or the backend has no pieces.
    fn next_piece(&mut self, stem: &Path) -> Result<(), CaptureError> {
        let why = "this backend's raw files cannot be rotated".to_owned();
        Err(CaptureError::Output { path: stem.to_owned(), why })
    }

    /// Switches tracing off and appends the remaining events.
    ///
    /// # Errors
    /// As [`Backend::sweep`]; or tracing could not be switched off.
    fn stop(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError>;

    /// The format whose reader decodes the events, and the name of their clock.
    fn format(&self) -> (&'static str, String);

    /// The losses so far.
    fn losses(&self) -> Losses;

    /// Names of processes by their id.
    fn names(&self) -> BTreeMap<u32, String>;

    /// Adds provenance entries by key.
    fn describe(&self, add: &mut dyn FnMut(&str, String));

    /// The current time of the trace's clock, if the kernel shows it.
    fn trace_now(&self) -> Option<u64> {
        None
    }

    /// New notes for the user.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Bytes and events written to raw files.
    fn raw_written(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// A backend that has begun to trace.
pub type BackendResult = Result<Box<dyn Backend>, CaptureError>;

/// A backend of the registry.
pub struct BackendRow {
    /// Its name on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// Checks whether it can be tried on this host; if not, returns the reason.
    pub probe: fn(&BackendSetup) -> Result<(), String>,
    /// Begins to trace.
    pub open: fn(&BackendSetup, &mut Supervisor) -> BackendResult,
}

/// Every backend, in the order in which they are tried.
pub const BACKENDS: &[BackendRow] = &[
    BackendRow {
        name: "blktrace",
        summary: "the program blktrace, streaming all CPUs",
        probe: blktrace::probe,
        open: blktrace::open,
    },
    BackendRow {
        name: "tracefs",
        summary: "the block layer's tracepoints in a private instance of tracefs",
        probe: tracefs::probe,
        open: tracefs::open,
    },
    BackendRow {
        name: "blk-tracer",
        summary: "the kernel's tracer blk, of which each kernel has one",
        probe: blk_tracer::probe,
        open: blk_tracer::open,
    },
];

/// Sleeps until a signal comes or the time has passed.
pub(super) fn sleep(time: Duration) {
    if let Ok(time) = rustix::time::Timespec::try_from(time) {
        // Returns early after a signal.
        let _ = rustix::thread::nanosleep(&time);
    }
}

/// The chosen backend, and why the previous ones failed.
pub(super) struct ChosenBackend {
    pub(super) name: &'static str,
    pub(super) backend: Box<dyn Backend>,
    pub(super) refused: Vec<(&'static str, String)>,
}

/// Opens the named backend, or the first that works and has not been `refused` yet.
pub(super) fn choose(
    setup: &BackendSetup,
    named: Option<&str>,
    mut refused: Vec<(&'static str, String)>,
    supervisor: &mut Supervisor,
) -> Result<ChosenBackend, CaptureError> {
    let tried: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    let is_candidate = |row: &&BackendRow| named.is_none_or(|name| row.name == name) && !tried.contains(&row.name);
    for row in BACKENDS.iter().filter(is_candidate) {
        let opened = match (row.probe)(setup) {
            Ok(()) => (row.open)(setup, supervisor).map_err(CaptureError::of_backend),
            Err(why) => Err(why),
        };
        match opened {
            Ok(backend) => return Ok(ChosenBackend { name: row.name, backend, refused }),
            Err(why) => refused.push((row.name, why)),
        }
    }
    Err(refuse(setup, named, &refused))
}

/// The error if no backend works, or if the named one does not.
pub(super) fn refuse(setup: &BackendSetup, named: Option<&str>, refused: &[(&'static str, String)]) -> CaptureError {
    let devices: Vec<&str> = setup.devices.iter().map(|device| device.name.as_str()).collect();
    let devices = devices.join(", ");
    match (named, refused) {
        (Some(_), [(name, why)]) => CaptureError::NamedBackend { name, devices, why: why.clone() },
        _ => {
            let why: Vec<String> = refused.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            CaptureError::NoBackend { devices, why: why.join("; ") }
        }
    }
}
