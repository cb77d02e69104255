//! The kernel's tracer `blk`, which emits blktrace's records with its option `bin`. Each kernel has one such tracer. It
//! is refused while another program uses it, and its previous state is restored afterwards. Source: Linux 6.18,
//! `kernel/trace/blktrace.c` (`blk_tracer_flags`, `blk_tracer_print_line`), `Documentation/ABI/testing/sysfs-block`
//! (`trace/enable`).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use traces::Losses;
use traces::events::Placed;
use traces::formats::blktrace::{FORMAT, LiveRecords};

use super::tracefs::find_root;
use super::{Backend, BackendSetup};
use crate::block::clocks::monotonic;
use crate::block::error::CaptureError;
use crate::block::restore::Owner;
use crate::block::supervisor::Supervisor;

/// Settings that are changed at the top of tracefs, in the order of restoring, with their new values.
const TRACER_SETTINGS: [(&str, &str); 7] = [
    ("current_tracer", "blk"),
    ("trace_clock", "mono"),
    ("options/bin", "1"),
    ("options/blk_classic", "0"),
    ("options/context-info", "0"),
    ("options/overwrite", "0"),
    ("tracing_on", "1"),
];
/// As for the buffers of an instance (`tracefs.rs`), in nanoseconds.
const EVENT_SETTLING_NS: u64 = 50_000_000;
const READ_BUFFER_BYTES: usize = 1 << 16;

/// The file that keeps the previous settings while the tracer is in use.
pub(in crate::block) fn state_file() -> PathBuf {
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let run = Path::new("/run/iocast");
    let usable =
        fs::create_dir_all(run).is_ok() && fs::metadata(run).is_ok_and(|found| !found.permissions().readonly());
    let folder = if usable { run.to_owned() } else { user.unwrap_or_else(std::env::temp_dir) };
    folder.join("iocast-blk-tracer.json")
}

/// The previous settings.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::block) struct SavedTracer {
    owner: String,
    /// Files and their contents, in the order of restoring.
    files: Vec<(PathBuf, String)>,
}

impl SavedTracer {
    /// Reads the settings that will be changed.
    fn take(root: &Path, setup: &BackendSetup) -> Result<SavedTracer, CaptureError> {
        let mut paths: Vec<PathBuf> = setup.devices.iter().map(|device| device.folder.join("trace/enable")).collect();
        paths.extend(TRACER_SETTINGS.iter().map(|(name, _)| root.join(name)));
        paths.push(root.join("buffer_size_kb"));
        let files = paths.into_iter().map(|path| match fs::read_to_string(&path) {
            Ok(text) => Ok((path, chosen(&text))),
            Err(error) => Err(CaptureError::io(&path, error)),
        });
        Ok(SavedTracer { owner: Owner::this().name(), files: files.collect::<Result<_, _>>()? })
    }

    pub(in crate::block) fn load(path: &Path) -> io::Result<Option<SavedTracer>> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn store(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_vec(self).map_err(io::Error::other)?)
    }

    pub(in crate::block) fn owner(&self) -> Option<Owner> {
        Owner::parse(&self.owner)
    }

    /// Restores everything; a failure does not stop the rest.
    pub(in crate::block) fn restore(&self) -> io::Result<()> {
        let mut first = Ok(());
        for (path, text) in &self.files {
            let written = fs::write(path, text);
            // A vanished device needs no restoring.
            let is_gone = matches!(&written, Err(error) if error.kind() == io::ErrorKind::NotFound);
            if first.is_ok() && !is_gone {
                first = written;
            }
        }
        first
    }
}

/// The chosen value: the word in brackets of `local [mono] boot`, or the first word.
fn chosen(text: &str) -> String {
    let bracketed = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    bracketed.or_else(|| text.split_whitespace().next()).unwrap_or_default().to_owned()
}

pub(super) fn probe(setup: &BackendSetup) -> Result<(), String> {
    if setup.raw.is_some() {
        return Err("this backend keeps no raw data; use --backend tracefs or blktrace".to_owned());
    }
    let root = find_root().map_err(|error| error.to_string())?;
    let tracers = root.join("available_tracers");
    let text = fs::read_to_string(&tracers).map_err(|error| CaptureError::io(&tracers, error).to_string())?;
    if !text.split_whitespace().any(|name| name == "blk") {
        return Err("the kernel has no tracer blk (CONFIG_BLK_DEV_IO_TRACE)".to_owned());
    }
    check_idle(&root).map_err(|error| error.to_string())
}

/// Refuses a tracer or events that another program uses.
fn check_idle(root: &Path) -> Result<(), CaptureError> {
    for (name, idle) in [("current_tracer", "nop"), ("set_event", "")] {
        let path = root.join(name);
        let text = fs::read_to_string(&path).map_err(|error| CaptureError::io(&path, error))?;
        let used = text.lines().next().unwrap_or_default().trim().to_owned();
        if used != idle {
            return Err(CaptureError::Busy { path, tracer: used });
        }
    }
    Ok(())
}

