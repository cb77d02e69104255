//! What keeps a capture from beginning or from going on.

use std::io;
use std::path::{Path, PathBuf};

use traces::{ReadError, WriteError};

/// Why there is no capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system refused.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was to be used.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Something that cannot be traced was named.
    #[error("{}: {why}", path.display())]
    Device {
        /// As it was named.
        path: PathBuf,
        /// Why not, and what instead.
        why: String,
    },
    /// tracefs is not there.
    #[error("tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing")]
    NoTracefs,
    /// The tracer is in use.
    #[error("{}: the tracer `{tracer}` is in use by somebody else; wait for it, or use another backend", path.display())]
    Busy {
        /// `current_tracer`.
        path: PathBuf,
        /// What it says.
        tracer: String,
    },
    /// No backend works.
    #[error("no way to trace {devices}: {why}")]
    NoBackend {
        /// The devices.
        devices: String,
        /// Why each of them does not.
        why: String,
    },
    /// The trace would record how it is written.
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
    /// An output that cannot be.
    #[error("{}: {why}", path.display())]
    Output {
        /// The output.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Another program failed.
    #[error("{program}: {why}")]
    Program {
        /// Its name.
        program: &'static str,
        /// What it said.
        why: String,
    },
    /// What the kernel told is not what it describes.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The trace cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl CaptureError {
    /// An error of the operating system about `path`.
    pub fn io(path: &Path, source: io::Error) -> CaptureError {
        CaptureError::Io { path: path.to_owned(), source }
    }
}

/// Which capability is missing.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; the kernel's tracing belongs to root: run as root, or with CAP_DAC_OVERRIDE and CAP_SYS_ADMIN"
        }
        _ => "",
    }
}
