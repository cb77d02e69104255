//! A small process that outlives the capture and switches off the tracing that a killed capture has left on.
//!
//! The capture writes a line to a pipe before it switches anything on, and `done` once all is off again. If the pipe
//! closes without `done`, the capture was killed.

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::backends::blk_tracer::SavedTracer;
use super::error::CaptureError;
use super::restore::remove_instance;

const INSTANCE: &str = "instance ";
const BLK_TRACER: &str = "blk-tracer ";
const DONE: &str = "done";

/// The capture's side: the process, and the pipe to it.
pub struct Supervisor {
    child: Child,
    pipe: ChildStdin,
}

impl Supervisor {
    /// Starts the supervising process in a process group of its own. `command` must call [`supervise`] on its standard
    /// input and ignore the signals that end a capture.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(mut command: Command) -> Result<Supervisor, CaptureError> {
        let program = PathBuf::from(command.get_program());
        let fail = |error| CaptureError::io(&program, error);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(fail)?;
        let pipe = child.stdin.take().ok_or_else(|| fail(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Supervisor { child, pipe })
    }

    /// Announces that this instance will be created.
    ///
    /// # Errors
    /// The supervisor has ended.
    pub(super) fn instance(&mut self, path: &Path) -> io::Result<()> {
        writeln!(self.pipe, "{INSTANCE}{}", path.display())
    }

    /// Announces that the tracer `blk` will be used; the file holds its previous state.
    ///
    /// # Errors
    /// The supervisor has ended.
    pub(super) fn blk_tracer(&mut self, saved: &Path) -> io::Result<()> {
        writeln!(self.pipe, "{BLK_TRACER}{}", saved.display())
    }

    /// Reports that all is off again, and waits for the process to end.
    pub fn dismiss(self) {
        let Supervisor { mut child, mut pipe } = self;
        // A supervisor that has ended needs no message.
        let _ = writeln!(pipe, "{DONE}");
        drop(pipe);
        let _ = child.wait();
    }
}

/// Reads the capture's lines until `done` or the end of the pipe. Without `done`, switches off everything announced.
/// Returns the paths that were still on.
///
/// # Errors
/// Something could not be switched off.
pub fn supervise(announcements: impl BufRead) -> Result<Vec<PathBuf>, CaptureError> {
    let mut announced = Vec::new();
    for line in announcements.lines() {
        match line {
            Ok(line) if line == DONE => return Ok(Vec::new()),
            Ok(line) => announced.push(line),
            Err(_) => break,
        }
    }
    let mut restored = Vec::new();
    for line in announced {
        if let Some(path) = line.strip_prefix(INSTANCE).map(PathBuf::from) {
            if path.exists() {
                remove_instance(&path).map_err(|error| CaptureError::io(&path, error))?;
                restored.push(path);
            }
        } else if let Some(path) = line.strip_prefix(BLK_TRACER).map(PathBuf::from) {
            let fail = |error| CaptureError::io(&path, error);
            if let Some(saved) = SavedTracer::load(&path).map_err(fail)? {
                saved.restore().map_err(fail)?;
                fs::remove_file(&path).map_err(fail)?;
                restored.push(path);
            }
        }
    }
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like an instance. In tracefs its files vanish with it.
    fn instance(folder: &Path) -> PathBuf {
        let path = folder.join("iocast-1.1");
        fs::create_dir_all(path.join("events")).unwrap();
        fs::write(path.join("tracing_on"), "1").unwrap();
        path
    }

    #[test]
    fn killed_capture_is_switched_off_and_finished_one_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = instance(folder.path());
        let order = format!("instance {}\n", path.display());
        assert!(supervise(format!("{order}done\n").as_bytes()).unwrap().is_empty());
        assert_eq!(fs::read_to_string(path.join("tracing_on")).unwrap(), "1");
        // A real folder with files cannot be removed; in tracefs it can.
        assert!(supervise(order.as_bytes()).is_err());
        assert_eq!(fs::read_to_string(path.join("tracing_on")).unwrap(), "0");
        assert_eq!(fs::read_to_string(path.join("events/enable")).unwrap(), "0");
        fs::remove_dir_all(&path).unwrap();
        assert!(supervise(order.as_bytes()).unwrap().is_empty());
    }
}
