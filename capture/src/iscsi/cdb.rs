//! SCSI command descriptor blocks (SBC-4, SPC-5): the access to a disk that each requests.

use traces::{Flags, Operation};

/// The request in a command descriptor block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CdbRequest {
    /// An access to consecutive blocks.
    Blocks {
        /// Read, write or discard.
        operation: Operation,
        /// First logical block.
        block: u64,
        /// Number of blocks.
        blocks: u32,
        /// Forced unit access.
        flags: Flags,
        /// Whether a length of zero extends to the last block.
        to_end: bool,
        /// Whether the expected data transfer length is the size of the blocks.
        transfers_blocks: bool,
    },
    /// A flush of the disk's cache.
    Flush,
    /// A discard of the blocks that a list in the command's data names (UNMAP).
    Unmap,
    /// READ CAPACITY: the disk's size and block size.
    Capacity {
        /// Bytes of the address in the answer: 4 or 8.
        address_bytes: usize,
    },
    /// Anything else.
    Other,
}

const FUA_BIT: u8 = 0x08;
const UNMAP_BIT: u8 = 0x08;

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Parses a command descriptor block of 16 bytes.
pub fn parse(cdb: &[u8]) -> CdbRequest {
    let access = |operation, block: u64, blocks: u64| CdbRequest::Blocks {
        operation,
        block,
        blocks: blocks as u32,
        flags: if cdb[0] >= 0x20 && cdb[1] & FUA_BIT != 0 { Flags::FUA } else { Flags::empty() },
        to_end: false,
        transfers_blocks: true,
    };
    let read_or_write = |read: bool| if read { Operation::Read } else { Operation::Write };
    // WRITE AND VERIFY has another bit in the position of FUA.
    let plain = |request: CdbRequest, transfers: bool| match request {
        CdbRequest::Blocks { operation, block, blocks, to_end, .. } => {
            CdbRequest::Blocks { operation, block, blocks, flags: Flags::empty(), to_end, transfers_blocks: transfers }
        }
        other => other,
    };
    let same = |block: u64, blocks: u64| {
        let operation = if cdb[1] & UNMAP_BIT != 0 { Operation::Discard } else { Operation::Write };
        let (blocks, flags) = (blocks as u32, Flags::empty());
        CdbRequest::Blocks { operation, block, blocks, flags, to_end: blocks == 0, transfers_blocks: false }
    };
    match cdb[0] {
        0x08 | 0x0a => {
            let blocks = if cdb[4] == 0 { 256 } else { u64::from(cdb[4]) };
            access(read_or_write(cdb[0] == 0x08), number(&cdb[1..4]) & 0x1f_ffff, blocks)
        }
        0x28 | 0x2a => access(read_or_write(cdb[0] == 0x28), number(&cdb[2..6]), number(&cdb[7..9])),
        0xa8 | 0xaa => access(read_or_write(cdb[0] == 0xa8), number(&cdb[2..6]), number(&cdb[6..10])),
        0x88 | 0x8a => access(read_or_write(cdb[0] == 0x88), number(&cdb[2..10]), number(&cdb[10..14])),
        0x2e => plain(access(Operation::Write, number(&cdb[2..6]), number(&cdb[7..9])), true),
        0xae => plain(access(Operation::Write, number(&cdb[2..6]), number(&cdb[6..10])), true),
        0x8e => plain(access(Operation::Write, number(&cdb[2..10]), number(&cdb[10..14])), true),
        // The wire carries twice the blocks: one copy to compare, one to write.
        0x89 => match access(Operation::Write, number(&cdb[2..10]), u64::from(cdb[13])) {
            CdbRequest::Blocks { operation, block, blocks, flags, to_end, .. } => {
                CdbRequest::Blocks { operation, block, blocks, flags, to_end, transfers_blocks: false }
            }
            other => other,
        },
        0x41 => same(number(&cdb[2..6]), number(&cdb[7..9])),
        0x93 => same(number(&cdb[2..10]), number(&cdb[10..14])),
        0x35 | 0x91 => CdbRequest::Flush,
        0x42 => CdbRequest::Unmap,
        0x25 => CdbRequest::Capacity { address_bytes: 4 },
        0x9e if cdb[1] & 0x1f == 0x10 => CdbRequest::Capacity { address_bytes: 8 },
        _ => CdbRequest::Other,
    }
}

