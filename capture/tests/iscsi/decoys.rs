//! User data that imitate iSCSI: headers that are valid but for one fault, and valid headers that no header follows.

use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::conversation::{crc32c, put};

/// The fault of a decoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecoyFault {
    /// A bit of the opcode byte that is always 0.
    Opcode,
    /// Flags that commands do not have.
    Flags,
    /// An undefined task attribute.
    Attribute,
    /// Nonzero reserved bytes.
    Reserved,
    /// More additional header segments than a CDB can need.
    Additional,
    /// The reserved task tag.
    Tag,
    /// Data to transfer, but neither the read nor the write flag.
    TransferDirection,
    /// Neither the final flag nor the write flag.
    Unfinished,
    /// Data with a command that only reads.
    DataOfRead,
    /// More data than the command transfers.
    DataTooLong,
    /// A logical unit number of two levels.
    Unit,
    /// An opcode that disks do not have.
    Command,
    /// Nonzero bytes after the command's end.
    Tail,
    /// A distant command number, or a distant one expected by the target.
    CommandNumber,
    /// A distant status number.
    StatusNumber,
    /// An old command or status number, as in a copy.
    Old,
    /// A command number beyond those that the target permits.
    Early,
    /// Distant numbers in all headers but the first.
    Unrelated,
    /// The same, and the first header is a Data-Out, which has no command number.
    BehindData,
    /// A wrong header digest.
    Digest,
    /// No fault, but no header follows.
    NoFault,
}

/// All faults that can be detected when the sequence numbers are known. One cannot: a header that fits, followed by one
/// that does not and is cut before its numbers.
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
    DecoyFault::NoFault,
];

impl DecoyFault {
    /// Whether it is noticed only beside known sequence numbers or digests.
    pub fn needs_numbers(self) -> bool {
        use DecoyFault::{BehindData, CommandNumber, Digest, Early, Old, StatusNumber};
        matches!(self, CommandNumber | StatusNumber | Old | Early | BehindData | Digest)
    }
}

/// The state of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub command_number: u32,
    pub status_number: u32,
    /// The tag of a task, or an unused one.
    pub tag: u32,
    pub header_digest: bool,
}

/// The smallest distance between the beginnings of two decoys, in bytes.
pub const DECOY_DISTANCE_BYTES_MIN: usize = 256;
/// Bytes from a decoy's beginning that leave too little for a following header.
pub const CUT_BYTES: usize = 72;
/// Bytes of data of a long decoy. No decoy begins where its data end.
const LONG_DATA_BYTES: u32 = 1000;

/// A decoy that convinces a reader that misses the fault: more of its kind follow it, or its data extend to a position
/// that may not have been captured.
fn decoy(fault: DecoyFault, known: Known, room: usize, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let answer = random.random_bool(0.3)
        && matches!(
            fault,
            DecoyFault::CommandNumber | DecoyFault::StatusNumber | DecoyFault::Old | DecoyFault::NoFault
        );
    // Fitting numbers with more headers behind them cannot be distinguished from PDUs.
    let alone = matches!(fault, DecoyFault::NoFault | DecoyFault::Early) || room < DECOY_DISTANCE_BYTES_MIN;
    let chained = matches!(fault, DecoyFault::Unrelated | DecoyFault::BehindData);
    let long = room > 2 * LONG_DATA_BYTES as usize
        && !chained
        && match fault {
            DecoyFault::NoFault | DecoyFault::DataOfRead => false,
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
    put(&mut header, 4, if long { length(known, LONG_DATA_BYTES) } else { 0 });
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

/// About `about` bytes of data. They end 4 bytes off the multiples of 16 at which decoys begin, or 8 bytes with a
/// digest.
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
        DecoyFault::Digest | DecoyFault::NoFault => {}
    }
}

/// Random data of `bytes` bytes with decoys in them, and the decoys' offsets.
pub fn data(
    fault: DecoyFault,
    known: impl Fn(&mut Xoshiro256PlusPlus) -> Known,
    bytes: usize,
    random: &mut Xoshiro256PlusPlus,
) -> (Vec<u8>, Vec<usize>) {
    let mut data = vec![0; bytes];
    random.fill_bytes(&mut data);
    let (mut places, mut at) = (Vec::new(), 16 * random.random_range(0..DECOY_DISTANCE_BYTES_MIN / 16));
    // Each decoy has its successor in its packet.
    while at + DECOY_DISTANCE_BYTES_MIN <= bytes {
        let known = known(random);
        let decoy = decoy(fault, known, bytes - at, random);
        data[at..at + decoy.len()].copy_from_slice(&decoy);
        places.push(at);
        at += DECOY_DISTANCE_BYTES_MIN + 16 * random.random_range(0..DECOY_DISTANCE_BYTES_MIN / 16);
    }
    // The last decoy ends with the data, so that a real header follows.
    let known = known(random);
    let last = bytes - if known.header_digest { 52 } else { 48 };
    if !matches!(fault, DecoyFault::NoFault | DecoyFault::Unrelated | DecoyFault::BehindData)
        && places.last().is_none_or(|place| place + DECOY_DISTANCE_BYTES_MIN <= last)
    {
        data[last..].copy_from_slice(&decoy(fault, known, bytes - last, random));
        places.push(last);
    }
    (data, places)
}
