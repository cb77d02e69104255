//! The handshake: the client chooses an export by options (NBD protocol, "Newstyle negotiation").

use super::PAYLOAD_BYTES_MAX;

/// The server's first bytes: two magic numbers, and the flags "fixed newstyle" and "no zeroes".
pub const GREETING: [u8; 18] = *b"NBDMAGICIHAVEOPT\0\x03";

/// What the server can do with an export (transmission flags).
pub mod flags {
    /// The flags are valid. Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// It accepts flushes.
    pub const FLUSH: u16 = 1 << 2;
    /// It accepts forced unit access.
    pub const FUA: u16 = 1 << 3;
    /// It is a rotating disk.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// It accepts discards.
    pub const TRIM: u16 = 1 << 5;
    /// It accepts requests to write zeros.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// A flush on one connection covers all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

const CLIENT_FIXED_NEWSTYLE: u32 = 1;
const CLIENT_NO_ZEROES: u32 = 1 << 1;
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const OPTION_HEAD_BYTES: usize = 16;
/// The longest data of an option; the longest name of an export has 4096 bytes.
const OPTION_BYTES_MAX: usize = 8 << 10;
/// Behind the size and flags of an old reply, unless both sides leave them out.
const ZEROES: [u8; 124] = [0; 124];

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const INFO: u32 = 6;
const GO: u32 = 7;

const REPLY_ACK: u32 = 1;
const REPLY_SERVER: u32 = 2;
const REPLY_INFO: u32 = 3;
const ERROR_UNSUPPORTED: u32 = (1 << 31) | 1;
const ERROR_POLICY: u32 = (1 << 31) | 2;
const ERROR_INVALID: u32 = (1 << 31) | 3;
const ERROR_UNKNOWN: u32 = (1 << 31) | 6;

const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;
/// Any byte may be addressed; an access to part of a sector costs the whole one.
const BLOCK_BYTES_MIN: u32 = 1;
const BLOCK_BYTES_PREFERRED: u32 = 4096;

/// An export as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The name; empty for the whole image.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
    /// Transmission flags ([`flags`]).
    pub flags: u16,
}

/// The exports of a server, and whether it admits another client.
#[derive(Clone, Debug)]
pub struct Offers {
    /// The exports.
    pub exports: Vec<Offer>,
    /// Why no further client is admitted, if none is.
    pub refusal: Option<String>,
}

/// What follows a message of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message is not complete.
    Incomplete,
    /// Further options.
    Continue,
    /// The transmission phase, on the export with this index.
    Transmission(usize),
    /// The end of the connection, after the output is sent.
    Close,
}

/// The state of a handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    has_flags: bool,
    no_zeroes: bool,
}

impl Handshake {
    /// Takes one message from the front of `input` and appends the reply to `output`. Returns how many bytes it took.
    pub fn advance(&mut self, input: &[u8], offers: &Offers, output: &mut Vec<u8>) -> (usize, Step) {
        if !self.has_flags {
            let Some(flags) = input.first_chunk().copied().map(u32::from_be_bytes) else {
                return (0, Step::Incomplete);
            };
            self.has_flags = true;
            self.no_zeroes = flags & CLIENT_NO_ZEROES != 0;
            let known = flags & !(CLIENT_FIXED_NEWSTYLE | CLIENT_NO_ZEROES) == 0;
            return (4, if known { Step::Continue } else { Step::Close });
        }
        let Some(head) = input.first_chunk::<OPTION_HEAD_BYTES>() else { return (0, Step::Incomplete) };
        let (option, length) = (number(&head[8..12]), number(&head[12..16]) as usize);
        if head[..8] != *OPTION_MAGIC || length > OPTION_BYTES_MAX {
            return (OPTION_HEAD_BYTES, Step::Close);
        }
        let Some(data) = input[OPTION_HEAD_BYTES..].get(..length) else { return (0, Step::Incomplete) };
        (OPTION_HEAD_BYTES + length, self.option(option, data, offers, output))
    }