/// The name of a command.
pub fn name(opcode: u8) -> &'static str {
    match opcode {
        0x00 => "TEST UNIT READY",
        0x03 => "REQUEST SENSE",
        0x08 => "READ(6)",
        0x0a => "WRITE(6)",
        0x12 => "INQUIRY",
        0x15 => "MODE SELECT(6)",
        0x1a => "MODE SENSE(6)",
        0x1b => "START STOP UNIT",
        0x25 => "READ CAPACITY(10)",
        0x28 => "READ(10)",
        0x2a => "WRITE(10)",
        0x2e => "WRITE AND VERIFY(10)",
        0x2f => "VERIFY(10)",
        0x34 => "PRE-FETCH(10)",
        0x35 => "SYNCHRONIZE CACHE(10)",
        0x3b => "WRITE BUFFER",
        0x3c => "READ BUFFER",
        0x41 => "WRITE SAME(10)",
        0x42 => "UNMAP",
        0x4d => "LOG SENSE",
        0x55 => "MODE SELECT(10)",
        0x5a => "MODE SENSE(10)",
        0x5e => "PERSISTENT RESERVE IN",
        0x5f => "PERSISTENT RESERVE OUT",
        0x7f => "command of more than 16 bytes",
        0x83 => "THIRD-PARTY COPY OUT",
        0x84 => "THIRD-PARTY COPY IN",
        0x88 => "READ(16)",
        0x89 => "COMPARE AND WRITE",
        0x8a => "WRITE(16)",
        0x8e => "WRITE AND VERIFY(16)",
        0x8f => "VERIFY(16)",
        0x90 => "PRE-FETCH(16)",
        0x91 => "SYNCHRONIZE CACHE(16)",
        0x93 => "WRITE SAME(16)",
        0x9e => "SERVICE ACTION IN(16)",
        0xa0 => "REPORT LUNS",
        0xa3 => "MAINTENANCE IN",
        0xa4 => "MAINTENANCE OUT",
        0xa8 => "READ(12)",
        0xaa => "WRITE(12)",
        0xae => "WRITE AND VERIFY(12)",
        0xaf => "VERIFY(12)",
        _ => "other",
    }
}

/// Whether 16 bytes can be a disk's command: a known opcode, and zeros after its end.
pub fn is_plausible(cdb: &[u8]) -> bool {
    let bytes = match cdb[0] {
        0x7f => return true,
        0x00..=0x1f => 6,
        0x20..=0x5f => 10,
        0x80..=0x9f => 16,
        0xa0..=0xbf => 12,
        _ => return false,
    };
    name(cdb[0]) != "other" && cdb[bytes..].iter().all(|&byte| byte == 0)
}

/// The first block and the number of blocks of each descriptor in an UNMAP parameter list (SBC-4).
pub fn descriptors(list: &[u8]) -> impl Iterator<Item = (u64, u32)> + '_ {
    let bytes = list.get(2..4).map_or(0, |bytes| number(bytes) as usize);
    let list = list.get(8..).unwrap_or_default();
    let list = &list[..bytes.min(list.len())];
    list.chunks_exact(16).map(|one| (number(&one[..8]), number(&one[8..12]) as u32)).filter(|&(_, blocks)| blocks > 0)
}

/// Whether these bytes are an UNMAP parameter list: its lengths agree, and its reserved fields are zero (SBC-4).
pub fn is_unmap_list(list: &[u8]) -> bool {
    let Some((head, descriptors)) = list.split_first_chunk::<8>() else { return false };
    let bytes = number(&head[2..4]) as usize;
    let behind = descriptors.get(bytes..).unwrap_or_default();
    number(&head[..2]) as usize == bytes + 6
        && bytes.is_multiple_of(16)
        && bytes <= descriptors.len()
        && head[4..].iter().chain(behind).all(|&byte| byte == 0)
        && descriptors[..bytes].chunks_exact(16).all(|one| one[12..].iter().all(|&byte| byte == 0))
}

