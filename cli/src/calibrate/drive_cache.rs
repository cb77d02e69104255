//! Reads the kernel's description of a block device. Reads the setting of the drive's own cache, and switches the cache
//! off during a calibration (`Documentation/ABI/testing/sysfs-class-scsi_disk`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The setting in which a SCSI disk caches neither reads nor writes.
const NO_CACHE: &str = "none";

/// A block device as sysfs describes it.
#[derive(Debug)]
pub struct BlockDevice {
    name: String,
    /// Its smallest read.
    pub logical_block_bytes: Option<u64>,
    rotational: Option<bool>,
    /// The mode of the write cache, as the kernel knows it.
    write_cache: Option<String>,
    /// The file that sets the caches of a SCSI or SATA disk.
    cache_type: Option<PathBuf>,
}

impl BlockDevice {
    /// The whole disk of the device with this number. `None` if the kernel names none, as for file systems in memory or
    /// over several devices.
    pub fn find(sysfs: &Path, number: u64) -> Option<BlockDevice> {
        let (major, minor) = (libc::major(number), libc::minor(number));
        let mut folder = fs::canonicalize(sysfs.join(format!("dev/block/{major}:{minor}"))).ok()?;
        if folder.join("partition").exists() {
            folder.pop();
        }
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
        let scsi = fs::read_dir(folder.join("device/scsi_disk")).ok().and_then(|mut disks| disks.next()?.ok());
        Some(BlockDevice {
            name: folder.file_name()?.to_string_lossy().into_owned(),
            logical_block_bytes: read("queue/logical_block_size").and_then(|size| size.parse().ok()),
            rotational: read("queue/rotational").map(|word| word == "1"),
            write_cache: read("queue/write_cache"),
            cache_type: scsi.map(|disk| disk.path().join("cache_type")).filter(|path| path.exists()),
        })
    }

    /// Describes the device, a line for each property.
    pub fn describe(&self) -> Vec<String> {
        let rotational = match self.rotational {
            Some(true) => "rotational",
            Some(false) => "not rotational",
            None => "unknown whether rotational",
        };
        let cache = match (&self.cache_type, &self.write_cache) {
            (Some(path), _) => format!("drive cache: {}", setting(path).unwrap_or_else(|_| "not readable".to_owned())),
            (None, Some(mode)) => format!("write cache: {mode}; the kernel does not report the read cache"),
            (None, None) => "its cache is unknown".to_owned(),
        };
        vec![format!("block device {}: {rotational}", self.name), cache]
    }

    /// A remark if the cache is on and could be switched off.
    pub fn remark(&self) -> Option<String> {
        let mode = self.cache_type.as_deref().and_then(|path| setting(path).ok())?;
        (mode != NO_CACHE).then(|| {
            format!(
                "the drive's cache was left on (`{mode}`); Geist et al. 2010 measured with it off, as \
                     --drive-cache off does"
            )
        })
    }
}

fn setting(path: &Path) -> std::io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

/// A drive's cache, switched off until this is dropped.
#[derive(Debug)]
pub struct CacheOff {
    cache_type: PathBuf,
    before: String,
}

impl CacheOff {
    /// Switches it off.
    ///
    /// # Errors
    /// A device whose cache the kernel cannot set, missing permission, or a drive that does not obey.
    pub fn new(path: &Path, block: Option<&BlockDevice>) -> Result<CacheOff> {
        let Some(cache_type) = block.and_then(|block| block.cache_type.clone()) else {
            bail!(
                "{}: the kernel can set the caches of SCSI and SATA disks only, and this is neither; switch the cache \
                 off yourself (hdparm -A0 -W0, nvme set-feature) and leave --drive-cache out",
                path.display()
            );
        };
        let place = || cache_type.display().to_string();
        let before = setting(&cache_type).with_context(place)?;
        let off = CacheOff { cache_type: cache_type.clone(), before };
        fs::write(&cache_type, NO_CACHE).with_context(|| format!("{}: cannot switch the cache off", place()))?;
        let now = setting(&cache_type).with_context(place)?;
        if now != NO_CACHE {
            bail!("{}: the drive keeps its cache (`{now}`); leave --drive-cache out", place());
        }
        Ok(off)
    }

    /// Describes the change, and how to undo it by hand if the program is killed.
    pub fn describe(&self) -> String {
        let CacheOff { cache_type, before } = self;
        format!("drive cache switched off until the end; after a crash: echo '{before}' > {}", cache_type.display())
    }
}

impl Drop for CacheOff {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.cache_type, &self.before) {
            let place = self.cache_type.display();
            eprintln!("iocast: warning: {place}: cannot set the drive's cache back to `{}`: {error}", self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Disk 8:16 with a partition 8:17, as sysfs would show them.
    fn sysfs(cache: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("devices/sdb");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sdb1")).unwrap();
        fs::create_dir_all(root.path().join("dev/block")).unwrap();
        fs::write(disk.join("sdb1/partition"), "1\n").unwrap();
        for (name, value) in [("logical_block_size", "512\n"), ("rotational", "1\n"), ("write_cache", "write back\n")] {
            fs::write(disk.join("queue").join(name), value).unwrap();
        }
        symlink(&disk, root.path().join("dev/block/8:16")).unwrap();
        symlink(disk.join("sdb1"), root.path().join("dev/block/8:17")).unwrap();
        if let Some(cache) = cache {
            let scsi = disk.join("device/scsi_disk/2:0:0:0");
            fs::create_dir_all(&scsi).unwrap();
            fs::write(scsi.join("cache_type"), format!("{cache}\n")).unwrap();
        }
        root
    }

    #[test]
    fn a_partition_is_described_by_its_disk() {
        let root = sysfs(Some("write back"));
        for minor in [16, 17] {
            let block = BlockDevice::find(root.path(), libc::makedev(8, minor)).unwrap();
            assert_eq!(block.describe(), ["block device sdb: rotational", "drive cache: write back"]);
            assert_eq!(block.logical_block_bytes, Some(512));
        }
        assert!(BlockDevice::find(root.path(), libc::makedev(9, 1)).is_none());
    }

    #[test]
    fn the_cache_is_off_until_the_end_and_then_as_before() {
        let root = sysfs(Some("write back"));
        let block = BlockDevice::find(root.path(), libc::makedev(8, 16)).unwrap();
        let place = root.path().join("devices/sdb/device/scsi_disk/2:0:0:0/cache_type");
        let off = CacheOff::new(Path::new("/dev/sdb"), Some(&block)).unwrap();
        assert_eq!(setting(&place).unwrap(), "none");
        assert_eq!(block.remark(), None);
        assert!(off.describe().contains("echo 'write back' > "), "{}", off.describe());
        drop(off);
        assert_eq!(setting(&place).unwrap(), "write back");
        assert!(block.remark().unwrap().contains("left on (`write back`)"));
    }

    #[test]
    fn a_cache_that_cannot_be_set_is_an_error() {
        let root = sysfs(None);
        let block = BlockDevice::find(root.path(), libc::makedev(8, 16)).unwrap();
        assert!(block.describe()[1].starts_with("write cache: write back; the kernel does not report"));
        for block in [Some(&block), None] {
            let error = CacheOff::new(Path::new("/dev/sdb"), block).unwrap_err().to_string();
            assert!(error.contains("leave --drive-cache out"), "{error}");
        }
    }
}
