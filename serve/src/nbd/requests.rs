//! Requests, from a client's bytes to the reply: data are moved at once, the reply waits for the drive.

use std::io;

use traces::{Operation, RequestId};

use super::PIECE_BYTES;
use super::client::{Client, Phase, Receiving, ReplyData};
use super::handshake::Step;
use super::server::Server;
use super::transmission::{Command, Header, NbdError, REQUEST_BYTES};
use crate::served::{Access, Connection, Ticket};
use crate::simulated_drive::FinishedRequest;
use drive_models::WriteCache;

/// The most bytes that are read from the image before their replies are due. Beyond them, data are read when the reply
/// is sent.
const BUFFERED_BYTES_MAX: usize = 256 << 20;
/// The bytes that are zeroed at once.
const ZEROED_BYTES: u64 = 4 << 20;
/// How many times one client's outstanding requests are filled up before the others have their turn.
const BATCHES_PER_TURN: usize = 4;
/// The error number (`EIO`) of an error of the image that has none.
const EIO: i32 = 5;

/// A request that has arrived at the drive.
pub(super) struct Pending {
    /// The client's token. The client may have gone.
    client: u64,
    cookie: u64,
    connection: Connection,
    ticket: Ticket,
    data: ReplyData,
    /// The bytes of the image that are yet to be zeroed.
    to_zero: std::ops::Range<u64>,
    errno: i32,
    /// Whether a flush follows, in place of forced unit access.
    flush_follows: bool,
    finished: Option<FinishedRequest>,
}

