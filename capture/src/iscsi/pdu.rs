//! The 48 bytes that every iSCSI PDU begins with (the basic header segment, RFC 7143, section 11), and what tells one from
//! bytes that only look like one.

use super::cdb;

/// Bytes of a basic header segment.
pub const HEADER_BYTES: usize = 48;

/// A basic header segment.
pub type Header = [u8; HEADER_BYTES];

/// No task: the reserved value of task tags.
pub const NO_TAG: u32 = 0xffff_ffff;

/// Opcodes of initiators.
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
/// Request for data or status again.
pub const SNACK: u8 = 0x10;
/// Opcodes of targets.
pub const NOP_IN: u8 = 0x20;
/// SCSI response.
pub const RESPONSE: u8 = 0x21;
/// Task management response.
pub const TASK_RESPONSE: u8 = 0x22;
/// Login response.
pub const LOGIN_RESPONSE: u8 = 0x23;
/// Text response.
pub const TEXT_RESPONSE: u8 = 0x24;
/// Data of a read, perhaps with the status.
pub const DATA_IN: u8 = 0x25;
/// Logout response.
pub const LOGOUT_RESPONSE: u8 = 0x26;
/// Ready to transfer.
pub const R2T: u8 = 0x31;
/// Asynchronous message.
pub const ASYNC: u8 = 0x32;
/// Rejected PDU.
pub const REJECT: u8 = 0x3f;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The initiator.
    ToTarget,
    /// The target.
    ToInitiator,
}

impl Direction {
    /// 0 to the target, 1 to the initiator.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The header's field of two bytes at `at`.
pub fn u16_at(header: &Header, at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// The header's field of four bytes at `at`.
pub fn u32_at(header: &Header, at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// The opcode without its flags.
pub fn opcode(header: &Header) -> u8 {
    header[0] & 0x3f
}

/// Whether the PDU is for immediate delivery, so that its CmdSN is not counted on.
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

/// Whether the PDU is one of a login, which never has digests.
pub fn is_login(header: &Header) -> bool {
    matches!(opcode(header), LOGIN_REQUEST | LOGIN_RESPONSE)
}

/// Whether bytes at a place where a header must stand can be one: opcode and direction.
pub fn is_possible(header: &Header, direction: Direction) -> bool {
    let known = match direction {
        Direction::ToTarget => header[0] & 0x80 == 0 && matches!(opcode(header), 0..=6 | SNACK | 0x1c..=0x1e),
        Direction::ToInitiator => header[0] & 0xc0 == 0 && matches!(header[0], 0x20..=0x26 | 0x31 | 0x32 | 0x3c..=0x3f),
    };
    known
        && (matches!(opcode(header), LOGIN_REQUEST | LOGIN_RESPONSE | TEXT_REQUEST | TEXT_RESPONSE | 0x1c..=0x1e | 0x3c..=0x3e)
            || final_flag_fits(header))
}

/// The bit that is always set in PDUs that are not sent in parts.
fn final_flag_fits(header: &Header) -> bool {
    matches!(opcode(header), COMMAND | DATA_OUT | DATA_IN) || header[1] & 0x80 != 0
}

/// Whether bytes at any place are a header: every reserved field is zero and every other holds what it may.
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

/// A logical unit of one level, as disks have.
fn lun_fits(header: &Header) -> bool {
    header[8] >> 6 != 2 && header[12..16].iter().all(|&byte| byte == 0)
}

/// The status codes of SAM-5.
fn status_fits(status: u8) -> bool {
    matches!(status, 0 | 2 | 4 | 8 | 0x18 | 0x28 | 0x30 | 0x40)
}

/// Whether bytes at any place can be the first ones of a header of which the rest was not captured.
pub fn may_begin(part: &[u8], direction: Direction) -> bool {
    let there = part.len().min(HEADER_BYTES);
    if there < 2 {
        return true;
    }
    let mut header = [0; HEADER_BYTES];
    header[..there].copy_from_slice(&part[..there]);
    // What is not there is as it would fit; zero does for every other field.
    let filled = match opcode(&header) {
        COMMAND if data_bytes(&header) > 0 => 20..24,
        ASYNC | REJECT => 16..20,
        R2T => 44..48,
        _ => 0..0,
    };
    header[filled.start.max(there)..filled.end.max(there)].fill(0xff);
    is_plausible(&header, direction)
}

/// The sequence numbers that a connection has come to, as far as seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The command number that comes next.
    command: Option<u32>,
    /// The status number that comes next.
    status: Option<u32>,
    /// The number behind the last that each direction gave out: to a command that is counted, to a status. Neither is ever
    /// given out again on its connection (RFC 7143, sections 4.2.2.1 and 4.2.2.2).
    given: [Option<u32>; 2],
    /// The last command number that the target has allowed.
    allowed: Option<u32>,
}

/// Whether a header's sequence numbers are near those of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// They are.
    Near,
    /// Nobody knows.
    Open,
    /// They are not.
    Far,
}

/// How far numbers may be from the last that were seen: more than any queue is deep.
const NEAR: u32 = 1 << 16;

impl Numbers {
    /// Takes note of a header that is known to be one.
    pub fn note(&mut self, header: &Header, direction: Direction) {
        let given = &mut self.given[direction.index()];
        match opcode(header) {
            // A login's number is the first command's; what was given out before was of another session.
            LOGIN_REQUEST => (*given, self.allowed) = (Some(u32_at(header, 24)), None),
            LOGIN_RESPONSE => *given = Some(u32_at(header, 24).wrapping_add(1)),
            _ => {
                if let Some(number) = given_number(header, direction) {
                    advance(given, number.wrapping_add(1));
                }
            }
        }
        match direction {
            Direction::ToTarget => {
                if has_command_number(header) {
                    advance(&mut self.command, u32_at(header, 24).wrapping_add(u32::from(!is_immediate(header))));
                }
                advance(&mut self.status, u32_at(header, 28));
            }
            Direction::ToInitiator => {
                advance(&mut self.command, u32_at(header, 28));
                advance(&mut self.allowed, u32_at(header, 32));
                if carries_status_number(header) {
                    advance(&mut self.status, u32_at(header, 24).wrapping_add(u32::from(counts_as_status(header))));
                }
            }
        }
    }

