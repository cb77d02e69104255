//! What a capture switches on in the kernel, and how it is switched off again, by whoever is left to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::backends::blk_tracer::{self, SavedTracer};
use super::backends::tracefs;
use super::error::CaptureError;

/// How the names of our instances begin.
pub(super) const INSTANCE_PREFIX: &str = "iocast-";
/// An instance cannot be removed while somebody reads its files; the kernel closes those of a process that
/// was killed a moment later.
const REMOVE_TRIES: usize = 50;
const REMOVE_TRY_INTERVAL: Duration = Duration::from_millis(20);

/// A process by its number and when it began, so that another of the same number is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// Ticks since the system started.
    pub(super) started: u64,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> Owner {
        let pid = std::process::id();
        Owner { pid, started: started(pid).unwrap_or(0) }
    }

    /// As it stands in names: `PID.START`.
    pub(super) fn name(self) -> String {
        format!("{}.{}", self.pid, self.started)
    }

    pub(super) fn parse(text: &str) -> Option<Owner> {
        let (pid, started) = text.split_once('.')?;
        Some(Owner { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Whether it still runs.
    pub(super) fn lives(self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process began: field 22 of `/proc/PID/stat` (proc(5)); `None` if there is none, or if it is dead
/// and was not waited for.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Switches an instance off and removes it; one that is gone is no error.
pub(super) fn remove_instance(instance: &Path) -> io::Result<()> {
    if !instance.exists() {
        return Ok(());
    }
    // Whatever comes of the removal, nothing is traced any more.
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

/// What was found and done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// Left by a process that is gone, and removed.
    Removed(PathBuf),
    /// Of a process that runs, and left alone.
    InUse(PathBuf, u32),
}

/// Switches off what captures that are gone have left on: their instances, and the tracer `blk`.
///
/// # Errors
/// tracefs that is not there, or not ours to use.
pub fn clean_up() -> Result<Vec<Cleaned>, CaptureError> {
    let root = tracefs::find_root()?;
    let mut found = clean_instances(&root.join("instances"))?;
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
    fn this_process_lives_and_one_of_its_number_that_began_at_another_time_does_not() {
        let owner = Owner::this();
        assert!(owner.lives() && owner.started > 0);
        assert_eq!(Owner::parse(&owner.name()), Some(owner));
        assert!(!Owner { started: owner.started + 1, ..owner }.lives());
        assert!(!Owner { pid: u32::MAX, ..owner }.lives());
        assert_eq!(Owner::parse("12"), None);
    }

    #[test]
    fn only_what_a_capture_that_is_gone_has_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let ours = make(&format!("iocast-{}", Owner::this().name()));
        let others = [make("lab"), make("iocast-"), make("iocast-x.y")];
        assert_eq!(clean_instances(folder.path()).unwrap(), [Cleaned::InUse(ours.clone(), std::process::id())]);
        assert!(ours.exists() && others.iter().all(|path| path.exists()));
    }
}
