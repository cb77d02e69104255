//! The basic header segment: the 48 bytes at the beginning of every iSCSI PDU (RFC 7143, section 11). Also the tests
//! that distinguish a header from similar user data.

use super::cdb;

/// Bytes of a basic header segment.
pub const HEADER_BYTES: usize = 48;

/// A basic header segment.
pub type Header = [u8; HEADER_BYTES];

/// The reserved task tag that means no task.
pub const NO_TAG: u32 = 0xffff_ffff;

/// NOP-Out, a ping. This and the following opcodes are initiators'.
pub const NOP_OUT: u8 = 0x00;
/// SCSI command.
pub const COMMAND: u8 = 0x01;
/// Task management request.
pub const TASK_REQUEST: u8 = 0x02;
/// Login request.
pub const LOGIN_REQUEST: u8 = 0x03;
/// Text request.
pub const TEXT_REQUEST: u8 = 0x04;
/// Data of a write.
pub const DATA_OUT: u8 = 0x05;
/// Logout request.
pub const LOGOUT_REQUEST: u8 = 0x06;
/// Request to send data or status again.
pub const SNACK: u8 = 0x10;
/// NOP-In, a ping. This and the following opcodes are targets'.
pub const NOP_IN: u8 = 0x20;
/// SCSI response.
pub const RESPONSE: u8 = 0x21;
/// Task management response.
pub const TASK_RESPONSE: u8 = 0x22;
/// Login response.
pub const LOGIN_RESPONSE: u8 = 0x23;
/// Text response.
pub const TEXT_RESPONSE: u8 = 0x24;
/// Data of a read, possibly with the status.
pub const DATA_IN: u8 = 0x25;
/// Logout response.
pub const LOGOUT_RESPONSE: u8 = 0x26;
/// Ready to transfer.
pub const R2T: u8 = 0x31;
/// Asynchronous message.
pub const ASYNC: u8 = 0x32;
/// Rejected PDU.
pub const REJECT: u8 = 0x3f;

/// The direction of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sent by the initiator.
    ToTarget,
    /// Sent by the target.
    ToInitiator,
}

