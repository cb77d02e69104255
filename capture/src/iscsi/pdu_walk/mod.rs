//! From PDU to PDU along one direction of a connection: by the lengths in the headers, past data that need not have been
//! captured. A header may straddle packets. Where one lies beyond the snap length, or in a gap, the chain is lost, and found
//! again where a packet begins with a header whose every field and sequence number fits, and nothing but a header follows.

mod header;
mod payload;
mod resync;

use traces::results::wire::PduFigures;

use super::pdu::{Direction, HEADER_BYTES, Header};
use super::reassembly::{PacketRef, StreamChunk};
use super::sequence_numbers::SequenceNumbers;
use resync::Candidate;

/// Bytes of a header with its digest.
const HEADER_AND_DIGEST_BYTES: usize = HEADER_BYTES + 4;
/// Packets after which the numbers of a connection that was lost are no longer believed.
const LOST_PACKETS_MAX: u32 = 4096;

/// Which digests a connection has; `None` as long as it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// CRC32C behind each header.
    pub header: Option<bool>,
    /// CRC32C behind each data segment.
    pub data: Option<bool>,
}

/// What both directions of a connection share.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionState {
    /// Its digests.
    pub digests: Digests,
    /// Its sequence numbers.
    pub numbers: SequenceNumbers,
}

/// What whoever takes a header wants of the rest of its PDU.
#[derive(Clone, Copy, Debug, Default)]
pub struct PayloadInterest {
    /// So many bytes of its data.
    pub data_bytes: u32,
    /// Whether these tell nothing of what users store.
    pub no_user_data: bool,
    /// To be told when it has passed.
    pub notify_end: bool,
}

/// Takes what the walk finds.
pub trait PduHandler {
    /// A PDU whose header begins in the packet `at`.
    fn header(&mut self, at: PacketRef, header: &Header, shared: &mut ConnectionState) -> PayloadInterest;
    /// The data that was asked for, or what was captured of it.
    fn data(&mut self, data: &[u8], complete: bool, shared: &mut ConnectionState);
    /// The last byte of the PDU passed in the packet `at`; `None` where that was not captured.
    fn end(&mut self, at: Option<PacketRef>);
    /// These bytes of a packet are a header, or no_user_data data.
    fn header_bytes(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// These bytes of a packet are text of a login.
    fn login_bytes(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// A packet may turn out to hold a header.
    fn held(&mut self, _frame: u64) {}
    /// It is decided what it holds.
    fn released(&mut self, _frame: u64) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Inside a PDU; so many bytes to the next header.
    Within(u64),
    /// Nobody knows where the next header is.
    Lost,
}

/// One direction.
#[derive(Debug)]
pub struct PduWalk {
    direction: Direction,
    state: State,
    /// Whether the chain was never lost since the connection was opened.
    never_lost: bool,
    /// The part of a header that has come.
    part: [u8; HEADER_AND_DIGEST_BYTES],
    part_bytes: usize,
    part_at: PacketRef,
    /// The packet of its fifth byte, with which it begins if there is a digest before it.
    part_after_digest_at: PacketRef,
    candidate: Option<Candidate>,
    /// Whether the PDU before had data, and whether it was one of a login.
    had_data: bool,
    /// Of the data that was asked for: what has come, bytes before it, bytes that are to come.
    data: Vec<u8>,
    data_skip: u32,
    data_left: u32,
    /// All of the PDU's data.
    data_bytes: usize,
    data_no_user_data: bool,
    data_text: bool,
    /// Bytes of the digest behind the data. It counts apart, so that a PDU ends with its data whether it is known of or not.
    digest_left: u64,
    /// Whether the end of the PDU is to be told.
    notify_end: bool,
    skipped_packets_in_a_row: u32,
    /// What was counted.
    pub counts: PduFigures,
}

impl PduWalk {
    /// A direction of which nothing is known.
    pub fn new(direction: Direction) -> PduWalk {
        PduWalk {
            direction,
            state: State::Lost,
            never_lost: false,
            part: [0; HEADER_AND_DIGEST_BYTES],
            part_bytes: 0,
            part_at: PacketRef::default(),
            part_after_digest_at: PacketRef::default(),
            candidate: None,
            had_data: false,
            data: Vec::new(),
            data_skip: 0,
            data_left: 0,
            data_bytes: 0,
            data_no_user_data: false,
            data_text: false,
            digest_left: 0,
            notify_end: false,
            skipped_packets_in_a_row: 0,
            counts: PduFigures::default(),
        }
    }

    /// The stream begins: with a PDU if the connection was `opened`.
    pub fn begin<H: PduHandler>(&mut self, opened: bool, shared: &mut ConnectionState, handler: &mut H) {
        self.finish(shared, handler);
        *self = PduWalk { counts: self.counts, data: std::mem::take(&mut self.data), ..PduWalk::new(self.direction) };
        if opened {
            (self.state, self.never_lost) = (State::Within(0), true);
        }
    }

    /// So many bytes were not captured.
    pub fn gap<H: PduHandler>(&mut self, bytes: u32, shared: &mut ConnectionState, handler: &mut H) {
        self.stop_data(shared, handler);
        if matches!(self.state, State::Within(left) if (1..=u64::from(bytes)).contains(&left)) {
            self.pass_end(None, handler);
        }
        match self.state {
            State::Within(left) if self.part_bytes == 0 && left >= u64::from(bytes) => {
                self.state = State::Within(left - u64::from(bytes));
            }
            State::Within(left) if self.part_bytes == 0 && left + self.digest_left >= u64::from(bytes) => {
                let digest = std::mem::take(&mut self.digest_left);
                self.state = State::Within(left + digest - u64::from(bytes));
            }
            State::Within(_) => {
                self.counts.lost_by_gap += 1;
                self.lose_boundaries(self.part_may_be_header(shared), shared, handler);
            }
            State::Lost => {}
        }
    }

    /// The next bytes of the stream.
    pub fn piece<H: PduHandler>(&mut self, piece: StreamChunk<'_>, shared: &mut ConnectionState, handler: &mut H) {
        let length = piece.length as usize;
        let mut at = 0;
        loop {
            let State::Within(left) = self.state else {
                // Only where a packet begins may a header be looked for.
                if at > 0 || !self.resynchronise(&piece, shared, handler) {
                    return;
                }
                at = HEADER_BYTES;
                continue;
            };
            let step = left.min((length - at) as u64);
            if step > 0 {
                if self.data_left > 0 || self.data_skip > 0 {
                    self.take_data(&piece, at, step as usize, shared, handler);
                }
                at += step as usize;
                self.state = State::Within(left - step);
            }
            if left > step {
                return;
            }
            self.pass_end(Some(piece.at), handler);
            let digest = std::mem::take(&mut self.digest_left);
            if digest > 0 {
                self.state = State::Within(digest);
                continue;
            }
            if at == length {
                return self.decide_candidate(true, shared, handler);
            }
            match self.next_header(&piece, at, shared, handler) {
                Some(behind) => at = behind,
                None => return,
            }
        }
    }

    /// Nothing more comes.
    pub fn finish<H: PduHandler>(&mut self, shared: &mut ConnectionState, handler: &mut H) {
        self.lose_boundaries(self.part_may_be_header(shared), shared, handler);
    }
}

#[cfg(test)]
mod tests;
