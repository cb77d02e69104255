//! Reads a block device or a file past the page cache (O_DIRECT). It is opened for reading and never written.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use drive_models::calibration::{DeviceError, MeasuredDevice, Measurement};
use traces::{Lba, Operation, Request, SECTOR_BYTES, Sectors, Timestamp};

use super::drive_cache::BlockDevice;

/// The alignment of memory, and the shortest read of a file: a page, which suits every device.
const PAGE_BYTES: u64 = 4096;
/// The longest read.
const READ_BYTES_MAX: u64 = 1 << 20;
/// The last part of a wait spins instead of sleeping, since sleeps end late.
const SPIN: Duration = Duration::from_micros(150);
/// The share of a file that must have blocks allocated, so that reads reach the device.
const ALLOCATED_MIN: f64 = 0.95;

/// A device that is open.
pub struct FileDevice {
    file: File,
    capacity: Sectors,
    granule: Sectors,
    begin: Instant,
    memory: Vec<u8>,
    stop: Arc<AtomicBool>,
}

/// The properties that opening a device reveals.
pub struct Opened {
    pub device: FileDevice,
    /// The block device, or the one that the file lies on.
    pub block: Option<BlockDevice>,
    pub notes: Vec<String>,
}

impl FileDevice {
    /// Opens `path`; `sysfs` is where the kernel describes block devices.
    pub fn open(path: &Path, sysfs: &Path, stop: Arc<AtomicBool>) -> Result<Opened> {
        let metadata = std::fs::metadata(path).map_err(|error| explained(path, &error))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            bail!("{} is a directory: give a block device such as /dev/sdb, or a file on it", path.display());
        }
        if !kind.is_file() && !kind.is_block_device() {
            bail!("{} is neither a block device nor a file", path.display());
        }
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .map_err(|error| explained(path, &error))?;
        let bytes = file.seek(SeekFrom::End(0)).with_context(|| path.display().to_string())?;
        let number = if kind.is_block_device() { metadata.rdev() } else { metadata.dev() };
        let block = BlockDevice::find(sysfs, number);
        let logical = block.as_ref().and_then(|block| block.logical_block_bytes);
        let granule = if kind.is_block_device() { logical.unwrap_or(PAGE_BYTES) } else { PAGE_BYTES };
        let granule = Sectors::holding(granule.clamp(SECTOR_BYTES, PAGE_BYTES));
        let capacity = Sectors::new(bytes / granule.bytes() * granule.count());
        let notes = if kind.is_file() { notes_on_file(&file, &metadata, bytes) } else { Vec::new() };
        let memory = vec![0; (READ_BYTES_MAX + PAGE_BYTES) as usize];
        let device = FileDevice { file, capacity, granule, begin: Instant::now(), memory, stop };
        Ok(Opened { device, block, notes })
    }

    /// Sleeps and then spins until `at`.
    fn wait(&self, at: Timestamp) {
        let left = at.saturating_since(self.now()).as_ns();
        if let Some(sleep) = Duration::from_nanos(left).checked_sub(SPIN) {
            std::thread::sleep(sleep);
        }
        while self.now() < at {
            std::hint::spin_loop();
        }
    }
}

fn explained(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => anyhow!("{path}: there is no such device or file; `lsblk` lists block devices"),
        ErrorKind::PermissionDenied => {
            anyhow!("{path}: no permission to read it; run as root, or as a member of the group that owns it")
        }
        ErrorKind::InvalidInput => anyhow!(
            "{path}: its file system cannot read past the page cache (O_DIRECT), which would be measured in place \
             of the device; use a file on another file system, or the block device itself"
        ),
        _ => anyhow!("{path}: {error}"),
    }
}

/// Notes on the measurement of a file.
fn notes_on_file(file: &File, metadata: &Metadata, bytes: u64) -> Vec<String> {
    let mut notes = vec![
        "a file was measured: distances are those within the file, and the file system decides where its blocks lie"
            .to_owned(),
    ];
    notes.extend(note_on_holes(file, metadata, bytes));
    notes
}

