//! An instance of tracefs: its settings, the tracepoints that are switched on, and the descriptions that its pages need.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::super::{BackendSetup, EventsNeeded};
use crate::block::error::CaptureError;
use crate::block::restore::remove_instance;

/// Tracepoints of a request's path through the block layer; a kernel may lack some.
pub(super) const EVENTS: [&str; 11] = [
    "block_bio_queue",
    "block_bio_complete",
    "block_bio_backmerge",
    "block_bio_frontmerge",
    "block_getrq",
    "block_split",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_merge",
    "block_rq_requeue",
    "block_rq_complete",
];
/// The tracepoints of scheduler decisions.
const DECISION_EVENTS: [&str; 5] =
    ["block_rq_insert", "block_rq_issue", "block_rq_merge", "block_rq_requeue", "block_rq_complete"];
/// The tracepoints of device requests.
const DEVICE_REQUEST_EVENTS: [&str; 3] = ["block_rq_issue", "block_rq_requeue", "block_rq_complete"];
/// The same, and those by which a device request has the process that queued its first bio.
const QUEUED_DEVICE_REQUEST_EVENTS: [&str; 6] = [
    "block_bio_frontmerge",
    "block_getrq",
    "block_rq_issue",
    "block_rq_merge",
    "block_rq_requeue",
    "block_rq_complete",
];

/// More bytes than any of the kernel's format descriptions has.
const DESCRIPTION_BYTES_MAX: usize = 1 << 16;

/// An instance, removed when it is dropped.
pub(super) struct Instance(pub(super) PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        // The supervisor, or `iocast capture cleanup`, retries a failure.
        let _ = remove_instance(&self.0);
    }
}

/// Writes a setting of tracefs.
pub(super) fn set(folder: &Path, name: &str, value: &str) -> Result<(), CaptureError> {
    let path = folder.join(name);
    fs::write(&path, value).map_err(|error| CaptureError::io(&path, error))
}

/// Switches the events of the devices on.
pub(super) fn enable(instance: &Path, setup: &BackendSetup) -> Result<(), CaptureError> {
    let terms: Vec<String> = setup.devices.iter().map(|device| format!("dev == {}", device.number)).collect();
    let events: &[&str] = match setup.events {
        EventsNeeded::All => &EVENTS,
        EventsNeeded::Decisions => &DECISION_EVENTS,
        EventsNeeded::DeviceRequests => &DEVICE_REQUEST_EVENTS,
        EventsNeeded::QueuedDeviceRequests => &QUEUED_DEVICE_REQUEST_EVENTS,
    };
    for event in events {
        let name = format!("events/block/{event}");
        if instance.join(&name).exists() {
            set(instance, &format!("{name}/filter"), &terms.join(" || "))?;
            set(instance, &format!("{name}/enable"), "1")?;
        }
    }
    Ok(())
}

/// Saves the descriptions that are needed to decode pages.
pub(super) fn save_formats(instance: &Path, folder: &Path) -> Result<(), CaptureError> {
    let copy = |from: PathBuf, to: PathBuf| {
        let text = read_at_once(&from).map_err(|error| CaptureError::io(&from, error))?;
        let parent = to.parent().unwrap_or(folder);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&to, text));
        written.map_err(|error| CaptureError::io(&to, error))
    };
    let events = instance.join("events");
    for name in ["header_page", "header_event"] {
        // The instance's own descriptions, if any: its page size may differ.
        let own = events.join(name);
        let root = instance.join("../../events").join(name);
        copy(if own.exists() { own } else { root }, folder.join(name))?;
    }
    for event in EVENTS {
        let from = events.join("block").join(event).join("format");
        if from.exists() {
            copy(from, folder.join("block").join(event).join("format"))?;
        }
    }
    copy(instance.join("trace_clock"), folder.join("trace_clock"))?;
    copy(PathBuf::from("/proc/sys/kernel/osrelease"), folder.join("kernel"))
}

/// Reads a file that the kernel returns completely in one read, and empty in a second (`header_page`).
fn read_at_once(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut text = vec![0; DESCRIPTION_BYTES_MAX];
    let mut filled = 0;
    while filled < text.len() {
        match file.read(&mut text[filled..])? {
            0 => break,
            more => filled += more,
        }
    }
    text.truncate(filled);
    Ok(text)
}