impl Direction {
    /// 0 to the target, 1 to the initiator.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The two-byte field at `at`.
pub fn u16_at(header: &Header, at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// The four-byte field at `at`.
pub fn u32_at(header: &Header, at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// The opcode without its flags.
pub fn opcode(header: &Header) -> u8 {
    header[0] & 0x3f
}

/// Whether the PDU is for immediate delivery, so that it does not use up its CmdSN.
pub fn is_immediate(header: &Header) -> bool {
    header[0] & 0x40 != 0
}

/// Initiator task tag.
pub fn task_tag(header: &Header) -> u32 {
    u32_at(header, 16)
}

/// Bytes of additional header segments.
pub fn additional_bytes(header: &Header) -> u32 {
    u32::from(header[4]) * 4
}

/// Bytes of data without padding.
pub fn data_bytes(header: &Header) -> u32 {
    u32_at(header, 4) & 0x00ff_ffff
}

/// Whether the PDU ends its task: a response, or the last data with the status.
pub fn is_final(header: &Header) -> bool {
    match opcode(header) {
        RESPONSE => true,
        DATA_IN => header[1] & 1 != 0,
        _ => false,
    }
}

/// Whether an initiator's PDU carries a command sequence number.
pub fn has_command_number(header: &Header) -> bool {
    matches!(opcode(header), NOP_OUT | COMMAND | TASK_REQUEST | LOGIN_REQUEST | TEXT_REQUEST | LOGOUT_REQUEST)
}

/// Whether the PDU belongs to a login, which never has digests.
pub fn is_login(header: &Header) -> bool {
    matches!(opcode(header), LOGIN_REQUEST | LOGIN_RESPONSE)
}

/// Whether bytes at a header's position can be a header: opcode and direction.
pub fn is_possible(header: &Header, direction: Direction) -> bool {
    let known = match direction {
        Direction::ToTarget => header[0] & 0x80 == 0 && matches!(opcode(header), 0..=6 | SNACK | 0x1c..=0x1e),
        Direction::ToInitiator => header[0] & 0xc0 == 0 && matches!(header[0], 0x20..=0x26 | 0x31 | 0x32 | 0x3c..=0x3f),
    };
    known
        && (matches!(
            opcode(header),
            LOGIN_REQUEST | LOGIN_RESPONSE | TEXT_REQUEST | TEXT_RESPONSE | 0x1c..=0x1e | 0x3c..=0x3e
        ) || final_flag_fits(header))
}

/// Whether the final bit is set, as always in PDUs that are not sent in parts.
fn final_flag_fits(header: &Header) -> bool {
    matches!(opcode(header), COMMAND | DATA_OUT | DATA_IN) || header[1] & 0x80 != 0
}

/// Whether bytes at any position are a header: every reserved field is zero, and every other field has a valid value.
pub fn is_plausible(header: &Header, direction: Direction) -> bool {
    if !is_possible(header, direction) {
        return false;
    }
    let reserved = |from: usize, to: usize| header[from..to].iter().all(|&byte| byte == 0);
    let (flags, data, extra) = (header[1], data_bytes(header), header[4]);
    let has_task = task_tag(header) != NO_TAG;
    match opcode(header) {
        COMMAND => {
            let direction_fits = u32_at(header, 20) == 0 || flags & 0x60 != 0;
            flags & 0x18 == 0
                && flags & 7 < 5
                && reserved(2, 4)
                && extra <= 16
                && has_task
                && direction_fits
                && (flags & 0x80 != 0 || flags & 0x20 != 0)
                && (data == 0 || flags & 0x20 != 0 && data <= u32_at(header, 20))
                && lun_fits(header)
                && cdb::is_plausible(&header[32..48])
        }
        DATA_OUT => {
            flags & 0x7f == 0 && reserved(2, 5) && has_task && reserved(24, 28) && reserved(32, 36) && reserved(44, 48)
        }
        NOP_OUT => flags == 0x80 && reserved(2, 5) && reserved(32, 48),
        TASK_REQUEST => flags & 0x80 != 0 && (1..=8).contains(&(flags & 0x7f)) && reserved(2, 8) && has_task,
        LOGIN_REQUEST => header[0] & 0x40 != 0 && flags & 0x30 == 0 && reserved(2, 5) && reserved(32, 48),
        TEXT_REQUEST => flags & 0x3f == 0 && reserved(2, 5) && has_task && reserved(32, 48),
        LOGOUT_REQUEST => flags & 0x7f <= 2 && reserved(2, 8) && reserved(32, 48),
        SNACK => flags & 0x7f <= 3 && reserved(2, 8) && reserved(32, 40),
        RESPONSE => {
            flags & 0x61 == 0
                && matches!(header[2], 0 | 1)
                && status_fits(header[3])
                && extra == 0
                && has_task
                && reserved(8, 16)
        }
        DATA_IN => {
            let status = flags & 1 != 0;
            flags & 0x38 == 0
                && (flags & 0x80 != 0 || !status)
                && header[2] == 0
                && extra == 0
                && has_task
                && (if status { status_fits(header[3]) } else { header[3] == 0 })
        }
        R2T => flags == 0x80 && reserved(2, 8) && has_task && u32_at(header, 44) != 0,
        NOP_IN => flags == 0x80 && reserved(2, 5) && reserved(36, 48),
        TASK_RESPONSE => flags == 0x80 && matches!(header[2], 0..=6 | 255) && reserved(3, 16) && reserved(36, 48),
        LOGIN_RESPONSE => flags & 0x30 == 0 && reserved(2, 5) && reserved(38, 48),
        TEXT_RESPONSE => flags & 0x3f == 0 && reserved(2, 5) && reserved(36, 48),
        LOGOUT_RESPONSE => flags == 0x80 && header[2] <= 3 && reserved(3, 16),
        ASYNC => flags == 0x80 && reserved(2, 5) && task_tag(header) == NO_TAG,
        REJECT => flags == 0x80 && header[3] == 0 && reserved(8, 16) && task_tag(header) == NO_TAG,
        _ => false,
    }
}

/// Whether the logical unit number has one level, as disks have.
fn lun_fits(header: &Header) -> bool {
    header[8] >> 6 != 2 && header[12..16].iter().all(|&byte| byte == 0)
}

/// Whether the status is one of SAM-5.
fn status_fits(status: u8) -> bool {
    matches!(status, 0 | 2 | 4 | 8 | 0x18 | 0x28 | 0x30 | 0x40)
}

/// Whether bytes at any position can be the beginning of a header whose rest was not captured.
pub fn may_begin(part: &[u8], direction: Direction) -> bool {
    let there = part.len().min(HEADER_BYTES);
    if there < 2 {
        return true;
    }
    let mut header = [0; HEADER_BYTES];
    header[..there].copy_from_slice(&part[..there]);
    // Missing bytes are assumed valid: zero fits every field but these.
    let filled = match opcode(&header) {
        COMMAND if data_bytes(&header) > 0 => 20..24,
        ASYNC | REJECT => 16..20,
        R2T => 44..48,
        _ => 0..0,
    };
    header[filled.start.max(there)..filled.end.max(there)].fill(0xff);
    is_plausible(&header, direction)
}

/// The sequence number that a PDU uses up, so that no later PDU of its connection has it. A PDU for immediate delivery
/// uses none, and may overtake commands with lower numbers.
pub fn given_number(header: &Header, direction: Direction) -> Option<u32> {
    let takes = match direction {
        Direction::ToTarget => has_command_number(header) && !is_immediate(header),
        Direction::ToInitiator => carries_status_number(header) && counts_as_status(header),
    };
    takes.then(|| u32_at(header, 24))
}

/// Whether the PDU uses up a status number; a NOP-In without a task tag does not.
pub fn counts_as_status(header: &Header) -> bool {
    opcode(header) != NOP_IN || task_tag(header) != NO_TAG
}

/// Whether a target's PDU carries a status number.
pub fn carries_status_number(header: &Header) -> bool {
    match opcode(header) {
        DATA_IN => header[1] & 1 != 0,
        R2T | LOGIN_RESPONSE => false,
        _ => true,
    }
}

#[cfg(test)]
pub mod tests {
    use super::Direction::{ToInitiator, ToTarget};
    use super::*;

    /// A header with these four-byte fields.
    pub fn header(opcode: u8, flags: u8, fields: &[(usize, u32)]) -> Header {
        let mut header = [0; HEADER_BYTES];
        (header[0], header[1]) = (opcode, flags);
        for &(at, value) in fields {
            header[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        header
    }

    #[test]
    fn every_prefix_of_a_header_may_begin_one() {
        let (write, ping) = (
            header(COMMAND, 0xa1, &[(4, 8192), (16, 5), (20, 8192), (32, 0x2a << 24)]),
            header(NOP_OUT | 0x40, 0x80, &[(16, NO_TAG), (28, 7)]),
        );
        let ready = header(R2T, 0x80, &[(16, 1), (28, 9), (32, 20), (44, 512)]);
        let [response, reject, message] = [(RESPONSE, 1), (REJECT, NO_TAG), (ASYNC, NO_TAG)]
            .map(|(opcode, tag)| header(opcode, 0x80, &[(16, tag), (24, 6), (28, 9), (32, 20)]));
        for (header, direction) in [write, ping]
            .map(|one| (one, ToTarget))
            .into_iter()
            .chain([response, reject, message, ready].map(|one| (one, ToInitiator)))
        {
            assert!(is_plausible(&header, direction), "{header:x?}");
            for bytes in 0..=HEADER_BYTES {
                assert!(may_begin(&header[..bytes], direction), "{bytes} bytes of {header:x?}");
            }
        }
        for wrong in [&[0x81, 0x81][..], &[1, 0x81, 1], &[1, 0x81, 0, 0, 0, 0, 2, 0], &[0x21, 0x80]] {
            assert!(!may_begin(wrong, ToTarget), "{wrong:x?}");
        }
        assert!(!may_begin(&[0; 26], ToTarget) && !may_begin(&[0xff; 26], ToInitiator));
    }
}