/// A note if a file of `bytes` has holes.
pub fn note_on_holes(file: &File, metadata: &Metadata, bytes: u64) -> Option<String> {
    let allocated = metadata.blocks() * SECTOR_BYTES;
    // File systems in user space, such as nbdfuse, state no blocks at all.
    if allocated == 0 && rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(0)).is_ok_and(|hole| hole >= bytes) {
        return None;
    }
    ((allocated as f64) < bytes as f64 * ALLOCATED_MIN).then(|| {
        format!(
            "only {:.0} % of the file has blocks, and reads of holes never reach the device; write the whole file \
             first",
            allocated as f64 / bytes.max(1) as f64 * 100.0
        )
    })
}

impl MeasuredDevice for FileDevice {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn granule(&self) -> Sectors {
        self.granule
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_ns(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn read(&mut self, at: Timestamp, lba: Lba, sectors: Sectors) -> Result<Measurement, DeviceError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(DeviceError::Interrupted);
        }
        let failed = |problem: String| DeviceError::Read { lba: lba.sector(), sectors: sectors.count(), problem };
        self.wait(at);
        let aligned = self.memory.as_ptr().align_offset(PAGE_BYTES as usize);
        let bytes = sectors.bytes() as usize;
        let mut memory = std::mem::take(&mut self.memory);
        let issued = self.now();
        let outcome = match memory.get_mut(aligned..aligned + bytes) {
            Some(page) => self.file.read_exact_at(page, lba.sector() * SECTOR_BYTES).map_err(|error| error.to_string()),
            None => Err("it is longer than 1 MiB".to_owned()),
        };
        let completed = self.now();
        self.memory = memory;
        outcome.map_err(failed)?;
        let request = Request::new(issued, Operation::Read, lba, sectors);
        Ok(Measurement { request, issued, service: completed.saturating_since(issued) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn open(path: &Path) -> Result<Opened> {
        FileDevice::open(path, Path::new("/sys"), Arc::default())
    }

    #[test]
    fn a_file_is_read_where_and_when_it_is_told() {
        // Beside the test's program, since not every file system for temporary files can be read past the page cache.
        let program = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let path = folder.path().join("disk");
        File::create(&path).unwrap().write_all(&vec![7; 5 * 4096 + 100]).unwrap();
        let Opened { mut device, notes, .. } = open(&path).unwrap();
        assert_eq!((device.capacity(), device.granule()), (Sectors::new(40), Sectors::new(8)));
        let at = Timestamp::from_ns(device.now().as_ns() + 3_000_000);
        let measured = device.read(at, Lba::new(32), Sectors::new(8)).unwrap();
        assert!(measured.issued >= at && measured.issued.saturating_since(at).as_ns() < 500_000_000);
        assert_eq!(notes.len(), 1, "{notes:?}");
        let beyond = device.read(Timestamp::ZERO, Lba::new(80), Sectors::new(8)).unwrap_err().to_string();
        assert!(beyond.starts_with("reading 8 sectors at sector 80: "), "{beyond}");
        device.stop.store(true, Ordering::Relaxed);
        let stopped = device.read(Timestamp::ZERO, Lba::new(0), Sectors::new(8));
        assert!(matches!(stopped, Err(DeviceError::Interrupted)));
    }

    #[test]
    fn holes_are_noted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let notes = notes_on_file(&File::open(&path).unwrap(), &std::fs::metadata(&path).unwrap(), 1 << 20);
        assert!(notes[1].starts_with("only 0 % of the file has blocks"), "{notes:?}");
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| open(path).err().unwrap().to_string();
        assert!(said(folder.path()).contains("is a directory: give a block device"));
        assert!(said(&folder.path().join("absent")).contains("there is no such device"));
        assert!(said(Path::new("/dev/null")).ends_with("is neither a block device nor a file"));
        let refused = |kind: ErrorKind| explained(Path::new("x"), &kind.into()).to_string();
        assert!(refused(ErrorKind::PermissionDenied).starts_with("x: no permission to read it; run as root"));
        assert!(refused(ErrorKind::InvalidInput).contains("(O_DIRECT)"));
    }
}