pub(super) fn open(setup: &BackendSetup, supervisor: &mut Supervisor) -> Result<Box<dyn Backend>, CaptureError> {
    let root = find_root()?;
    check_idle(&root)?;
    let state = state_file();
    let saved = SavedTracer::take(&root, setup)?;
    let fail = |error| CaptureError::io(&state, error);
    saved.store(&state).map_err(fail)?;
    supervisor.blk_tracer(&state).map_err(fail)?;
    let switched = TracerGuard { saved, state };
    let size = root.join("buffer_size_kb");
    fs::write(&size, setup.buffer_kib.to_string()).map_err(|error| CaptureError::io(&size, error))?;
    for (name, value) in TRACER_SETTINGS {
        let path = root.join(name);
        fs::write(&path, value).map_err(|error| CaptureError::io(&path, error))?;
    }
    for device in &setup.devices {
        let path = device.folder.join("trace/enable");
        fs::write(&path, "1").map_err(|error| CaptureError::io(&path, error))?;
    }
    let path = root.join("trace_pipe");
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let pipe = OpenOptions::new().read(true).custom_flags(flags).open(&path);
    let pipe = pipe.map_err(|error| CaptureError::io(&path, error))?;
    let lost_before = lost(&root);
    let (records, buffer) = (LiveRecords::new(), vec![0; READ_BUFFER_BYTES]);
    Ok(Box::new(BlkTracer {
        pipe: Some(pipe),
        switched: Some(switched),
        root,
        path,
        records,
        buffer,
        lost: lost_before,
    }))
}

/// Restores the previous settings when it is dropped.
struct TracerGuard {
    saved: SavedTracer,
    state: PathBuf,
}

impl Drop for TracerGuard {
    fn drop(&mut self) {
        // `iocast capture cleanup` can retry a failed restoration.
        if self.saved.restore().is_ok() {
            let _ = fs::remove_file(&self.state);
        }
    }
}

struct BlkTracer {
    // Declared first, so that it is closed before the settings are restored: the tracer cannot be changed while its
    // pipe is open.
    pipe: Option<File>,
    switched: Option<TracerGuard>,
    root: PathBuf,
    path: PathBuf,
    records: LiveRecords,
    buffer: Vec<u8>,
    lost: u64,
}

impl BlkTracer {
    fn read(&mut self) -> Result<(), CaptureError> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        loop {
            match pipe.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => self.records.hand(&self.buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(CaptureError::io(&self.path, error)),
            }
        }
    }

    fn count_lost(&mut self) {
        let lost = lost(&self.root);
        self.records.lost(lost.saturating_sub(self.lost));
        self.lost = self.lost.max(lost);
    }
}

/// Events that the top-level buffers could not hold.
fn lost(root: &Path) -> u64 {
    let folders = fs::read_dir(root.join("per_cpu")).into_iter().flatten().flatten();
    folders
        .filter_map(|entry| fs::read_to_string(entry.path().join("stats")).ok())
        .map(|stats| super::tracefs::lost(&stats))
        .sum()
}

impl Backend for BlkTracer {
    fn sweep(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError> {
        let complete = monotonic().saturating_sub(EVENT_SETTLING_NS);
        self.read()?;
        self.count_lost();
        self.records.release(complete, events);
        Ok(())
    }

    fn stop(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError> {
        let Some(switched) = self.switched.take() else { return Ok(()) };
        // The buffers' contents are lost when the tracer changes.
        let path = self.root.join("tracing_on");
        fs::write(&path, "0").map_err(|error| CaptureError::io(&path, error))?;
        self.read()?;
        self.count_lost();
        self.records.release(u64::MAX, events);
        self.pipe = None;
        switched.saved.restore().map_err(|error| CaptureError::io(&self.root, error))
    }

    fn format(&self) -> (&'static str, String) {
        (FORMAT.name, "trace clock mono".to_owned())
    }

    fn losses(&self) -> Losses {
        self.records.losses().clone()
    }

    fn names(&self) -> BTreeMap<u32, String> {
        self.records.names().clone()
    }

    fn describe(&self, add: &mut dyn FnMut(&str, String)) {
        self.records.describe(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::backends::EventsNeeded;

    #[test]
    fn busy_tracer_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("current_tracer"), "function\n").unwrap();
        fs::write(root.join("set_event"), "").unwrap();
        let message = check_idle(root).unwrap_err().to_string();
        assert!(message.contains("the tracer `function` is in use by another program"), "{message}");
        fs::write(root.join("current_tracer"), "nop\n").unwrap();
        assert!(check_idle(root).is_ok());
        fs::write(root.join("set_event"), "sched:sched_switch\n").unwrap();
        assert!(check_idle(root).unwrap_err().to_string().contains("sched:sched_switch"));
    }

    #[test]
    fn previous_settings_are_restored() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("options")).unwrap();
        for (name, _) in TRACER_SETTINGS {
            fs::write(root.join(name), "0\n").unwrap();
        }
        fs::write(root.join("current_tracer"), "nop\n").unwrap();
        fs::write(root.join("trace_clock"), "[local] global mono\n").unwrap();
        fs::write(root.join("buffer_size_kb"), "7 (expanded: 1408)\n").unwrap();
        let setup = BackendSetup {
            devices: Vec::new(),
            raw: None,
            rotates: false,
            decode: true,
            buffer_kib: 1024,
            events: EventsNeeded::All,
        };
        SavedTracer::take(root, &setup).unwrap().store(&root.join("state")).unwrap();
        for (name, value) in TRACER_SETTINGS {
            fs::write(root.join(name), value).unwrap();
        }
        let saved = SavedTracer::load(&root.join("state")).unwrap().unwrap();
        assert_eq!(saved.owner(), Some(Owner::this()));
        saved.restore().unwrap();
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        assert_eq!((read("current_tracer"), read("trace_clock")), ("nop".to_owned(), "local".to_owned()));
        assert_eq!((read("options/bin"), read("buffer_size_kb")), ("0".to_owned(), "7".to_owned()));
        assert!(SavedTracer::load(&root.join("none")).unwrap().is_none());
    }
}
