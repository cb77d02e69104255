//! A file that takes its name only when it is complete, and that an ended process does not leave behind.
//!
//! The file has no name (`O_TMPFILE`), so that the kernel removes it with the process that wrote it. A file system
//! without such files (NFS, FUSE) gets a hidden temporary name instead. It is removed at a signal
//! ([`remove_unfinished`]) or, if its process was killed, by the next file that begins in the same folder.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat};

use crate::error::{WriteError, WriteProblem};

/// The name of standard output.
pub(crate) const STANDARD_OUTPUT: &str = "-";
const PREFIX: &str = ".iocast-";
const SUFFIX: &str = ".part";
/// The folder through which a file without a name gets one.
const OPEN_FILES: &str = "/proc/self/fd";

/// The temporary names that this process uses.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// Distinguishes them.
static NUMBER: AtomicU64 = AtomicU64::new(0);

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the unfinished outputs of this process, before a signal ends it.
pub fn remove_unfinished() {
    for path in std::mem::take(&mut *unfinished()) {
        // The next file in this folder retries a failure.
        let _ = fs::remove_file(path);
    }
}

/// A file that has no name, or a temporary one, until [`WholeFile::finish`]. Dropped before that, it is removed.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    file: File,
    /// Whether a file stood there when this one began. A file that appears later is not replaced.
    replaces: bool,
    temporary: Option<Temporary>,
}

/// A temporary name, which is removed when it is dropped.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    /// A name in `folder` that no other file of this process has. It carries the process id.
    fn new(folder: &Path) -> Temporary {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{PREFIX}{}-{number}{SUFFIX}", std::process::id()));
        unfinished().insert(path.clone());
        Temporary(path)
    }

    /// Gives the file another name that nothing has.
    ///
    /// # Errors
    /// `AlreadyExists`: something has it.
    fn link(&self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.0, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists || path.symlink_metadata().is_ok() => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            // A file system without links.
            Err(_) => fs::rename(&self.0, path),
            linked => linked,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if unfinished().remove(&self.0) {
            // A renamed file no longer has this name.
            let _ = fs::remove_file(&self.0);
        }
    }
}

