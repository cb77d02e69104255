//! Memory and space that a run may take, against those that the host has.

use std::path::Path;

use anyhow::{Result, ensure};
use capture::block::free_bytes;

use crate::units::data;

/// The memory that programs can still take without swapping, in bytes (`MemAvailable` of proc_meminfo(5)).
pub fn available_memory() -> Option<u64> {
    parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// A warning if `thing` may grow to more memory than is available.
pub fn memory_doubt(thing: &str, bytes: u64) -> Option<String> {
    let available = available_memory().filter(|&available| available < bytes)?;
    Some(format!(
        "{thing} may grow to {} of memory, but {} are available; the kernel ends a program when memory runs out",
        data(bytes),
        data(available)
    ))
}

/// Refuses a run that certainly takes more memory than is available.
///
/// # Errors
/// The memory does not suffice; the error has both numbers and the `remedy`.
pub fn require_memory(thing: &str, bytes: u64, remedy: &str) -> Result<()> {
    let available = available_memory().unwrap_or(u64::MAX);
    ensure!(
        bytes <= available,
        "{thing} take {} of memory, but {} are available; {remedy}",
        data(bytes),
        data(available)
    );
    Ok(())
}

/// A warning if the sparse `thing` may grow to more than the file system of `path` has free.
pub fn space_doubt(thing: &str, path: &Path, bytes: u64) -> Option<String> {
    let free = free_bytes(path).filter(|&free| free < bytes)?;
    Some(format!(
        "{thing} may grow to {}, but the file system of {} has {} free; writes beyond that fail",
        data(bytes),
        path.display(),
        data(free)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_parsed_with_its_unit() {
        let text = "MemTotal:       16 kB\nMemAvailable:   23383260 kB\nBuffers: 1 kB\n";
        assert_eq!(parse_available(text), Some(23_383_260 * 1024));
        assert_eq!(parse_available("MemTotal: 16 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn what_does_not_fit_is_said_with_numbers() {
        let path = std::env::temp_dir().join("not/there/yet");
        assert!(available_memory().unwrap() > 0 && free_bytes(&path).unwrap() > 0);
        assert_eq!(memory_doubt("the image", 1), None);
        let doubt = memory_doubt("the image", 1 << 60).unwrap();
        assert!(doubt.starts_with("the image may grow to 1 EiB of memory, but "), "{doubt}");
        assert_eq!(space_doubt("the image", &path, 1), None);
        let doubt = space_doubt("the image", &path, 1 << 60).unwrap();
        assert!(doubt.contains("1 EiB, but the file system of ") && doubt.contains("not/there"), "{doubt}");
        assert!(require_memory("2 VMs", 1, "").is_ok());
        let refused = require_memory("2 VMs", 1 << 60, "lower it").unwrap_err().to_string();
        assert!(refused.starts_with("2 VMs take 1 EiB") && refused.ends_with("; lower it"), "{refused}");
    }
}
