//! Block devices by their path, and the devices below a file.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use traces::Sectors;

use super::error::CaptureError;

/// The folder in which the kernel describes block devices by their number.
const BY_NUMBER: &str = "/sys/dev/block";
/// The deepest chain of stacked devices that is followed.
const STACKED_DEVICES_MAX: usize = 16;

/// A disk that can be traced.
#[derive(Clone, Debug)]
pub struct BlockDevice {
    /// The path as given.
    pub path: PathBuf,
    /// The kernel's name, such as `sda`.
    pub name: String,
    /// The kernel's number: major in the upper 12 bits, minor in the lower 20.
    pub number: u32,
    /// Its size.
    pub capacity: Sectors,
    /// Its folder in sysfs.
    pub folder: PathBuf,
    /// The kernel's sequence number of the disk (Linux 5.15), which distinguishes it from a later disk with the same
    /// number.
    pub(super) sequence: Option<u64>,
}

impl BlockDevice {
    /// Finds the disk at `path`, or with this name.
    ///
    /// # Errors
    /// The path is no block device, is a partition, or has no medium.
    pub fn find(path: &Path) -> Result<BlockDevice, CaptureError> {
        let refuse = |why: &str| CaptureError::Device { path: path.to_owned(), why: why.to_owned() };
        let in_dev = Path::new("/dev").join(path);
        let found = if path.components().count() == 1 && !path.exists() { in_dev } else { path.to_owned() };
        let metadata = match fs::metadata(&found) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(refuse("there is no such device (`lsblk` lists them)"));
            }
            Err(error) => return Err(CaptureError::io(path, error)),
        };
        if !metadata.file_type().is_block_device() {
            return Err(refuse("this is no block device; name one, such as /dev/sda (`lsblk` lists them)"));
        }
        let link = Path::new(BY_NUMBER).join(numbers(metadata.rdev()));
        let folder = fs::canonicalize(&link).map_err(|error| CaptureError::io(&link, error))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if folder.join("partition").exists() {
            let disk = folder.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            return Err(refuse(&format!("this is a partition; its requests are those of its disk: name /dev/{disk}")));
        }
        let (number, sequence) = (kernel_number(metadata.rdev()), value(&folder, "diskseq"));
        let device = BlockDevice { path: found, name, number, capacity: Sectors::new(0), folder, sequence };
        match device.sectors() {
            Some(sectors) if sectors > 0 => Ok(BlockDevice { capacity: Sectors::new(sectors), ..device }),
            _ => Err(refuse("this device has no medium: its size is 0")),
        }
    }

    /// Its current size in sectors; `None` if it has vanished.
    fn sectors(&self) -> Option<u64> {
        value(&self.folder, "size")
    }

    /// Whether it has vanished: it was unplugged, or detached as a loop device, or another disk has its number.
    pub fn is_gone(&self) -> bool {
        self.sectors().is_none_or(|sectors| sectors == 0) || value(&self.folder, "diskseq") != self.sequence
    }
}

/// The number in the sysfs file `name`.
fn value(folder: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
}

fn numbers(device: u64) -> String {
    format!("{}:{}", major(device), minor(device))
}

fn kernel_number(device: u64) -> u32 {
    major(device) << 20 | minor(device)
}

/// The text `MAJOR:MINOR` of a kernel's number.
pub(super) fn spelt(number: u32) -> String {
    format!("{}:{}", number >> 20, number & 0xf_ffff)
}

/// The kernel's number of `MAJOR:MINOR`.
fn parsed(text: &str) -> Option<u32> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// The devices below a file at `path`, which may not exist yet, or the device that it is and those below. These are its partition, the partition's disk, and the
/// devices below that (device mapper, md, the file behind a loop device).
///
/// # Errors
/// The folder does not exist.
pub(super) fn below(path: &Path) -> Result<BTreeSet<u32>, CaptureError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let at = if path.exists() { path } else { folder };
    let mut found = BTreeSet::new();
    follow_file(at, &mut found, STACKED_DEVICES_MAX).map_err(|error| CaptureError::io(at, error))?;
    Ok(found)
}

fn follow_file(path: &Path, found: &mut BTreeSet<u32>, depth: usize) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let number = if major(device) == 0 { mounted_from(path) } else { Some(kernel_number(device)) };
    if let Some(number) = number {
        follow(number, found, depth);
    }
    Ok(())
}

/// File systems such as btrfs have a device number of their own; their mount source gives the device.
fn mounted_from(path: &Path) -> Option<u32> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let of = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (source, point) = (words.next()?, words.next()?);
        path.starts_with(point).then_some((point.len(), source))
    });
    let (_, source) = of.max_by_key(|(length, _)| *length)?;
    let metadata = fs::metadata(source).ok().filter(|found| found.file_type().is_block_device())?;
    Some(kernel_number(metadata.rdev()))
}

fn follow(number: u32, found: &mut BTreeSet<u32>, depth: usize) {
    if depth == 0 || !found.insert(number) {
        return;
    }
    let Ok(folder) = fs::canonicalize(Path::new(BY_NUMBER).join(spelt(number))) else { return };
    let of = |folder: &Path| fs::read_to_string(folder.join("dev")).ok().and_then(|text| parsed(&text));
    if folder.join("partition").exists()
        && let Some(disk) = folder.parent().and_then(of)
    {
        follow(disk, found, depth - 1);
    }
    for slave in fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten() {
        if let Some(slave) = of(&slave.path()) {
            follow(slave, found, depth - 1);
        }
    }
    if let Ok(file) = fs::read_to_string(folder.join("loop/backing_file")) {
        // A file that cannot be examined is on no known device.
        let _ = follow_file(Path::new(file.trim_end()), found, depth - 1);
    }
}

#[cfg(test)]
impl BlockDevice {
    /// The disk `sda` as a folder describes it, in place of the kernel.
    pub(super) fn described_by(folder: &Path) -> BlockDevice {
        BlockDevice {
            path: PathBuf::new(),
            name: "sda".to_owned(),
            number: 8 << 20,
            capacity: Sectors::new(80),
            folder: folder.to_owned(),
            sequence: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(path: &str) -> String {
        BlockDevice::find(Path::new(path)).unwrap_err().to_string()
    }

    #[test]
    fn path_that_is_no_block_device_is_refused_with_a_hint() {
        assert_eq!(
            message("/dev/null"),
            "/dev/null: this is no block device; name one, such as /dev/sda (`lsblk` lists them)"
        );
        assert_eq!(message("/dev/nosuchdisk"), "/dev/nosuchdisk: there is no such device (`lsblk` lists them)");
        assert_eq!(message("nosuchdisk"), "nosuchdisk: there is no such device (`lsblk` lists them)");
    }

    #[test]
    fn device_numbers_follow_the_kernels_encoding() {
        assert_eq!(parsed("8:17\n"), Some(8 << 20 | 17));
        assert_eq!(spelt(8 << 20 | 17), "8:17");
        assert_eq!(parsed("8"), None);
    }
}
