//! Event counters that a client hands over: it announces requests by one (kick), and learns of answers by another (call).

use std::fs::{File, read_link};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// A counter by which the client announces requests. The server's loop waits for it as long as it exists.
///
/// The counter is never read, so that no race for its value can block the loop: it is watched for edges, and each kick
/// is one.
pub(super) struct Kick {
    counter: File,
    epoll: Arc<OwnedFd>,
}

impl Kick {
    /// Has the loop wait for `counter`; its events carry `data`.
    ///
    /// # Errors
    /// It is no event counter, or cannot be watched.
    pub(super) fn watch(counter: File, epoll: &Arc<OwnedFd>, data: u64) -> io::Result<Kick> {
        check(&counter)?;
        epoll::add(epoll, &counter, EventData::new_u64(data), EventFlags::IN | EventFlags::ET)?;
        Ok(Kick { counter, epoll: Arc::clone(epoll) })
    }
}

impl Drop for Kick {
    fn drop(&mut self) {
        // Closing is not enough: the client has the counter as well. It fails only if the loop has ended.
        let _ = epoll::delete(&self.epoll, &self.counter);
    }
}

/// A counter by which the client is notified.
pub(super) struct Call(File);

impl Call {
    /// # Errors
    /// It is no event counter.
    pub(super) fn new(counter: File) -> io::Result<Call> {
        check(&counter)?;
        // A full counter must not block the loop. The client is to be woken by what it holds.
        fcntl_setfl(&counter, fcntl_getfl(&counter)? | OFlags::NONBLOCK)?;
        Ok(Call(counter))
    }

    pub(super) fn signal(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Refuses other files: some of them block when they are polled.
fn check(file: &File) -> io::Result<()> {
    let target = read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if target.to_str() != Some("anon_inode:[eventfd]") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no event counter"));
    }
    Ok(())
}
