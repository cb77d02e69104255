//! A small process beside the capture that outlives it and switches off what it leaves on.
//!
//! It is told what is about to be switched on, by lines on a pipe, and `done` once all is off again. When
//! the pipe closes without that, the capture was killed.

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

/// The capture's end of the pipe.
pub struct Supervisor {
    child: Child,
    pipe: ChildStdin,
}

impl Supervisor {
    /// Starts the supervising process: `command` is to call [`supervise`] on its standard input and to
    /// ignore the signals that end a capture. It gets a process group of its own.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start(mut command: Command) -> Result<Supervisor, CaptureError> {
        let program = PathBuf::from(command.get_program());
        let fail = |error| CaptureError::io(&program, error);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(fail)?;
        let pipe = child.stdin.take().ok_or_else(|| fail(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Supervisor { child, pipe })
    }

    /// Says that this instance will be made.
    ///
    /// # Errors
    /// A supervisor that is gone.
    pub(super) fn instance(&mut self, path: &Path) -> io::Result<()> {
        writeln!(self.pipe, "{INSTANCE}{}", path.display())
    }

    /// Says that the tracer `blk` will be used by what is saved in the file.
    ///
    /// # Errors
    /// A supervisor that is gone.
    pub(super) fn blk_tracer(&mut self, saved: &Path) -> io::Result<()> {
        writeln!(self.pipe, "{BLK_TRACER}{}", saved.display())
    }

    /// Says that all is off again, and waits for the process to end.
    pub fn dismiss(self) {
        let Supervisor { mut child, mut pipe } = self;
        // One that is gone has nothing left to do.
        let _ = writeln!(pipe, "{DONE}");
        drop(pipe);
        let _ = child.wait();
    }
}

/// Reads what a capture switches on until that says that it is done, or is gone: then switches it off, and
/// gives what was found on.
///
/// # Errors
/// What could not be switched off.
pub fn supervise(orders: impl BufRead) -> Result<Vec<PathBuf>, CaptureError> {
    let mut told = Vec::new();
    for line in orders.lines() {
        match line {
            Ok(line) if line == DONE => return Ok(Vec::new()),
            Ok(line) => told.push(line),
            Err(_) => break,
        }
    }
    let mut restored = Vec::new();
    for line in told {
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

    /// A folder that looks like an instance; its files vanish with it as in tracefs.
    fn instance(folder: &Path) -> PathBuf {
        let path = folder.join("iocast-1.1");
        fs::create_dir_all(path.join("events")).unwrap();
        fs::write(path.join("tracing_on"), "1").unwrap();
        path
    }

    #[test]
    fn a_capture_that_is_gone_is_switched_off_and_one_that_is_done_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = instance(folder.path());
        let order = format!("instance {}\n", path.display());
        assert!(supervise(format!("{order}done\n").as_bytes()).unwrap().is_empty());
        assert_eq!(fs::read_to_string(path.join("tracing_on")).unwrap(), "1");
        // A real folder that holds files cannot be removed, as it would be in tracefs.
        assert!(supervise(order.as_bytes()).is_err());
        assert_eq!(fs::read_to_string(path.join("tracing_on")).unwrap(), "0");
        assert_eq!(fs::read_to_string(path.join("events/enable")).unwrap(), "0");
        fs::remove_dir_all(&path).unwrap();
        assert!(supervise(order.as_bytes()).unwrap().is_empty());
    }
}
