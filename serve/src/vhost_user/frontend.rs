//! One client of a vhost-user socket.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use traces::Sectors;
use vhost::vhost_user::BackendReqHandler;
use vhost::vhost_user::message::{FrontendReq, MAX_ATTACHED_FD_ENTRIES, MAX_MSG_SIZE};

use super::config::QUEUES_MAX;
use super::device::Device;
use crate::served::Connection;

/// The most messages that one client's turn handles.
const MESSAGES_PER_TURN: usize = 64;
const HEADER_BYTES: usize = 12;
/// The most files of a client: two of its socket, three counters of each queue, and those of a message, which may have
/// the guest's memory once more.
pub(crate) const FILES_MAX: usize = 2 + 3 * QUEUES_MAX as usize + 2 * MAX_ATTACHED_FD_ENTRIES;

/// A client, and the device that it has set up.
pub(crate) struct Frontend {
    /// Reads messages, and calls the device for each.
    messages: BackendReqHandler<Mutex<Device>>,
    device: Arc<Mutex<Device>>,
    socket: UnixStream,
    /// The index of its export.
    pub(super) export: usize,
    /// Its connection to the drive, from its first request on.
    pub(super) connection: Option<Connection>,
    /// Its requests that are at the drive.
    pub(crate) at_drive: u32,
    /// The ring from which the next turn begins to take requests.
    pub(super) first_ring: usize,
    /// Whether a message may be left: it waits until requests of its ring are complete, or there were too many.
    pub(super) has_message: bool,
}

/// The beginning of a message.
struct Head {
    code: u32,
    /// The message's first word.
    word: u32,
}

impl Frontend {
    /// A client that has connected for an export of this length. Events of its rings carry `first_event` and what
    /// follows.
    ///
    /// # Errors
    /// The socket's.
    pub(crate) fn new(
        socket: UnixStream,
        (export, length): (usize, Sectors),
        discards: bool,
        epoll: &Arc<OwnedFd>,
        first_event: u64,
    ) -> io::Result<Frontend> {
        let device = Device::new(length, discards, epoll, first_event).map_err(io::Error::other)?;
        let device = Arc::new(Mutex::new(device));
        let messages = BackendReqHandler::from_stream(socket.try_clone()?, Arc::clone(&device));
        Ok(Frontend {
            messages,
            device,
            socket,
            export,
            connection: None,
            at_drive: 0,
            first_ring: 0,
            has_message: false,
        })
    }

    pub(crate) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(super) fn device(&self) -> MutexGuard<'_, Device> {
        lock(&self.device)
    }

    /// The device, while the client is changed.
    pub(super) fn shared_device(&self) -> Arc<Mutex<Device>> {
        Arc::clone(&self.device)
    }

    /// Handles the messages that have arrived. Returns whether it left some for the next turn.
    ///
    /// # Errors
    /// The client sends nonsense, or does not read its replies: the connection must end.
    pub(super) fn handle_messages(&mut self) -> io::Result<bool> {
        self.has_message = true;
        for _ in 0..MESSAGES_PER_TURN {
            let Some(head) = self.complete_message()? else {
                self.has_message = false;
                return Ok(false);
            };
            if head.code == FrontendReq::GET_VRING_BASE as u32 && self.device().stops(head.word) {
                // The reply says that the ring is at rest.
                return Ok(false);
            }
            // A writable socket has room for a reply: the library would wait for it.
            if !self.is_writable()? {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not read its replies"));
            }
            self.messages.handle_request().map_err(io::Error::other)?;
        }
        Ok(true)
    }

    /// The next message's beginning, if all of it has arrived: the library would wait for the rest.
    fn complete_message(&self) -> io::Result<Option<Head>> {
        let mut bytes = [0; HEADER_BYTES + 4];
        let (_, peeked) = match recv(&self.socket, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok(received) => received,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if peeked == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let payload = word(8) as usize;
        // The library refuses a longer message by its header.
        let needed = HEADER_BYTES + if payload > MAX_MSG_SIZE { 0 } else { payload };
        let is_complete =
            peeked >= needed.min(bytes.len()) && rustix::io::ioctl_fionread(&self.socket)? >= needed as u64;
        Ok(is_complete.then(|| Head { code: word(0), word: word(HEADER_BYTES) }))
    }

    fn is_writable(&self) -> io::Result<bool> {
        let mut watched = [PollFd::new(&self.socket, PollFlags::OUT)];
        poll(&mut watched, Some(&Timespec::default()))?;
        Ok(watched[0].revents().contains(PollFlags::OUT))
    }
}

pub(super) fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    // Only this thread has it.
    device.lock().unwrap_or_else(PoisonError::into_inner)
}
