//! The addresses at which the server listens: Unix sockets, TCP ports, and block devices of this host.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ::serve::{Export, Listener, UblkControl};
use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::arguments::Serve;
use crate::error::UsageError;

/// The longest path of a Unix socket, in bytes (`sun_path` without its terminating zero, unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// An address as the user gives it.
pub enum Listen {
    Unix(PathBuf),
    Tcp(IpAddr, u16),
    /// With the export that clients open, if it is named.
    VhostUser(PathBuf, Option<String>),
    /// A block device of this host, with its number and the name of its export.
    Ublk(Option<u32>, Option<String>),
}

/// The addresses of a server, in the order given.
pub fn addresses(arguments: &Serve) -> Result<Vec<Listen>> {
    let listens = arguments.listen.iter().map(|text| Listen::parse(text, arguments));
    let listens = listens.collect::<Result<Vec<Listen>>>()?;
    ensure!(
        arguments.listen_address.is_none() || listens.iter().any(|listen| matches!(listen, Listen::Tcp(..))),
        UsageError("--listen-address goes with --listen tcp:PORT".to_owned())
    );
    for (index, listen) in listens.iter().enumerate() {
        ensure!(
            listen.place().is_none() || listens[..index].iter().all(|other| other.place() != listen.place()),
            UsageError(format!("--listen {}: the address is given twice", arguments.listen[index]))
        );
    }
    Ok(listens)
}

impl Listen {
    fn parse(text: &str, arguments: &Serve) -> Result<Listen> {
        let wrong = || {
            let forms = "unix:PATH, tcp:PORT, vhost-user:PATH[=EXPORT] or ublk[:N][=EXPORT]";
            UsageError(format!("--listen {text}: expected {forms}"))
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Listen::Unix(socket_path(text, path)?));
        }
        if let Some(rest) = text.strip_prefix("vhost-user:") {
            // Only the last = separates: a path may contain one if the export is named.
            let (path, export) = match rest.rsplit_once('=') {
                Some((path, export)) => (path, Some(export.to_owned())),
                None => (rest, None),
            };
            return Ok(Listen::VhostUser(socket_path(text, path)?, export));
        }
        if let Some(rest) = text.strip_prefix("ublk") {
            let (number, export) = match rest.split_once('=') {
                Some((number, export)) => (number, Some(export.to_owned())),
                None => (rest, None),
            };
            let parsed = number.strip_prefix(':').map(str::parse).transpose().map_err(|_| wrong())?;
            ensure!(parsed.is_some() || number.is_empty(), wrong());
            return Ok(Listen::Ublk(parsed, export));
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

    /// What no two addresses share: the socket's path, the TCP port, or the block device. `None` if it is chosen later.
    fn place(&self) -> Option<Place<'_>> {
        match self {
            Listen::Unix(path) | Listen::VhostUser(path, _) => Some(Place::Socket(path)),
            Listen::Tcp(_, port) => Some(Place::Port(*port)),
            Listen::Ublk(number, _) => number.map(Place::BlockDevice),
        }
    }

    /// The export that clients open, by its index; there is one unnamed export if `names` has none. `None` over NBD,
    /// where clients name one.
    ///
    /// # Errors
    /// No export has that name, or several exist and none is named.
    pub fn export(&self, names: &[&str]) -> Result<Option<usize>> {
        let (address, name) = match self {
            Listen::VhostUser(path, name) => (format!("vhost-user:{}", path.display()), name),
            Listen::Ublk(Some(number), name) => (format!("ublk:{number}"), name),
            Listen::Ublk(None, name) => ("ublk".to_owned(), name),
            Listen::Unix(_) | Listen::Tcp(..) => return Ok(None),
        };
        let known = names.join(", ");
        match (name, names) {
            (None, [] | [_]) => Ok(Some(0)),
            (None, _) => bail!(UsageError(format!(
                "--listen {address}: several exports exist; name one as {address}=EXPORT, of {known}"
            ))),
            (Some(name), []) => bail!(UsageError(format!(
                "--listen {address}={name}: there are no exports; add --export {name}@START:SIZE, or leave out \
                 ={name} to serve the whole image"
            ))),
            (Some(name), _) => match names.iter().position(|known| known == name) {
                None => bail!(UsageError(format!(
                    "--listen {address}={name}: there is no export {name}; the exports are {known}"
                ))),
                index => Ok(index),
            },
        }
    }

