//! How the output of `iocast convert` is replayed: the command line, and what the device must be.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use traces::TraceMeta;
use traces::formats::replayer::{DEVICE, Replay};
use traces::formats::{FORMATS, Format};
use traces::trace::{AddressSpace, Written};

use super::STANDARD_OUTPUT;
use crate::arguments::Convert;
use crate::error::UsageError;

/// Refuses a device for a format that no program replays, or one that the program cannot use.
///
/// # Errors
/// Such a device.
pub fn check(arguments: &Convert, output: &Path, target: &Format) -> Result<(), UsageError> {
    let Some(device) = arguments.replay_device.as_deref() else { return Ok(()) };
    let Some(replayer) = &target.replayer else {
        let replayed = FORMATS.iter().filter(|format| format.replayer.is_some()).map(|format| format.name);
        let replayed = replayed.collect::<Vec<_>>().join(", ");
        return Err(UsageError(format!("--replay-device is for {replayed}; leave it out to write {}", target.name)));
    };
    let replay = Replay { file: output, device: Some(device), devices: 1 };
    (replayer.command)(&replay).map(|_| ()).map_err(|error| UsageError(format!("--replay-device {error}")))
}

/// Prints the command line that replays the output, with what it needs, and returns it; `None` if no program does, or
/// the output is no file.
///
/// # Errors
/// A device that the program cannot use.
pub fn print(
    arguments: &Convert,
    output: &Path,
    target: &Format,
    meta: &TraceMeta,
    written: &Written,
) -> Result<Option<String>, UsageError> {
    let (Some(replayer), Some(extent)) = (&target.replayer, &written.extent) else { return Ok(None) };
    if output == Path::new(STANDARD_OUTPUT) {
        return Ok(None);
    }
    let device = arguments.replay_device.as_deref();
    let devices = if meta.address_space == AddressSpace::PerVm { meta.vms.len() } else { 1 };
    let replay = Replay { file: output, device, devices };
    let command = (replayer.command)(&replay).map_err(UsageError)?;
    note!("iocast: replay with: {command}");
    let needed = extent.lba_end.sector() * 512;
    match device {
        None if devices > 1 => {
            note!("iocast: note: the devices are the files vm0 to vm{} of fio's folder: link them", devices - 1);
        }
        None => note!("iocast: note: {DEVICE} stands for a device or file of at least {needed} bytes"),
        Some(device) => warn_if_small(device, needed),
    }
    note!("iocast: note: {}; writes destroy the data on the device", replayer.note);
    Ok(Some(command))
}

/// Warns of a device that ends before the requests do: replay programs take that for success.
fn warn_if_small(device: &str, needed: u64) {
    let Ok(bytes) = File::open(device).and_then(|mut file| file.seek(SeekFrom::End(0))) else {
        note!("iocast: note: {device} must have at least {needed} bytes");
        return;
    };
    if bytes < needed {
        eprintln!("iocast: warning: {device} has {bytes} bytes, but the requests reach to {needed}");
    }
}