/// The number of blocks and the block size in READ CAPACITY's answer; `None` if the answer is cut or invalid.
pub fn capacity(answer: &[u8], address_bytes: usize) -> Option<(u64, u32)> {
    let last = number(answer.get(..address_bytes)?);
    let block = number(answer.get(address_bytes..address_bytes + 4)?) as u32;
    let sensible = block.is_power_of_two() && (512..=65536).contains(&block);
    sensible.then(|| (last.saturating_add(1), block))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command descriptor block that begins with these bytes; the rest are zeros.
    fn cdb(bytes: &[u8]) -> [u8; 16] {
        let mut cdb = [0; 16];
        cdb[..bytes.len()].copy_from_slice(bytes);
        cdb
    }

    /// Operation, first block, blocks, FUA, to the end, whether the wire carries the blocks.
    type Access = (Operation, u64, u32, bool, bool, bool);

    fn blocks(bytes: &[u8]) -> Access {
        match parse(&cdb(bytes)) {
            CdbRequest::Blocks { operation, block, blocks, flags, to_end, transfers_blocks } => {
                (operation, block, blocks, flags.contains(Flags::FUA), to_end, transfers_blocks)
            }
            other => panic!("{bytes:x?} is {other:?}"),
        }
    }

    #[test]
    fn access_fields_are_parsed_as_in_sbc_4() {
        use Operation::{Discard, Read, Write};
        // The layouts in SBC-4, clause 5.
        let cases: &[(&[u8], Access)] = &[
            (&[0x08, 0xff, 0x12, 0x34, 7], (Read, 0x1f_1234, 7, false, false, true)),
            (&[0x0a, 0x00, 0x00, 0x09, 0], (Write, 9, 256, false, false, true)),
            (&[0x28, 0x08, 1, 2, 3, 4, 0xee, 5, 6], (Read, 0x0102_0304, 0x0506, true, false, true)),
            (&[0x28, 0x10, 0, 0, 0, 4, 0, 0, 0], (Read, 4, 0, false, false, true)),
            (&[0x2a, 0, 0xff, 2, 3, 4, 0, 0, 8], (Write, 0xff02_0304, 8, false, false, true)),
            (&[0xa8, 0, 0, 0, 1, 0, 1, 2, 3, 4], (Read, 0x100, 0x0102_0304, false, false, true)),
            (&[0xaa, 8, 0, 0, 1, 0, 0, 0, 0, 4], (Write, 0x100, 4, true, false, true)),
            (&[0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 0], (Read, 0x0102_0304_0506_0708, 65_536, false, false, true)),
            (&[0x8a, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16], (Write, 1 << 32, 16, true, false, true)),
            (&[0x2e, 8, 0, 0, 0, 9, 0, 0, 2], (Write, 9, 2, false, false, true)),
            (&[0xae, 8, 0, 0, 0, 9, 0, 0, 0, 2], (Write, 9, 2, false, false, true)),
            (&[0x8e, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2], (Write, 9, 2, false, false, true)),
            (&[0x89, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1], (Write, 9, 1, true, false, false)),
            (&[0x41, 0, 0, 0, 0, 9, 0, 1, 0], (Write, 9, 256, false, false, false)),
            (&[0x41, 8, 0, 0, 0, 9, 0, 0, 0], (Discard, 9, 0, false, true, false)),
            (&[0x93, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 1, 0], (Discard, 9, 256, false, false, false)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(blocks(bytes), *expected, "{bytes:x?}");
        }
    }

    #[test]
    fn commands_without_block_range_are_classified() {
        for (bytes, expected) in [
            (&[0x35_u8][..], CdbRequest::Flush),
            (&[0x91], CdbRequest::Flush),
            (&[0x42], CdbRequest::Unmap),
            (&[0x25], CdbRequest::Capacity { address_bytes: 4 }),
            (&[0x9e, 0x10], CdbRequest::Capacity { address_bytes: 8 }),
            (&[0x9e, 0x12], CdbRequest::Other),
            (&[0x12], CdbRequest::Other),
            (&[0xa0], CdbRequest::Other),
        ] {
            assert_eq!(parse(&cdb(bytes)), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn nonzero_bytes_after_the_command_are_implausible() {
        let mut long = cdb(&[0x28, 0, 0, 0, 0, 1, 0, 0, 8]);
        assert!(is_plausible(&long));
        long[10] = 1;
        assert!(!is_plausible(&long));
        // An unknown opcode of a group with a defined length, and one of a group without.
        assert!(!is_plausible(&cdb(&[0x5d])) && !is_plausible(&cdb(&[0xc1])));
        assert!(is_plausible(&[0x88; 16]));
    }

    #[test]
    fn unmap_lists_and_capacity_answers_respect_their_length() {
        let mut list = vec![0, 38, 0, 32, 0, 0, 0, 0];
        list.extend([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0]);
        list.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0]);
        list.extend([0xff; 16]);
        assert_eq!(descriptors(&list).collect::<Vec<_>>(), [(256, 8), (1 << 32, 16)]);
        assert_eq!(descriptors(&list[..30]).collect::<Vec<_>>(), [(256, 8)]);
        assert_eq!(descriptors(&[]).count(), 0);
        assert_eq!(capacity(&[0, 0, 0, 9, 0, 0, 2, 0], 4), Some((10, 512)));
        assert_eq!(capacity(&[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 16, 0], 8), Some((257, 4096)));
        assert_eq!(capacity(&[0, 0, 0, 9, 0, 0, 2, 1], 4), None);
        assert_eq!(capacity(&[0, 0, 0, 9, 0, 0, 2], 4), None);
    }
}