impl Server {
    /// Receives once if `is_readable`, processes, and sends. Returns whether it left requests for the client's next
    /// turn.
    ///
    /// # Errors
    /// The connection must end.
    pub(super) fn exchange(&mut self, token: u64, client: &mut Client, is_readable: bool) -> io::Result<bool> {
        if is_readable && client.may_send(self.limits.requests) {
            let mut scratch = std::mem::take(&mut self.scratch);
            let received = self.receive(token, client, &mut scratch);
            self.scratch = scratch;
            received?;
        }
        self.send(client)?;
        // Replies that have been sent make way for requests that have waited.
        for _ in 0..BATCHES_PER_TURN {
            if client.input.is_empty() || !client.may_send(self.limits.requests) {
                return Ok(false);
            }
            let waiting = std::mem::take(&mut client.input);
            let taken = self.process(token, client, &waiting)?;
            client.input = waiting[taken..].to_vec();
            self.send(client)?;
            if taken == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn send(&mut self, client: &mut Client) -> io::Result<()> {
        self.drive.save_log();
        client.send(self.drive.image(), &mut self.buffered)
    }

    fn receive(&mut self, token: u64, client: &mut Client, scratch: &mut [u8]) -> io::Result<()> {
        match client.socket.receive(scratch)? {
            None => {}
            // The client sends no more. It gets the replies to the requests that are complete.
            Some(0) => self.end_requests(client),
            Some(count) if client.input.is_empty() => {
                let taken = self.process(token, client, &scratch[..count])?;
                client.input.extend_from_slice(&scratch[taken..count]);
            }
            Some(count) => client.input.extend_from_slice(&scratch[..count]),
        }
        Ok(())
    }

    /// Accepts no further request. A write without its whole payload is dropped.
    fn end_requests(&self, client: &mut Client) {
        client.is_ending = true;
        client.input.clear();
        if let Phase::Transmission { receiving, .. } = &mut client.phase
            && receiving.take().is_some()
        {
            client.outstanding -= 1;
        }
    }

    /// Processes messages from the front of `bytes`, as far as the client may send them. Returns how many bytes it
    /// took.
    fn process(&mut self, token: u64, client: &mut Client, bytes: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while client.may_send(self.limits.requests) {
            let rest = &bytes[at..];
            let taken = match &mut client.phase {
                Phase::Handshake(handshake) => {
                    let (taken, step) = handshake.advance(rest, &self.offers, &mut client.output);
                    match step {
                        Step::Continue | Step::Incomplete => {}
                        Step::Close => client.is_ending = true,
                        Step::Transmission(export) => {
                            let connection = self.drive.connect(export);
                            client.phase = Phase::Transmission { connection, export, receiving: None };
                            self.handshake_ended(token);
                        }
                    }
                    taken
                }
                Phase::Transmission { receiving: Some(_), .. } => self.payload(token, client, rest),
                Phase::Transmission { .. } => match rest.first_chunk::<REQUEST_BYTES>() {
                    None => 0,
                    Some(head) => {
                        let header = Header::parse(head)
                            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no request"))?;
                        self.request(token, client, header);
                        REQUEST_BYTES
                    }
                },
            };
            at += taken;
            if taken == 0 {
                break;
            }
        }
        Ok(at)
    }

    fn request(&mut self, token: u64, client: &mut Client, header: Header) {
        if header.is_disconnect() {
            return self.end_requests(client);
        }
        client.outstanding += 1;
        let Phase::Transmission { connection, export, receiving } = &mut client.phase else { return };
        let offer = &self.offers.exports[*export];
        let command = header.command(offer.bytes, offer.flags);
        if header.payload() > 0 {
            *receiving = Some(Receiving { header, command, taken: 0, piece: Vec::new(), errno: 0 });
            return;
        }
        let connection = *connection;
        self.submit(token, client, connection, header, command, 0);
    }

    /// Takes payload of a write from the front of `bytes`, and writes complete pieces to the image. Returns how many
    /// bytes it took.
    fn payload(&mut self, token: u64, client: &mut Client, bytes: &[u8]) -> usize {
        let Phase::Transmission { connection, receiving, .. } = &mut client.phase else { return 0 };
        let Some(write) = receiving else { return 0 };
        let piece_bytes = ((write.header.length - write.taken) as usize).min(PIECE_BYTES);
        let count = (piece_bytes - write.piece.len()).min(bytes.len());
        let arrived = &bytes[..count];
        if write.piece.len() + count < piece_bytes {
            write.piece.extend_from_slice(arrived);
            return count;
        }
        let piece = if write.piece.is_empty() {
            arrived
        } else {
            write.piece.extend_from_slice(arrived);
            &write.piece
        };
        if write.command.is_ok() && write.errno == 0 {
            let at = self.drive.in_image(*connection, write.header.offset + u64::from(write.taken));
            write.errno = errno(self.drive.image().write(piece, at));
        }
        write.taken += piece_bytes as u32;
        write.piece.clear();
        if write.taken == write.header.length {
            let (connection, header, command, errno) = (*connection, write.header, write.command, write.errno);
            *receiving = None;
            self.submit(token, client, connection, header, command, errno);
        }
        count
    }

    /// Submits a request to the drive, and moves the data of reads. The data of writes are in the image.
    fn submit(
        &mut self,
        token: u64,
        client: &mut Client,
        connection: Connection,
        header: Header,
        command: Result<Command, NbdError>,
        errno: i32,
    ) {
        let (operation, fua) = match command {
            Err(error) => return client.reply(header.cookie, Some(error), ReplyData::None),
            Ok(Command::Flush) => (Operation::Flush, false),
            Ok(_) if header.length == 0 => return client.reply(header.cookie, None, ReplyData::None),
            Ok(Command::Read) => (Operation::Read, false),
            Ok(Command::Trim { fua }) => (Operation::Discard, fua),
            Ok(Command::WriteZeroes { fua, may_discard: true }) if self.drive.discards() => (Operation::Discard, fua),
            Ok(Command::Write { fua } | Command::WriteZeroes { fua, .. }) => (Operation::Write, fua),
        };
        let flush_follows = fua && self.drive.write_cache() == (WriteCache::Volatile { fua: false });
        let access =
            Access { operation, fua: fua && !flush_follows, offset: header.offset, length: header.length.into() };
        let ticket = match operation {
            Operation::Flush => self.drive.flush(connection),
            _ => Some(self.drive.submit(connection, access)),
        };
        let Some(ticket) = ticket else { return client.reply(header.cookie, None, ReplyData::None) };
        let cookie = header.cookie;
        let mut pending = Pending {
            client: token,
            cookie,
            connection,
            ticket,
            data: ReplyData::None,
            to_zero: 0..0,
            errno,
            flush_follows,
            finished: None,
        };
        match command {
            Ok(Command::Read) => {
                let at = self.drive.in_image(connection, header.offset);
                self.read(&mut pending, at, header.length as usize);
            }
            Ok(Command::Trim { .. } | Command::WriteZeroes { .. }) => {
                let at = self.drive.in_image(connection, header.offset);
                pending.to_zero = at..at + u64::from(header.length);
                self.zeroing.push_back(ticket.id);
            }
            _ => {}
        }
        client.at_drive += 1;
        self.keep(pending);
    }

    /// Reads the data of a reply, unless they are long or too many wait already.
    fn read(&mut self, pending: &mut Pending, at: u64, length: usize) {
        if length > PIECE_BYTES || self.buffered + length > BUFFERED_BYTES_MAX {
            pending.data = ReplyData::InImage { at, end: at + length as u64, has_begun: false };
            return;
        }
        let mut bytes = vec![0; length];
        pending.errno = errno(self.drive.image().read(&mut bytes, at));
        if pending.errno == 0 {
            self.buffered += length;
            pending.data = ReplyData::Buffered(bytes);
        }
    }

    fn keep(&mut self, pending: Pending) {
        let index = pending.ticket.id.index();
        if index >= self.pending.len() {
            self.pending.resize_with(index + 1, || None);
        }
        self.pending[index] = Some(pending);
    }

    /// Replies to requests whose completion times have passed.
    pub(super) fn complete_due(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        self.drive.run(&mut finished);
        let mut replied: Vec<u64> = Vec::new();
        for one in finished.drain(..) {
            let id = one.completion.id;
            let Some(pending) = self.pending.get_mut(id.index()).and_then(Option::as_mut) else { continue };
            pending.finished = Some(one);
            let client = pending.client;
            if pending.to_zero.is_empty() {
                self.conclude(id);
                if replied.last() != Some(&client) {
                    replied.push(client);
                }
            }
        }
        self.finished = finished;
        for client in replied {
            self.advance_client(client, false);
        }
    }

    /// Zeroes the next piece of the image that a request zeroes.
    pub(super) fn zero_a_piece(&mut self) {
        let Some(id) = self.zeroing.pop_front() else { return };
        let Some(pending) = self.pending.get_mut(id.index()).and_then(Option::as_mut) else { return };
        let count = (pending.to_zero.end - pending.to_zero.start).min(ZEROED_BYTES);
        pending.errno = errno(self.drive.image().zero(pending.to_zero.start, count));
        pending.to_zero.start += count;
        if pending.errno != 0 {
            pending.to_zero = 0..0;
        }
        if !pending.to_zero.is_empty() {
            self.zeroing.push_back(id);
        } else if pending.finished.is_some() {
            let client = pending.client;
            self.conclude(id);
            self.advance_client(client, false);
        }
    }

    /// Ends a request that the drive has completed and whose data have been moved.
    fn conclude(&mut self, id: RequestId) {
        let Some(pending) = self.pending[id.index()].take() else { return };
        let Some(finished) = &pending.finished else { return };
        self.drive.complete(&pending.ticket, finished, pending.errno);
        if pending.flush_follows
            && pending.errno == 0
            && let Some(ticket) = self.drive.flush(pending.connection)
        {
            return self.keep(Pending { ticket, flush_follows: false, finished: None, ..pending });
        }
        let error = (pending.errno != 0).then(|| NbdError::of_errno(pending.errno));
        match self.clients.get_mut(&pending.client) {
            Some(client) => {
                client.at_drive -= 1;
                client.reply(pending.cookie, error, pending.data);
            }
            None => {
                self.buffered -= pending.data.buffered_bytes();
                self.departed_request_ended(pending.client);
            }
        }
    }

    /// Replies to all requests at the drive that the server ends.
    pub(super) fn fail_pending(&mut self) {
        for pending in self.pending.drain(..).flatten() {
            self.buffered -= pending.data.buffered_bytes();
            if let Some(client) = self.clients.get_mut(&pending.client) {
                client.reply(pending.cookie, Some(NbdError::Shutdown), ReplyData::None);
            }
        }
    }
}

fn errno(result: io::Result<()>) -> i32 {
    result.err().map_or(0, |error| error.raw_os_error().unwrap_or(EIO))
}
