//! Opens the device of a replay, and chooses how requests are sent to it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use replay::live::{LiveDevice, NullDevice, Ring, THREADS, Target, ThreadPool};
use traces::{SECTOR_BYTES, Sectors};

use super::holders::System;
use crate::arguments::{Backend, DEVICE_QUEUE_DEPTH, Replay};
use crate::calibrate::device::note_on_holes;
use crate::calibrate::drive_cache::BlockDevice;
use crate::needs::io_uring_unavailable;

/// The name of the device that completes requests at once.
const NULL: &str = "null";
/// The alignment of requests if the kernel does not say it: a page, which suits every device.
const PAGE_BYTES: u64 = 4096;

/// Which device to open, and how.
pub struct Opening<'a> {
    pub path: &'a Path,
    pub allow_writes: bool,
    pub backend: Backend,
    /// The most requests in flight.
    pub depth: u32,
    /// Seed of the data that is written.
    pub seed: u64,
}

impl<'a> From<&'a Replay> for Opening<'a> {
    fn from(arguments: &'a Replay) -> Opening<'a> {
        let &Replay { ref target, allow_writes, backend, seed, .. } = arguments;
        let depth = arguments.replaying.stage.limits(DEVICE_QUEUE_DEPTH).depth;
        Opening { path: target, allow_writes, backend, depth, seed }
    }
}

/// A device that is open.
pub struct Opened {
    pub device: Box<dyn LiveDevice>,
    pub backend: &'static str,
    /// Why it is not io_uring.
    pub backend_reason: Option<String>,
    /// Whether requests go past the page cache.
    pub direct: bool,
    /// The alignment of requests.
    pub block: Sectors,
    widened: Arc<AtomicU64>,
    pub warnings: Vec<String>,
}

impl Opened {
    /// Opens a device.
    ///
    /// # Errors
    /// No device, a device in use, missing permission.
    pub fn new(opening: &Opening) -> Result<Opened> {
        let &Opening { path, allow_writes, .. } = opening;
        if path.as_os_str() == NULL {
            return Ok(Opened {
                device: Box::new(NullDevice::new(Sectors::new(u64::MAX / SECTOR_BYTES))),
                backend: NULL,
                backend_reason: Some("the device null has no data".to_owned()),
                direct: false,
                block: Sectors::new(1),
                widened: Arc::default(),
                warnings: Vec::new(),
            });
        }
        let metadata = std::fs::metadata(path).map_err(|error| explained(path, &error))?;
        let kind = metadata.file_type();
        let system = System::running();
        let (number, holders) = if kind.is_block_device() {
            (metadata.rdev(), system.holders_of_device(metadata.rdev()))
        } else if kind.is_file() {
            (metadata.dev(), system.holders_of_file(path))
        } else {
            bail!("{} is neither a block device nor a file", path.display());
        };
        if !holders.is_empty() {
            bail!("{} is in use: {}; a replay needs a device of its own", path.display(), holders.join(", "));
        }
        if allow_writes && kind.is_block_device() && system.is_read_only(number) {
            return Err(explained(path, &ErrorKind::ReadOnlyFilesystem.into()));
        }
        let exclusive = if kind.is_block_device() { libc::O_EXCL } else { 0 };
        let (mut file, direct) = open(path, allow_writes, exclusive)?;
        let bytes = file.seek(SeekFrom::End(0)).with_context(|| path.display().to_string())?;
        let logical = BlockDevice::find(system.sys, number).and_then(|block| block.logical_block_bytes);
        let block = Sectors::holding(logical.unwrap_or(PAGE_BYTES).clamp(SECTOR_BYTES, PAGE_BYTES));
        let capacity = Sectors::new(bytes / block.bytes() * block.count());
        if capacity == Sectors::ZERO {
            bail!("{} is empty; give a device, or a file of the size that the traces need", path.display());
        }
        let mut warnings = Vec::new();
        if !direct {
            warnings.push(format!(
                "{}: its file system cannot do without the page cache (O_DIRECT), so that the times are the cache's",
                path.display()
            ));
        }
        if kind.is_file() {
            warnings.extend(note_on_holes(&file, &metadata, bytes).map(|note| format!("{}: {note}", path.display())));
        }
        let widened = Arc::default();
        let target =
            Target { file: Arc::new(file), capacity, block, seed: opening.seed, widened: Arc::clone(&widened) };
        let (device, backend, backend_reason) = sent(&target, opening)?;
        warnings.extend(backend_reason.clone().filter(|_| opening.backend == Backend::Auto).map(|reason| {
            format!("{reason}; {THREADS} threads take its place, and keep at most {THREADS} requests in flight")
        }));
        Ok(Opened { device, backend, backend_reason, direct, block, widened, warnings })
    }

    /// A counter of the requests that were widened to whole blocks.
    pub fn widened(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.widened)
    }
}

/// Opens the file past the page cache, or through it if its file system has no other way.
fn open(path: &Path, allow_writes: bool, exclusive: i32) -> Result<(File, bool)> {
    let open = |flags: i32| OpenOptions::new().read(true).write(allow_writes).custom_flags(flags).open(path);
    match open(libc::O_DIRECT | exclusive) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == ErrorKind::InvalidInput && exclusive == 0 => {
            open(0).map(|file| (file, false)).map_err(|error| explained(path, &error))
        }
        Err(error) => Err(explained(path, &error)),
    }
}

type Sent = (Box<dyn LiveDevice>, &'static str, Option<String>);

/// The way on which requests are sent to `target`.
fn sent(target: &Target, opening: &Opening) -> Result<Sent> {
    let threads = |reason: String| -> Result<Sent> {
        let pool = ThreadPool::new(target.clone()).context("cannot start threads")?;
        Ok((Box::new(pool), "threads", Some(reason)))
    };
    if opening.backend == Backend::Threads {
        return threads("--backend threads was given".to_owned());
    }
    match Ring::new(target.clone(), opening.depth) {
        Ok(ring) => Ok((Box::new(ring), "io_uring", None)),
        Err(error) if opening.backend == Backend::Auto => threads(io_uring_unavailable(&error)),
        Err(error) => Err(anyhow!(io_uring_unavailable(&error))),
    }
}

fn explained(path: &Path, error: &io::Error) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => anyhow!("{path}: there is no such device or file; `lsblk` lists block devices"),
        ErrorKind::PermissionDenied => {
            anyhow!("{path}: {error}; run as root, or as a member of the group that owns it")
        }
        ErrorKind::ReadOnlyFilesystem => anyhow!("{path}: it is read-only; leave --allow-writes out"),
        ErrorKind::ResourceBusy => {
            anyhow!(
                "{path} is in use: another program or the kernel has opened it exclusively; `lsof {path}` may name it"
            )
        }
        _ => anyhow!("{path}: {error}"),
    }
}

/// The value of a counter.
pub fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
