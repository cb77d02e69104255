//! An NBD client that sends exactly the commands that a test names.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Errors of replies.
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ESHUTDOWN: u32 = 108;
/// Commands.
pub const FLUSH: u16 = 3;
pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const TRIM: u16 = 4;
pub const ZERO: u16 = 6;
/// Flags of commands.
pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;

/// A request as it goes over the wire, without its payload.
pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// An option of the handshake as it goes over the wire.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// A client that can have several outstanding requests.
pub struct Client {
    pub socket: UnixStream,
    pub size: u64,
    pub flags: u16,
    sent: u64,
    /// Lengths of outstanding reads, by cookie.
    reads: BTreeMap<u64, usize>,
}

impl Client {
    /// Opens an export by NBD_OPT_GO. The error is the server's message, or the operating system's.
    pub fn connect(path: &Path, export: &str) -> Result<Client, String> {
        Client::begin(path, export).map_err(|error| error.to_string())?
    }

    fn begin(path: &Path, export: &str) -> std::io::Result<Result<Client, String>> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting)?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle, no zeroes; no information requests.
        let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes(), &[0, 0]].concat();
        socket.write_all(&[&3u32.to_be_bytes()[..], &option(7, &name)].concat())?;
        let mut client = Client { socket, size: 0, flags: 0, sent: 0, reads: BTreeMap::new() };
        loop {
            let mut head = [0; 20];
            client.socket.read_exact(&mut head)?;
            let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
            let length = u32::from_be_bytes(head[16..].try_into().unwrap());
            let mut data = vec![0; length as usize];
            client.socket.read_exact(&mut data)?;
            match kind {
                1 => return Ok(Ok(client)),
                3 if data[..2] == [0, 0] => {
                    client.size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    client.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                3 => {}
                error => return Ok(Err(format!("{error:#x}: {}", String::from_utf8_lossy(&data)))),
            }
        }
    }

    /// Sends a command. Returns its cookie.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        self.try_send(command, flags, offset, length, data).unwrap()
    }

    /// As [`Client::send`], to a server that may be gone.
    pub fn try_send(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> std::io::Result<u64> {
        let cookie = self.sent;
        self.sent += 1;
        let head = request(command, flags, cookie, offset, length);
        if command == READ {
            self.reads.insert(cookie, length as usize);
        }
        self.socket.write_all(&[&head, data].concat()).map(|()| cookie)
    }

    /// The next reply: cookie, error, data.
    pub fn receive(&mut self) -> (u64, u32, Vec<u8>) {
        self.try_receive().unwrap()
    }

    /// As [`Client::receive`], of a server that may be gone.
    pub fn try_receive(&mut self) -> std::io::Result<(u64, u32, Vec<u8>)> {
        let mut head = [0; 16];
        self.socket.read_exact(&mut head)?;
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
        let length = self.reads.remove(&cookie).filter(|_| error == 0).unwrap_or(0);
        let mut data = vec![0; length];
        self.socket.read_exact(&mut data)?;
        Ok((cookie, error, data))
    }

    /// Sends a command and waits for its reply. Returns its error.
    pub fn fail(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u32 {
        let sent = self.send(command, flags, offset, length, data);
        let (cookie, error, _) = self.receive();
        assert_eq!(cookie, sent);
        error
    }

    /// Sends a command and waits for its reply, which must be no error. Returns its data.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Vec<u8> {
        let sent = self.send(command, flags, offset, length, data);
        let (cookie, error, data) = self.receive();
        assert_eq!((cookie, error), (sent, 0));
        data
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.ask(READ, 0, offset, length, &[])
    }

    pub fn write(&mut self, offset: u64, data: &[u8], flags: u16) {
        self.ask(WRITE, flags, offset, data.len() as u32, data);
    }
}

pub fn take<const N: usize>(socket: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes).unwrap();
    bytes
}

/// A seeded xorshift generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