    /// Takes the address, before anything is created that a second server would have to remove. A Unix socket appears
    /// only with [`Address::open`], so that its existence means that clients are served.
    pub fn take(&self) -> Result<Address> {
        match self {
            Listen::Unix(path) | Listen::VhostUser(path, _) => {
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
            Listen::Ublk(number, _) => Ok(Address::Ublk(Some(UblkControl::open().context("--listen ublk")?), *number)),
        }
    }

    /// How clients open the exports: a line for each that is at this address. `export` is that of [`Listen::export`].
    /// A block device has none until it is made.
    pub fn places(&self, export: Option<usize>, exports: &[Export]) -> Vec<String> {
        let here = |index: &usize| export.is_none_or(|export| export == *index);
        let line = |index: usize| Some(place(&self.uri(&exports[index].name)?, &exports[index]));
        (0..exports.len()).filter(here).filter_map(line).collect()
    }

    /// The URI by which NBD clients open an export (NBD URI specification). Over vhost-user, where there is none, the
    /// address in full. `None` of a block device.
    fn uri(&self, export: &str) -> Option<String> {
        Some(match self {
            Listen::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
            Listen::VhostUser(path, _) if export.is_empty() => format!("vhost-user:{}", path.display()),
            Listen::VhostUser(path, _) => format!("vhost-user:{}={export}", path.display()),
            Listen::Tcp(IpAddr::V6(address), port) => format!("nbd://[{address}]:{port}/{export}"),
            Listen::Tcp(address, port) => format!("nbd://{address}:{port}/{export}"),
            Listen::Ublk(..) => return None,
        })
    }
}

/// The line that says where clients find an export.
pub fn place(at: &str, export: &Export) -> String {
    format!("{at} ({} bytes)", export.length.bytes())
}

/// The absolute path of a socket in `text`.
fn socket_path(text: &str, path: &str) -> Result<PathBuf> {
    ensure!(!path.is_empty(), UsageError(format!("--listen {text}: the path of the socket is missing")));
    let path = std::path::absolute(path).with_context(|| path.to_owned())?;
    ensure!(
        path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX,
        UsageError(format!(
            "--listen {text}: a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes, and {} has more",
            path.display()
        ))
    );
    Ok(path)
}

/// What no two addresses share.
#[derive(PartialEq)]
enum Place<'a> {
    Socket(&'a Path),
    Port(u16),
    BlockDevice(u32),
}

/// What the server is given of an address.
pub enum Opened {
    Listener(Listener),
    /// A block device to make, with its number if it is given.
    BlockDevice(UblkControl, Option<u32>),
}

/// An address that this server has. Dropping it removes a Unix socket's file.
pub enum Address {
    Unix { path: PathBuf, is_bound: bool },
    Tcp(Option<Listener>),
    Ublk(Option<UblkControl>, Option<u32>),
}

impl Address {
    /// The listener, once. Over vhost-user its clients open the export with the index `export`.
    pub fn open(&mut self, export: Option<usize>) -> Result<Opened> {
        let twice = "the server has its listener already";
        match self {
            Address::Unix { path, is_bound } => {
                let bound = match export {
                    Some(export) => Listener::vhost_user(path, export),
                    None => Listener::unix(path),
                };
                let listener = bound.with_context(|| format!("cannot listen on {}", path.display()))?;
                *is_bound = true;
                Ok(Opened::Listener(listener))
            }
            Address::Tcp(listener) => listener.take().map(Opened::Listener).context(twice),
            Address::Ublk(control, number) => {
                control.take().map(|control| Opened::BlockDevice(control, *number)).context(twice)
            }
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
    ensure!(metadata.file_type().is_socket(), "{} exists and is no socket; name another with --listen", path.display());
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
