//! Temporary folders that a killed process does not leave for ever.
//!
//! A process removes its folder when it ends, but for a kill. Each folder is locked by its process, so that the next
//! one, and `iocast capture cleanup`, find those that nobody uses any more.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tempfile::TempDir;

const PREFIX: &str = "iocast-scratch-";
/// A folder that is younger may not be locked yet.
pub(crate) const AGE_MIN: Duration = Duration::from_secs(1);

/// A temporary folder, which only its owner may enter. Dropped, it is removed.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Creates a folder, and removes those that killed processes have left.
    ///
    /// # Errors
    /// The folder for temporary files, which the error names, cannot be written.
    pub fn new() -> io::Result<Scratch> {
        remove_leftovers(AGE_MIN);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        let lock = open(folder.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Scratch { folder, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of this user, at least `age` old, that no process has locked. Returns them.
pub(crate) fn remove_leftovers(age: Duration) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let is_old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().map(|elapsed| elapsed >= age);
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) || is_old() != Some(true) {
            continue;
        }
        let path = entry.path();
        // Another user's cannot be opened, and a link is not followed.
        let unused = open(&path).is_ok_and(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok());
        if unused && fs::remove_dir_all(&path).is_ok() {
            removed.push(path);
        }
    }
    removed.sort();
    removed
}

fn open(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_goes_with_its_owner_and_a_killed_owners_is_found() {
        let own = Scratch::new().unwrap();
        fs::write(own.path().join("file"), "used").unwrap();
        let left = Scratch::new().unwrap();
        fs::write(left.path().join("file"), "left").unwrap();
        // A killed process neither removes its folder nor keeps the lock.
        let Scratch { folder, _lock: lock } = left;
        let left = folder.keep();
        drop(lock);
        let outside = tempfile::tempdir().unwrap();
        let link = std::env::temp_dir().join(format!("{PREFIX}link-{}", std::process::id()));
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();

        assert!(!remove_leftovers(Duration::from_secs(3600)).contains(&left));
        let removed = remove_leftovers(Duration::ZERO);
        assert!(removed.contains(&left) && !left.exists(), "{removed:?}");
        assert!(own.path().join("file").exists() && outside.path().exists());
        fs::remove_file(link).unwrap();
        let path = own.path().to_owned();
        drop(own);
        assert!(!path.exists());
    }
}
