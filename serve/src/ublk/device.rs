//! The life of one block device: added, started, stopped, deleted.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::abi::{self, ANY_DEVICE, DEPTH_MAX, Description, INFO_BYTES, control};
use super::ring::{Descriptions, Ring};
use crate::served::Connection;

/// Errors of a command that the driver does not know.
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;
/// The result of a command whose block device is going (`UBLK_IO_RES_ABORT`).
const ENODEV: i32 = 19;
/// The device through which block devices are made.
const CONTROL: &str = "/dev/ublk-control";
/// User data of the commands that start and stop the device; tags are below.
const START: u64 = 1 << 32;
const STOP: u64 = 2 << 32;
/// The commands beside one for each tag that the ring may have.
const OTHER_COMMANDS: u32 = 2;
/// How long the kernel's helpers may take until the character device may be opened.
const NODE_TIME: Duration = Duration::from_secs(5);

/// What a block device looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) sectors: u64,
    pub(crate) is_rotational: bool,
    pub(crate) discards: bool,
    /// The most outstanding requests.
    pub(crate) depth: u32,
}

/// What the reply to a request needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(super) tag: u16,
    /// The result of a request that succeeds: the bytes that it moves.
    pub(super) bytes: i32,
}

/// What the kernel says.
pub(super) enum Event {
    /// A request has come.
    Request(u16),
    /// The block device is there, or why not.
    Started(io::Result<()>),
    /// The block device is gone. No request follows.
    Stopped,
    /// The driver takes a command of a tag for wrong. Its requests would wait for ever.
    Failed(io::Error),
}

/// Makes block devices of this host.
#[derive(Debug)]
pub struct UblkControl(File);

impl UblkControl {
    /// Opens the device through which the kernel makes them.
    ///
    /// # Errors
    /// It is missing or may not be used, with the remedy.
    pub fn open() -> io::Result<UblkControl> {
        let opened = OpenOptions::new().read(true).write(true).open(CONTROL);
        opened.map(UblkControl).map_err(|error| {
            let problem = match error.kind() {
                io::ErrorKind::NotFound => {
                    "not there; load its driver (modprobe ublk_drv, Linux 6.5 or later)".to_owned()
                }
                io::ErrorKind::PermissionDenied => "may be used by root only".to_owned(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), problem)
        })
    }
}

/// A block device of this host. Dropping it removes it.
pub(crate) struct BlockDevice {
    control: UblkControl,
    ring: Option<Ring>,
    number: u32,
    depth: u16,
    /// The index of its export.
    pub(crate) export: usize,
    pub(super) connection: Option<Connection>,
    /// The character device and the descriptions of its requests, from the start on.
    started: Option<(Arc<File>, Descriptions)>,
    /// Whether results have not been passed to the kernel yet.
    pub(super) has_answers: bool,
}