impl WholeFile {
    /// Begins a file that will be `path`. When it is finished, it replaces what stands there now, but no file that
    /// appears in the meantime.
    ///
    /// # Errors
    /// Standard output; a path at which something stands that is no regular file; a folder that
    /// does not exist or cannot be written to.
    pub fn create(path: &Path) -> Result<WholeFile, WriteError> {
        if path == Path::new(STANDARD_OUTPUT) {
            let what = "this format is written to files only; text formats go to standard output too";
            return Err(WriteError::new(path, WriteProblem::NotAFile(what)));
        }
        // Renaming onto a device node or a pipe would replace it, not write to it.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(WriteError::new(path, WriteProblem::NotAFile("what stands there is no regular file")));
        }
        remove_leftovers(folder_of(path));
        let begun = WholeFile::without_name(path).or_else(|_| WholeFile::with_temporary_name(path));
        begun.map_err(|error| WriteError::new(path, WriteProblem::Io(error)))
    }

    /// Fails if the file system has no such files, or if /proc, which gives them a name, is missing.
    fn without_name(path: &Path) -> io::Result<WholeFile> {
        fs::metadata(OPEN_FILES)?;
        // As any other new file: what the umask leaves of rw-rw-rw-, not only for its owner.
        let mode = Mode::from_raw_mode(0o666);
        let file = rustix::fs::open(folder_of(path), OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode)?;
        Ok(WholeFile { path: path.to_owned(), file: lock(file.into()), replaces: path.exists(), temporary: None })
    }

    fn with_temporary_name(path: &Path) -> io::Result<WholeFile> {
        let temporary = Temporary::new(folder_of(path));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&temporary.0)?;
        Ok(WholeFile { path: path.to_owned(), file: lock(file), replaces: path.exists(), temporary: Some(temporary) })
    }

    /// Another handle of the file, for a writer that keeps what it writes to.
    ///
    /// # Errors
    /// No further file can be opened.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Makes the contents durable and gives the file its name.
    ///
    /// # Errors
    /// The file system's; a file that has appeared under this name. The contents then have a similar name, which the
    /// error tells.
    pub fn finish(self) -> Result<(), WriteError> {
        let fail = |problem| WriteError::new(&self.path, problem);
        let io = |error| fail(WriteProblem::Io(error));
        self.file.sync_all().map_err(io)?;
        if self.replaces {
            return self.replace().map_err(io);
        }
        match self.link(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(fail(WriteProblem::Appeared(self.link_beside().map_err(io)?)))
            }
            linked => linked.map_err(io),
        }
    }

    /// The same for a file that several processes may make at a time, each with the same contents: whichever is first
    /// makes it.
    ///
    /// # Errors
    /// The file system's; other contents that have appeared under this name.
    pub fn finish_once(mut self) -> Result<(), WriteError> {
        let path = self.path.clone();
        let io = |error| WriteError::new(&path, WriteProblem::Io(error));
        self.file.sync_all().map_err(io)?;
        let linked = if self.replaces { self.replace() } else { self.link(&path) };
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match self.has_bytes_of(&path).map_err(io)? {
                true => Ok(()),
                false => Err(WriteError::new(&path, WriteProblem::Differs)),
            },
            linked => linked.map_err(io),
        }
    }

    /// Whether the file at `path` has the same bytes.
    fn has_bytes_of(&mut self, path: &Path) -> io::Result<bool> {
        self.file.seek(SeekFrom::Start(0))?;
        let (mut own, mut other) = (BufReader::new(&self.file), BufReader::new(File::open(path)?));
        loop {
            let (one, two) = (own.fill_buf()?, other.fill_buf()?);
            let bytes = one.len().min(two.len());
            if bytes == 0 {
                return Ok(one.len() == two.len());
            }
            if one[..bytes] != two[..bytes] {
                return Ok(false);
            }
            own.consume(bytes);
            other.consume(bytes);
        }
    }

    /// Gives the file its name, which something may have.
    fn replace(&self) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            return fs::rename(&temporary.0, &self.path);
        }
        let temporary = Temporary::new(folder_of(&self.path));
        self.link(&temporary.0)?;
        fs::rename(&temporary.0, &self.path)
    }

    /// Gives the file a name that nothing has.
    ///
    /// # Errors
    /// `AlreadyExists`: something has it.
    fn link(&self, path: &Path) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            return temporary.link(path);
        }
        let open = Path::new(OPEN_FILES).join(self.file.as_raw_fd().to_string());
        Ok(linkat(CWD, &open, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Gives the file its name with the first number that makes it free.
    fn link_beside(&self) -> io::Result<PathBuf> {
        let mut number = 1;
        loop {
            let mut path = self.path.clone().into_os_string();
            path.push(format!(".{number}"));
            match self.link(Path::new(&path)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                linked => return linked.map(|()| PathBuf::from(path)),
            }
        }
    }
}

/// Writes a file as a whole: it has all of `bytes` or does not exist.
///
/// # Errors
/// As [`WholeFile::create`] and [`WholeFile::finish`], and the file system's.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes).map_err(|error| WriteError::new(path, WriteProblem::Io(error)))?;
    file.finish()
}

/// Marks the file as in use, for [`remove_leftovers`] of other processes.
fn lock(file: File) -> File {
    // A file system without locks keeps its leftovers.
    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
    file
}

/// Removes temporary files of ended processes. A process of another host or container is not in /proc, but it holds the
/// lock of its file.
fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if owner(&entry.file_name().to_string_lossy()).is_none_or(lives) {
            continue;
        }
        let path = entry.path();
        // Neither follows a link nor waits at a pipe that has such a name.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        if opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            // A folder that cannot be written to refuses the new file, too.
            let _ = fs::remove_file(&path);
        }
    }
}

/// The process id in a temporary name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?.0.parse().ok()
}

