//! The kernel's own counts of a device's I/Os, against which a capture is checked.

use std::fs;

use super::device::BlockDevice;
use crate::silence::{Reading, counted};

/// The fields of `stat` that count completed I/Os: reads, writes, discards (Linux 4.18), flushes (5.5). Source:
/// `Documentation/block/stat.rst`.
const COMPLETED: [usize; 4] = [0, 4, 11, 15];

/// The counts of traced devices when their tracing began.
pub(super) struct KernelCounts(Vec<Reading>);

impl KernelCounts {
    pub(super) fn take(devices: &[BlockDevice]) -> KernelCounts {
        KernelCounts(devices.iter().map(completed).collect())
    }

    /// What the kernel has counted on each of the devices since then.
    pub(super) fn since(&self, devices: &[BlockDevice]) -> Vec<Reading> {
        self.0.iter().zip(devices).map(|(before, device)| counted(before, &completed(device))).collect()
    }
}

/// The I/Os that the device has completed, by the kernel's counters.
///
/// # Errors
/// Why the counters cannot be read.
pub fn completed(device: &BlockDevice) -> Reading {
    let iostats = device.folder.join("queue/iostats");
    if fs::read_to_string(&iostats).is_ok_and(|text| text.trim() == "0") {
        return Err(format!("the kernel counts nothing: {} is 0", iostats.display()));
    }
    let stat = device.folder.join("stat");
    let text = fs::read_to_string(&stat).map_err(|error| format!("{}: {error}", stat.display()))?;
    let fields: Option<Vec<u64>> = text.split_whitespace().map(|field| field.parse().ok()).collect();
    let fields = fields.filter(|fields| fields.len() > COMPLETED[1]);
    let fields = fields.ok_or_else(|| format!("{}: unknown fields: {}", stat.display(), text.trim()))?;
    Ok(COMPLETED.iter().filter_map(|&at| fields.get(at)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_ios_of_every_kind_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let device = BlockDevice::described_by(folder.path());
        assert!(completed(&device).unwrap_err().contains("stat: No such file"));
        let stat = folder.path().join("stat");
        fs::write(&stat, " 1000 2 3 4 200 6 7 8 9 10 11 30 13 14 15 4 17\n").unwrap();
        assert_eq!(completed(&device), Ok(1234));
        // As before Linux 4.18.
        fs::write(&stat, "1000 2 3 4 200 6 7 8 9 10 11\n").unwrap();
        assert_eq!(completed(&device), Ok(1200));
        fs::write(&stat, "1000 2 3\n").unwrap();
        assert!(completed(&device).is_err());
        fs::create_dir(folder.path().join("queue")).unwrap();
        fs::write(folder.path().join("queue/iostats"), "0\n").unwrap();
        assert!(completed(&device).unwrap_err().contains("iostats is 0"));
    }
}
