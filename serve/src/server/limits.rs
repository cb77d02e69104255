//! Bounds on what clients can make the server hold.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
    let needed = (limits.connections + limits.handshakes) as u64 + OTHER_FILES;
    let most = found.maximum.map_or(needed, |maximum| maximum.min(needed));
    let current = found.current.unwrap_or(u64::MAX);
    if current >= needed {
        return limits;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..found });
    let files = if raised.is_ok() { most } else { current };
    // A third of a low limit is for handshakes.
    let usable = files.saturating_sub(OTHER_FILES).max(3) as usize;
    let handshakes = limits.handshakes.min(usable / 3);
    Limits { handshakes, connections: limits.connections.min(usable - handshakes), ..limits }
}