    /// Holds a header against them.
    pub fn fit(&self, header: &Header, direction: Direction) -> Fit {
        // A new login begins with numbers of its own.
        if is_login(header) {
            return Fit::Open;
        }
        match direction {
            Direction::ToTarget => {
                let command = has_command_number(header).then(|| self.fit_of_command(u32_at(header, 24)));
                both(near(self.status, u32_at(header, 28)), command)
            }
            Direction::ToInitiator => {
                let status = carries_status_number(header).then(|| self.fit_of_status(u32_at(header, 24)));
                let room = u32_at(header, 32).wrapping_sub(u32_at(header, 28)).wrapping_add(1);
                if room > NEAR { Fit::Far } else { both(near(self.command, u32_at(header, 28)), status) }
            }
        }
    }

    /// One that was given out before is of a copy of an old command. One that is not allowed yet may be: the PDU that
    /// allows it need not have been captured.
    fn fit_of_command(&self, number: u32) -> Fit {
        let allowed = |number: u32| self.allowed.is_none_or(|last| !is_before(last, number));
        // What was taken for a command and was none may have had any number.
        let given = self.given[0].filter(|given| allowed(given.wrapping_sub(1)));
        match near(self.command, number) {
            Fit::Near if given.is_some_and(|given| is_before(number, given)) => Fit::Far,
            Fit::Near if !allowed(number) => Fit::Open,
            fit => fit,
        }
    }

    fn fit_of_status(&self, number: u32) -> Fit {
        match near(self.status, number) {
            Fit::Near if self.given[1].is_some_and(|given| is_before(number, given)) => Fit::Far,
            fit => fit,
        }
    }

