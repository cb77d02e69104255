//! The sequence numbers of a connection (RFC 7143, section 4.2.2). They distinguish a PDU from a copy of one in user
//! data.

use super::pdu::{
    Direction, Header, LOGIN_REQUEST, LOGIN_RESPONSE, carries_status_number, counts_as_status, given_number,
    has_command_number, is_immediate, is_login, opcode, u32_at,
};

/// The sequence numbers of a connection as far as they were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// The next command number.
    command: Option<u32>,
    /// The next status number.
    status: Option<u32>,
    /// The number after the last one assigned in each direction: to a command that is counted, or to a status. No
    /// number is assigned twice on a connection (RFC 7143, sections 4.2.2.1 and 4.2.2.2).
    given: [Option<u32>; 2],
    /// The last command number that the target permits.
    allowed: Option<u32>,
}

/// How a header's sequence numbers compare with those of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFit {
    /// The numbers fit.
    Near,
    /// The numbers cannot be judged.
    Open,
    /// The numbers do not fit.
    Far,
}

/// The largest distance from the last number seen: more than any queue depth.
const DISTANCE_MAX: u32 = 1 << 16;

impl SequenceNumbers {
    /// Records the numbers of a header that is known to be one.
    pub fn note(&mut self, header: &Header, direction: Direction) {
        let given = &mut self.given[direction.index()];
        match opcode(header) {
            // A login carries the number of the session's first command. Numbers assigned before belong to another
            // session. The login's expected status number may be meaningless (RFC 7143, section 11.12.9); the login
            // response carries the first one.
            LOGIN_REQUEST => {
                let number = Some(u32_at(header, 24));
                (*given, self.command, self.status, self.allowed) = (number, number, None, None);
                return;
            }
            LOGIN_RESPONSE => {
                *given = Some(u32_at(header, 24).wrapping_add(1));
                self.status = *given;
            }
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

    /// Compares a header's numbers with the connection's.
    pub fn fit(&self, header: &Header, direction: Direction) -> NumberFit {
        // A login starts new numbers.
        if is_login(header) {
            return NumberFit::Open;
        }
        match direction {
            Direction::ToTarget => {
                let command = has_command_number(header).then(|| self.fit_of_command(u32_at(header, 24)));
                both(near(self.status, u32_at(header, 28)), command)
            }
            Direction::ToInitiator => {
                let status = carries_status_number(header).then(|| self.fit_of_status(u32_at(header, 24)));
                let permitted = u32_at(header, 32).wrapping_sub(u32_at(header, 28)).wrapping_add(1);
                if permitted > DISTANCE_MAX {
                    NumberFit::Far
                } else {
                    both(near(self.command, u32_at(header, 28)), status)
                }
            }
        }
    }

    /// A number assigned before belongs to a copy of an old command. A number beyond the permitted ones may be real:
    /// the PDU that permits it may not have been captured.
    fn fit_of_command(&self, number: u32) -> NumberFit {
        let allowed = |number: u32| self.allowed.is_none_or(|last| !is_before(last, number));
        // A non-command taken for a command may have had any number; ignore a last number that was not permitted.
        let given = self.given[0].filter(|given| allowed(given.wrapping_sub(1)));
        match near(self.command, number) {
            NumberFit::Near if given.is_some_and(|given| is_before(number, given)) => NumberFit::Far,
            NumberFit::Near if !allowed(number) => NumberFit::Open,
            fit => fit,
        }
    }

    fn fit_of_status(&self, number: u32) -> NumberFit {
        match near(self.status, number) {
            NumberFit::Near if self.given[1].is_some_and(|given| is_before(number, given)) => NumberFit::Far,
            fit => fit,
        }
    }

    /// Whether the header of the next PDU in the same direction has numbers near this one's.
    pub fn follows(first: &Header, second: &Header, direction: Direction) -> bool {
        let mut numbers = SequenceNumbers::default();
        numbers.note(first, direction);
        numbers.fit(second, direction) != NumberFit::Far
    }
}

/// Advances a number. It goes back only if the distance is too large for a reordered PDU.
fn advance(known: &mut Option<u32>, number: u32) {
    match known {
        Some(known) if is_before(number, *known) && known.wrapping_sub(number) < DISTANCE_MAX => {}
        _ => *known = Some(number),
    }
}

/// Compares 32-bit serial numbers (RFC 1982).
fn is_before(number: u32, other: u32) -> bool {
    (number.wrapping_sub(other) as i32) < 0
}

fn near(known: Option<u32>, number: u32) -> NumberFit {
    match known {
        None => NumberFit::Open,
        Some(known) if number.wrapping_sub(known).wrapping_add(DISTANCE_MAX) <= 2 * DISTANCE_MAX => NumberFit::Near,
        Some(_) => NumberFit::Far,
    }
}

fn both(first: NumberFit, second: Option<NumberFit>) -> NumberFit {
    match (first, second.unwrap_or(first)) {
        (NumberFit::Far, _) | (_, NumberFit::Far) => NumberFit::Far,
        (NumberFit::Near, NumberFit::Near) => NumberFit::Near,
        _ => NumberFit::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::Direction::{ToInitiator, ToTarget};
    use crate::iscsi::pdu::tests::header;
    use crate::iscsi::pdu::{ASYNC, COMMAND, NO_TAG, NOP_IN, NOP_OUT, R2T, RESPONSE};

    use super::*;

    fn command(number: u32) -> Header {
        header(COMMAND, 0x81, &[(24, number), (28, 7)])
    }

    fn ping(number: u32) -> Header {
        header(NOP_OUT | 0x40, 0x80, &[(16, NO_TAG), (24, number), (28, 7)])
    }

    /// A target's PDU with its status number, and the command numbers that it expects and permits.
    fn answer(opcode: u8, tag: u32, status: u32, expected: u32, allowed: u32) -> Header {
        header(opcode, 0x80, &[(16, tag), (24, status), (28, expected), (32, allowed)])
    }

    fn after(noted: &[(Header, Direction)]) -> SequenceNumbers {
        let mut numbers = SequenceNumbers::default();
        noted.iter().for_each(|(header, direction)| numbers.note(header, *direction));
        numbers
    }

    #[test]
    fn number_fits_once_and_only_up_to_the_permitted_one() {
        let numbers = after(&[(answer(RESPONSE, 1, 6, 9, 20), ToInitiator), (command(10), ToTarget)]);
        for (number, fit) in [
            (9, NumberFit::Far),
            (10, NumberFit::Far),
            (11, NumberFit::Near),
            (20, NumberFit::Near),
            (21, NumberFit::Open),
        ] {
            assert_eq!(numbers.fit(&command(number), ToTarget), fit, "{number}");
        }
        for (status, fit) in [(6, NumberFit::Far), (7, NumberFit::Near), (9, NumberFit::Near)] {
            assert_eq!(numbers.fit(&answer(RESPONSE, 1, status, 11, 20), ToInitiator), fit, "{status}");
        }
        // Numbers wrap after the last. Without a captured PDU of the target, the permitted number is unknown.
        let numbers = after(&[(command(u32::MAX), ToTarget)]);
        assert_eq!(numbers.fit(&command(u32::MAX), ToTarget), NumberFit::Far);
        assert_eq!(numbers.fit(&command(0), ToTarget), NumberFit::Near);
        assert_eq!(numbers.fit(&command(50_000), ToTarget), NumberFit::Near);
    }

    #[test]
    fn immediate_pdu_leaves_its_number_to_the_next_command() {
        // A NOP-Out is sent before commands that wait with lower numbers.
        let numbers = after(&[(command(10), ToTarget), (ping(13), ToTarget)]);
        assert_eq!(numbers.fit(&command(11), ToTarget), NumberFit::Near);
        for (before, fit) in [
            (answer(NOP_IN, NO_TAG, 7, 9, 20), NumberFit::Near),
            (answer(NOP_IN, 3, 7, 9, 20), NumberFit::Far),
            (answer(ASYNC, NO_TAG, 7, 9, 20), NumberFit::Far),
            (answer(R2T, 3, 7, 9, 20), NumberFit::Open),
        ] {
            let numbers = after(&[(before, ToInitiator)]);
            assert_eq!(numbers.fit(&answer(RESPONSE, 1, 7, 9, 20), ToInitiator), fit, "{:#x}", before[0]);
        }
    }

    #[test]
    fn login_or_impossible_number_resets_the_old_numbers() {
        // The login's status number is meaningless, even if the response with the first one was not captured.
        let login = header(LOGIN_REQUEST | 0x40, 0x87, &[(24, 3), (28, 900_000)]);
        let logged_in = answer(LOGIN_RESPONSE, 1, 6, 9, 20);
        let asked = [(command(100), ToTarget), (login, ToTarget)];
        for (numbers, fit) in [
            (after(&asked), NumberFit::Open),
            (after(&[&asked[..], &[(logged_in, ToInitiator)]].concat()), NumberFit::Near),
        ] {
            assert_eq!(numbers.fit(&command(3), ToTarget), fit);
            assert_eq!(numbers.fit(&command(2), ToTarget), NumberFit::Far);
        }
        let numbers = after(&[(answer(RESPONSE, 1, 90, 9, 20), ToInitiator), (logged_in, ToInitiator)]);
        assert_eq!(numbers.fit(&answer(RESPONSE, 1, 6, 9, 20), ToInitiator), NumberFit::Far);
        assert_eq!(numbers.fit(&answer(RESPONSE, 1, 7, 9, 20), ToInitiator), NumberFit::Near);
        // A non-command taken for a command: the target permits far lower numbers.
        let numbers = after(&[(answer(RESPONSE, 1, 6, 9, 20), ToInitiator), (command(5000), ToTarget)]);
        assert_eq!(numbers.fit(&command(11), ToTarget), NumberFit::Near);
    }
}
