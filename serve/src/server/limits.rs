//! Bounds on what clients can make the server hold.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::vhost_user::FILES_MAX;

/// The files that the server opens beside its connections.
const OTHER_FILES: u64 = 64;

/// Bounds on what clients can make a server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most outstanding requests of a connection.
    pub requests: u32,
    /// The most connections that have an export open.
    pub connections: usize,
    /// The most clients over vhost-user.
    pub devices: usize,
    /// The most connections that choose an export. Another one ends the oldest of them.
    pub handshakes: usize,
    /// How long they may take.
    pub handshake_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            requests: 64,
            connections: 1024,
            devices: 64,
            handshakes: 256,
            handshake_time: Duration::from_secs(10),
        }
    }
}

/// Raises the limit of open files as far as `limits` need it, or lowers `limits` to it.
pub(super) fn within_file_limit(limits: Limits) -> Limits {
    let found = getrlimit(Resource::Nofile);
    let needed = (limits.connections + limits.handshakes + limits.devices * FILES_MAX) as u64 + OTHER_FILES;
    let most = found.maximum.map_or(needed, |maximum| maximum.min(needed));
    let current = found.current.unwrap_or(u64::MAX);
    if current >= needed {
        return limits;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..found });
    within(limits, if raised.is_ok() { most } else { current })
}

/// Lowers `limits` to what needs so many files: a third of a low limit is for handshakes, and a third for devices.
fn within(limits: Limits, files: u64) -> Limits {
    let usable = files.saturating_sub(OTHER_FILES).max(3) as usize;
    let handshakes = limits.handshakes.min(usable / 3);
    let devices = limits.devices.min(usable / 3 / FILES_MAX);
    let connections = limits.connections.min(usable - handshakes - devices * FILES_MAX);
    Limits { handshakes, devices, connections, ..limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_need_no_more_files_than_there_are() {
        for files in [0, 64, 256, 1024, 4096, 1 << 20] {
            let Limits { connections, devices, handshakes, .. } = within(Limits::default(), files);
            assert!(connections > 0 && handshakes > 0, "{files}");
            let needed = (connections + handshakes + devices * FILES_MAX) as u64;
            assert!(needed <= files.saturating_sub(OTHER_FILES).max(3), "{files}: {needed}");
        }
        assert_eq!(within(Limits::default(), 1 << 20), Limits::default());
        assert!(within(Limits::default(), 1024).devices > 1);
    }
}
