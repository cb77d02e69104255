//! The address at which the server listens: a Unix socket or a TCP port.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ::serve::nbd::Listener;
use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::arguments::Serve;
use crate::error::UsageError;

/// The longest path of a Unix socket, in bytes (`sun_path` without its terminating zero, unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

pub enum Listen {
    Unix(PathBuf),
    Tcp(IpAddr, u16),
}

impl Listen {
    pub fn of(arguments: &Serve) -> Result<Listen> {
        let text = &arguments.listen;
        let wrong = || UsageError(format!("--listen {text}: expected unix:PATH or tcp:PORT"));
        if let Some(path) = text.strip_prefix("unix:") {
            ensure!(!path.is_empty(), wrong());
            ensure!(
                arguments.listen_address.is_none(),
                UsageError("--listen-address goes with --listen tcp:PORT".to_owned())
            );
            let path = std::path::absolute(path).with_context(|| path.to_owned())?;
            ensure!(
                path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX,
                UsageError(format!(
                    "--listen unix:{}: a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes",
                    path.display()
                ))
            );
            return Ok(Listen::Unix(path));
        }
        let port = text.strip_prefix("tcp:").and_then(|port| port.parse().ok()).filter(|&port: &u16| port > 0);
        let address = arguments.listen_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        ensure!(
            address.is_loopback() || arguments.listen_public,
            UsageError(format!(
                "--listen-address {address}: clients on other hosts could read and write without a password; add \
                 --listen-public if they may"
            ))
        );
        Ok(Listen::Tcp(address, port.ok_or_else(wrong)?))
    }

    /// Takes the address, before anything is created that a second server would have to remove. A Unix socket appears
    /// only with [`Address::listen`], so that its existence means that clients are served.
    pub fn take(&self) -> Result<Address> {
        match self {
            Listen::Unix(path) => {
                make_way(path)?;
                Ok(Address::Unix { path: path.clone(), is_bound: false })
            }
            Listen::Tcp(address, port) => {
                let address = SocketAddr::new(*address, *port);
                let listener = Listener::tcp(address).map_err(|error| match error.kind() {
                    ErrorKind::AddrInUse => anyhow!(
                        "another program listens on {address} already; name another port with --listen tcp:PORT, or \
                         stop that program"
                    ),
                    _ => anyhow!(error).context(format!("cannot listen on {address}")),
                })?;
                Ok(Address::Tcp(Some(listener)))
            }
        }
    }

    /// The URI by which NBD clients open an export (NBD URI specification).
    pub fn uri(&self, export: &str) -> String {
        match self {
            Listen::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
            Listen::Tcp(IpAddr::V6(address), port) => format!("nbd://[{address}]:{port}/{export}"),
            Listen::Tcp(address, port) => format!("nbd://{address}:{port}/{export}"),
        }
    }
}

/// An address that this server has. Dropping it removes a Unix socket's file.
pub enum Address {
    Unix { path: PathBuf, is_bound: bool },
    Tcp(Option<Listener>),
}

impl Address {
    /// The listener, once.
    pub fn listen(&mut self) -> Result<Listener> {
        match self {
            Address::Unix { path, is_bound } => {
                let listener = Listener::unix(path).with_context(|| format!("cannot listen on {}", path.display()))?;
                *is_bound = true;
                Ok(listener)
            }
            Address::Tcp(listener) => listener.take().context("the server has its listener already"),
        }
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        if let Address::Unix { path, is_bound: true } = self {
            // Another program may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the socket of a server that no longer runs.
fn make_way(path: &Path) -> Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return folder_exists(path),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    ensure!(
        metadata.file_type().is_socket(),
        "{} exists and is no socket; name another with --listen unix:PATH",
        path.display()
    );
    match UnixStream::connect(path) {
        Ok(_) => bail!("a server listens on {} already; name another socket, or stop that server", path.display()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).with_context(|| format!("cannot remove the stale socket {}", path.display()))
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn folder_exists(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    ensure!(folder.is_dir(), "there is no folder {} for the socket", folder.display());
    Ok(())
}
