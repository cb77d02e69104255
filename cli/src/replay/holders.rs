//! Who uses a block device or file: mounts, swap, partitions, other block devices. The kernel says so under `/proc` and
//! `/sys`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where the kernel describes the system.
#[derive(Clone, Copy, Debug)]
pub struct System<'a> {
    pub proc: &'a Path,
    pub sys: &'a Path,
}

impl System<'_> {
    /// The running system.
    pub fn running() -> System<'static> {
        System { proc: Path::new("/proc"), sys: Path::new("/sys") }
    }

    /// Who uses the block device with this number, each in words.
    pub fn holders_of_device(&self, number: u64) -> Vec<String> {
        let mut holders = self.direct_holders(number);
        let folder = self.folder(number);
        for partition in entries(&folder).into_iter().filter(|entry| entry.join("partition").exists()) {
            let mut said = format!("partition {}", name(&partition));
            let number = fs::read_to_string(partition.join("dev")).ok().and_then(|text| parsed(text.trim()));
            let held = number.map(|number| self.direct_holders(number)).unwrap_or_default();
            if !held.is_empty() {
                said.push_str(&format!(" ({})", held.join(", ")));
            }
            holders.push(said);
        }
        holders
    }

    /// Whether the kernel lets nobody write to the block device with this number.
    pub fn is_read_only(&self, number: u64) -> bool {
        fs::read_to_string(self.folder(number).join("ro")).is_ok_and(|text| text.trim() == "1")
    }

    /// Who uses the file at `path`, each in words.
    pub fn holders_of_file(&self, path: &Path) -> Vec<String> {
        let mut holders = self.loops(path);
        let same = |other: &Path| match (fs::metadata(path), fs::metadata(other)) {
            (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
            _ => false,
        };
        holders.extend(self.swaps().iter().any(|swap| same(swap)).then(|| "swap".to_owned()));
        holders
    }

    /// Mounts, swap and block devices on the device itself.
    fn direct_holders(&self, number: u64) -> Vec<String> {
        let is_it = |path: &Path| {
            fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device() && found.rdev() == number)
        };
        let mut holders: Vec<String> = Vec::new();
        for (mounted, source, place) in self.mounts() {
            let said = format!("mounted at {}", place.display());
            if (mounted == Some(number) || is_it(&source)) && !holders.contains(&said) {
                holders.push(said);
            }
        }
        holders.extend(self.swaps().iter().any(|swap| is_it(swap)).then(|| "swap".to_owned()));
        for holder in entries(&self.folder(number).join("holders")) {
            let holder = name(&holder);
            let mapped = fs::read_to_string(self.sys.join("block").join(&holder).join("dm/name")).ok();
            let mapped = mapped.map(|mapped| format!(" ({})", mapped.trim())).unwrap_or_default();
            holders.push(format!("block device {holder}{mapped}"));
        }
        if let Some(node) = self.node(number) {
            holders.extend(self.loops(&node));
        }
        holders
    }

    /// Loop devices on the file or device at `path`.
    fn loops(&self, path: &Path) -> Vec<String> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_on_it = |device: &PathBuf| {
            let file = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
            Path::new(file.trim_end_matches('\n')) == path
        };
        let devices = entries(&self.sys.join("block")).into_iter().filter(is_on_it);
        devices.map(|device| format!("loop device {}", name(&device))).collect()
    }

    /// Device number, source and place of each mount.
    fn mounts(&self) -> Vec<(Option<u64>, PathBuf, PathBuf)> {
        let text = fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        let mount = |line: &str| {
            let (before, after) = line.split_once(" - ")?;
            let fields: Vec<&str> = before.split(' ').collect();
            let source = after.split(' ').nth(1)?;
            Some((parsed(fields.get(2)?), unescaped(source), unescaped(fields.get(4)?)))
        };
        text.lines().filter_map(mount).collect()
    }

    /// The files and devices that the system swaps to.
    fn swaps(&self) -> Vec<PathBuf> {
        let text = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescaped).collect()
    }

    /// The folder in which the kernel describes the device.
    fn folder(&self, number: u64) -> PathBuf {
        self.sys.join(format!("dev/block/{}:{}", libc::major(number), libc::minor(number)))
    }

    /// The usual path of the device.
    fn node(&self, number: u64) -> Option<PathBuf> {
        let folder = fs::canonicalize(self.folder(number)).ok()?;
        Some(Path::new("/dev").join(folder.file_name()?))
    }
}

