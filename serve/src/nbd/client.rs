//! One client's connection: its phase, and bytes on their way in both directions.

use std::collections::VecDeque;
use std::io;

use rustix::event::epoll::EventFlags;

use super::handshake::{GREETING, Handshake};
use super::socket::Socket;
use super::transmission::{Header, NbdError, reply};
use crate::image::Image;
use crate::requests::{Command, PIECE_BYTES};
use crate::served::Connection;

/// The most pieces that are sent to one client before the others have their turn.
const PIECES_PER_TURN: usize = 4;

/// A client's connection.
pub(crate) struct Client {
    pub(crate) socket: Socket,
    pub(crate) phase: Phase,
    /// Bytes that were received and must wait.
    pub(crate) input: Vec<u8>,
    /// Bytes of which the first `sent` are sent.
    pub(crate) output: Vec<u8>,
    sent: usize,
    replies: VecDeque<Reply>,
    /// Requests whose replies are not in `output` yet.
    pub(crate) outstanding: u32,
    /// Those of them that are at the drive.
    pub(crate) at_drive: u32,
    /// Whether no further request is accepted. The connection ends with the last reply.
    pub(crate) is_ending: bool,
    /// The events that the server waits for.
    pub(crate) interest: EventFlags,
}

pub(crate) enum Phase {
    Handshake(Handshake),
    Transmission { connection: Connection, export: usize, receiving: Option<Receiving> },
}

/// A write whose payload is not complete.
pub(crate) struct Receiving {
    pub(crate) header: Header,
    pub(crate) command: Result<Command, NbdError>,
    /// The bytes of payload that are in the image.
    pub(crate) taken: u32,
    /// Those of the next piece that have arrived.
    pub(crate) piece: Vec<u8>,
    /// The first error of the image, or zero.
    pub(crate) errno: i32,
}

struct Reply {
    cookie: u64,
    error: Option<NbdError>,
    data: ReplyData,
}

/// The data of a reply.
pub(crate) enum ReplyData {
    None,
    /// Data that were read when the request arrived.
    Buffered(Vec<u8>),
    /// Data that are read when they are sent.
    InImage {
        at: u64,
        end: u64,
        has_begun: bool,
    },
}

impl ReplyData {
    pub(crate) fn buffered_bytes(&self) -> usize {
        if let ReplyData::Buffered(bytes) = self { bytes.len() } else { 0 }
    }
}

impl Client {
    pub(crate) fn new(socket: Socket, interest: EventFlags) -> Client {
        Client {
            socket,
            phase: Phase::Handshake(Handshake::default()),
            input: Vec::new(),
            output: GREETING.to_vec(),
            sent: 0,
            replies: VecDeque::new(),
            outstanding: 0,
            at_drive: 0,
            is_ending: false,
            interest,
        }
    }

    /// Whether the client may send: it has fewer outstanding requests than `requests_max`, and has read its replies.
    pub(crate) fn may_send(&self, requests_max: u32) -> bool {
        let is_below = match &self.phase {
            Phase::Handshake(_) => self.output.len() < PIECE_BYTES,
            Phase::Transmission { receiving, .. } => receiving.is_some() || self.outstanding < requests_max,
        };
        is_below && !self.is_ending
    }

    /// Queues the reply to an outstanding request.
    pub(crate) fn reply(&mut self, cookie: u64, error: Option<NbdError>, data: ReplyData) {
        self.replies.push_back(Reply { cookie, error, data });
    }

    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.output.len() || !self.replies.is_empty()
    }

    /// Whether the connection has ended: no further request, and all replies are sent.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_ending && self.outstanding == 0 && !self.has_output()
    }

    /// Bytes that its replies hold.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.replies.iter().map(|reply| reply.data.buffered_bytes()).sum()
    }

    /// Sends as much as the client takes. Bytes that leave the buffers of replies are subtracted from `buffered`.
    ///
    /// # Errors
    /// The connection has failed, or the image in the middle of a reply, so that the connection must end.
    pub(crate) fn send(&mut self, image: &Image, buffered: &mut usize) -> io::Result<()> {
        for _ in 0..PIECES_PER_TURN {
            self.fill(image, buffered)?;
            if self.output.is_empty() {
                return Ok(());
            }
            match self.socket.send(&self.output[self.sent..])? {
                Some(count) => self.sent += count,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Moves the next replies, a piece of data or a little more, into the empty output.
    fn fill(&mut self, image: &Image, buffered: &mut usize) -> io::Result<()> {
        if self.sent < self.output.len() {
            return Ok(());
        }
        self.output.clear();
        self.sent = 0;
        while self.output.len() < PIECE_BYTES
            && let Some(next) = self.replies.front_mut()
        {
            if append(&mut self.output, next, image)? {
                *buffered -= next.data.buffered_bytes();
                self.replies.pop_front();
                self.outstanding -= 1;
            }
        }
        Ok(())
    }
}

/// Appends a reply, or its next piece. Returns whether it is complete.
fn append(output: &mut Vec<u8>, next: &mut Reply, image: &Image) -> io::Result<bool> {
    let head = reply(next.cookie, next.error);
    match &mut next.data {
        ReplyData::None => output.extend(head),
        ReplyData::Buffered(bytes) => {
            output.extend(head);
            output.extend_from_slice(bytes);
        }
        ReplyData::InImage { at, end, has_begun } => {
            let count = (*end - *at).min(PIECE_BYTES as u64);
            let begin = output.len();
            if !*has_begun {
                output.extend(head);
            }
            let data = output.len();
            output.resize(data + count as usize, 0);
            match image.read(&mut output[data..], *at) {
                Ok(()) => {}
                // A reply that has begun cannot become an error.
                Err(error) if *has_begun => return Err(error),
                Err(_) => {
                    output.truncate(begin);
                    output.extend(reply(next.cookie, Some(NbdError::Io)));
                    return Ok(true);
                }
            }
            (*at, *has_begun) = (*at + count, true);
            return Ok(at == end);
        }
    }
    Ok(true)
}
