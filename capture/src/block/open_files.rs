//! Files by their names, where the kernel tells them: the file behind a loop device, and the files that a VM's process
//! has open on the traced devices.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::device::{BlockDevice, below};

/// The most descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 4096;
/// The most names that are kept of a process: a VM has fewer disks.
const NAMES_MAX: usize = 16;

/// The file behind a loop device, as the kernel names it.
pub(super) fn behind_loop(device: &BlockDevice) -> Option<String> {
    let path = fs::read_to_string(device.folder.join("loop/backing_file")).ok()?;
    Some(path.trim_end_matches('\n').to_owned())
}

/// The files and devices that a process has open and that lie on a device with one of these numbers, or are it.
/// `process` is its folder in `/proc`. Empty if the process has ended.
pub(super) fn of_process(process: &Path, devices: &[u32]) -> BTreeSet<String> {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return BTreeSet::new() };
    let paths = descriptors.take(DESCRIPTORS_MAX).flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    // Sockets, pipes and the like have names that are no paths.
    let lies_on = |path: &Path| below(path).is_ok_and(|found| devices.iter().any(|device| found.contains(device)));
    let files = paths.filter(|path| path.is_absolute() && path.exists() && !path.is_dir() && lies_on(path));
    files.map(|path| path.to_string_lossy().into_owned()).take(NAMES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_of_a_process_on_the_traced_devices_are_named() {
        // On the file system of the build, which lies on a device.
        let proc = tempfile::tempdir_in(".").unwrap();
        fs::create_dir(proc.path().join("fd")).unwrap();
        let image = fs::canonicalize(proc.path()).unwrap().join("web.img");
        fs::write(&image, "").unwrap();
        let name = image.to_str().unwrap().to_owned();
        for (number, target) in ["socket:[7]", "/dev/null", "/nowhere", &name].iter().enumerate() {
            symlink(target, proc.path().join(format!("fd/{number}"))).unwrap();
        }
        let devices = Vec::from_iter(below(&image).unwrap());
        let expected = if devices.is_empty() { BTreeSet::new() } else { BTreeSet::from([name]) };
        assert_eq!(of_process(proc.path(), &devices), expected);
        assert!(of_process(proc.path(), &[u32::MAX]).is_empty());
        assert!(of_process(Path::new("/nowhere"), &devices).is_empty());
    }

    #[test]
    fn file_behind_a_loop_device_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let device = BlockDevice::described_by(folder.path());
        assert_eq!(behind_loop(&device), None);
        fs::create_dir(folder.path().join("loop")).unwrap();
        fs::write(folder.path().join("loop/backing_file"), "/var/a b.img\n").unwrap();
        assert_eq!(behind_loop(&device).as_deref(), Some("/var/a b.img"));
    }
}
