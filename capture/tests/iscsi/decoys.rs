//! Data that looks like iSCSI: headers in which everything is as it must be but for one thing, and headers in which nothing
//! is wrong but that no header follows.

use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::conversation::{crc32c, put};

/// What is wrong with a decoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecoyFault {
    /// A bit of the opcode's byte that is always 0.
    Opcode,
    /// Flags that a command does not have.
    Flags,
    /// A task attribute that there is not.
    Attribute,
    /// Bytes that are always 0.
    Reserved,
    /// More additional header segments than a CDB can need.
    Additional,
    /// The reserved task tag.
    Tag,
    /// Data to transfer, and neither read nor written.
    TransferDirection,
    /// Neither the last PDU of its command nor one that writes.
    Unfinished,
    /// Data with a command that only reads.
    DataOfRead,
    /// More data than the command transfers.
    DataTooLong,
    /// A logical unit behind another.
    Unit,
    /// No disk's command.
    Command,
    /// Bytes behind the command's end.
    Tail,
    /// A command number from elsewhere, or the target's.
    CommandNumber,
    /// A status number from elsewhere.
    StatusNumber,
    /// Of a command, or a status, from a while ago: a copy.
    Old,
    /// Of a command that the target does not allow yet.
    Early,
    /// Those behind the first have numbers from elsewhere.
    Unrelated,
    /// The same, and the first is data of a write, which has no command number.
    BehindData,
    /// A wrong header digest.
    Digest,
    /// Nothing; what follows is no header.
    Nothing,
}

/// All that can be told where the numbers are known. A header that fits, with one behind it that does not and is cut
/// before its numbers, cannot.
pub const DECOY_FAULTS: [DecoyFault; 20] = [
    DecoyFault::Opcode,
    DecoyFault::Flags,
    DecoyFault::Attribute,
    DecoyFault::Reserved,
    DecoyFault::Additional,
    DecoyFault::Tag,
    DecoyFault::TransferDirection,
    DecoyFault::Unfinished,
    DecoyFault::DataOfRead,
    DecoyFault::DataTooLong,
    DecoyFault::Unit,
    DecoyFault::Command,
    DecoyFault::Tail,
    DecoyFault::CommandNumber,
    DecoyFault::StatusNumber,
    DecoyFault::Old,
    DecoyFault::Early,
    DecoyFault::BehindData,
    DecoyFault::Digest,
    DecoyFault::Nothing,
];

/// What a connection has come to.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub command_number: u32,
    pub status_number: u32,
    /// A task's, or nobody's.
    pub tag: u32,
    pub header_digest: bool,
}

/// Bytes from the beginning of one decoy to that of the next at least.
pub const APART: usize = 256;
/// Bytes from its beginning into what follows it, which is too little for a header.
pub const CUT: usize = 72;
/// Bytes of a long one's data. None begins where this ends.
const LONG: u32 = 1000;

/// A decoy with what makes a reader that overlooks the fault believe it: more of its kind behind it, or data up to a place
/// that need not have been captured.
fn decoy(fault: DecoyFault, known: Known, room: usize, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let answer = random.random_bool(0.3)
        && matches!(
            fault,
            DecoyFault::CommandNumber | DecoyFault::StatusNumber | DecoyFault::Old | DecoyFault::Nothing
        );
    // Numbers that fit and more headers behind them cannot be told from PDUs.
    let alone = matches!(fault, DecoyFault::Nothing | DecoyFault::Early) || room < APART;
    let chained = matches!(fault, DecoyFault::Unrelated | DecoyFault::BehindData);
    let long = room > 2 * LONG as usize
        && !chained
        && match fault {
            DecoyFault::Nothing | DecoyFault::DataOfRead => false,
            DecoyFault::Early => true,
            _ => random.random_bool(0.3),
        };
    let mut bytes = Vec::new();
    for number in 0..if alone || long { 1 } else { 3 } {
        let mut header = if answer { response(known, number) } else { command(known, number, long, random) };
        if chained && number == 0 {
            if fault == DecoyFault::BehindData {
                (header[0], header[1]) = (5, 0x80);
                header[24..28].fill(0);
                header[32..].fill(0);
            }
        } else {
            spoil(&mut header, fault, known, answer, random);
        }
        bytes.extend_from_slice(&header);
        if known.header_digest {
            let wrong = u8::from(fault == DecoyFault::Digest);
            bytes.extend_from_slice(&crc32c(&header).map(|byte| byte ^ wrong));
        }
    }
    bytes
}

