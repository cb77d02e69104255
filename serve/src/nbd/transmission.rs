//! The transmission phase: requests, and simple replies (NBD protocol, "Transmission").

use super::PAYLOAD_BYTES_MAX;
use super::handshake::flags;
use crate::requests::Command;

const REQUEST_MAGIC: [u8; 4] = 0x2560_9513u32.to_be_bytes();
const REPLY_MAGIC: [u8; 4] = 0x6744_6698u32.to_be_bytes();
/// The length of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// The length of a reply without its data.
pub const REPLY_BYTES: usize = 16;

const FLAG_FUA: u16 = 1;
const FLAG_NO_HOLE: u16 = 1 << 1;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

/// The error of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NbdError {
    /// The image reports an error.
    Io = 5,
    /// The request is not valid.
    Invalid = 22,
    /// A write beyond the end of the export, or an image whose file system is full.
    NoSpace = 28,
    /// The server ends.
    Shutdown = 108,
}

impl NbdError {
    /// The protocol's error for an error number of the operating system.
    pub fn of_errno(errno: i32) -> NbdError {
        if errno == rustix::io::Errno::NOSPC.raw_os_error() { NbdError::NoSpace } else { NbdError::Io }
    }
}

/// A request as it stands in the client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    flags: u16,
    command: u16,
    /// The client's name for the request.
    pub cookie: u64,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u32,
}

impl Header {
    /// The request in these bytes; `None` if they are no request, after which nothing is.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Header> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (flags, rest) = rest.split_first_chunk()?;
        let (command, rest) = rest.split_first_chunk()?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (length, _) = rest.split_first_chunk()?;
        (*magic == REQUEST_MAGIC).then(|| Header {
            flags: u16::from_be_bytes(*flags),
            command: u16::from_be_bytes(*command),
            cookie: u64::from_be_bytes(*cookie),
            offset: u64::from_be_bytes(*offset),
            length: u32::from_be_bytes(*length),
        })
    }

    /// The bytes of payload that follow.
    pub fn payload(&self) -> u32 {
        if self.command == WRITE { self.length } else { 0 }
    }

    /// Whether the client ends the connection. It expects no reply.
    pub fn is_disconnect(&self) -> bool {
        self.command == DISCONNECT
    }

    /// The command, if an export of `bytes` bytes with these transmission flags can serve it.
    ///
    /// # Errors
    /// The reply's error.
    pub fn command(&self, bytes: u64, can: u16) -> Result<Command, NbdError> {
        let fua = self.flags & FLAG_FUA != 0;
        let (permitted, command) = match self.command {
            READ => (FLAG_FUA, Command::Read),
            WRITE => (FLAG_FUA, Command::Write { fua }),
            FLUSH => (FLAG_FUA, Command::Flush),
            TRIM if can & flags::TRIM != 0 => (FLAG_FUA, Command::Discard { fua }),
            WRITE_ZEROES => {
                let may_discard = self.flags & FLAG_NO_HOLE == 0;
                (FLAG_FUA | FLAG_NO_HOLE, Command::WriteZeroes { fua, may_discard })
            }
            _ => return Err(NbdError::Invalid),
        };
        let has_data = matches!(command, Command::Read | Command::Write { .. });
        if self.flags & !permitted != 0 || (has_data && self.length > PAYLOAD_BYTES_MAX) {
            return Err(NbdError::Invalid);
        }
        if command == Command::Flush {
            return Ok(command);
        }
        match self.offset.checked_add(self.length.into()) {
            Some(end) if end <= bytes => Ok(command),
            _ if matches!(command, Command::Write { .. } | Command::WriteZeroes { .. }) => Err(NbdError::NoSpace),
            _ => Err(NbdError::Invalid),
        }
    }
}

/// A reply without its data.
pub fn reply(cookie: u64, error: Option<NbdError>) -> [u8; REPLY_BYTES] {
    let mut bytes = [0; REPLY_BYTES];
    bytes[..4].copy_from_slice(&REPLY_MAGIC);
    bytes[4..8].copy_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

#[cfg(test)]
#[path = "transmission_tests.rs"]
mod tests;
