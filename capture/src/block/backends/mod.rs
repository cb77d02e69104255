//! The ways to the block layer's events. One file and one row each.

pub(super) mod blk_tracer;
mod blktrace;
pub(super) mod tracefs;

use std::collections::BTreeMap;
use std::path::PathBuf;

use traces::Losses;
use traces::events::Placed;

use super::device::BlockDevice;
use super::error::CaptureError;
use super::supervisor::Supervisor;

/// What is to be traced, and how.
#[derive(Clone, Debug)]
pub struct BackendSetup {
    /// The devices.
    pub devices: Vec<BlockDevice>,
    /// Write what the kernel gives to files that begin so.
    pub raw: Option<PathBuf>,
    /// Give the events, too, where raw files are written.
    pub decode: bool,
    /// Kibibytes of the kernel's buffer for each CPU.
    pub buffer_kib: u64,
    /// Only what a scheduler decides: insert, issue, completion.
    pub decisions_only: bool,
}

/// Gives events while they happen. Dropped, it switches off what it has switched on.
pub trait Backend {
    /// Appends the events that happened since the last sweep, as far as nothing earlier is still to come.
    ///
    /// # Errors
    /// What the kernel or the program says.
    fn sweep(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError>;

    /// Switches tracing off and appends the rest.
    ///
    /// # Errors
    /// As [`Backend::sweep`]; what could not be switched off.
    fn stop(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError>;

    /// The format whose reader the events are as of, and the name of their clock.
    fn format(&self) -> (&'static str, String);

    /// What was lost so far.
    fn losses(&self) -> Losses;

    /// Names of processes by their number.
    fn names(&self) -> BTreeMap<u32, String>;

    /// Adds what is known of the capture, by key.
    fn describe(&self, add: &mut dyn FnMut(&str, String));

    /// What the trace's clock says now, where the kernel tells.
    fn trace_now(&self) -> Option<u64> {
        None
    }

    /// What is to be said since the last time.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Bytes and events that went to files as they are.
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
    /// What it is.
    pub summary: &'static str,
    /// Whether it can be tried here; if not, why.
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
        summary: "the kernel's tracer blk, of which there is one for the whole machine",
        probe: blk_tracer::probe,
        open: blk_tracer::open,
    },
];

/// A backend that works, and why those before it do not.
pub(super) struct ChosenBackend {
    pub(super) name: &'static str,
    pub(super) backend: Box<dyn Backend>,
    pub(super) refused: Vec<(&'static str, String)>,
}

/// Opens the backend of that name, or the first that works.
pub(super) fn choose(
    setup: &BackendSetup,
    named: Option<&str>,
    supervisor: &mut Supervisor,
) -> Result<ChosenBackend, CaptureError> {
    let mut refused = Vec::new();
    for row in BACKENDS.iter().filter(|row| named.is_none_or(|name| row.name == name)) {
        let opened = match (row.probe)(setup) {
            Ok(()) => (row.open)(setup, supervisor).map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        match opened {
            Ok(backend) => return Ok(ChosenBackend { name: row.name, backend, refused }),
            Err(why) => refused.push((row.name, why)),
        }
    }
    let devices: Vec<&str> = setup.devices.iter().map(|device| device.name.as_str()).collect();
    let why: Vec<String> = refused.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    Err(CaptureError::NoBackend { devices: devices.join(", "), why: why.join("; ") })
}
