//! Requests of all front ends: maps a command to the drive's requests, moves data in pieces, and flushes after a write
//! if the drive lacks forced unit access.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use drive_models::WriteCache;
use traces::{Operation, RequestId};

use crate::ServedDrive;
use crate::image::Image;
use crate::served::{Access, Connection, Ticket};
use crate::simulated_drive::FinishedRequest;
use crate::ublk::Copy;
use crate::vhost_user::Transfer;

/// The longest piece in which data move, in bytes. Shorter requests are read and written as a whole.
pub(crate) const PIECE_BYTES: usize = 128 << 10;
/// The bytes that are zeroed at once.
const ZEROED_BYTES: u64 = 4 << 20;
/// The error number (`EIO`) of an error of the image that has none.
const EIO: i32 = 5;

/// A command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write data.
    Write {
        /// With forced unit access.
        fua: bool,
    },
    /// Make completed writes durable.
    Flush,
    /// Discard.
    Discard {
        /// With forced unit access.
        fua: bool,
    },
    /// Write zeros.
    WriteZeroes {
        /// With forced unit access.
        fua: bool,
        /// A discard is permitted.
        may_discard: bool,
    },
}

/// What is yet to be done to the image.
pub(crate) enum Work {
    None,
    /// Bytes of the image to zero.
    Zero(Range<u64>),
    /// Data to move between a guest's memory and the image.
    Transfer(Transfer),
    /// Data to move between the kernel and the image.
    Copy(Copy),
}

impl Work {
    fn is_done(&self) -> bool {
        matches!(self, Work::None)
    }

    /// Does a piece of the work.
    fn step(&mut self, image: &Image, scratch: &mut [u8]) -> io::Result<()> {
        let is_done = match self {
            Work::None => true,
            Work::Zero(range) => {
                let count = (range.end - range.start).min(ZEROED_BYTES);
                image.zero(range.start, count)?;
                range.start += count;
                range.is_empty()
            }
            Work::Transfer(transfer) => transfer.step(image, scratch)?,
            Work::Copy(copy) => copy.step(image, scratch)?,
        };
        if is_done {
            *self = Work::None;
        }
        Ok(())
    }
}

/// A request that has arrived at the drive, before its data are moved.
pub(crate) struct Arrived {
    connection: Connection,
    ticket: Ticket,
    flush_follows: bool,
    work: Work,
}

/// A request at the drive.
struct AtDrive<R> {
    arrived: Arrived,
    /// The first error of its data, or zero.
    errno: i32,
    finished: Option<FinishedRequest>,
    reply: R,
}

/// A request that the drive has completed and whose data have been moved.
pub(crate) struct Ended<R> {
    pub(crate) reply: R,
    /// The first error of its data, or zero.
    pub(crate) errno: i32,
}

/// Submits a command for `length` bytes of the connection's export from `offset` on. `None` if it is complete: it needs
/// nothing of the drive.
pub(crate) fn arrive(
    drive: &mut ServedDrive,
    connection: Connection,
    command: Command,
    (offset, length): (u64, u64),
) -> Option<Arrived> {
    if length == 0 && command != Command::Flush {
        return None;
    }
    let (operation, fua) = match command {
        Command::Flush => {
            let ticket = drive.flush(connection)?;
            return Some(Arrived { connection, ticket, flush_follows: false, work: Work::None });
        }
        Command::Read => (Operation::Read, false),
        Command::Discard { fua } => (Operation::Discard, fua),
        Command::WriteZeroes { fua, may_discard: true } if drive.discards() => (Operation::Discard, fua),
        Command::Write { fua } | Command::WriteZeroes { fua, .. } => (Operation::Write, fua),
    };
    let flush_follows = fua && drive.write_cache() == (WriteCache::Volatile { fua: false });
    let ticket = drive.submit(connection, Access { operation, fua: fua && !flush_follows, offset, length });
    let work = match command {
        Command::Discard { .. } | Command::WriteZeroes { .. } => {
            let at = drive.in_image(connection, offset);
            Work::Zero(at..at + length)
        }
        _ => Work::None,
    };
    Some(Arrived { connection, ticket, flush_follows, work })
}