impl BlockDevice {
    /// Adds a device with this number, or the first free one. A device of that number that nobody serves is replaced.
    ///
    /// # Errors
    /// The number is in use, or the kernel cannot copy as is needed.
    pub(crate) fn add(
        control: UblkControl,
        number: Option<u32>,
        export: usize,
        shape: Shape,
    ) -> io::Result<BlockDevice> {
        let depth = u16::try_from(shape.depth).unwrap_or(DEPTH_MAX).min(DEPTH_MAX);
        let mut ring = Ring::new(u32::from(depth) + OTHER_COMMANDS)?;
        if let Some(number) = number {
            delete_if_dead(&mut ring, &control.0, number)?;
        }
        let asked = number.unwrap_or(ANY_DEVICE);
        let added = ring.control(&control.0, control::ADD, asked, abi::info(asked, depth));
        let info = added.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => io::Error::other(format!("/dev/ublkb{asked} is served or open already")),
            _ => error,
        })?;
        let (_, number, copies) = abi::informed(&info);
        let mut device = BlockDevice {
            control,
            ring: Some(ring),
            number,
            depth,
            export,
            connection: None,
            started: None,
            has_answers: false,
        };
        if !copies {
            return Err(io::Error::other("its driver ublk_drv does not let a server copy data, as since Linux 6.5"));
        }
        let parameters = abi::parameters(shape.sectors, shape.is_rotational, shape.discards);
        if let Some(ring) = &mut device.ring {
            ring.control(&device.control.0, control::SET_PARAMETERS, number, parameters)?;
        }
        Ok(device)
    }

    /// Where the block device appears.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number))
    }

    /// Begins to fetch requests, all from the calling thread, and to start the block device.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let character = Arc::new(open_soon(&format!("/dev/ublkc{}", self.number))?);
        let descriptions = Descriptions::map(&character, self.depth)?;
        for tag in 0..self.depth {
            ring.fetch(&character, tag, None)?;
        }
        ring.begin(&self.control.0, (control::START, u64::from(std::process::id())), self.number, START)?;
        ring.submit()?;
        self.started = Some((character, descriptions));
        Ok(())
    }

    /// Begins to stop the block device. Requests that come first must be served: those that write what the kernel has
    /// cached of it.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn stop(&mut self) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        ring.begin(&self.control.0, (control::STOP, 0), self.number, STOP)?;
        ring.submit()
    }

    /// The kernel's next event.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        loop {
            let (user_data, result) = self.ring.as_mut()?.next()?;
            match user_data {
                START if result < 0 => return Some(Event::Started(Err(io::Error::from_raw_os_error(-result)))),
                START => return Some(Event::Started(Ok(()))),
                STOP => return Some(Event::Stopped),
                // The block device is going; the tag gets no request any more.
                _ if result == -ENODEV => {}
                _ if result < 0 => return Some(Event::Failed(io::Error::from_raw_os_error(-result))),
                tag => return Some(Event::Request(tag as u16)),
            }
        }
    }

    /// The description of a tag's request.
    pub(super) fn description(&self, tag: u16) -> Option<(Description, Arc<File>)> {
        self.started.as_ref().map(|(file, descriptions)| (descriptions.of(tag), Arc::clone(file)))
    }

    /// Notes the result of a request, for the next [`BlockDevice::pass_answers`]. `errno` is zero if it has succeeded.
    pub(crate) fn answer(&mut self, answer: Answer, errno: i32) {
        let (Some(ring), Some((file, _))) = (&mut self.ring, &self.started) else { return };
        let result = if errno == 0 { answer.bytes } else { -errno };
        // There is room: the tag's last command has ended.
        let _ = ring.fetch(file, answer.tag, Some(result));
        self.has_answers = true;
    }

    /// Passes the results so far to the kernel.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn pass_answers(&mut self) -> io::Result<()> {
        self.has_answers = false;
        self.ring.as_mut().map_or(Ok(()), Ring::submit)
    }
}

impl AsFd for BlockDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_ref().map_or(self.control.0.as_fd(), |ring| ring.as_fd())
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        // The kernel deletes a device whose commands are in no ring.
        self.started = None;
        self.ring = None;
        // It may be gone already.
        let _ = Ring::new(1).and_then(|mut ring| delete(&mut ring, &self.control.0, self.number));
    }
}

/// Deletes the device with this number if its server has gone.
fn delete_if_dead(ring: &mut Ring, control: &File, number: u32) -> io::Result<()> {
    let info = ring.control(control, control::INFO, number, vec![0; INFO_BYTES]);
    if info.is_ok_and(|info| abi::informed(&info).0 == abi::DEAD) {
        delete(ring, control, number)?;
    }
    Ok(())
}

/// Deletes a device. The kernel does it when nobody has the block device open any more; before Linux 6.9 this waits.
fn delete(ring: &mut Ring, control: &File, number: u32) -> io::Result<()> {
    let too_old = |error: &io::Error| [EOPNOTSUPP, EINVAL].map(Some).contains(&error.raw_os_error());
    match ring.control(control, control::DELETE_SOON, number, Vec::new()) {
        Err(error) if too_old(&error) => ring.control(control, control::DELETE, number, Vec::new()).map(drop),
        deleted => deleted.map(drop),
    }
}

/// Opens a device node that appears soon.
fn open_soon(path: &str) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && begun.elapsed() < NODE_TIME => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened,
        }
    }
}
