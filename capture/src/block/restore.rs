//! Undoes a capture's changes in the kernel: run by the capture itself, its supervisor or `iocast capture cleanup`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::backends::blk_tracer::{self, SavedTracer};
use super::backends::tracefs;
use super::error::CaptureError;
use crate::scratch::{AGE_MIN, remove_leftovers};

/// Prefix of the names of our trace instances.
pub(super) const INSTANCE_PREFIX: &str = "iocast-";
/// Attempts to remove an instance. It cannot be removed while its files are open; the kernel closes the files of a
/// killed process a moment later.
const REMOVE_TRIES: usize = 50;
const REMOVE_TRY_INTERVAL: Duration = Duration::from_millis(20);

/// A process, identified by its id and start time, so that a later process with the same id is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// Start time in ticks since boot.
    pub(super) started: u64,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> Owner {
        let pid = std::process::id();
        Owner { pid, started: started(pid).unwrap_or(0) }
    }

    /// The text in instance names: `PID.START`.
    pub(super) fn name(self) -> String {
        format!("{}.{}", self.pid, self.started)
    }

    pub(super) fn parse(text: &str) -> Option<Owner> {
        let (pid, started) = text.split_once('.')?;
        Some(Owner { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Whether the process still runs.
    pub(super) fn lives(self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// The start time of a process: field 22 of `/proc/PID/stat` (proc(5)). `None` if there is no such process, or it is a
/// zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Switches an instance off and removes it. A missing instance is no error.
pub(super) fn remove_instance(instance: &Path) -> io::Result<()> {
    if !instance.exists() {
        return Ok(());
    }
    // Tracing stops even if the removal fails.
    fs::write(instance.join("tracing_on"), "0")?;
    fs::write(instance.join("events/enable"), "0")?;
    let mut tries = REMOVE_TRIES;
    loop {
        match fs::remove_dir(instance) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) if tries > 0 => thread::sleep(REMOVE_TRY_INTERVAL),
            Err(error) => return Err(error),
        }
        tries -= 1;
    }
}

/// An object that `clean_up` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// Left by a process that has ended; it was removed.
    Removed(PathBuf),
    /// Used by a running process; it was left alone.
    InUse(PathBuf, u32),
}

/// Removes what ended captures and labs have left: temporary folders, instances of the kernel's tracing, and the tracer
/// `blk`, which it switches off.
///
/// # Errors
/// tracefs is not mounted, or not accessible. The temporary folders are removed even so.
pub fn clean_up() -> Result<Vec<Cleaned>, CaptureError> {
    let mut found: Vec<Cleaned> = remove_leftovers(AGE_MIN).into_iter().map(Cleaned::Removed).collect();
    let root = tracefs::find_root()?;
    found.extend(clean_instances(&root.join("instances"))?);
    found.extend(clean_blk_tracer()?);
    Ok(found)
}

fn clean_instances(folder: &Path) -> Result<Vec<Cleaned>, CaptureError> {
    let fail = |error| CaptureError::io(folder, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(owner) = name.strip_prefix(INSTANCE_PREFIX).and_then(Owner::parse) else { continue };
        if owner.lives() {
            found.push(Cleaned::InUse(path.clone(), owner.pid));
        } else {
            remove_instance(&path).map_err(|error| CaptureError::io(&path, error))?;
            found.push(Cleaned::Removed(path.clone()));
        }
    }
    found.sort_by_key(|cleaned| match cleaned {
        Cleaned::Removed(path) | Cleaned::InUse(path, _) => path.clone(),
    });
    Ok(found)
}

fn clean_blk_tracer() -> Result<Option<Cleaned>, CaptureError> {
    let path = blk_tracer::state_file();
    let Some(saved) = SavedTracer::load(&path).map_err(|error| CaptureError::io(&path, error))? else {
        return Ok(None);
    };
    if saved.owner().is_some_and(Owner::lives) {
        return Ok(Some(Cleaned::InUse(path, saved.owner().map_or(0, |owner| owner.pid))));
    }
    saved.restore().map_err(|error| CaptureError::io(&path, error))?;
    fs::remove_file(&path).map_err(|error| CaptureError::io(&path, error))?;
    Ok(Some(Cleaned::Removed(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_identified_by_id_and_start_time() {
        let owner = Owner::this();
        assert!(owner.lives() && owner.started > 0);
        assert_eq!(Owner::parse(&owner.name()), Some(owner));
        assert!(!Owner { started: owner.started + 1, ..owner }.lives());
        assert!(!Owner { pid: u32::MAX, ..owner }.lives());
        assert_eq!(Owner::parse("12"), None);
    }

    #[test]
    fn instances_of_running_captures_and_of_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let running = make(&format!("iocast-{}", Owner::this().name()));
        let others = [make("lab"), make("iocast-"), make("iocast-x.y")];
        assert_eq!(clean_instances(folder.path()).unwrap(), [Cleaned::InUse(running.clone(), std::process::id())]);
        assert!(running.exists() && others.iter().all(|path| path.exists()));
    }
}