fn command(known: Known, number: u32, long: bool, random: &mut Xoshiro256PlusPlus) -> [u8; 48] {
    let mut header = [0; 48];
    (header[0], header[1]) = (1, if long { 0xa1 } else { 0xc1 });
    put(&mut header, 4, if long { length(known, LONG) } else { 0 });
    header[9] = 1;
    put(&mut header, 16, known.tag.wrapping_add(number));
    put(&mut header, 20, 4096);
    put(&mut header, 24, known.command_number.wrapping_add(number));
    put(&mut header, 28, known.status_number);
    header[32] = if long { 0x2a } else { 0x28 };
    put(&mut header, 34, random.random());
    header[40] = 8;
    header
}

/// About so many bytes, which end four bytes beside the multiples of 16 at which decoys begin, and with a digest eight.
fn length(known: Known, about: u32) -> u32 {
    about / 16 * 16 + if known.header_digest { 0 } else { 4 }
}

fn response(known: Known, number: u32) -> [u8; 48] {
    let mut header = [0; 48];
    (header[0], header[1]) = (0x21, 0x80);
    put(&mut header, 16, known.tag.wrapping_add(number));
    put(&mut header, 24, known.status_number.wrapping_add(number));
    put(&mut header, 28, known.command_number);
    put(&mut header, 32, known.command_number.wrapping_add(32));
    header
}

fn spoil(header: &mut [u8; 48], fault: DecoyFault, known: Known, answer: bool, random: &mut Xoshiro256PlusPlus) {
    let far = random.random_range(1 << 18..1 << 31);
    let add = |header: &mut [u8; 48], at: usize, step: u32| {
        let number = u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        put(header, at, number.wrapping_add(step));
    };
    match fault {
        DecoyFault::Opcode => header[0] |= 0x80,
        DecoyFault::Flags => header[1] |= [8, 16][random.random_range(0..2usize)],
        DecoyFault::Attribute => header[1] |= 7,
        DecoyFault::Reserved => header[random.random_range(2..4usize)] = 1,
        DecoyFault::Additional => header[4] = (length(known, 80) / 4) as u8,
        DecoyFault::Tag => put(header, 16, u32::MAX),
        DecoyFault::TransferDirection => {
            header[1] &= !0x60;
            put(header, 4, 0);
        }
        DecoyFault::Unfinished => {
            header[1] = 0x41;
            put(header, 4, 0);
        }
        DecoyFault::DataOfRead => put(header, 4, length(known, 512)),
        DecoyFault::DataTooLong => {
            header[1] = 0xa1;
            put(header, 4, length(known, 5008));
        }
        DecoyFault::Unit => match random.random_bool(0.5) {
            true => header[8] = 0x80,
            false => header[13] = 1,
        },
        DecoyFault::Command => header[32] = [0x5d, 0xc1, 0x6f][random.random_range(0..3usize)],
        DecoyFault::Tail => header[42 + random.random_range(0..6usize)] = 1,
        DecoyFault::CommandNumber if answer => {
            add(header, 28, far);
            add(header, 32, far);
        }
        DecoyFault::CommandNumber | DecoyFault::Unrelated | DecoyFault::BehindData => add(header, 24, far),
        DecoyFault::StatusNumber => add(header, if answer { 24 } else { 28 }, far),
        DecoyFault::Old => add(header, 24, random.random_range(200..2000u32).wrapping_neg()),
        DecoyFault::Early => add(header, 24, random.random_range(2000..30_000)),
        DecoyFault::Digest | DecoyFault::Nothing => {}
    }
}

/// Random data of so many bytes with decoys in it, and their places.
pub fn data(
    fault: DecoyFault,
    known: impl Fn(&mut Xoshiro256PlusPlus) -> Known,
    bytes: usize,
    random: &mut Xoshiro256PlusPlus,
) -> (Vec<u8>, Vec<usize>) {
    let mut data = vec![0; bytes];
    random.fill_bytes(&mut data);
    let (mut places, mut at) = (Vec::new(), 16 * random.random_range(0..APART / 16));
    // Each has what follows it in its packet.
    while at + APART <= bytes {
        let known = known(random);
        let decoy = decoy(fault, known, bytes - at, random);
        data[at..at + decoy.len()].copy_from_slice(&decoy);
        places.push(at);
        at += APART + 16 * random.random_range(0..APART / 16);
    }
    // The last ends where the data does, so that a header follows.
    let known = known(random);
    let last = bytes - if known.header_digest { 52 } else { 48 };
    if !matches!(fault, DecoyFault::Nothing | DecoyFault::Unrelated | DecoyFault::BehindData)
        && places.last().is_none_or(|place| place + APART <= last)
    {
        data[last..].copy_from_slice(&decoy(fault, known, bytes - last, random));
        places.push(last);
    }
    (data, places)
}