/// The requests at a drive. `R` is what a front end needs for the reply.
pub(crate) struct Requests<R> {
    at_drive: Vec<Option<AtDrive<R>>>,
    /// Requests whose work is not done.
    working: VecDeque<RequestId>,
    // Reused to avoid an allocation for each request.
    finished: Vec<FinishedRequest>,
    scratch: Vec<u8>,
}

impl<R> Requests<R> {
    pub(crate) fn new() -> Requests<R> {
        Requests { at_drive: Vec::new(), working: VecDeque::new(), finished: Vec::new(), scratch: vec![0; PIECE_BYTES] }
    }

    /// Whether a request has work that is not done.
    pub(crate) fn has_work(&self) -> bool {
        !self.working.is_empty()
    }

    /// Keeps a request until the drive has completed it. `errno` is the error of the data that were moved, or zero.
    pub(crate) fn keep(&mut self, arrived: Arrived, errno: i32, reply: R) {
        if !arrived.work.is_done() {
            self.working.push_back(arrived.ticket.id);
        }
        self.put(AtDrive { arrived, errno, finished: None, reply });
    }

    /// Keeps a request whose data are moved by `work`: the first piece now, others later.
    pub(crate) fn keep_moving(&mut self, image: &Image, mut arrived: Arrived, work: Work, reply: R) {
        arrived.work = work;
        let errno = errno(arrived.work.step(image, &mut self.scratch));
        if errno != 0 {
            arrived.work = Work::None;
        }
        self.keep(arrived, errno, reply);
    }

    fn put(&mut self, request: AtDrive<R>) {
        let index = request.arrived.ticket.id.index();
        if index >= self.at_drive.len() {
            self.at_drive.resize_with(index + 1, || None);
        }
        self.at_drive[index] = Some(request);
    }

    /// Appends the requests whose completion times have passed and whose data have been moved to `ended`.
    pub(crate) fn complete_due(&mut self, drive: &mut ServedDrive, ended: &mut Vec<Ended<R>>) {
        let mut finished = std::mem::take(&mut self.finished);
        drive.run(&mut finished);
        for one in finished.drain(..) {
            let id = one.completion.id;
            let Some(request) = self.at_drive.get_mut(id.index()).and_then(Option::as_mut) else { continue };
            request.finished = Some(one);
            if request.arrived.work.is_done() {
                ended.extend(self.conclude(drive, id));
            }
        }
        self.finished = finished;
    }

    /// Does the next piece of work, and appends the request to `ended` if that was its last.
    pub(crate) fn work(&mut self, drive: &mut ServedDrive, ended: &mut Vec<Ended<R>>) {
        let Some(id) = self.working.pop_front() else { return };
        let Some(request) = self.at_drive.get_mut(id.index()).and_then(Option::as_mut) else { return };
        request.errno = errno(request.arrived.work.step(drive.image(), &mut self.scratch));
        if request.errno != 0 {
            request.arrived.work = Work::None;
        }
        if !request.arrived.work.is_done() {
            self.working.push_back(id);
        } else if request.finished.is_some() {
            ended.extend(self.conclude(drive, id));
        }
    }

    /// Ends a request that the drive has completed and whose data have been moved, or lets its flush follow.
    fn conclude(&mut self, drive: &mut ServedDrive, id: RequestId) -> Option<Ended<R>> {
        let AtDrive { arrived, errno, finished, reply } = self.at_drive[id.index()].take()?;
        drive.complete(&arrived.ticket, &finished?, errno);
        if arrived.flush_follows
            && errno == 0
            && let Some(ticket) = drive.flush(arrived.connection)
        {
            let arrived = Arrived { ticket, flush_follows: false, ..arrived };
            self.put(AtDrive { arrived, errno, finished: None, reply });
            return None;
        }
        Some(Ended { reply, errno })
    }

    /// Forgets all requests. Returns what their replies would have needed.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = R> {
        self.working.clear();
        std::mem::take(&mut self.at_drive).into_iter().flatten().map(|request| request.reply)
    }
}

/// The error number of a result, or zero.
pub(crate) fn errno(result: io::Result<()>) -> i32 {
    result.err().map_or(0, |error| error.raw_os_error().unwrap_or(EIO))
}
