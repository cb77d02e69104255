//! The device of a capture that is read.

use std::path::Path;

use crate::error::{Place, Problem, ReadError};

/// The device of an event that does not name its own: plugging, which is done per task, and remaps
/// in notations that print another device.
pub(in crate::formats) const NO_DEVICE: u32 = u32::MAX;

/// How many devices are named in a message.
const NAMED_MAX: usize = 5;

/// `major:minor`, as `lsblk` prints it.
pub(in crate::formats) fn name(device: u32) -> String {
    format!("{}:{}", device >> 20, device & 0xf_ffff)
}

/// A device from its major and minor number; `None` if they are out of the kernel's range.
pub(in crate::formats) fn number(major: u64, minor: u64) -> Option<u32> {
    // The last is not given away: it stands for `NO_DEVICE`.
    (major < 1 << 12 && minor < 1 << 20).then_some((major << 20 | minor) as u32).filter(|device| *device != NO_DEVICE)
}

/// The device that is read of a capture, and the counts of others.
pub(super) struct Devices {
    /// Whether it was asked for, so that other devices are no loss.
    asked_for: bool,
    /// Whether it has occurred.
    found: bool,
    /// Some others that occurred.
    others: Vec<u32>,
}

impl Devices {
    /// The device that was asked for by name, else whichever comes first.
    ///
    /// # Errors
    /// A name that is not `MAJOR:MINOR` or `MAJOR,MINOR`.
    pub(super) fn new(asked_for: Option<&str>, path: &Path) -> Result<(Devices, Option<u32>), ReadError> {
        let devices = Devices { asked_for: asked_for.is_some(), found: false, others: Vec::new() };
        let Some(text) = asked_for else { return Ok((devices, None)) };
        let parsed =
            text.split_once([':', ',']).and_then(|(major, minor)| number(major.parse().ok()?, minor.parse().ok()?));
        match parsed {
            Some(device) => Ok((devices, Some(device))),
            None => {
                let what = format!("no device is called `{text}` in a capture of the block layer");
                Err(ReadError::new(path, Place::Whole, Problem::Missing(what))
                    .remedy("name it by its numbers, e.g. --device 8:0 (`lsblk` prints them)"))
            }
        }
    }

    /// Whether the device was asked for.
    pub(super) fn asked_for(&self) -> bool {
        self.asked_for
    }

    /// Whether events of another device than the one that is read have occurred.
    pub(super) fn several(&self) -> bool {
        !self.others.is_empty()
    }

    /// An event of the device that is read has occurred.
    #[inline]
    pub(super) fn found(&mut self) {
        self.found = true;
    }

    /// An event of another device has occurred.
    pub(super) fn other(&mut self, device: u32) {
        if self.others.len() < NAMED_MAX && !self.others.contains(&device) {
            self.others.push(device);
        }
    }

    /// The missing thing at the end of a capture of which `device` was to be read.
    pub(super) fn at_end(&self, device: u32, path: &Path) -> Result<(), ReadError> {
        if self.found || !self.asked_for {
            return Ok(());
        }
        let others: Vec<String> = self.others.iter().map(|device| name(*device)).collect();
        let more = if others.len() < NAMED_MAX { "" } else { ", …" };
        let what = format!("no event is of device {}: there are {}{more}", name(device), others.join(", "));
        Err(ReadError::new(path, Place::Whole, Problem::Missing(what)))
    }
}