/// `8:17` as a device number.
fn parsed(number: &str) -> Option<u64> {
    let (major, minor) = number.split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// A path as the kernel writes it: space, tab, line end and backslash as three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut path = text.to_owned();
    for (escaped, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        path = path.replace(escaped, character);
    }
    PathBuf::from(path)
}

/// The entries of a folder, sorted; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut entries: Vec<PathBuf> = found.collect();
    entries.sort();
    entries
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system with a disk 8:16, its partitions, and other devices on them.
    fn system(folder: &Path) -> (PathBuf, PathBuf) {
        let (proc, sys) = (folder.join("proc"), folder.join("sys"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mounts = "22 1 8:17 / /srv\\040data rw,relatime shared:1 - ext4 /dev/sdb1 rw\n\
                      23 1 0:45 / /proc rw - proc proc rw\n";
        write(proc.join("self/mountinfo"), mounts);
        write(proc.join("swaps"), "Filename\t\tType\t\tSize\tUsed\tPriority\n");
        let disk = sys.join("block/sdb");
        write(disk.join("sdb1/partition"), "1\n");
        write(disk.join("sdb1/dev"), "8:17\n");
        write(disk.join("sdb2/partition"), "2\n");
        write(disk.join("sdb2/dev"), "8:18\n");
        write(disk.join("sdb2/holders/dm-0/dev"), "253:0\n");
        write(disk.join("queue/logical_block_size"), "512\n");
        write(sys.join("block/dm-0/dm/name"), "vault\n");
        fs::create_dir_all(sys.join("dev/block")).unwrap();
        for (number, target) in [("8:16", "sdb"), ("8:17", "sdb/sdb1"), ("8:18", "sdb/sdb2")] {
            std::os::unix::fs::symlink(sys.join("block").join(target), sys.join("dev/block").join(number)).unwrap();
        }
        (proc, sys)
    }

    #[test]
    fn holders_of_a_device_and_of_its_partitions_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, sys) = system(folder.path());
        let system = System { proc: &proc, sys: &sys };
        let held = |minor: u32| system.holders_of_device(libc::makedev(8, minor));
        assert_eq!(held(17), ["mounted at /srv data"]);
        assert_eq!(held(18), ["block device dm-0 (vault)"]);
        let of_disk = ["partition sdb1 (mounted at /srv data)", "partition sdb2 (block device dm-0 (vault))"];
        assert_eq!(held(16), of_disk);
        assert_eq!(held(32), [""; 0]);
    }

    #[test]
    fn loop_devices_and_swap_on_a_file_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, sys) = system(folder.path());
        let system = System { proc: &proc, sys: &sys };
        let file = folder.path().join("a disk");
        fs::write(&file, "").unwrap();
        assert_eq!(system.holders_of_file(&file), [""; 0]);
        let file = fs::canonicalize(&file).unwrap();
        let loop_folder = sys.join("block/loop3/loop");
        fs::create_dir_all(&loop_folder).unwrap();
        fs::write(loop_folder.join("backing_file"), format!("{}\n", file.display())).unwrap();
        let escaped = file.display().to_string().replace(' ', "\\040");
        fs::write(proc.join("swaps"), format!("Filename\tType\tSize\tUsed\tPriority\n{escaped} file 8 0 -2\n"))
            .unwrap();
        assert_eq!(system.holders_of_file(&file), ["loop device loop3", "swap"]);
    }
}