    /// Whether another header, of the PDU that follows in the same direction, has numbers near this one's.
    pub fn follows(first: &Header, second: &Header, direction: Direction) -> bool {
        let mut numbers = Numbers::default();
        numbers.note(first, direction);
        numbers.fit(second, direction) != Fit::Far
    }
}

/// The number that a PDU takes, so that none behind it on its connection has it again. What is for immediate delivery takes
/// none, and may overtake commands with lower ones.
fn given_number(header: &Header, direction: Direction) -> Option<u32> {
    let takes = match direction {
        Direction::ToTarget => has_command_number(header) && !is_immediate(header),
        Direction::ToInitiator => carries_status_number(header) && counts_as_status(header),
    };
    takes.then(|| u32_at(header, 24))
}

/// Whether the next status has another number; a ping that asks for nothing does not count.
pub fn counts_as_status(header: &Header) -> bool {
    opcode(header) != NOP_IN || task_tag(header) != NO_TAG
}

/// Whether a target's PDU carries the number of a status.
pub fn carries_status_number(header: &Header) -> bool {
    match opcode(header) {
        DATA_IN => header[1] & 1 != 0,
        R2T | LOGIN_RESPONSE => false,
        _ => true,
    }
}

/// Numbers go forward, unless they are somewhere else altogether.
fn advance(known: &mut Option<u32>, number: u32) {
    match known {
        Some(known) if is_before(number, *known) && known.wrapping_sub(number) < NEAR => {}
        _ => *known = Some(number),
    }
}

/// Serial numbers (RFC 1982) of 32 bits.
fn is_before(number: u32, other: u32) -> bool {
    (number.wrapping_sub(other) as i32) < 0
}

fn near(known: Option<u32>, number: u32) -> Fit {
    match known {
        None => Fit::Open,
        Some(known) if number.wrapping_sub(known).wrapping_add(NEAR) <= 2 * NEAR => Fit::Near,
        Some(_) => Fit::Far,
    }
}

fn both(first: Fit, second: Option<Fit>) -> Fit {
    match (first, second.unwrap_or(first)) {
        (Fit::Far, _) | (_, Fit::Far) => Fit::Far,
        (Fit::Near, Fit::Near) => Fit::Near,
        _ => Fit::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::Direction::{ToInitiator, ToTarget};
    use super::*;

    /// A header with these fields of four bytes.
    fn header(opcode: u8, flags: u8, fields: &[(usize, u32)]) -> Header {
        let mut header = [0; HEADER_BYTES];
        (header[0], header[1]) = (opcode, flags);
        for &(at, value) in fields {
            header[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        header
    }

    fn command(number: u32) -> Header {
        header(COMMAND, 0x81, &[(24, number), (28, 7)])
    }

    fn ping(number: u32) -> Header {
        header(NOP_OUT | 0x40, 0x80, &[(16, NO_TAG), (24, number), (28, 7)])
    }

    /// A target's PDU: its status number, and the commands it expects and allows.
    fn answer(opcode: u8, tag: u32, status: u32, expected: u32, allowed: u32) -> Header {
        header(opcode, 0x80, &[(16, tag), (24, status), (28, expected), (32, allowed)])
    }

    fn after(noted: &[(Header, Direction)]) -> Numbers {
        let mut numbers = Numbers::default();
        noted.iter().for_each(|(header, direction)| numbers.note(header, *direction));
        numbers
    }

    #[test]
    fn numbers_are_given_out_once_and_as_far_as_they_are_allowed() {
        let numbers = after(&[(answer(RESPONSE, 1, 6, 9, 20), ToInitiator), (command(10), ToTarget)]);
        for (number, fit) in [(9, Fit::Far), (10, Fit::Far), (11, Fit::Near), (20, Fit::Near), (21, Fit::Open)] {
            assert_eq!(numbers.fit(&command(number), ToTarget), fit, "{number}");
        }
        for (status, fit) in [(6, Fit::Far), (7, Fit::Near), (9, Fit::Near)] {
            assert_eq!(numbers.fit(&answer(RESPONSE, 1, status, 11, 20), ToInitiator), fit, "{status}");
        }
        // They begin anew behind the last, and nobody knows what is allowed where the target was not seen.
        let numbers = after(&[(command(u32::MAX), ToTarget)]);
        assert_eq!(numbers.fit(&command(u32::MAX), ToTarget), Fit::Far);
        assert_eq!(numbers.fit(&command(0), ToTarget), Fit::Near);
        assert_eq!(numbers.fit(&command(50_000), ToTarget), Fit::Near);
    }

    #[test]
    fn what_takes_no_number_leaves_it_to_the_next() {
        // A ping is sent before commands that wait with lower numbers.
        let numbers = after(&[(command(10), ToTarget), (ping(13), ToTarget)]);
        assert_eq!(numbers.fit(&command(11), ToTarget), Fit::Near);
        for (before, fit) in [
            (answer(NOP_IN, NO_TAG, 7, 9, 20), Fit::Near),
            (answer(NOP_IN, 3, 7, 9, 20), Fit::Far),
            (answer(ASYNC, NO_TAG, 7, 9, 20), Fit::Far),
            (answer(R2T, 3, 7, 9, 20), Fit::Open),
        ] {
            let numbers = after(&[(before, ToInitiator)]);
            assert_eq!(numbers.fit(&answer(RESPONSE, 1, 7, 9, 20), ToInitiator), fit, "{:#x}", before[0]);
        }
    }

    #[test]
    fn a_login_and_what_is_not_allowed_make_old_numbers_void() {
        let login = header(LOGIN_REQUEST | 0x40, 0x87, &[(24, 3), (28, 7)]);
        let numbers = after(&[(command(100), ToTarget), (login, ToTarget)]);
        assert_eq!(numbers.fit(&command(3), ToTarget), Fit::Near);
        assert_eq!(numbers.fit(&command(2), ToTarget), Fit::Far);
        let logged_in = answer(LOGIN_RESPONSE, 1, 6, 9, 20);
        let numbers = after(&[(answer(RESPONSE, 1, 90, 9, 20), ToInitiator), (logged_in, ToInitiator)]);
        assert_eq!(numbers.fit(&answer(RESPONSE, 1, 6, 9, 20), ToInitiator), Fit::Far);
        assert_eq!(numbers.fit(&answer(RESPONSE, 1, 7, 9, 20), ToInitiator), Fit::Near);
        // Taken for a command, and none: the target allows far less.
        let numbers = after(&[(answer(RESPONSE, 1, 6, 9, 20), ToInitiator), (command(5000), ToTarget)]);
        assert_eq!(numbers.fit(&command(11), ToTarget), Fit::Near);
    }

    #[test]
    fn every_beginning_of_a_header_may_begin_one() {
        let write = header(COMMAND, 0xa1, &[(4, 8192), (16, 5), (20, 8192), (32, 0x2a << 24)]);
        let answers = [
            answer(RESPONSE, 1, 6, 9, 20),
            answer(REJECT, NO_TAG, 6, 9, 20),
            answer(ASYNC, NO_TAG, 6, 9, 20),
            header(R2T, 0x80, &[(16, 1), (28, 9), (32, 20), (44, 512)]),
        ];
        for (header, direction) in
            answers.map(|one| (one, ToInitiator)).into_iter().chain([(write, ToTarget), (ping(1), ToTarget)])
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
