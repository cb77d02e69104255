//! Sockets at which clients connect. None of them blocks.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::nbd::socket::Socket;

/// A socket at which clients connect.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket for NBD.
    Unix(UnixListener),
    /// A TCP port for NBD.
    Tcp(TcpListener),
    /// A Unix socket for vhost-user, and the index of the export that its clients open.
    VhostUser(UnixListener, usize),
}

/// A client that has connected.
pub(super) enum Accepted {
    Nbd(Socket),
    /// With the index of the export.
    VhostUser(UnixStream, usize),
}

impl Listener {
    /// Creates a Unix socket for NBD at `path`, where nothing may exist.
    ///
    /// # Errors
    /// The operating system's.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        bind(path).map(Listener::Unix)
    }

    /// Creates a Unix socket for vhost-user at `path`, where nothing may exist. Its clients open the export with the index
    /// `export`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn vhost_user(path: &Path, export: usize) -> io::Result<Listener> {
        bind(path).map(|listener| Listener::VhostUser(listener, export))
    }

    /// Listens at a TCP port for NBD.
    ///
    /// # Errors
    /// The operating system's.
    pub fn tcp(address: SocketAddr) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    /// The index of the export that its clients open, over vhost-user.
    pub(super) fn export(&self) -> Option<usize> {
        if let Listener::VhostUser(_, export) = self { Some(*export) } else { None }
    }

    pub(super) fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Accepted::Nbd(Socket::Unix(stream)))
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                // A reply waits for no further one. A connection that has ended already fails later.
                let _ = stream.set_nodelay(true);
                Ok(Accepted::Nbd(Socket::Tcp(stream)))
            }
            Listener::VhostUser(listener, export) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Accepted::VhostUser(stream, *export))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) | Listener::VhostUser(listener, _) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
