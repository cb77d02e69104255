//! Looks for what is no program: permissions, properties of the kernel, devices, memory and space.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};

use ::serve::{Limits, UblkControl};
use capture::block::{BACKENDS, BackendSetup, EventsNeeded, free_bytes};
use capture::lab::{KvmAccess, LabError};
use capture::programs::find;
use replay::live::Ring;
use rustix::process::{Resource, geteuid, getrlimit};

use super::resources::available_memory;
use crate::units::data;

/// Bits of a capability set (linux/capability.h).
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
/// Less memory than a guest of the lab has by default is called too little.
const MEMORY_MIN_BYTES: u64 = 512 << 20;
/// Less space than a guest's carrier disk may take is called too little.
const SPACE_MIN_BYTES: u64 = 1 << 30;

/// Whether this process has a capability.
fn has_capability(bit: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> bit & 1 == 1)
}

/// Whether a command ends successfully.
fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

pub fn mounting() -> Result<String, String> {
    if has_capability(CAP_SYS_ADMIN) {
        return Ok("yes".to_owned());
    }
    Err("an iSCSI target and its disks need it to mount: run as root, or use virtio disks".to_owned())
}

pub fn packets() -> Result<String, String> {
    if has_capability(CAP_NET_RAW) {
        return Ok("yes".to_owned());
    }
    // The program may have the capability by its file. It can then open an interface, here for its link types.
    match find("dumpcap") {
        Some(dumpcap) if succeeds(Command::new(&dumpcap).args(["-i", "lo", "-L"])) => {
            Ok("by dumpcap's file".to_owned())
        }
        _ => {
            Err("packets cannot be captured: run as root, or setcap cap_net_raw,cap_net_admin+eip on dumpcap"
                .to_owned())
        }
    }
}

pub fn realtime() -> Result<String, String> {
    match find("chrt") {
        Some(chrt) if succeeds(Command::new(&chrt).args(["--fifo", "10", "true"])) => Ok("yes".to_owned()),
        Some(_) => {
            Err("real-time priority is not permitted, so replies are later on a busy host: run as root".to_owned())
        }
        None => Err("unknown without chrt".to_owned()),
    }
}

pub fn block_devices() -> Result<String, String> {
    let entries = std::fs::read_dir("/sys/block").map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let names: Vec<String> =
        entries.into_iter().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let open = |name: &&String| OpenOptions::new().read(true).open(Path::new("/dev").join(name));
    let readable: Vec<&str> = names.iter().filter(|name| open(name).is_ok()).map(String::as_str).collect();
    let refused =
        names.iter().any(|name| matches!(open(&name), Err(error) if error.kind() == ErrorKind::PermissionDenied));
    match (readable.as_slice(), refused) {
        ([], true) => Err("this user may read none: run as root, or as a member of the group disk".to_owned()),
        ([], false) => Err("there is none; a file will do".to_owned()),
        (readable, _) => Ok(format!("{} can be read", readable.len())),
    }
}

pub fn namespaces() -> Result<String, String> {
    match capture::lab::check_namespaces() {
        Ok(()) => Ok("yes".to_owned()),
        Err(LabError::Missing { program }) => Err(format!("unknown without {program}")),
        Err(error) => {
            Err(format!("{error}; run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"))
        }
    }
}

pub fn open_files() -> Result<String, String> {
    let limits = Limits::default();
    let wanted = (limits.connections + limits.handshakes) as u64;
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < wanted => Err(format!(
            "at most {most}, and {} clients at once need {wanted}: raise it (ulimit -Hn)",
            limits.connections
        )),
        Some(most) => Ok(format!("at most {most}")),
        None => Ok("no limit".to_owned()),
    }
}

/// Asks a backend of `iocast capture block` whether it can be tried.
fn backend(name: &str) -> Result<String, String> {
    let (raw, decode, buffer_kib, events) = (None, true, 1, EventsNeeded::All);
    let setup = BackendSetup { devices: Vec::new(), raw, rotates: false, decode, buffer_kib, events };
    match BACKENDS.iter().find(|row| row.name == name) {
        Some(row) => (row.probe)(&setup).map(|()| "yes".to_owned()),
        None => Err(format!("there is no backend {name}")),
    }
}

pub fn ublk() -> Result<String, String> {
    UblkControl::open().map(|_| "yes".to_owned()).map_err(|error| error.to_string())
}

pub fn tracefs() -> Result<String, String> {
    backend("tracefs")
}

pub fn blk_tracer() -> Result<String, String> {
    backend("blk-tracer")
}

pub fn debugfs() -> Result<String, String> {
    backend("blktrace")
}

pub fn io_uring() -> Result<String, String> {
    let refused = |error| format!("{}; --backend auto takes threads instead", io_uring_unavailable(&error));
    Ring::check().map(|()| "yes".to_owned()).map_err(refused)
}

/// Why requests do not go through io_uring, with the setting that may forbid it.
pub fn io_uring_unavailable(error: &io::Error) -> String {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => " (see `sysctl kernel.io_uring_disabled`, and seccomp filters of containers)",
        _ => "",
    };
    format!("io_uring is not available: {error}{hint}")
}

pub fn kvm() -> Result<String, String> {
    match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) if geteuid().is_root() && KvmAccess::of_host() == KvmAccess::RootOnly => Err(
            "only root may open it, and VMs do not run as root: chgrp kvm /dev/kvm, chmod 660 /dev/kvm; without it VMs \
             are emulated"
                .to_owned(),
        ),
        Ok(_) => Ok("yes".to_owned()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(format!("{error}: run as root, or as a member of the group kvm; without it VMs are emulated"))
        }
        Err(error) => Err(format!("{error}: the host has no virtualisation or forbids it; VMs are emulated")),
    }
}

pub fn nbd() -> Result<String, String> {
    match Path::new("/dev/nbd0").exists() {
        true => Ok("yes".to_owned()),
        false => Err("the kernel's NBD driver is not loaded: modprobe nbd".to_owned()),
    }
}

pub fn memory() -> Result<String, String> {
    match available_memory() {
        None => Err("/proc/meminfo does not say how much is available".to_owned()),
        Some(bytes) if bytes < MEMORY_MIN_BYTES => Err(format!("{} available: end other programs", data(bytes))),
        Some(bytes) => Ok(format!("{} available", data(bytes))),
    }
}

pub fn space() -> Result<String, String> {
    match free_bytes(Path::new(".")) {
        None => Err("this folder's file system does not say how much is free".to_owned()),
        Some(bytes) if bytes < SPACE_MIN_BYTES => Err(format!("{} in this folder: use another folder", data(bytes))),
        Some(bytes) => Ok(format!("{} in this folder", data(bytes))),
    }
}
