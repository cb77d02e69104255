//! Requests over NBD, from a client's bytes to the reply: data are moved at once, the reply waits for the drive.

use std::io;

use super::client::{Client, Phase, Receiving, ReplyData};
use super::handshake::Step;
use super::transmission::{Header, NbdError, REQUEST_BYTES};
use crate::requests::{self, Command, PIECE_BYTES, errno};
use crate::served::Connection;
use crate::server::{Reply, Server};

/// The most bytes that are read from the image before their replies are due. Beyond them, data are read when the reply
/// is sent.
const BUFFERED_BYTES_MAX: usize = 256 << 20;
/// How many times one client's outstanding requests are filled up before the others have their turn.
const BATCHES_PER_TURN: usize = 4;

impl Server {
    /// Receives once if `is_readable`, processes, and sends. Returns whether it left requests for the client's next
    /// turn.
    ///
    /// # Errors
    /// The connection must end.
    pub(crate) fn exchange(&mut self, token: u64, client: &mut Client, is_readable: bool) -> io::Result<bool> {
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
        let command = match command {
            Err(error) => return client.reply(header.cookie, Some(error), ReplyData::None),
            Ok(command) => command,
        };
        let range = (header.offset, header.length.into());
        let Some(arrived) = requests::arrive(&mut self.drive, connection, command, range) else {
            return client.reply(header.cookie, None, ReplyData::None);
        };
        let (data, errno) = match command {
            Command::Read => self.read(self.drive.in_image(connection, header.offset), header.length as usize),
            _ => (ReplyData::None, errno),
        };
        client.at_drive += 1;
        self.requests.keep(arrived, errno, Reply::nbd(token, header.cookie, data));
    }

    /// Reads the data of a reply, unless they are long or too many wait already. Returns them, and the error or zero.
    fn read(&mut self, at: u64, length: usize) -> (ReplyData, i32) {
        if length > PIECE_BYTES || self.buffered + length > BUFFERED_BYTES_MAX {
            return (ReplyData::InImage { at, end: at + length as u64, has_begun: false }, 0);
        }
        let mut bytes = vec![0; length];
        match errno(self.drive.image().read(&mut bytes, at)) {
            0 => {
                self.buffered += length;
                (ReplyData::Buffered(bytes), 0)
            }
            errno => (ReplyData::None, errno),
        }
    }
}