fn lives(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    type Begin = fn(&Path) -> io::Result<WholeFile>;
    const WAYS: [Begin; 2] = [WholeFile::without_name, WholeFile::with_temporary_name];

    #[test]
    fn file_has_its_name_when_it_is_finished_and_replaces_what_is_there() {
        for begin in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace");
            for text in ["first", "second"] {
                let mut file = begin(&path).unwrap();
                file.write_all(text.as_bytes()).unwrap();
                assert_ne!(fs::read_to_string(&path).unwrap_or_default(), text);
                file.finish().unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
                assert_eq!(names(folder.path()), ["trace"]);
            }
            // As readable as any other new file.
            let other = folder.path().join("other");
            File::create(&other).unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode(&path), mode(&other));
        }
    }

    #[test]
    fn file_that_appears_meanwhile_is_kept_and_so_is_the_result() {
        for begin in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace");
            for result in ["trace.1", "trace.2"] {
                let mut file = begin(&path).unwrap();
                file.write_all(result.as_bytes()).unwrap();
                fs::write(&path, "another's").unwrap();
                let said = file.finish().unwrap_err().to_string();
                assert!(said.ends_with(&format!(
                    "not overwritten; the result is in {}",
                    path.with_file_name(result).display()
                )));
                assert_eq!(fs::read_to_string(path.with_file_name(result)).unwrap(), result);
                assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
                fs::remove_file(&path).unwrap();
            }
            assert_eq!(names(folder.path()), ["trace.1", "trace.2"]);
        }
    }

    #[test]
    fn file_that_several_make_is_made_by_the_first_of_them() {
        for begin in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("part");
            let made = |bytes: &[u8]| {
                let mut file = begin(&path).unwrap();
                file.write_all(bytes).unwrap();
                file
            };
            // More than a buffer of them.
            let bytes = vec![7; 100_000];
            let (first, second) = (made(&bytes), made(&bytes));
            let mut unlike: Vec<WholeFile> = [&bytes[1..], b"", &[&bytes[1..], b"8"].concat()].map(made).into();
            first.finish_once().unwrap();
            second.finish_once().unwrap();
            for other in unlike.drain(..) {
                let said = other.finish_once().unwrap_err().to_string();
                assert!(said.contains("another process has written other contents there"), "{said}");
            }
            assert!(fs::read(&path).unwrap() == bytes && names(folder.path()) == ["part"]);
            // It replaces what stood there before, as any other.
            made(b"new").finish_once().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
    }

    #[test]
    fn unfinished_file_vanishes_when_it_is_dropped() {
        for begin in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let mut file = begin(&folder.path().join("trace")).unwrap();
            file.write_all(b"half").unwrap();
            drop(file);
            assert!(names(folder.path()).is_empty());
        }
    }

    #[test]
    fn leftovers_of_ended_processes_are_removed_and_files_in_use_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let of = |number: u32| format!("{PREFIX}{}-{number}{SUFFIX}", ended.id());
        fs::write(folder.path().join(of(0)), "left").unwrap();
        // As of a process on another host: not in /proc, but it holds the lock.
        let far = lock(File::create(folder.path().join(of(1))).unwrap());
        for other in [".iocast-notes.part", "mine.part"] {
            fs::write(folder.path().join(other), "not ours").unwrap();
        }
        let own = WholeFile::with_temporary_name(&folder.path().join("own")).unwrap();
        WholeFile::create(&folder.path().join("trace")).unwrap().finish().unwrap();
        let left = names(folder.path());
        assert!(!left.contains(&of(0)), "{left:?}");
        assert_eq!(left.len(), 5, "{left:?}");
        assert!(left.contains(&of(1)), "{left:?}");
        drop((own, far));
    }

    #[test]
    fn error_names_the_file_that_was_asked_for() {
        let error = WholeFile::create(Path::new("/no/such/folder/trace.csv")).err().unwrap().to_string();
        assert_eq!(error, "cannot write /no/such/folder/trace.csv: No such file or directory (os error 2)");
    }
}
