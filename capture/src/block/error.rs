//! Errors that prevent or end a capture of block devices.

use std::io;
use std::path::{Path, PathBuf};

use traces::{ReadError, WriteError};

/// Why a capture failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system reports an error.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A path that cannot be traced was named.
    #[error("{}: {why}", path.display())]
    Device {
        /// The path as given.
        path: PathBuf,
        /// The reason, and an alternative.
        why: String,
    },
    /// tracefs is not mounted.
    #[error("tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing")]
    NoTracefs,
    /// The kernel's tracer is in use.
    #[error(
        "{}: the tracer `{tracer}` is in use by another program; wait until it ends, or use another backend",
        path.display()
    )]
    Busy {
        /// The file that shows it: `current_tracer` or `set_event`.
        path: PathBuf,
        /// The active tracer or event.
        tracer: String,
    },
    /// No backend works.
    #[error("no backend can trace {devices}: {why}")]
    NoBackend {
        /// The devices.
        devices: String,
        /// Why each backend failed.
        why: String,
    },
    /// The backend that the user named does not work.
    #[error("backend {name} cannot trace {devices}: {why}; without --backend, the first backend that works is used")]
    NamedBackend {
        /// Its name.
        name: &'static str,
        /// The devices.
        devices: String,
        /// Why it failed.
        why: String,
    },
    /// The trace would record its own writes.
    #[error(
        "{} would lie on {device}, which is traced: every write of the trace would be traced, too; write it \
         elsewhere, stream it (--output - | ssh …), or allow it with --allow-self-capture", path.display()
    )]
    SelfCapture {
        /// The output.
        path: PathBuf,
        /// The device.
        device: String,
    },
    /// The output is not valid.
    #[error("{}: {why}", path.display())]
    Output {
        /// The output.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Another program failed.
    #[error("{program}: {why}")]
    Program {
        /// The program's name.
        program: &'static str,
        /// The error.
        why: String,
    },
    /// The kernel's events do not match its format description.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The trace cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl CaptureError {
    /// The reason alone, behind the name of the backend that failed.
    pub(super) fn of_backend(self) -> String {
        match self {
            CaptureError::Program { why, .. } => why,
            other => other.to_string(),
        }
    }

    /// An error of the operating system about `path`.
    pub fn io(path: &Path, source: io::Error) -> CaptureError {
        CaptureError::Io { path: path.to_owned(), source }
    }
}

/// A hint at the missing capability.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; the kernel's tracing belongs to root: run as root, or with CAP_DAC_OVERRIDE and CAP_SYS_ADMIN"
        }
        _ => "",
    }
}