    fn option(self, option: u32, data: &[u8], offers: &Offers, output: &mut Vec<u8>) -> Step {
        match option {
            EXPORT_NAME => return self.export_name(data, offers, output),
            ABORT => {
                reply(output, option, REPLY_ACK, &[]);
                return Step::Close;
            }
            LIST if data.is_empty() => {
                for offer in &offers.exports {
                    let length = (offer.name.len() as u32).to_be_bytes();
                    reply(output, option, REPLY_SERVER, &[&length[..], offer.name.as_bytes()].concat());
                }
                reply(output, option, REPLY_ACK, &[]);
            }
            LIST => reply(output, option, ERROR_INVALID, b"this option has no data"),
            INFO | GO => return information(option, data, offers, output),
            _ => reply(output, option, ERROR_UNSUPPORTED, b"this server does not know this option"),
        }
        Step::Continue
    }

    /// The oldest way to choose an export. It knows no errors but the end of the connection.
    fn export_name(self, data: &[u8], offers: &Offers, output: &mut Vec<u8>) -> Step {
        match std::str::from_utf8(data).ok().and_then(|name| offers.find(name)) {
            Some(index) if offers.refusal.is_none() => {
                let offer = &offers.exports[index];
                output.extend(offer.bytes.to_be_bytes());
                output.extend(offer.flags.to_be_bytes());
                output.extend(if self.no_zeroes { &[][..] } else { &ZEROES });
                Step::Transmission(index)
            }
            _ => Step::Close,
        }
    }
}

impl Offers {
    /// The index of the export of this name. The empty name also means a single export.
    fn find(&self, name: &str) -> Option<usize> {
        let only = (name.is_empty() && self.exports.len() == 1).then_some(0);
        self.exports.iter().position(|offer| offer.name == name).or(only)
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<String> = self.exports.iter().map(|offer| format!("`{}`", offer.name)).collect();
        format!("there is no export `{name}`; there are {}", names.join(", "))
    }
}

/// Answers `INFO`, and `GO`, which also begins the transmission.
fn information(option: u32, data: &[u8], offers: &Offers, output: &mut Vec<u8>) -> Step {
    let Some((name, wanted)) = name_and_wanted(data) else {
        reply(output, option, ERROR_INVALID, b"a name and a list of information were expected");
        return Step::Continue;
    };
    let Some(index) = offers.find(name) else {
        reply(output, option, ERROR_UNKNOWN, offers.unknown(name).as_bytes());
        return Step::Continue;
    };
    if let Some(refusal) = offers.refusal.as_ref().filter(|_| option == GO) {
        reply(output, option, ERROR_POLICY, refusal.as_bytes());
        return Step::Continue;
    }
    let offer = &offers.exports[index];
    let export = [&INFO_EXPORT.to_be_bytes()[..], &offer.bytes.to_be_bytes(), &offer.flags.to_be_bytes()].concat();
    reply(output, option, REPLY_INFO, &export);
    if wanted.contains(&INFO_BLOCK_SIZE) {
        let sizes = [BLOCK_BYTES_MIN, BLOCK_BYTES_PREFERRED, PAYLOAD_BYTES_MAX].map(u32::to_be_bytes).concat();
        reply(output, option, REPLY_INFO, &[&INFO_BLOCK_SIZE.to_be_bytes()[..], &sizes].concat());
    }
    reply(output, option, REPLY_ACK, &[]);
    if option == GO { Step::Transmission(index) } else { Step::Continue }
}

/// The data of `INFO` and `GO`: an export's name, and numbers of information.
fn name_and_wanted(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let length = number(data.get(..4)?) as usize;
    let name = std::str::from_utf8(data.get(4..)?.get(..length)?).ok()?;
    let (count, wanted) = data.get(4 + length..)?.split_first_chunk()?;
    if wanted.len() != 2 * usize::from(u16::from_be_bytes(*count)) {
        return None;
    }
    Some((name, wanted.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect()))
}

fn reply(output: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    output.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    output.extend(option.to_be_bytes());
    output.extend(kind.to_be_bytes());
    output.extend((data.len() as u32).to_be_bytes());
    output.extend(data);
}

/// A big-endian number of up to four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, &byte| (number << 8) | u32::from(byte))
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
